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


@pytest.mark.parametrize(
    "nodes", ["o = Transpose(x)", "o = Softmax(x)", "s = Shape(x) o = Reshape(x, s)"]
)
def test_only_pointwise_graphs_are_reduced_to_scalars(graph, nodes):
    signature = ("float[3,3] x", "float[3,3] o")
    assert argue(graph, signature, nodes, "o = Identity(x)") is None
