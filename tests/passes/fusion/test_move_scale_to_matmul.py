from onnx_passes.passes.annotation.shape_inference import ShapeInference
from onnx_passes.testing import parse
from tests.tables import cases_in

ROW = "1, 2, 3, 4, 5, 6"
KNOWN = f"""float[4,6] w = {{{ROW}, {ROW}, {ROW}, {ROW}}}, float[6] b = {{{ROW}}},
  float c = {{0.5}}, float[1] d = {{4}}, float[6] row = {{{ROW}}},
  int64[4] parted = {{0, 0, 2, 3}}, int64[1] zero = {{0}}, int64[1] two = {{2}}"""


def model(body, *, inputs="float[B,S,4] x"):
    made = parse(f"""<ir_version: 10, opset_import: ["" : 18]>
      g ({inputs}) => (float[?,?,?,?] y) <{KNOWN}> {{ {body} }}""")
    for name in [name for name, value in made.graph.initializers.items() if not value.uses()]:
        made.graph.initializers.pop(name)
    ShapeInference()(made)
    return made


HEADS = "r = Reshape({}, parted) t = Transpose<perm = [0, 2, 1, 3]>(r)"


test_cases = cases_in(model)("""
product: =model(f"p = MatMul(x, w) {HEADS.format('p')} y = Mul(t, c)") | =model(f"p = MatMul(x,
  w) s = Mul(p, c) {HEADS.format('s').replace('t =', 'y =')}")
swapped: =model(f"p = MatMul(x, w) {HEADS.format('p')} y = Mul(d, t)") | =model(f"p = MatMul(x,
  w) s = Mul(d, p) {HEADS.format('s').replace('t =', 'y =')}")
quotient-of-a-sum: =model(f"p = MatMul(x, w) a = Add(b, p) {HEADS.format('a')} y = Div(t, d)")
  | =model(f"p = MatMul(x, w) a = Add(b, p) s = Div(a, d) {HEADS.format('s').replace('t =', 'y
  =')}")
weights-that-callers-give: =model(f"p = MatMul(x, v) {HEADS.format('p')} y = Mul(t, c)",
  inputs='float[B,S,4] x, float[4,6] v')
factor-that-callers-give: =model(f"p = MatMul(x, w) {HEADS.format('p')} y = Mul(t, f)",
  inputs='float[B,S,4] x, float f')
second-reader: =model(f"p = MatMul(x, w) {HEADS.format('p')} s = Mul(t, c) y = Add(s, t)")
no-product: =model(f"q = Add(x, x) p = Relu(q) {HEADS.format('p')} y = Mul(t, c)",
  inputs='float[B,S,6] x')
factor-for-each-column: p = MatMul(x, w) z = Unsqueeze(p, zero) t = Transpose<perm = [0, 1, 2,
  3]>(z) y = Mul(t, row)
weights-with-another-reader: =model(f"p = MatMul(x, w) n = MatMul(x, w) q = Add(p, n)
  {HEADS.format('q')} y = Mul(t, c)")
factor-over-one-of-a-product: =model(f"p = MatMul(x, w) {HEADS.format('p')} k = Transpose<perm
  = [0, 1, 3, 2]>(z) m = MatMul(t, k) y = Mul(m, d)", inputs='float[B,S,4] x, float[B,2,S,3]
  z')
""")


def test_fires_behind_what_gathers(rewrites):
    inputs = "float[B,S,4] x, int64[B,S,5] i"
    rest = "z = Unsqueeze(u, zero) y = Relu(z)"
    before = f"""p = MatMul(x, w) g = GatherElements<axis = -1>(p, i)
      k = Slice(g, zero, two, two) u = Mul(k, c) {rest}"""
    after = f"""p = MatMul(x, w) s = Mul(p, c) g = GatherElements<axis = -1>(s, i)
      u = Slice(g, zero, two, two) {rest}"""
    rewrites(model(before, inputs=inputs), model(after, inputs=inputs))


def test_scales_the_first_operand_of_a_product(rewrites):
    before = f"""p = MatMul(x, w) {HEADS.format("p")} k = Transpose<perm = [0, 1, 3, 2]>(z)
      m = MatMul(t, k) y = Mul(m, c)"""
    after = f"""p = MatMul(x, w) s = Mul(p, c) {HEADS.format("s")}
      k = Transpose<perm = [0, 1, 3, 2]>(z) y = MatMul(t, k)"""
    inputs = "float[B,S,4] x, float[B,2,S,3] z"
    rewrites(model(before, inputs=inputs), model(after, inputs=inputs))
