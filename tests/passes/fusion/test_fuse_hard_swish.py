import numpy as np

from tests.tables import cases_in, each_of

HEAD = "(float[N] x) => (float[?] y)"
NUMBERS = """<float three = {3}, float zero = {0}, float six = {6}, float sixth = {0.16666667},
  float[1] one = {1}>"""
SPECIAL = np.float32([np.nan, np.inf, -0.0, 0, -3, 3, 2.9, -2.9, 1e30, -1e30])

FORMS = (
    "h = HardSigmoid<alpha = 0.1666667, beta = 0.5>(x) y = Mul(x, h)",
    "h = HardSigmoid<alpha = 0.16666667>(x) y = Mul(h, x)",
    "a = Add(x, three) c = Clip(a, zero, six) m = Mul(x, c) y = Div(m, six)",
    "a = Add(three, x) c = Clip(a, zero, six) m = Mul(c, x) y = Mul(sixth, m)",
)


@each_of("body", *FORMS)
def test_fires(body, rewrites):
    rewrites(graph(body), f"{HEAD} {{ y = HardSwish(x) }}", feeds=[{"x": SPECIAL}])


def graph(body):
    return f"{HEAD} {NUMBERS} {{ {body} }}"


test_cases = cases_in(graph)("""
slope: h = HardSigmoid(x) y = Mul(x, h)
offset: h = HardSigmoid<alpha = 0.16666667, beta = 0.4>(x) y = Mul(x, h)
read: =graph(f"{FORMS[1].replace('y =', 'r =')} y = Add(h, r)")
another-offset: =graph(FORMS[2].replace('three)', 'one)'))
another-bound: =graph(FORMS[2].replace('zero', 'one'))
another-scale: =graph(FORMS[2].replace('(m, six)', '(m, three)'))
""")


@each_of("body", *FORMS)
def test_leaves_older_opsets_alone(body, leaves_alone):
    header = '<ir_version: 7, opset_import: ["" : 13]> g'
    leaves_alone(f"{header} {graph(body)}")
