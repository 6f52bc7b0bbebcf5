"""Rewrites that round, reorder and reshape are not accused."""

import pytest

from benchmarks.faults.models import RESNET
from benchmarks.faults.runner import keep
from benchmarks.faults.suite import INNOCENTS, NOT_YET_SPARED
from onnx_passes.passes.base import RewriteRulePass, RewriteRuleSetPass
from tests.tables import each_of


def marks(cls, source):
    found = [pytest.mark.slow] if source is RESNET else []
    if {cls.name, f"{cls.name} on {source.name}"} & NOT_YET_SPARED:
        found.append(pytest.mark.xfail(strict=True, reason="beyond the gate of today"))
    return found


CASES = [
    pytest.param(cls, source, id=f"{cls.name}-{source.name}", marks=marks(cls, source))
    for cls, source in INNOCENTS
]


@each_of("cls, source", *CASES)
def test_not_accused(cls, source):
    kept = keep(cls, source, full=False)
    assert kept.verdict != "unchanged"
    if issubclass(cls, RewriteRulePass | RewriteRuleSetPass):
        assert kept.applications >= 1
    assert kept.accused == 0, kept.verdict


@pytest.mark.slow
@each_of("cls, source", *[p for p in CASES if p.values[1].full is not p.values[1].small])
def test_not_accused_in_the_full_network(cls, source):
    kept = keep(cls, source, full=True)
    assert kept.accused == 0, kept.verdict
