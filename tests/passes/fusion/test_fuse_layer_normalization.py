from tests.tables import pass_cases

SCALE = "float[4] w = {1, 2, 3, 4}, float[4] b = {4, 3, 2, 1}"
NUMBERS = "float one = {1}, float two = {2}, float half = {0.5}, float e = {0.001}"
CENTRED = "m = ReduceMean<axes = [-1]>(x) d = Sub(x, m) "
VARIANCE = "q = Pow(d, two) v = ReduceMean<axes = [-1]>(q) "
ROOT = "a = Add(v, e) r = Sqrt(a) n = Div(d, r) "
PLAIN = CENTRED + VARIANCE + ROOT


def model(body, *, opset=17, shape="N,4", constants="", ends="", dtype="float"):
    kept = ", ".join(filter(None, [constants, *used(body, SCALE, NUMBERS)]))
    return f"""<ir_version: 10, opset_import: ["" : {opset}]> g
      ({dtype}[{shape}] x{ends}) => ({dtype}[{shape}] y) <{kept}> {{ {body} }}"""


def used(body, *groups):
    words = set(body.replace("(", " ").replace(")", " ").replace(",", " ").split())
    listed = ",".join(groups).replace("}, ", "}|").replace("},", "}|").split("|")
    return [text for text in listed if text.split()[1] in words]


def fused(body, ones="{1, 1, 1, 1}", **kwargs):
    return model(f"i = Constant<value = float[4] {ones}>() {body}", **kwargs)


LN = "LayerNormalization<axis = -1, epsilon = 0.001>"


NORMAL = f"i = Constant<value = float[4] {{1, 1, 1, 1}}>() n = {LN}(x, i) "


