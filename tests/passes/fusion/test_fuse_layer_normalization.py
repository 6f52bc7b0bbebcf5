import pytest

from tests.tables import cases

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


@pytest.mark.parametrize(
    "body",
    cases("""
bert: =PLAIN + 's = Mul(n, w) y = Add(s, b)'
swapped: =PLAIN + 's = Mul(w, n) y = Add(b, s)'
reciprocal: =CENTRED + 'q = Mul(d, d) v = ReduceMean<axes = [1], keepdims = 1>(q)
  a = Add(e, v) r = Sqrt(a) i = Reciprocal(r) n = Mul(d, i) s = Mul(n, w) y = Add(s, b)'
one-over-power: =CENTRED + VARIANCE + 'a = Add(v, e) r = Pow(a, half) i = Div(one, r)
  n = Mul(i, d) s = Mul(n, w) y = Add(s, b)'
"""),
)
def test_fires_with_scale_and_bias(body, rewrites):
    rewrites(model(body), model(f"y = {LN}(x, w, b)"))


@pytest.mark.parametrize(
    ("body", "after"),
    [
        pytest.param("y = Relu(n)", f"n = {LN}(x, i) y = Relu(n)", id="neither"),
        pytest.param("y = Mul(n, w)", f"y = {LN}(x, w)", id="scale"),
        pytest.param("y = Add(n, b)", f"y = {LN}(x, i, b)", id="bias"),
        pytest.param("s = Mul(n, w) y = Add(s, x)", f"s = {LN}(x, w) y = Add(s, x)", id="sum"),
    ],
)
def test_fires_without_scale_or_bias(body, after, rewrites):
    after = fused(after) if "i" in after.split("(x, ")[1][:1] else model(after)
    rewrites(model(PLAIN + body), after)


def test_fires_with_axes_as_input(rewrites):
    body = """m = ReduceMean(x, k) d = Sub(x, m) q = Mul(d, d) v = ReduceMean(q, k)
      a = Add(v, e) r = Sqrt(a) n = Div(d, r) s = Mul(n, w) y = Add(s, b)"""
    before = model(body, opset=18, shape="2,N,4", constants="int64[1] k = {-1}")
    after = model(f"y = {LN}(x, w, b)", opset=18, shape="2,N,4")
    rewrites(before, after)


def test_fires_on_two_axes_and_spreads_a_scale(rewrites):
    body = PLAIN.replace("[-1]", "[1, -1]") + "y = Mul(n, c)"
    after = """i = Constant<value = float[2,2] {5, 6, 5, 6}>()
      y = LayerNormalization<axis = -2, epsilon = 0.001>(x, i)"""
    before = model(body, shape="N,2,2", constants="float[1,1,2] c = {5, 6}")
    rewrites(before, model(after, shape="N,2,2"))


def test_fires_in_double_precision(rewrites):
    numbers = "double two = {2}, double e = {0.001}"
    before = f"""(double[2,2] x) => (double[2,2] y) <{numbers}>
      {{ {PLAIN.replace("e = [-1]", "")} y = Relu(n) }}""".replace("<axes = [-1]>", "")
    before = before.replace("ReduceMean(x)", "ReduceMean(x, k)")
    before = before.replace("ReduceMean(q)", "ReduceMean(q, k)")
    before = before.replace("<double", "<int64[1] k = {1}, double")
    after = """(double[2,2] x) => (double[2,2] y) {
      i = Constant<value = double[2] {1, 1}>()
      n = LayerNormalization<axis = -1, epsilon = 0.001, stash_type = 11>(x, i)
      y = Relu(n) }"""
    rewrites(before, after)


def test_fires_around_casts_of_half_precision(rewrites):
    body = "h = Cast<to = 1>(x) " + PLAIN.replace("(x", "(h") + "y = Cast<to = 10>(n)"
    # The parser wants the bits of float16.
    after = f"i = Constant<value = float16[4] {{15360, 15360, 15360, 15360}}>() y = {LN}(x, i)"
    before = model(body, dtype="float16", constants="float[N,4] h")
    rewrites(before, model(after, dtype="float16"))


@pytest.mark.parametrize(
    "text",
    cases("""
before-opset-17: =model(PLAIN + 'y = Mul(n, w)', opset=16)
another-axis: =model(PLAIN.replace('[-1]', '[0]') + 'y = Relu(n)')
two-axes-that-differ: =model(CENTRED + VARIANCE.replace('[-1]', '[0]') + ROOT + 'y =
  Relu(n)')
dynamic-axis: =model(PLAIN + 'y = Relu(n)', shape='2,N')
second-reader: =model(PLAIN + 'y = Add(n, d)')
epsilon-by-column: =model(PLAIN.replace('e)', 'f)') + 'y = Relu(n)', constants='float[4] f =
  {1,2,1,1}')
no-epsilon: =model(PLAIN.replace('e)', 'f)') + 'y = Relu(n)', constants='float f = {0}')
overridable-epsilon: =model(PLAIN.replace('e)', 'f)') + 'y = Relu(n)', constants='float f =
  {1}', ends=', float f')
cube: =model(PLAIN.replace('two', 't') + 'y = Relu(n)', constants='float t = {3}')
epsilon-outside: =model(CENTRED + VARIANCE + 'r = Sqrt(v) a = Add(r, e) n = Div(d, a)
  y = Relu(n)')
"""),
)
def test_leaves_alone(text, leaves_alone):
    leaves_alone(text)


NORMAL = f"i = Constant<value = float[4] {{1, 1, 1, 1}}>() n = {LN}(x, i) "


@pytest.mark.parametrize(
    "text",
    cases("""
scale-by-row: =model(NORMAL + 'y = Mul(n, c)', shape='2,4', constants='float[2,1] c = {5,
  6}')
scale-of-another-shape: =model(NORMAL + 'y = Mul(n, c)', ends=', float[N,4] c')
bias-twice: =model(f'n = {LN}(x, w, b) y = Add(n, b)')
scale-twice: =model(f'n = {LN}(x, w) y = Mul(n, b)')
second-reader: =model(NORMAL + 's = Mul(n, w) y = Add(s, n)')
"""),
)
def test_leaves_followers_alone(text, leaves_alone):
    leaves_alone(text)


def test_takes_over_a_computed_scale(rewrites):
    before = model(NORMAL + "y = Mul(n, c)", ends=", float[4] c")
    rewrites(before, model(f"y = {LN}(x, c)", ends=", float[4] c"))
