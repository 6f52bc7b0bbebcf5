from onnx_passes.testing import graph
from tests.tables import cases, each_of, pass_cases

NUMBERS = {
    "one": 1.0,
    "half": 0.5,
    "two": 2.0,
    "three": 3.0,
    "root": 1.4142135381698608,
    "inverse": 0.7071067690849304,
    "cubic": 0.044714998453855515,
    "slope": 0.7978845834732056,
}


def formula(body, dtype="float", **others):
    return graph(body, dtype, **{**NUMBERS, **others})


ERF = cases("""
pytorch: a=Div(x,root) e=Erf(a) s=Add(e,one) p=Mul(x,s) y=Mul(p,half) | =''
swapped: a=Div(x,root) e=Erf(a) s=Add(one,e) p=Mul(s,x) y=Mul(half,p) | =''
dynamo: h=Mul(x,half) a=Div(x,root) e=Erf(a) s=Add(e,one) y=Mul(h,s) | =''
keras: h=Mul(half,x) a=Mul(x,inverse) e=Erf(a) s=Add(one,e) y=Mul(s,h) | =''
cdf: a=Mul(inverse,x) e=Erf(a) s=Add(e,one) g=Mul(half,s) y=Mul(x,g) | =''
cdf-x: a=Div(x,root) e=Erf(a) s=Add(e,one) g=Mul(s,half) y=Mul(g,x) | =''
""")

CUBE = "c=Pow(x,three) k=Mul(cubic,c) i=Add(x,k) a=Mul(slope,i) e=Tanh(a) "
TANH = cases("""
gelu-new: =CUBE + 'h=Mul(half,x) s=Add(one,e) y=Mul(h,s)' | <approximate = "tanh">
cdf: =CUBE + 's=Add(e,one) g=Mul(s,half) y=Mul(x,g)' | <approximate = "tanh">
half-last: =CUBE + 's=Add(e,one) g=Mul(s,x) y=Mul(g,half)' | <approximate = "tanh">
products: q=Mul(x,x) c=Mul(q,x) k=Mul(c,cubic) i=Add(k,x) a=Mul(i,slope) e=Tanh(a)
  h=Mul(half,x) s=Add(one,e) y=Mul(s,h) | <approximate = "tanh">
running-product: k=Mul(cubic,x) l=Mul(k,x) m=Mul(l,x) i=Add(x,m) a=Mul(slope,i) e=Tanh(a)
  h=Mul(half,x) s=Add(one,e) y=Mul(h,s) | <approximate = "tanh">
gelu-fast: b=Mul(x,slope) k=Mul(cubic,x) l=Mul(k,x) i=Add(one,l) a=Mul(b,i) e=Tanh(a)
  h=Mul(half,x) s=Add(one,e) y=Mul(h,s) | <approximate = "tanh">
""")


@each_of("body, kind", *ERF, *TANH)
def test_fires(body, kind, rewrites):
    rewrites(formula(body), graph(f"y = Gelu{kind}(x)"))


PLAIN = "a=Div(x,root) e=Erf(a) s=Add(e,one) p=Mul(x,s) "


test_cases = pass_cases("""
fires on numbers of one element: (float[2,3] x) => (float[2,3] y) <float[1] slope =
  {0.7978845834732056}, float[1] cubic = {0.044715}, int64 three = {3}, float[1] one = {1},
  float half = {0.5}> { c = Pow(x, three) k = Mul(c, cubic) i = Add(k, x) a = Mul(i, slope) e =
  Tanh(a) s = Add(e, one) p = Mul(x, s) y = Mul(p, half) } | (float[2,3] x) => (float[2,3] y) {
  y = Gelu<approximate = "tanh">(x) }
before-opset-20: =formula(PLAIN + 'y=Mul(p,half)').join(['<ir_version: 9, opset_import: ["" :
  19]> g ', ''])
few-digits: =formula(PLAIN + 'y=Mul(p,half)', root=1.41421)
near-half: =formula(PLAIN + 'y=Mul(p,half)', half=0.50000006)
second-reader: =formula(PLAIN + 'g=Mul(p,half) y=Add(g,s)')
another-factor: =formula('z=Neg(x) ' + PLAIN + 'w=Mul(z,s) y=Mul(w,half)')
square: =formula(CUBE + 'h=Mul(half,x) s=Add(one,e) y=Mul(h,s)', three=2.0)
double-precision: (double[2,3] x) => (double[2,3] y) <double root = {1.4142135623730951},
  double one = {1}, double half = {0.5}> { a = Div(x, root) e = Erf(a) s = Add(e, one) p =
  Mul(x, s) y = Mul(p, half) }
double-precision-in-a-function: <ir_version: 10, opset_import: ["" : 20, "l" : 1]> main
  (double[2] x) => (double[2] y) { y = l.curve(x) } <domain: "l", opset_import: ["" : 20]>
  curve (x) => (y) { r = Constant<value = double {1.4142135623730951}>() o = Constant<value =
  double {1}>() h = Constant<value = double {0.5}>() a = Div(x, r) e = Erf(a) s = Add(e, o) w =
  Mul(x, s) y = Mul(w, h) }
half-precision: (float16[2,3] x) => (float16[2,3] y) <float16 root = {15784}, float16 one =
  {15360}, float16 half = {14336}> { a = Div(x, root) e = Erf(a) s = Add(e, one) p = Mul(x, s)
  y = Mul(p, half) }
overridable: (float[2] x, float root) => (float[2] y) <float root = {1.4142135}, float one =
  {1}, float half = {0.5}> { a = Div(x, root) e = Erf(a) s = Add(e, one) p = Mul(x, s) y =
  Mul(p, half) }
wider: (float x) => (float[1] y) <float[1] root = {1.4142135}, float one = {1}, float half =
  {0.5}> { a = Div(x, root) e = Erf(a) s = Add(e, one) p = Mul(x, s) y = Mul(p, half) }
""")


def test_a_branch_that_read_numbers_of_the_graph_around_it(rewrites):
    text = """(float[2,N] x, bool c) => (float[2,N] y) <float root = {1.4142135},
      float[1] one = {1}, float half = {0.5}> { y = If(c) <
      then_branch = t () => (float[2,N] g) { a = Div(x, root) e = Erf(a) s = Add(one, e)
        p = Mul(x, s) g = Mul(half, p) },
      else_branch = f () => (float[2,N] z) { z = Identity(x) }> }"""
    model = rewrites(text)
    assert "Gelu" in [n.op_type for n in model.graph.node(0).attributes["then_branch"].value]
