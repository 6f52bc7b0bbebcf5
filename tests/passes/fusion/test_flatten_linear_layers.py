from tests.tables import cases_in, each_row, inferred

W, V = "float[2,3] w = {1, -2, 3, 0.5, 1, -1}", "float[3,2] v = {2, 0, 1, -1, 1, 3}"
B, C = "float[3] b = {1, -1, 0.5}", "float[2] c = {-1, 2}"
FLAT = "int64[2] f = {-1, 2}, int64[3] t3 = {-1, 4, 3}, int64[3] t2 = {-1, 4, 2}"
LAYER = "m = MatMul(x, w) a = Add(b, m)"
PLAIN = f"{LAYER} y = Relu(a) z = Identity(y) u = Mul(v, c)"


def model(body, *, x="float[N,4,2] x", opset=18, weights=f"{W}, {V}, {B}, {C}, {FLAT}"):
    kind, rank = x.split("[")[0], x.count(",")
    return inferred(f"""<ir_version: 10, opset_import: ["" : {opset}]>
      g ({x}) => ({kind}[{",".join("?" * (rank + 1))}] z) <{weights}> {{ {body} }}""")


@each_row("""activation
- Relu
- LeakyRelu<alpha = 0.1>
- Sigmoid
- Tanh
- Elu
- Selu
- Softsign
""")
def test_fires(activation, rewrites):
    before = model(f"{LAYER} z = {activation}(a)")
    after = model(
        f"r = Reshape(x, f) g = Gemm(r, w, b) h = {activation}(g) z = Reshape(h, t3)"
    )
    rewrites(before, after)


@each_row("""before | after
behind: =f'{LAYER} z = Reshape(a, o)'
  | r = Reshape(x, f) g = Gemm(r, w, b) a = Reshape(g, t3) z = Reshape(a, o)
before: k = Relu(x) e = Reshape(k, o2) m = MatMul(e, w) z = Add(m, b)
  | k = Relu(x) r = Reshape(k, f) g = Gemm(r, w, b) z = Reshape(g, t3)
""")
def test_a_reshape_makes_up_for_one(before, after, rewrites):
    more = ", int64[3] o = {-1, 2, 6}, int64[3] o2 = {-1, 4, 2}"
    weights = f"{W}, {V}, {B}, {C}, {FLAT}{more}"
    rewrites(model(before, weights=weights), model(after, weights=weights))


CHAIN = "r = Reshape(x, f) g = Gemm(r, w, b) h = {}(g) n = Gemm(h, v, c) z = Reshape(n, t2)"


test_cases = cases_in(model)("""
a chain goes through rows: =model(f'{LAYER} y = Relu(a) n = MatMul(y, v) z = Add(n, c)')
  | =model(CHAIN.format('Relu'))
a chain goes through Gelu: =model(f'{LAYER} y = Gelu(a) n = MatMul(y, v) z = Add(n, c)',
  opset=20) | =model(CHAIN.format('Gelu'), opset=20)
no-activation: =model(f'{LAYER} z = Identity(a)')
another-activation: =model(f'{LAYER} z = Gelu(a)', opset=20)
sum-is-read: =model(f'{LAYER} y = Relu(a) z = Mul(y, a)')
target-copies: =model(f'{LAYER} z = Reshape(a, o)', weights=f'{W}, {B}, int64[3] o = {{0, 2,
  6}}')
two-sizes-are-unknown: =model(PLAIN, x='float[N,M,2] x')
matrix: =model(PLAIN, x='float[4,2] x')
empty: =model(PLAIN, x='float[N,0,2] x')
double: =model(PLAIN, x='double[N,4,2] x', weights=f'{W}, {V}, {B}, {C}'.replace('float',
  'double'))
not-a-row: =model(f"e = Constant<value = float[1,4,3] {{{', '.join('1' * 12)}}}>() m =
  MatMul(x, w) a = Add(m, e) z = Relu(a)")
computed-weight: k = Mul(w, w) m = MatMul(x, k) a = Add(m, b) z = Relu(a)
""")
