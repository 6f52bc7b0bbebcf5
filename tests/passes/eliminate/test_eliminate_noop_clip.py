import numpy as np

from tests.tables import cases_in, each_of, pass_cases

ENDS = np.array([-np.inf, -1.5, -0.0, 0.0, np.nan, np.inf], np.float32).reshape(2, 3)


def model(body, dtype="float"):
    low, high = ("-128", "127") if dtype == "int8" else ("-inf", "inf")
    return f"""({dtype}[2,N] x, {dtype}[2,N] z) => ({dtype}[2,N] y) <{dtype} low = {{{low}}},
      {dtype} high = {{{high}}}, {dtype} near = {{-3}}, {dtype}[1,1] one = {{{low}}}> {{
      t = {body} y = Abs(t) }}"""


def idle(dtype):
    return f"({dtype}[2,N] x, {dtype}[2,N] z) => ({dtype}[2,N] y) {{ y = Abs(x) }}"


@each_of(
    "body", "Clip(x, low, high)", "Max(x, low)", "Min(x, high)", "Max(x, x)", "Max(x, one, x)"
)
def test_of_floats(body, rewrites):
    rewrites(model(body), idle("float"), feeds=[{"x": ENDS, "z": ENDS}])


@each_of("body", "Clip(x)", "Clip(x, low)", "Clip(x, , high)", "Max(x, low)")
def test_of_integers(body, rewrites):
    rewrites(model(body, "int8"), idle("int8"))


test_cases = cases_in(model)("""
Clip(x)
Clip(x, low)
Clip(x, near, high)
Max(x, high)
Max(x, z)
Max(x)
""")


test_cases_9 = pass_cases("""
leaves a bound that callers may override alone: (float[2] x, float low) => (float[2] y) <float
  low = {-inf}> { y = Max(x, low) }
leaves a bound that widens alone: (float[N] x) => (float[1,N] y) <float[1,1] low = {-inf}> { y
  = Max(x, low) }
""")
