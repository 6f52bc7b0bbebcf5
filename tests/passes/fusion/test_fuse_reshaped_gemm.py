import pytest

from tests.tables import cases_in, each_of

HEAD = """(float[B,S,4] x, float[4,2] w, float[2,4] v, float[2] b, float[1,2] r)
  => (float[?,?,?] y)"""
FLAT = "int64[2] f = {-1, 4}"


def between(gemm, target="two", more=""):
    return f"""{HEAD} <{FLAT}, int64[1] two = {{2}},
      float[R,4] g, float[R,2] h, float[B,S,2] t{more}> {{
      s = Shape<end = 2>(x) a = Concat<axis = 0>(s, {target}) g = Reshape(x, f)
      h = {gemm} t = Reshape(h, a) y = Relu(t) }}"""


@each_of(
    "gemm, left",
    pytest.param("Gemm(g, w, b)", ["MatMul", "Add", "Relu"], id="row"),
    pytest.param("Gemm(g, w, r)", ["MatMul", "Add", "Relu"], id="matrix-of-one-row"),
    pytest.param("Gemm(g, w)", ["MatMul", "Relu"], id="no-summand"),
)
def test_fires(gemm, left, rewrites):
    model = rewrites(between(gemm))
    assert [node.op_type for node in model.graph][-len(left) :] == left
    assert "Gemm" not in {node.op_type for node in model.graph}


def test_a_weight_is_transposed_if_nothing_else_reads_it(rewrites):
    body = between("Gemm<transB = 1>(g, k, b)", more=", float[2,4] k = {1,2,3,4,5,6,7,8}")
    model = rewrites(body)
    assert [
        n.op_type for n in model.graph if n.op_type in ("Gemm", "Transpose", "MatMul")
    ] == ["Transpose", "MatMul"]


test_cases = cases_in(between)("""
Gemm<alpha = 2.0>(g, w, b)
Gemm<beta = 2.0>(g, w, b)
Gemm<transB = 1>(g, v, b)
leaves other leading dimensions alone: =f'{HEAD} <{FLAT}, int64[3] a = {{1, -1, 2}}, float[R,4]
  g, float[R,2] h, float[1,R,2] t> {{ g = Reshape(x, f) h = Gemm(g, w, b) t = Reshape(h, a) y =
  Relu(t) }}'
leaves a summand by row alone: (float[3,2,4] x, float[4,2] w, float[6,1] b) => (float[3,2,2] y)
  <int64[2] f = {-1, 4}, int64[3] a = {3, 2, 2}, float[6,4] g, float[6,2] h, float[3,2,2] t> {
  g = Reshape(x, f) h = Gemm(g, w, b) t = Reshape(h, a) y = Relu(t) }
""")
