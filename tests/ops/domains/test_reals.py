"""What z3 gets to know of functions is compared with numbers."""

import math
from fractions import Fraction

import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnx_passes.certifying import Arithmetic, Effort, Outcome, prove_pair
from onnx_passes.ops.domains.reals import (
    CURVES,
    SHARE,
    RealSemantics,
    alike,
    apart,
    polynomial,
    power,
    same_quotient,
)
from onnx_passes.ops.semantics import Unsupported
from tests.tables import each_of

z3 = pytest.importorskip("z3")

FLOAT = ir.DataType.FLOAT
AT = {"x": 0.7, "y": -0.4, "z": 1.3}
X, Y, Z = (z3.Real(name) for name in "xyz")


def value(term):
    """Return what a term comes to at one point, functions and all."""
    parts = [value(child) for child in term.children()]
    kind, name = term.decl().kind(), term.decl().name()
    if z3.is_rational_value(term):
        return float(term.as_fraction())
    if name in AT:
        return AT[name]
    if name.startswith(("Exp", "Log")):
        return {"Exp": math.exp, "Log": math.log}[name[:3]](*parts)
    return {
        z3.Z3_OP_ADD: lambda *p: math.fsum(p),
        z3.Z3_OP_SUB: lambda a, b: a - b,
        z3.Z3_OP_MUL: lambda *p: math.prod(p),
        z3.Z3_OP_DIV: lambda a, b: a / b,
        z3.Z3_OP_UMINUS: lambda a: -a,
        z3.Z3_OP_ITE: lambda c, a, b: a if c else b,
        z3.Z3_OP_LT: lambda a, b: a < b,
        z3.Z3_OP_GT: lambda a, b: a > b,
    }[kind](*parts)


def grown(terms):
    pairs = st.tuples(terms, terms)
    return st.one_of(
        pairs.map(lambda p: p[0] + p[1]),
        pairs.map(lambda p: p[0] - p[1]),
        pairs.map(lambda p: p[0] * p[1]),
        pairs.map(lambda p: z3.If(p[0] < p[1], p[1], p[0])),
        terms.map(lambda t: -t),
    )


LEAVES = st.sampled_from([X, Y, Z, z3.RealVal(2), z3.RealVal("1/3")])
TERMS = st.recursive(LEAVES, grown, max_leaves=6)


@given(TERMS)
@settings(max_examples=100)
def test_a_power_of_a_sum_is_the_product_of_the_powers(term):
    exponential = z3.Function("Exp:1", z3.RealSort(), z3.RealSort())
    assert value(power(term, exponential, {})) == pytest.approx(math.exp(value(term)))


@given(TERMS, TERMS, st.integers(0, 5))
@settings(max_examples=150)
def test_quotients_that_are_called_the_same_are(top, bottom, change):
    if abs(value(bottom)) < 1e-6:
        return
    left = top / bottom
    spelled = (
        *((top * Z) / (Z * bottom), left, -top / -bottom),
        *((top + bottom) / bottom, top / (bottom + 1), Z * left),
    )[change]
    assert same_quotient(left, spelled) or change > 2
    if same_quotient(left, spelled):
        assert value(left) == pytest.approx(value(spelled))


def test_a_logarithm_of_a_quotient_by_powers_is_a_difference():
    exponential = z3.Function("Exp:1", z3.RealSort(), z3.RealSort())
    below = z3.If(X < Y, exponential(X), exponential(Y) * exponential(Z))
    whole, less = apart((Z + 1) / below)
    assert math.log(value(whole)) - value(less) == pytest.approx(
        math.log(value((Z + 1) / below))
    )
    assert apart(X / Y) is None
    assert apart(X + Y) is None
    assert apart(X / (exponential(X) + exponential(Y))) is None


def test_polynomials_whose_terms_have_one_sign_are_alike_where_their_coefficients_are():
    near = 1 + Fraction(1, 10**7)
    cubic = X * X * X * z3.Q(3, 10) + X
    assert alike(cubic, X * z3.Q(near.numerator, near.denominator) + X * X * X * z3.Q(3, 10))
    assert alike(X / z3.Q(3, 1), X * z3.Q(3333333, 10**7))
    assert not alike(X / z3.Q(3, 1), X * z3.Q(333, 10**3))
    assert not alike(X, Y)
    assert not alike(X * X, X * X)  # even: its terms may cancel those of an odd degree
    assert not alike(X - X * X * X, X - X * X * X)
    assert not alike(X + 1, X + 1)
    assert polynomial((X + 1) * (X - 1)) == (X.get_id(), {2: 1, 0: -1})
    assert polynomial(X / Y) is None
    assert polynomial(X * Y) is None


def test_the_bounds_on_curves_are_bounds():
    slopes = {
        "Erf": lambda t: 2 / math.sqrt(math.pi) * math.exp(-t * t),
        "Tanh": lambda t: 1 / math.cosh(t) ** 2,
    }
    for name, bound in CURVES.items():
        assert max(t * slopes[name](t) for t in (k / 1000 for k in range(10_000))) < bound
    u, v = 0.7, 0.7 * (1 + float(SHARE))
    assert abs(math.erf(u) - math.erf(v)) < CURVES["Erf"] * SHARE


