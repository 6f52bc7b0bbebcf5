import pytest

from onnx_passes.certifying.equivalence import ModelPair, scalar_argument

pytest.importorskip("z3")


def argue(graph, signature, before, after):
    return scalar_argument(ModelPair.of(graph(*signature, before), graph(*signature, after)))


def test_operands_that_only_one_side_reads_are_named(graph):
    signature = ("float[2,3] x, float[2,3] y", "float[2,3] o")
    argument = argue(graph, signature, "a = Sub(y, y) o = Add(x, a)", "o = Identity(x)")
    assert argument.coverage.conditions == (
        "y, which only the original graph reads, does not enlarge the output",
    )


def test_a_constant_of_rank_one_lends_its_rank(graph):
    signature = ("float[3] x", "float[3] o")
    before = "c = Constant<value = float[1] {1.0}>() o = Mul(x, c)"
    argument = argue(graph, signature, before, "o = Identity(x)")
    assert "the inputs have rank 1 or more" in argument.coverage.conditions


def test_bounds_that_become_those_of_clip_must_be_scalars(graph):
    signature = ("float[3] x, float a, float b", "float[3] o")
    argument = argue(graph, signature, "p = Max(x, a) o = Min(p, b)", "o = Clip(x, a, b)")
    assert {"a is a scalar", "b is a scalar"} <= set(argument.coverage.conditions)


@pytest.mark.parametrize(
    "nodes", ["o = Transpose(x)", "o = Softmax(x)", "s = Shape(x) o = Reshape(x, s)"]
)
def test_only_pointwise_graphs_are_reduced_to_scalars(graph, nodes):
    signature = ("float[3,3] x", "float[3,3] o")
    assert argue(graph, signature, nodes, "o = Identity(x)") is None
