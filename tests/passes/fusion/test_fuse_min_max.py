import numpy as np

from tests.tables import each_of, each_row, pass_cases

SPECIAL = np.array([np.nan, np.inf, -np.inf, 0, 1, 5.5, 6, 7, -7, 3])


def graph(body, dtype="float", **constants):
    fixed = ", ".join(f"{dtype} {name} = {{{c}}}" for name, c in constants.items())
    return f"({dtype}[2,N] x) => ({dtype}[?,?] y) <{fixed}> {{ {body} }}"


@each_row("""body
- t = Max(x, l) y = Min(t, h)
- t = Max(l, x) y = Min(h, t)
- t = Min(x, h) y = Max(t, l)
- t = Min(h, x) y = Max(l, t)
""")
@each_of("dtype", "float", "double", "int32", "int64")
def test_fires(body, dtype, rewrites):
    special = SPECIAL if dtype in ("float", "double") else np.arange(-5, 15)
    kind = {"float": "float32", "double": "float64"}.get(dtype, dtype)
    feeds = [{"x": special.astype(kind).reshape(2, -1)}]
    after = graph("y = Clip(x, l, h)", dtype, l=1, h=6)
    rewrites(graph(body, dtype, l=1, h=6), after, feeds=feeds)


CHAINS = [
    ("t = Relu(x) y = Min(h, t)", 1, 6, "y = Clip(x, l, h)", 0, 6),
    ("t = Min(x, h) y = Relu(t)", 1, 6, "y = Clip(x, l, h)", 0, 6),
    ("t = Relu(x) y = Max(t, l)", 1, 6, "y = Max(x, l)", 1, 6),
    ("t = Max(l, x) y = Relu(t)", -1, 6, "y = Max(x, l)", 0, 6),
    ("t = Max(x, l) y = Max(h, t)", 1, 6, "y = Max(x, h)", 1, 6),
    ("t = Min(x, l) y = Min(t, h)", 1, 6, "y = Min(x, l)", 1, 6),
    ("t = Clip(x, l) y = Min(t, h)", 1, 6, "y = Clip(x, l, h)", 1, 6),
    ("t = Max(x, l) y = Clip(t, , h)", 1, 6, "y = Clip(x, l, h)", 1, 6),
    ("t = Max(x, l) y = Min(t, h)", 6, 1, "y = Clip(x, l, h)", 1, 1),
    ("t = Relu(x) y = Min(t, l)", -1, 6, "y = Clip(x, l, h)", -1, -1),
]


@each_of("body, low, high, after, new_low, new_high", *CHAINS)
@each_of("dtype", "float", "int32")
def test_a_chain_that_was_left_because_it_has_a_relu_or_two_of_a_kind(
    body, low, high, after, new_low, new_high, dtype, rewrites
):
    special = SPECIAL.astype("float32") if dtype == "float" else np.arange(-5, 15, dtype="i4")
    feeds = [{"x": special.reshape(2, -1)}]
    result = graph(after, dtype, l=new_low, h=new_high)
    rewrites(graph(body, dtype, l=low, h=high), result, feeds=feeds)


test_cases = pass_cases("""
three: =graph('t = Max(x, l, h) y = Min(t, h)', l=1, h=6)
of-merge-clips: =graph('t = Relu(x) y = Clip(t, l, h)', l=1, h=6)
two-tensors: =graph('z = Relu(x) t = Max(x, z) y = Min(t, h)', l=1, h=6)
read: =graph('t = Max(x, l) u = Min(t, h) y = Add(t, u)', l=1, h=6)
computed: =graph('c = Abs(l) t = Max(x, c) y = Min(t, h)', l=1, h=6)
constants: =graph('t = Max(l, h) u = Min(t, h) y = Add(x, u)', l=1, h=6)
leaves bounds that widen alone: (float[2] x) => (float[?,?] y) <float[1,1] l = {1}, float h =
  {6}> { t = Max(x, l) y = Min(t, h) }
a bound that was left out is not written as a number: =graph('t = Clip(x, l) y = Max(t, h)',
  l=1, h=0) | =graph('y = Clip(x, l)', l=1)
""")