def test_an_infinity_is_a_bound_and_no_number():
    reals = RealSemantics()
    low, x = reals.literal(-math.inf, FLOAT), reals.variable("x", FLOAT)
    for operands in ((low, x), (x, low)):
        assert reals.apply("max", FLOAT, *operands).eq(x)
        assert reals.apply("min", FLOAT, *operands).eq(low)
        assert reals.apply("add", FLOAT, *operands).eq(low)
    assert reals.apply("sub", FLOAT, low, x).eq(low)
    assert reals.apply("exp", FLOAT, low).eq(reals.literal(0, FLOAT))
    high = reals.literal(math.inf, FLOAT)
    for name, operands in (
        *(("mul", (low, x)), ("sub", (x, low)), ("sub", (low, low)), ("neg", (low,))),
        *(("add", (low, high)), ("div", (x, low)), ("exp", (high,)), ("equal", (low, x))),
        ("select", (z3.BoolVal(True), low, x)),
    ):
        with pytest.raises(Unsupported, match="infinity over the reals"):
            reals.apply(name, FLOAT, *operands)
    with pytest.raises(Unsupported, match="infinity over the reals"):
        reals.function("Sin", FLOAT, low)
    with pytest.raises(Unsupported, match="infinity over the reals"):
        reals.cast(low, FLOAT, ir.DataType.INT32)


V, M = ("float[4] x", "float[4] o"), ("float[2,3] x", "float[2,3] o")
ONE = "one = Constant<value_float=1.0>() zero = Constant<value_float=0.0>()"
SOFTPLUS = (
    f"{ONE} a = Abs(x) n = Neg(a) e = Exp(n) l = Add(e, one) g = Log(l) m = Max(x, zero)"
)
SHIFT = (
    "i = Constant<value_ints=[-1]>() m = ReduceMax<keepdims=1>(x, i) d = Sub(x, m) e = Exp(d)"
)
TOTAL = f"{SHIFT} t = ReduceSum<keepdims=1>(e, i)"
GELU = """h = Constant<value_float=0.5>() one = Constant<value_float=1.0>()
    c = Constant<value_float={}>() a = Mul(x, c) e = Erf(a) r = Add(e, one) y = Mul(x, h)
    o = Mul(y, r)"""
FORMULAS = {
    "softplus": (V, "o = Softplus(x)", f"{SOFTPLUS} o = Add(m, g)"),
    "mish": (V, "o = Mish(x)", f"{SOFTPLUS} s = Add(m, g) t = Tanh(s) o = Mul(x, t)"),
    "softmax": (M, "o = Softmax(x)", f"{TOTAL} o = Div(e, t)"),
    "log of softmax": (M, "o = LogSoftmax(x)", f"{TOTAL} g = Log(t) o = Sub(d, g)"),
    "gelu": (V, "o = Gelu(x)", GELU.format("0.707106769")),
    "maximum of what is padded": (
        ("float[1,1,3] x", "float[1,1,2] o"),
        "o = MaxPool<kernel_shape=[2], pads=[1,0], strides=[2]>(x)",
        "p = Constant<value_ints=[0,0,1,0,0,0]>() low = Constant<value_float=-inf>() "
        "y = Pad(x, p, low) w = Constant<value_ints=[1,1,2,2]>() r = Reshape(y, w) "
        "i = Constant<value_ints=[3]>() o = ReduceMax<keepdims=0>(r, i)",
    ),
}
WRONG = {
    "softplus of twice the decay": (
        V,
        "o = Softplus(x)",
        SOFTPLUS.replace("n = Neg(a)", "n2 = Neg(a) n = Add(n2, n2)") + " o = Add(m, g)",
    ),
    "softmax shifted after the exponential": (
        M,
        "o = Softmax(x)",
        f"{TOTAL} f = Exp(x) o = Div(f, t)",
    ),
    "log of softmax unshifted": (M, "o = LogSoftmax(x)", f"{TOTAL} g = Log(t) o = Sub(x, g)"),
    "gelu of another slope": (V, "o = Gelu(x)", GELU.format("0.7072")),
    "a quotient multiplied again": (V, "o = Identity(x)", "a = Div(x, x) o = Mul(a, x)"),
}


@each_of("name", *FORMULAS)
def test_formulas_of_exponentials_and_curves_are_proved(graph, name):
    signature, before, after = FORMULAS[name]
    before, after = (graph(*signature, body, opset=20) for body in (before, after))
    real = prove_pair(before, after, effort=Effort(ieee=False))[Arithmetic.REAL]
    assert real.outcome == Outcome.PROVED, real.reason


@each_of("name", *WRONG)
def test_near_misses_of_such_formulas_are_not(graph, name):
    signature, before, after = WRONG[name]
    before, after = (graph(*signature, body, opset=20) for body in (before, after))
    # Without samples, so that the proof itself is asked.
    real = prove_pair(before, after, effort=Effort(samples=0, ieee=False))[Arithmetic.REAL]
    assert real.outcome != Outcome.PROVED
