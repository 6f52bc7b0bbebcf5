from tests.tables import each_row, pass_cases


def unexpanded(model):
    return [node.op_type for node in model.graph if node.op_type != "Expand"]


@each_row("""text | left
to-the-shape-of-the-other: (float[N,4] x, float[4] m) => (float[N,4] y) <float[N,4] e> {
  s = Shape(x) e = Expand(m, s) y = Add(x, e) } | =['Shape', 'Add']
first-operand: (float[N,3] x, float k) => (float[N,3] y) <float[1,3] e, int64[2] s = {1, 3}>
  { e = Expand(k, s) y = Div(e, x) } | =['Div']
one-of-three: (bool[N,1,3] c, float[N,2,3] x) => (float[N,2,3] y)
  <bool[N,2,3] e, int64[3] s = {1, 2, 1}, float z = {0}> { e = Expand(c, s)
  y = Where(e, z, x) } | =['Where']
one-of-two-expanded: (float[2,1] a, float[2,1] b) => (float[2,3] y)
  <float[2,3] e, float[2,3] f, int64[2] s = {2, 3}> { e = Expand(a, s) f = Expand(b, s)
  y = Mul(e, f) } | =['Mul']
least-integers: (int64[N,3] x, int64[1] k) => (int64[N,3] y)
  <int64[1,3] e, int64[2] s = {1, 3}> { e = Expand(k, s) y = Min(x, e) } | =['Min']
""")
def test_what_the_reader_repeats_itself(text, left, rewrites):
    model = rewrites(text)
    assert unexpanded(model) == left
    (reader,) = (n for n in model.graph if n.op_type not in ("Shape", "Expand"))
    producers = [v.producer() for v in reader.inputs if v.producer() is not None]
    assert len(producers) == text.count("Expand(") - 1


test_cases = pass_cases("""
widened-by-it-alone: (float[N,1] x, float[4] m) => (float[N,4] y)
  <float[1,4] e, int64[2] s = {1, 4}> { e = Expand(m, s) y = Add(x, e) }
repeats: (float[1] x, float[1] m) => (float[3] y) <float[3] e, int64[1] s = {3}> {
  e = Expand(m, s) y = Add(x, e) }
a-dimension-that-may-be-1: (float[N,M] x, float[1] m) => (float[N,M] y)
  <float[1,4] e, int64[2] s = {1, 4}> { e = Expand(m, s) y = Add(x, e) }
rank: (float[4] x, float[1] m) => (float[1,4] y) <float[1,4] e, int64[2] s = {1, 4}> {
  e = Expand(m, s) y = Add(x, e) }
pow: (float[4] x) => (float[4] y) <float[4] e, float k = {2}, int64[1] s = {4}> {
  e = Expand(k, s) y = Pow(x, e) }
min-which-chose-the-other-zero: (float[4] x) => (float[4] y)
  <float[4] e, float k = {0}, int64[1] s = {4}> { e = Expand(k, s) y = Min(x, e) }
itself: (float[4] x, float k) => (float[4] y) <float[4] e, int64[1] s = {4}> {
  e = Expand(k, s) y = Add(e, e) }
""")


def test_looks_into_bodies(rewrites):
    text = """(bool c, float[N,4] x, float[4] m) => (float[N,4] y) { y = If(c) <
      then_branch = t () => (float[N,4] a) <float[N,4] e>
        { s = Shape(x) e = Expand(m, s) a = Sub(x, e) },
      else_branch = f () => (float[N,4] b) { b = Identity(x) }> }"""
    body = rewrites(text).graph.node(0).attributes["then_branch"].value
    assert [v.name for v in body.node(-1).inputs] == ["x", "m"]
