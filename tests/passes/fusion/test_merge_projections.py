from tests.tables import cases_in

HEAD = "(float[N,2] x) => (float[N,?] y)"
TWO = f"""{HEAD} <float[2,2] v = {{1, 2, 3, 4}}, float[2,1] w = {{5, 6}},
  float[2] b = {{1, 2}}, float[1] c = {{3}}>"""
JOINED = f"""{HEAD} <float[2,3] k = {{1, 2, 5, 3, 4, 6}}, float[3] l = {{1, 2, 3}},
  int64[2] z = {{2, 1}}>"""


def test_joins_products_with_their_sums(rewrites):
    before = "s = MatMul(x, v) t = Add(s, b) p = MatMul(x, w) q = Add(c, p) y = Mul(t, q)"
    after = "m = MatMul(x, k) n = Add(m, l) t, q = Split<axis = -1>(n, z) y = Mul(t, q)"
    rewrites(f"{TWO} {{ {before} }}", f"{JOINED} {{ {after} }}")


test_cases = cases_in(lambda body: f"{TWO} {{ {body} }}")("""
as-many-nodes: s = MatMul(x, v) t = MatMul(x, w) y = Mul(s, t)
shared-weight: s = MatMul(x, v) t = Add(s, b) p = MatMul(x, v) q = Add(p, b) y = Mul(t, q)
other-operand: s = MatMul(x, v) t = Add(s, b) r = Neg(x) p = MatMul(r, w) q = Add(p, c)
  y = Mul(t, q)
""")


def test_three_without_sums_keep_their_names_as_outputs(rewrites):
    text = """(float[N,2] x) => (float[N,2] a, float[N,2] b, float[N,2] c)
      <float[2,2] u = {1, 2, 3, 4}, float[2,2] v = {5, 6, 7, 8}, float[2,2] w = {9, 1, 2, 3}>
      { a = MatMul(x, u) b = MatMul(x, v) c = MatMul(x, w) }"""
    graph = rewrites(text).graph
    assert [node.op_type for node in graph if node.op_type != "Constant"] == [
        "MatMul",
        "Split",
    ]
    assert [value.name for value in graph.outputs] == ["a", "b", "c"]
