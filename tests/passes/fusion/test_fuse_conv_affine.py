import numpy as np

from onnx_passes.passes.fusion.fuse_conv_affine import FuseConvAffine
from onnx_passes.testing import assert_leaves_alone, parse
from tests.tables import each_of, kinds, pass_cases

CONV = {"layer": "Conv", "w": (4, 3, 3, 3), "x": (2, 3, 5, 6)}
GROUPS = {"layer": "Conv<group = 2>", "w": (4, 3, 3, 3), "x": (2, 6, 5, 6)}
LINE = {"layer": "Conv<pads = [1, 2]>", "w": (4, 3, 3), "x": (2, 3, 5)}
BACK = {"layer": "ConvTranspose", "w": (3, 4, 2, 2), "x": (2, 3, 5, 6)}
BACK_GROUPS = {"layer": "ConvTranspose<group = 2>", "w": (6, 2, 2, 2), "x": (2, 6, 5, 6)}
GEMM = {"layer": "Gemm", "w": (3, 4), "x": (2, 3)}
TURNED = {"layer": "Gemm<transB = 1, alpha = 0.5>", "w": (4, 3), "x": (2, 3)}
LAYERS = (CONV, GROUPS, LINE, BACK, BACK_GROUPS, GEMM, TURNED)
IDS = ("conv", "groups", "line", "back", "back-groups", "gemm", "gemm-turned")


def draw(*shape, seed=0):
    return np.random.default_rng(seed).uniform(0.5, 1.5, shape).astype(np.float32)


def tensor(name, array):
    numbers = ", ".join(map(repr, array.reshape(-1).tolist()))
    dims = f"[{','.join(map(str, array.shape))}]" if array.shape else ""
    return f"float{dims} {name} = {{{numbers}}}"


def model(body, *, layer, w, x, bias=None, **constants):
    given = {"w": draw(*w), **({} if bias is None else {"b": bias}), **constants}
    fixed = ", ".join(tensor(name, array) for name, array in given.items())
    body = body.replace("LAYER", layer).replace("BIAS", "" if bias is None else ", b")
    dims, unknown = ",".join(map(str, x)), ",".join("?" * len(x))
    return f"(float[{dims}] x) => (float[{unknown}] y) <{fixed}> {{ {body} y = Relu(r) }}"


def channels(shape, rank):
    return draw(1, shape, *[1] * (rank - 2), seed=1)


BEHIND = ("r = Mul(t, c)", "r = Add(c, t)", "r = Sub(t, c)", "r = Sub(c, t)", "r = Div(t, c)")


@each_of("layer", *LAYERS, ids=IDS)
@each_of("bias", False, True, ids=["bare", "bias"])
@each_of("then", *BEHIND)
def test_fires_behind_a_layer(layer, bias, then, rewrites):
    text = model(
        f"t = LAYER(x, w BIAS) {then}",
        **layer,
        bias=draw(4, seed=2) if bias else None,
        c=channels(4, len(layer["x"])),
    )
    after = rewrites(text)
    assert kinds(after) == [layer["layer"].partition("<")[0], "Relu"]


@each_of("layer", *LAYERS, ids=IDS)
@each_of("scalar", False, True, ids=["channels", "scalar"])
@each_of("first", "t = Mul(x, c)", "t = Mul(c, x)", "t = Div(x, c)")
def test_fires_before_a_layer(layer, scalar, first, rewrites):
    c = draw() if scalar else channels(layer["x"][1], len(layer["x"]))
    after = rewrites(model(f"{first} r = LAYER(t, w)", **layer, c=c))
    assert kinds(after) == [layer["layer"].partition("<")[0], "Relu"]


@each_of("layer", CONV, GROUPS, GEMM, ids=["conv", "groups", "gemm"])
@each_of("first", "t = Add(x, c)", "t = Add(c, x)", "t = Sub(x, c)", "t = Sub(c, x)")
def test_sums_before_a_layer_that_does_not_pad(layer, first, rewrites):
    c = channels(layer["x"][1], len(layer["x"]))
    after = rewrites(model(f"{first} r = LAYER(t, w)", **layer, c=c))
    assert kinds(after) == [layer["layer"].partition("<")[0], "Relu"]


def test_a_chain_becomes_one_layer(rewrites):
    c, s = channels(4, 4), draw()
    text = model("t = LAYER(x, w) u = Mul(t, c) v = Add(u, s) r = Div(v, c)", **CONV, c=c, s=s)
    assert kinds(rewrites(text)) == ["Conv", "Relu"]


