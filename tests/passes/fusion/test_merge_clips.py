import numpy as np
import onnx_ir as ir

from onnx_passes.testing import parse
from tests.tables import each_of, pass_cases

SPECIAL = np.array([np.nan, np.inf, -np.inf, -0.0, 0, 1e-40, 0.5, 1, 1.5, 2.5, 7, -7])


def graph(body, dtype="float", **constants):
    fixed = ", ".join(f"{dtype} {name} = {{{c}}}" for name, c in constants.items())
    return f"({dtype}[N] x) => ({dtype}[N] y) <{fixed}> {{ {body} }}"


def old(body):
    return (
        f'<ir_version: 7, opset_import: ["" : 9]> g (float[N] x) => (float[N] y) {{ {body} }}'
    )


@each_of(
    "body, after, constants",
    ("t = Clip(x, a, b) y = Clip(t, c, d)", (2, 2), {"a": 0, "b": 1, "c": 2, "d": 3}),
    ("t = Clip(x, a, b) y = Clip(t, c, d)", (0, 1), {"a": -1, "b": 1, "c": 0, "d": 3}),
    ("t = Clip(x, a, b) y = Clip(t, c, d)", (1, 1), {"a": 5, "b": 1, "c": 0, "d": 3}),
    ("t = Clip(x, a, b) y = Clip(t, c, d)", (2, 2), {"a": 0, "b": 1, "c": 5, "d": 2}),
    ("t = Relu(x) y = Clip(t, c, d)", (0, 6), {"c": -1, "d": 6}),
    ("t = Relu(x) y = Clip(t, c, d)", (-2, -2), {"c": -4, "d": -2}),
    ("t = Clip(x, c, d) y = Relu(t)", (0, 1), {"c": -1, "d": 1}),
    ("t = Clip(x, c, d) y = Relu(t)", (0, 0), {"c": -3, "d": -2}),
    ("t = Clip(x, c) y = Relu(t)", (1,), {"c": 1}),
    ("t = Clip(x,, d) y = Relu(t)", (0, 3), {"d": 3}),
    ("t = Clip(x, c) u = Clip(t,, d) y = Clip(u)", (1, 3), {"c": 1, "d": 3}),
)
@each_of("dtype", "float", "double", "float16", "int64")
def test_fires(body, after, constants, dtype, rewrites):
    name = {"float": "float32", "double": "float64"}.get(dtype, dtype)
    special = SPECIAL if dtype != "int64" else np.array([-(2**63), 2**63 - 1, *range(-8, 9)])
    with np.errstate(all="ignore"):
        feeds = [{"x": np.tile(special, 5).astype(name)}]
    bounds = dict(zip("lh", after, strict=False))
    new = "y = Clip(x, l, h)" if len(after) == 2 else "y = Clip(x, l)"
    before = graph(body, dtype, **constants)
    if dtype == "float16":  # the text form has no such tensors
        rewrites(cast(before), cast(graph(new, dtype, **bounds)), feeds=feeds)
    else:
        rewrites(before, graph(new, dtype, **bounds), feeds=feeds)


def cast(text):
    made = parse(text.replace("float16", "float"))
    for value in (*made.graph.inputs, *made.graph.outputs):
        value.dtype = ir.DataType.FLOAT16
    for value in made.graph.initializers.values():
        value.const_value = ir.tensor(value.const_value.numpy().astype(np.float16))
        value.const_value.name = value.name
        value.dtype = ir.DataType.FLOAT16
    return made


test_cases = pass_cases("""
=old('t = Clip<min = 0.0, max = 4.0>(x) y = Clip<max = 2.0>(t)') | =old('y = Clip<min = 0.0,
  max = 2.0>(x)')
=old('t = Relu(x) y = Clip<max = 2.0>(t)') | =old('y = Clip<min = 0.0, max = 2.0>(x)')
=old('t = Clip<min = -1.0>(x) y = Relu(t)') | =old('y = Clip<min = 0.0>(x)')
read: =graph('t = Clip(x, c) u = Clip(t, c) y = Add(t, u)', **{'c': 1})
two-relu: =graph('t = Relu(x) y = Relu(t)', **{})
no-bounds: =graph('t = Relu(x) y = Clip(t)', **{})
computed: =graph('s = Abs(c) t = Relu(x) y = Clip(t, s)', **{'c': 1})
""")


def test_leaves_nan_alone(leaves_alone):
    made = parse(graph("t = Relu(x) y = Clip(t, c)", c=1))
    made.graph.initializers["c"].const_value = ir.tensor(np.float32(np.nan), name="c")
    leaves_alone(made)


def test_leaves_what_callers_may_override_alone(leaves_alone):
    made = parse(graph("t = Relu(x) y = Clip(t, c)", c=1))
    made.graph.inputs.append(made.graph.initializers["c"])
    leaves_alone(made)


def test_bounds_have_the_type_that_nothing_else_has(rewrites):
    text = """<ir_version: 10, opset_import: ["" : 20, "f" : 1]>
      g (float[N] x) => (float[N] y) { y = f.six(x) }
      <domain: "f", opset_import: ["" : 20]> six (x) => (y) {
      l = Constant<value_float = -1.0>() h = Constant<value_float = 6.0>()
      t = Relu(x) y = Clip(t, l, h) }"""
    (function,) = rewrites(text).functions.values()
    assert [n.op_type for n in function if n.op_type != "Constant"] == ["Clip"]
