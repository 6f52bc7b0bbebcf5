"""Each fault that the docs list is there, in the onnxscript that is installed."""

from importlib.metadata import version
from pathlib import Path

import pytest

from benchmarks.certify.findings import FINDINGS, replay

DOCS = Path(__file__).parents[3] / "docs" / "maintainers" / "onnxscript-findings.md"

pytestmark = pytest.mark.skipif(
    version("onnxscript") != "0.7.2", reason="the faults are those of onnxscript 0.7.2"
)


@pytest.mark.parametrize("finding", FINDINGS, ids=lambda f: f"{f.rule}-{f.fault[:24]}")
def test_a_listed_fault_replays(finding):
    fault = replay(finding)
    assert fault is not None
    assert fault.breaks in ("values", "model", "engine", "rule")


def test_the_page_lists_them_all():
    text = DOCS.read_text("utf-8")
    assert len(FINDINGS) >= 20
    for finding in FINDINGS:
        assert f"`{finding.rule}`" in text
        assert finding.fault[1:] in text
