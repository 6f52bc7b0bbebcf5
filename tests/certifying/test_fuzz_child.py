"""Rules that are hostile to the process they run in."""

from pathlib import Path

import pytest

from onnx_passes.certifying.certification import certify_apart, end_children
from onnx_passes.certifying.rewrite_rule import Job, resolve
from onnx_passes.errors import UsageError

RULES = """
import os, time
from onnxscript.rewriter import RewriteRule

def _rule(body):
    def rewrite(op, x):
        body()
        return op.Abs(x)
    return RewriteRule(lambda op, x: op.Relu(x), rewrite)

crash = _rule(os.abort)
hang = _rule(lambda: time.sleep(1000))
eat = _rule(lambda: bytearray(1 << 40))
loud = _rule(lambda: print("noise"))
right = RewriteRule(lambda op, x: op.Neg(op.Neg(x)), lambda op, x: op.Identity(x))
number = 3
"""


@pytest.fixture(autouse=True)
def rules(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "hostile_rules.py").write_text(RULES)


def job(name, **changes):
    return Job(f"hostile_rules:{name}", level="test", seconds=20, models=10, **changes)


def test_a_crash_is_a_verdict():
    result = certify_apart(job("crash"))
    assert result["verdict"] == "refuted"
    assert "SIGABRT" in result["reason"]


def test_a_hang_is_a_verdict():
    hanging = Job("hostile_rules:hang", level="test", seconds=1, grace=2)
    result = certify_apart(hanging)
    assert result["verdict"] == "undecided"
    assert result["reason"] == "out of time: it did not end in 3 seconds"


def test_a_rule_that_eats_the_memory_is_a_verdict():
    result = certify_apart(job("eat"))
    assert "MemoryError" in result["reason"] or "memory" in result["reason"]
    assert result["verdict"] in ("refuted", "undecided")


@pytest.mark.parametrize(
    ("subject", "message"),
    [
        ("hostile_rules", "not of the form"),
        ("no_such_module_here:x", "does not import"),
        ("hostile_rules:missing", "has no object 'missing'"),
    ],
)
def test_what_is_not_there_is_said(subject, message):
    with pytest.raises(UsageError, match=message):
        resolve(subject)


PROVER = RULES + "import onnx_passes.certifying as rules\nrules.prove_rule = "


def test_a_proof_that_the_clock_stops_is_undecided_and_keeps_what_was_tested():
    # "tested" on a slow machine and "proved" on a fast one would be two verdicts.
    Path("hostile_rules.py").write_text(f"{PROVER}lambda *_, **__: time.sleep(1000)")
    result = certify_apart(Job("hostile_rules:right", seconds=8, models=5, grace=4))
    assert result["verdict"] == "undecided"
    assert result["contract"] is None
    assert result["tested"]["models"] > 5
    assert result["reason"] == "out of time: the proof did not end in 12 seconds"


def test_a_proof_that_dies_does_not_take_the_test_with_it():
    end_children()  # an interruption that is over once made this "refuted"
    Path("hostile_rules.py").write_text(f"{PROVER}lambda *_, **__: os.abort()")
    result = certify_apart(Job("hostile_rules:right", seconds=30, models=5))
    assert result["verdict"] == "tested"
    assert result["reason"] == "the proof died of SIGABRT"
