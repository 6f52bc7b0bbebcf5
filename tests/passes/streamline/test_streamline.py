from onnx_passes import testing
from onnx_passes.passes.streamline.streamline import Streamline

GRAPH = """(float[2,4] x) => (float[2,4] y) <float s = {0.5}, float[4] b = {1, 2, 3, 4},
float[4,4] w = {1, 2, 0, 1, 3, 1, 1, 2, 0, 1, 4, 1, 5, 2, 1, 1}>
{ a = Mul(x, s) m = MatMul(a, w) c = Add(m, b) y = Add(a, c) }"""


def test_a_residual_block_keeps_one_factor_and_one_term(applied):
    model = testing.parse(GRAPH)
    assert applied(model)
    assert [node.op_type for node in model.graph] == ["MatMul", "Add", "Mul", "Add"]
    assert not Streamline()(model).modified