def test_a_sum_keeps_weights_that_are_shared(rewrites):
    big = {**CONV, "w": (64, 3, 3, 3)}
    text = model(
        "t = LAYER(x, w) u = LAYER(x, w) v = Add(u, c) r = Max(t, v)", **big, c=draw()
    )
    after = rewrites(text)
    assert (
        sum(node.inputs[1].name == "w" for node in after.graph if node.op_type == "Conv") == 2
    )


test_cases = pass_cases("""
spatial: =model('t = LAYER(x, w) r = Add(t, c)', **CONV, **{'c': draw(1, 4, 3, 4)})
last-axis: =model('t = LAYER(x, w) r = Add(t, c)', **CONV, **{'c': draw(4)})
rank: =model('t = LAYER(x, w) r = Add(t, c)', **CONV, **{'c': draw(1, 1, 4, 1, 1)})
batch: =model('t = LAYER(x, w) r = Add(t, c)', **CONV, **{'c': draw(2, 1, 1, 1)})
reciprocal: =model('t = LAYER(x, w) r = Div(c, t)', **CONV, **{'c': draw()})
by-zero: =model('t = LAYER(x, w) r = Div(t, c)', **CONV, **{'c': np.zeros((), np.float32)})
lost-digits: =model('t = LAYER(x, w) r = Mul(t, c)', **CONV, **{'c': np.float32(1e-39)})
read: =model('t = LAYER(x, w) u = Mul(t, c) r = Add(t, u)', **CONV, **{'c': draw()})
padded: =model('t = Add(x, c) r = Conv<pads = [1, 1, 1, 1]>(t, w)', **CONV, **{'c': draw()})
auto-padded: =model("t = Add(x, c) r = Conv<auto_pad = 'SAME_UPPER'>(t, w)".replace("'", '"'),
  **CONV, **{'c': draw()})
in-rows: =model('t = Mul(x, c) r = LAYER(t, w)', **CONV, **{'c': draw(1, 3, 5, 1)})
leaves products with shared weights alone: =model('t = LAYER(x, w) u = LAYER(x, w) v = Mul(u,
  c) r = Max(t, v)', **{**CONV, 'w': (64, 3, 3, 3)}, c=draw())
leaves a constant that widens the input alone: (float[1,1,4,4] x) => (float[?,?,?,?] y)
  <float[1,2,1,1] w = {1, 2}, float[1,2,1,1] c = {3, 4}> { t = Mul(x, c) y = Conv(t, w) }
""")


@each_of("name", "w", "c", "b")
def test_leaves_what_callers_may_override_alone(name):
    made = parse(model("t = LAYER(x, w BIAS) r = Mul(t, c)", **CONV, bias=draw(4), c=draw()))
    made.graph.inputs.append(made.graph.initializers[name])
    assert_leaves_alone(FuseConvAffine(), made)


@each_of("attributes", "<beta = 0.5>", "<transA = 1>")
def test_leaves_a_gemm_alone_that_it_would_change(attributes, leaves_alone):
    gemm = {"layer": f"Gemm{attributes}", "w": (3, 4), "x": (3, 3)}
    body = "t = Mul(x, c) u = LAYER(t, w BIAS) r = Relu(u)"
    if "beta" in attributes:
        body = "t = LAYER(x, w BIAS) r = Add(t, c)"
    leaves_alone(model(body, **gemm, bias=draw(4), c=draw()))


@each_of("layer", CONV, GEMM, ids=["conv", "gemm"])
@each_of(
    "curve, half, fires",
    ("Erf", 0.5, False),
    ("Tanh", 0.5, False),
    ("Erf", 0.25, True),
    ("Cos", 0.5, True),
)
def test_a_gelu_keeps_its_last_factor(layer, curve, half, fires):
    numbers = {"c": np.float32(half), "one": np.float32(1)}
    body = f"e = {curve}(x) a = Add(e, one) m = Mul(x, a) t = Mul(m, c) r = LAYER(t, w)"
    made = parse(model(body, **layer, **{k: np.asarray(v) for k, v in numbers.items()}))
    if fires:
        assert kinds(FuseConvAffine()(made).model).count("Mul") == 1
    else:
        assert_leaves_alone(FuseConvAffine(), made)


@each_of("layer", CONV, BACK, GEMM, ids=["conv", "back", "gemm"])
@each_of("body", "t = LAYER(x, w) r = Mul(t, c)", "t = Mul(x, c) r = LAYER(t, w)")
@each_of("factor", 1e30, 1e-30)
def test_a_factor_whose_product_may_leave_the_range_stays(layer, body, factor, leaves_alone):
    leaves_alone(model(body, **layer, c=np.float32(factor)))