test_cases = pass_cases("""
bert: =model(PLAIN + 's = Mul(n, w) y = Add(s, b)') | =model(f'y = {LN}(x, w, b)')
swapped: =model(PLAIN + 's = Mul(w, n) y = Add(b, s)') | =model(f'y = {LN}(x, w, b)')
reciprocal: =model(CENTRED + 'q = Mul(d, d) v = ReduceMean<axes = [1], keepdims = 1>(q) a =
  Add(e, v) r = Sqrt(a) i = Reciprocal(r) n = Mul(d, i) s = Mul(n, w) y = Add(s, b)') |
  =model(f'y = {LN}(x, w, b)')
one-over-power: =model(CENTRED + VARIANCE + 'a = Add(v, e) r = Pow(a, half) i = Div(one, r) n =
  Mul(i, d) s = Mul(n, w) y = Add(s, b)') | =model(f'y = {LN}(x, w, b)')
neither: =model(PLAIN + 'y = Relu(n)') | <ir_version: 10, opset_import: ["" : 17]> g
  (float[N,4] x) => (float[N,4] y) <> { i = Constant<value = float[4] {1, 1, 1, 1}>() n =
  LayerNormalization<axis = -1, epsilon = 0.001>(x, i) y = Relu(n) }
scale: =model(PLAIN + 'y = Mul(n, w)') | =fused(f'y = {LN}(x, w)') if 'i' in f'y = {LN}(x,
  w)'.split('(x, ')[1][:1] else model(f'y = {LN}(x, w)')
bias: =model(PLAIN + 'y = Add(n, b)') | <ir_version: 10, opset_import: ["" : 17]> g (float[N,4]
  x) => (float[N,4] y) <float[4] b = {4, 3, 2, 1}> { i = Constant<value = float[4] {1, 1, 1,
  1}>() y = LayerNormalization<axis = -1, epsilon = 0.001>(x, i, b) }
sum: =model(PLAIN + 's = Mul(n, w) y = Add(s, x)') | <ir_version: 10, opset_import: ["" : 17]>
  g (float[N,4] x) => (float[N,4] y) <float[4] w = {1, 2, 3, 4}> { s = LayerNormalization<axis
  = -1, epsilon = 0.001>(x, w) y = Add(s, x) }
fires with axes as input: =model('m = ReduceMean(x, k) d = Sub(x, m) q = Mul(d, d) v =
  ReduceMean(q, k) a = Add(v, e) r = Sqrt(a) n = Div(d, r) s = Mul(n, w) y = Add(s, b)',
  opset=18, shape='2,N,4', constants='int64[1] k = {-1}') | =model(f'y = {LN}(x, w, b)',
  opset=18, shape='2,N,4')
fires on two axes and spreads a scale: =model(PLAIN.replace('[-1]', '[1, -1]') + 'y = Mul(n,
  c)', shape='N,2,2', constants='float[1,1,2] c = {5, 6}') | =model('i = Constant<value =
  float[2,2] {5, 6, 5, 6}>() y = LayerNormalization<axis = -2, epsilon = 0.001>(x, i)',
  shape='N,2,2')
fires in double precision: (double[2,2] x) => (double[2,2] y) <int64[1] k = {1}, double two =
  {2}, double e = {0.001}> { m = ReduceMean(x, k) d = Sub(x, m) q = Pow(d, two) v =
  ReduceMean(q, k) a = Add(v, e) r = Sqrt(a) n = Div(d, r) y = Relu(n) } | (double[2,2] x) =>
  (double[2,2] y) { i = Constant<value = double[2] {1, 1}>() n = LayerNormalization<axis = -1,
  epsilon = 0.001, stash_type = 11>(x, i) y = Relu(n) }
fires around casts of half precision: <ir_version: 10, opset_import: ["" : 17]> g (float16[N,4]
  x) => (float16[N,4] y) <float[N,4] h, float two = {2}, float e = {0.001}> { h = Cast<to =
  1>(x) m = ReduceMean<axes = [-1]>(h) d = Sub(h, m) q = Pow(d, two) v = ReduceMean<axes =
  [-1]>(q) a = Add(v, e) r = Sqrt(a) n = Div(d, r) y = Cast<to = 10>(n) } | =model(f'i =
  Constant<value = float16[4] {{15360, 15360, 15360, 15360}}>() y = {LN}(x, i)',
  dtype='float16')
before-opset-17: =model(PLAIN + 'y = Mul(n, w)', opset=16)
another-axis: =model(PLAIN.replace('[-1]', '[0]') + 'y = Relu(n)')
two-axes-that-differ: =model(CENTRED + VARIANCE.replace('[-1]', '[0]') + ROOT + 'y = Relu(n)')
dynamic-axis: =model(PLAIN + 'y = Relu(n)', shape='2,N')
second-reader: =model(PLAIN + 'y = Add(n, d)')
epsilon-by-column: =model(PLAIN.replace('e)', 'f)') + 'y = Relu(n)', constants='float[4] f =
  {1,2,1,1}')
no-epsilon: =model(PLAIN.replace('e)', 'f)') + 'y = Relu(n)', constants='float f = {0}')
overridable-epsilon: =model(PLAIN.replace('e)', 'f)') + 'y = Relu(n)', constants='float f =
  {1}', ends=', float f')
cube: =model(PLAIN.replace('two', 't') + 'y = Relu(n)', constants='float t = {3}')
epsilon-outside: =model(CENTRED + VARIANCE + 'r = Sqrt(v) a = Add(r, e) n = Div(d, a) y =
  Relu(n)')
scale-by-row: =model(NORMAL + 'y = Mul(n, c)', shape='2,4', constants='float[2,1] c = {5, 6}')
scale-of-another-shape: =model(NORMAL + 'y = Mul(n, c)', ends=', float[N,4] c')
bias-twice: =model(f'n = {LN}(x, w, b) y = Add(n, b)')
scale-twice: =model(f'n = {LN}(x, w) y = Mul(n, b)')
second-reader: =model(NORMAL + 's = Mul(n, w) y = Add(s, n)')
takes over a computed scale: =model(NORMAL + 'y = Mul(n, c)', ends=', float[4] c') | =model(f'y
  = {LN}(x, c)', ends=', float[4] c')
""")
