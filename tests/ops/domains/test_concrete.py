import pytest

from onnx_passes.ops.domains.concrete import FieldSemantics
from onnx_passes.ops.evaluation import evaluate, unknowns
from onnx_passes.verify.rules import Arithmetic, Effort, Outcome, prove_pair

pytest.importorskip("z3")


def value_of(model, seed):
    semantics = FieldSemantics(seed)
    return evaluate(model.graph, unknowns(model.graph.inputs, semantics), semantics)["o"]


@pytest.mark.parametrize("seed", range(5))
def test_polynomials_that_differ_differ_at_a_random_point(graph, seed):
    signature = ("float x, float y", "float o")
    square = graph(*signature, "s = Add(x, y) o = Mul(s, s)")
    almost = graph(*signature, "a = Mul(x, x) b = Mul(y, y) o = Add(a, b)")
    third = graph(
        *signature,
        "a = Mul(x, x) b = Mul(y, y) c = Mul(x, y) d = Add(c, c) e = Add(a, b) o = Add(e, d)",
    )
    assert value_of(square, seed).data.item() == value_of(third, seed).data.item()
    assert value_of(square, seed).data.item() != value_of(almost, seed).data.item()


def test_evidence_from_points_is_called_tested(graph):
    signature = ("float[6,6] a, float[6,6] b, float[6,6] c", "float[36,6] o")
    reshape = "s = Constant<value_ints=[6,1,6]>() t = Constant<value_ints=[36,6]>()"
    body = (
        " x = Reshape(a, s) y = Add(b, c) z = MatMul(x, y) e = Expand(z, u) o = Reshape(e, t)"
    )
    other = (
        " x = Reshape(a, s) p = MatMul(x, b) q = MatMul(x, c) z = Add(p, q) "
        "e = Expand(z, u) o = Reshape(e, t)"
    )
    shape = " u = Constant<value_ints=[6,6,6]>()"
    before = graph(*signature, reshape + shape + body)
    after = graph(*signature, reshape + shape + other)
    real = prove_pair(before, after, effort=Effort(milliseconds=1))[Arithmetic.REAL]
    assert real.outcome in (Outcome.TESTED, Outcome.PROVED)
    if real.outcome == Outcome.TESTED:
        assert real.method == "finite field"
        assert not real.coverage.everywhere
        assert "4 random points" in real.coverage.conditions
