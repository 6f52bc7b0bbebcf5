import onnx_ir as ir

from onnx_passes import testing
from tests.tables import pass_cases

KNOWN = {
    "k": "int64[1] k = {-1}",
    "w": "float[4] w = {1, 2, 3, 4}",
    "one": "float one = {1}",
    "two": "float two = {2}",
    "minus": "float minus = {-0.5}",
    "e": "float e = {0.001}",
    "h": "float[N,4] h",
}
PLAIN = "q = Pow(x, two) v = ReduceMean(q, k) a = Add(v, e) r = Sqrt(a) "
RMS = "RMSNormalization<axis = -1, epsilon = 0.001>"
ONES = "i = Constant<value = float[4] {1, 1, 1, 1}>() "


def model(body, *, opset=23, shape="N,4", dtype="float", **known):
    known = KNOWN | known
    words = body.replace("(", " ").replace(")", " ").replace(",", " ").split()
    kept = ", ".join(text for name, text in known.items() if name in words)
    return f"""<ir_version: 10, opset_import: ["" : {opset}]> g
      ({dtype}[{shape}] x) => ({dtype}[{shape}] y) <{kept}> {{ {body} }}"""


test_cases = pass_cases("""
llama: =model(PLAIN + 'i = Div(one, r) n = Mul(x, i) y = Mul(w, n)') | =model(f'y = {RMS}(x,
  w)')
quotient: =model(PLAIN + 'n = Div(x, r) y = Mul(n, w)') | =model(f'y = {RMS}(x, w)')
reciprocal: =model(PLAIN + 'i = Reciprocal(r) n = Mul(i, x) y = Mul(n, w)') | =model(f'y =
  {RMS}(x, w)')
power: =model('q = Mul(x, x) v = ReduceMean(q, k) a = Add(e, v) i = Pow(a, minus) n = Mul(x, i)
  y = Mul(w, n)') | =model(f'y = {RMS}(x, w)')
fires without scale: =model(PLAIN + 'n = Div(x, r) y = Relu(n)') | =model(f'{ONES} n = {RMS}(x,
  i) y = Relu(n)')
fires around casts of half precision: <ir_version: 10, opset_import: ["" : 23]> g (float16[N,4]
  x) => (float16[N,4] y) <int64[1] k = {-1}, float16[4] w = {15360, 15361, 15362, 15360}, float
  one = {1}, float two = {2}, float e = {0.001}, float[N,4] h> { h = Cast<to = 1>(x) q = Pow(h,
  two) v = ReduceMean(q, k) a = Add(v, e) r = Sqrt(a) i = Div(one, r) n = Mul(h, i) c = Cast<to
  = 10>(n) y = Mul(w, c) } | =model(f'y = {RMS}(x, w)', dtype='float16', w='float16[4] w =
  {15360, 15361, 15362, 15360}')
before-opset-23: =model(PLAIN + 'y = Div(x, r)', opset=22)
another-axis: =model(PLAIN + 'y = Div(x, r)', shape='4,4', k='int64[1] k = {0}')
dynamic-axis: =model(PLAIN + 'y = Div(x, r)', shape='4,N')
another-numerator: =model(PLAIN + 'z = Neg(x) y = Div(z, r)')
second-reader: =model(PLAIN + 'n = Div(x, r) y = Add(n, r)')
no-epsilon: =model(PLAIN + 'y = Div(x, r)', e='float e = {0}')
epsilon-by-column: =model(PLAIN + 'y = Div(x, r)', e='float[4] e = {1, 2, 3, 4}')
scale-by-row: =model(f'{ONES} n = {RMS}(x, i) y = Mul(n, x)', shape='2,4')
""")


def test_axis_0_of_a_scalar_is_no_axis(leaves_alone):
    before = testing.parse(model(PLAIN + "y = Div(x, r)", shape="4", k="int64[1] k = {0}"))
    before.graph.inputs[0].shape = ir.Shape([])
    leaves_alone(before)
