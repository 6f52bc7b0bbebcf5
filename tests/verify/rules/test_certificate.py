import json

import pytest

from onnx_passes.errors import UsageError, VerificationError
from onnx_passes.passes.eliminate.eliminate_identity import EliminateIdentity
from onnx_passes.verify.rules import certificate as module
from onnx_passes.verify.rules.certificate import (
    certificate,
    check_certificate,
    source_hash,
    write_certificate,
)

GOOD = {"rule": "r", "verdict": "proved", "reason": "", "disagrees": False, "folder": "/x"}


@pytest.fixture
def issue(tmp_path):
    def make(**changes):
        content = certificate(EliminateIdentity, "p", [{**GOOD, **changes}], {"seed": 0})
        return write_certificate(content, tmp_path)

    return make


def test_a_fresh_certificate_is_accepted(issue, tmp_path):
    issue()
    content = check_certificate(EliminateIdentity, "p", tmp_path)
    assert content["source"] == source_hash(EliminateIdentity)
    assert "folder" not in content["rules"][0]


def test_a_missing_one_says_what_to_run(tmp_path):
    with pytest.raises(VerificationError, match="has no certificate") as error:
        check_certificate(EliminateIdentity, "p", tmp_path)
    assert "onnx-passes certify p --write" in str(error.value)


def test_one_edited_by_hand_is_refused(issue, tmp_path):
    path = issue(verdict="tested")
    path.write_text(path.read_text().replace('"tested"', '"proved"'))
    with pytest.raises(VerificationError, match="edited by hand"):
        check_certificate(EliminateIdentity, "p", tmp_path)


@pytest.mark.parametrize("text", ["{", "[]", '{"format": 99}', "\x00"])
def test_what_is_no_certificate_is_refused(tmp_path, text):
    (tmp_path / "p.json").write_text(text)
    with pytest.raises(VerificationError, match=r"cannot read|no certificate"):
        check_certificate(EliminateIdentity, "p", tmp_path)


def test_a_changed_source_makes_it_stale(issue, tmp_path, monkeypatch):
    issue()
    monkeypatch.setattr(module, "source_hash", lambda cls: "another")
    with pytest.raises(VerificationError, match="source of p has changed"):
        check_certificate(EliminateIdentity, "p", tmp_path)


@pytest.mark.parametrize("change", [{"verdict": "refuted"}, {"disagrees": True}])
def test_a_refutation_is_never_accepted(issue, tmp_path, change):
    issue(**change)
    with pytest.raises(VerificationError, match="certified to be wrong"):
        check_certificate(EliminateIdentity, "p", tmp_path)


def test_a_class_without_a_file_is_refused():
    with pytest.raises(UsageError, match="no source file"):
        source_hash(int)


def test_equal_findings_give_equal_files(issue):
    assert json.loads(issue().read_text()) == json.loads(issue().read_text())
