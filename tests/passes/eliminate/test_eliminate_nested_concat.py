from tests.tables import pass_cases

test_cases = pass_cases("""
first: (float[1,2] a, float[1,2] b, float[1,2] c) => (float[1,6] y) {
  t = Concat<axis = 1>(a, b) y = Concat<axis = 1>(t, c) }
  | (float[1,2] a, float[1,2] b, float[1,2] c) => (float[1,6] y) {
    y = Concat<axis = 1>(a, b, c) }
between-by-another-number: (float[1,2] a, float[1,2] b, float[1,2] c) => (float[1,8] y) {
  t = Concat<axis = -1>(a, b) y = Concat<axis = 1>(c, t, c) }
  | (float[1,2] a, float[1,2] b, float[1,2] c) => (float[1,8] y) {
    y = Concat<axis = 1>(c, a, b, c) }
two-levels: (float[2] a, float[2] b) => (float[12] y) { t = Concat<axis = 0>(a, b)
  u = Concat<axis = 0>(t, a) v = Concat<axis = 0>(b, a) w = Concat<axis = 0>(u, v, a)
  y = Relu(w) }
  | (float[2] a, float[2] b) => (float[12] y) { w = Concat<axis = 0>(a, b, a, b, a, a)
    y = Relu(w) }
other-axis: (float[1,2] a) => (float[2,4] y) { t = Concat<axis = 1>(a, a)
  y = Concat<axis = 0>(t, t) }
read-elsewhere: (float[2] a) => (float[6] y, float[4] z) { t = Concat<axis = 0>(a, a)
  y = Concat<axis = 0>(t, a) z = Relu(t) }
read-twice: (float[2] a) => (float[8] y) { t = Concat<axis = 0>(a, a)
  y = Concat<axis = 0>(t, t) }
returned: (float[2] a) => (float[6] y, float[4] t) { t = Concat<axis = 0>(a, a)
  y = Concat<axis = 0>(t, a) }
""")


def test_in_a_subgraph(rewrites):
    model = rewrites("""(bool k, float[2] a) => (float[6] y) { y = If(k) <
          then_branch = g () => (float[6] t) { u = Concat<axis = 0>(a, a)
            t = Concat<axis = 0>(u, a) },
          else_branch = h () => (float[6] e) { e = Concat<axis = 0>(a, a, a) }> }""")
    assert len(model.graph[0].attributes["then_branch"].as_graph()) == 1
