import sys

import onnx_ir as ir
import pytest
from onnxscript.rewriter import RewriteRule

from onnx_passes.certifying import Arithmetic, arithmetic_verdicts, prove_pair, prove_rule
from onnx_passes.certifying.certification import verdict_of
from onnx_passes.certifying.proof import Outcome
from onnx_passes.certifying.rewrite_rule import Job
from onnx_passes.errors import UsageError
from onnx_passes.ops.domains import bitvectors


def test_a_missing_solver_is_one_sentence_with_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "z3", None)
    bitvectors.z3.cache_clear()
    try:
        with pytest.raises(UsageError, match="not installed") as error:
            bitvectors.z3()
        assert error.value.help == "in a checkout: pip install '.[prove]'"
    finally:
        bitvectors.z3.cache_clear()


z3 = pytest.importorskip("z3")


def _factors(number):
    """Return a formula that is hard: of two factors of a number."""
    x, y = z3.BitVecs("x y", 128)
    return [z3.And(x * y == number, x > 1, y > 1, x < 1 << 60, y < 1 << 60)]


HARD = _factors(1000000000000000003 * 999999999999999989)


def test_what_the_count_of_steps_stops_is_the_same_answer_each_time():
    found = {arithmetic_verdicts.refute(HARD, milliseconds=20).reason for _ in range(3)}
    assert found == {arithmetic_verdicts.GAVE_UP}


def test_a_rule_of_which_the_clock_stops_the_proof_is_undecided(monkeypatch):
    rule = RewriteRule(
        lambda op, x, y: op.Sub(x, y),
        lambda op, x, y: op.Add(x, op.Neg(y)),
        lambda context, x, y: x.dtype == ir.DataType.FLOAT,
        name="r",
    )

    def stopped(*_, **__):
        raise arithmetic_verdicts.QueryTimeout("z3 was stopped")

    monkeypatch.setattr(arithmetic_verdicts, "refute", stopped)
    proof = prove_rule(rule)
    assert proof.out_of_time
    assert proof.outcome == Outcome.UNDECIDED
    found = verdict_of(None, rule, Job("m:o", seconds=600, models=1))
    assert found["verdict"] == "undecided"
    assert found["reason"] == "out of time: z3 was stopped"
    assert found["contract"] is None


def test_a_preference_does_not_hide_a_counterexample():
    x = z3.Real("x")
    answer = arithmetic_verdicts.refute([x > 100], milliseconds=1000, prefer=[x < 10])
    assert answer.holds is False
    assert answer.model.eval(x > 100)


NORMALISED = """
    axis = Constant<value_ints = [-2, -1]>() mean = ReduceMean(x, axis) d = Sub(x, mean)
    s = Mul(d, d) v = ReduceMean(s, axis) e = Constant<value = double {EPSILON}>()
    shifted = Add(v, e) root = Sqrt(shifted) y = Div(d, root)"""
"""Of six elements each: z3 alone gives up on a distance between two of these."""


@pytest.mark.parametrize(
    ("epsilon", "outcome"), [("0.10000000149", "proved"), ("0.1001", "refuted")]
)
def test_rounded_constants_are_near_whatever_both_sides_compute(graph, epsilon, outcome):
    signature = ("double[1,2,3] x", "double[1,2,3] y")
    models = [
        graph(*signature, NORMALISED.replace("EPSILON", number)) for number in ("0.1", epsilon)
    ]
    found = prove_pair(*models)[Arithmetic.REAL]
    assert found.outcome == outcome
    if outcome == "proved":
        assert arithmetic_verdicts.CLOSE in found.coverage.conditions


def test_what_is_a_sum_of_squares():
    x, y = z3.Reals("x y")
    for right in (x * x, (x * x + y * y) / 3, x * x + z3.RealVal("1/8")):
        assert arithmetic_verdicts.is_sum_of_squares(right)
    for wrong in (x, x * y, x * x - y * y, x * x + y, x * x / -3, (x * x) / y):
        assert not arithmetic_verdicts.is_sum_of_squares(wrong)
