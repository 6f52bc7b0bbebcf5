import ml_dtypes
import numpy as np
import onnx_ir as ir

from onnx_passes import testing
from onnx_passes.certifying.replay import Replayer
from onnx_passes.contracts import Tolerance
from onnx_passes.verify.node_equality import constant_tensor
from onnx_passes.verify.rounding import (
    agree_in_double,
    is_rounding,
    low_tolerances,
    makes_any_steps,
    move_weights,
)
from tests.tables import each_of, each_row

HALF, BRAIN = Tolerance(4 * 2**-10, 1e-5), Tolerance(4 * 2**-7, 1e-5)
BYTE = Tolerance(0.25, 2**-16)


def tolerances(nodes, outputs="float[4] y", inputs="float[4] x, bool c", more=""):
    return low_tolerances(
        ir.from_onnx_text(
            f"""<ir_version: 10, opset_import: ["" : 21, "local" : 1]>
            g ({inputs}) => ({outputs}) {{ {nodes} }} {more}"""
        )
    )


@each_of("nodes, expected",
        ("y = Exp(x)", {}),
        ("a = Cast<to=10>(x) b = Exp(a) y = Cast<to=1>(b)", {"y": HALF}),
        ("a = Cast<to=16>(x) b = Cast<to=10>(a) y = Cast<to=1>(b)", {"y": BRAIN}),
        ("a = Cast<to=19>(x) b = Cast<to=10>(a) y = Cast<to=1>(b)", {"y": BYTE}),
        ("a = Cast<to=10>(x) s = Shape(a) y = Expand(x, s)", {}),
        ("k = Constant<value = float16 {2}>() b = Cast<to=1>(k) y = Mul(x, b)", {}),
        ("y = If(c)<then_branch = t () => (float[4] p) { a = Cast<to=10>(x)"
         " p = Cast<to=1>(a) }, else_branch = e () => (float[4] q) { q = Identity(x) }>",
         {"y": HALF}),
        ("a = Cast<to=10>(x) b = Cast<to=1>(a)"
         " y = If(c)<then_branch = t () => (float[4] p) { p = Exp(b) },"
         " else_branch = e () => (float[4] q) { q = Identity(x) }>", {"y": HALF}))  # fmt: skip
def test_an_output_has_the_tolerance_of_the_coarsest_type(nodes, expected):
    assert tolerances(nodes) == expected


def test_an_input_of_half_precision_has_no_error_of_its_own():
    assert tolerances("y = Cast<to=1>(h)", inputs="float16[4] h") == {}
    assert tolerances("a = Exp(h) y = Cast<to=1>(a)", inputs="float16[4] h") == {"y": HALF}


def test_a_function_that_casts_is_as_coarse_as_its_casts():
    function = """<domain: "local", opset_import: ["" : 21]>
        f (u) => (w) { a = Cast<to=16>(u) w = Cast<to=1>(a) }"""
    assert tolerances("y = local.f(x)", more=function) == {"y": BRAIN}


SUM = "(float[3] x) => (float[1] y) <int64[1] a = {{0}}> {{ {} }}"
CENTERED = "m = ReduceMean(x, a) d = Sub(x, m) z = Abs(d) s = ReduceSum(z, a) y = {}"


def models(*bodies):
    return [testing.parse(SUM.format(body)) for body in bodies]


def test_noise_that_cancellation_magnifies_is_rounding():
    # The mean of equal numbers is one of them, or its neighbor; a large factor shows it.
    big = "c = Constant<value = float {1e7}>() q = Mul(s, c) y = Identity(q)"
    text = CENTERED.format("Identity(t)").replace("y = Identity(t)", big)
    before, after = models(text, text)
    x = np.full(3, 0.1, np.float32)
    exact, noisy = np.zeros(1, np.float32), np.full(1, 0.2, np.float32)
    assert is_rounding(before, after, {"x": x}, exact, noisy, "y")
    assert not is_rounding(before, after, {"x": x}, exact, np.full(1, 1e3, np.float32), "y")


def test_a_factor_close_to_one_in_a_long_sum_is_a_fault():
    text = """(float[100000] x) => (float[1] y) <int64[1] a = {{0}}, float f = {{{}}}>
    {{ t = Mul(x, f) y = ReduceSum(t, a) }}"""
    before, right = testing.parse(text.format(1)), testing.parse(text.format(1))
    x = np.random.default_rng(0).random(100000).astype(np.float32)
    total = np.float32([x.astype(np.float64).sum()])
    other = np.cumsum(x, dtype=np.float32)[-1:]
    assert total != other
    assert is_rounding(before, right, {"x": x}, total, other, "y")
    wrong = testing.parse(text.format(1.5))
    assert not is_rounding(before, wrong, {"x": x}, total, total * np.float32(1.5), "y")


@each_of("dtype", np.float32, np.float64, ml_dtypes.bfloat16)
def test_what_differs_in_shape_or_is_not_a_number_is_no_rounding(dtype):
    before, after = models("y = ReduceSum(x, a)", "y = ReduceSum(x, a)")
    x, one = np.ones(3, np.float32), np.ones(1, dtype)
    assert not is_rounding(before, after, {"x": x}, one, np.ones((1, 1), dtype), "y")
    assert not is_rounding(before, after, {"x": x}, one, np.full(1, np.nan, dtype), "y")


def test_integers_are_never_rounded():
    before = testing.parse("(int64[1] x) => (int64[1] y) { y = Neg(x) }")
    one = np.ones(1, np.int64)
    assert not is_rounding(before, before, {"x": one}, one, one + 1, "y")


def test_an_operator_without_a_bound_leaves_the_limit_to_decide():
    text = "(float[4] x) => (float[4] y) { y = NonMaxSuppression(x) }"
    before = testing.parse(text.replace("NonMaxSuppression", "BlackmanWindow"))
    x = np.ones(4, np.float32)
    assert not is_rounding(before, before, {"x": x}, x, x + 1, "y")


def test_a_replay_lets_rounding_pass_and_shows_a_fault():
    text = """(float[4] x) => (float[4] y) <float big = {{60000}}, int64[1] a = {{0}}>
    {{ m = ReduceMean(x, a) d = Sub(x, m) v = Mul(d, big) y = {} }}"""
    before, negated = (testing.parse(text.format(op)) for op in ("Identity(v)", "Neg(v)"))
    noise = {"x": np.float32([1.1, 1.1, 1.1, 1.1 + 1e-7])}
    clear = {"x": np.float32([1, 2, 3, 4])}
    replayer = Replayer(before, negated)
    assert replayer.compare(noise, real=True) is None
    assert replayer.compare(noise, real=False) is not None
    assert replayer.compare(clear, real=True) is not None


def test_digits_that_an_engine_loses_are_not_a_wrong_value():
    # ONNX Runtime multiplies first: 60,000 less its own mean is not 0 then.
    header = '<ir_version: 8, opset_import: ["" : 17]> g (float[1,1,1] x) => (float[1,1,1] y)'
    weights = "<float[1] s = {1}, float[1] b = {0.5}>"
    plain = ir.from_onnx_text(
        header + weights + "{ m = ReduceMean(x) d = Sub(x, m) q = Mul(d, s) y = Add(q, b) }"
    )
    fused = ir.from_onnx_text(header + weights + "{ y = InstanceNormalization(x, s, b) }")
    wrong = ir.from_onnx_text(header + weights + "{ y = InstanceNormalization(x, s, s) }")
    feeds = {"x": np.full((1, 1, 1), 60_000, np.float32)}
    assert Replayer(plain, fused).compare(feeds, real=False) is not None
    assert Replayer(plain, fused).compare(feeds, real=True) is None
    assert Replayer(plain, wrong).compare(feeds, real=True) is not None


def test_a_boolean_that_no_bound_decides_is_compared_as_such():
    text = "(float[1] x, float[1] e) => (bool[1] y) {{ t = Mul(x, e) y = {}(t, x) }}"
    less, greater = (
        testing.parse(text.format(op)) for op in ("LessOrEqual", "GreaterOrEqual")
    )
    feeds = {"x": np.float32([3]), "e": np.float32([1])}
    assert agree_in_double(less, greater, feeds, "y")
    feeds = {"x": np.float32([3]), "e": np.float32([2])}
    assert not agree_in_double(less, greater, feeds, "y")


def test_a_maximum_of_nan_that_depends_on_the_order_is_not_a_wrong_value():
    text = "(float[2, 2] x) => (float y) {{ {} y = ReduceMax <keepdims = 0> ({}) }}"
    before = testing.parse(text.format("t = Transpose <perm = [1, 0]> (x)", "t"))
    after = testing.parse(text.format("", "x"))
    x = np.float32([[0, 0], [np.nan, 1]])
    assert agree_in_double(before, after, {"x": x}, "y")
    assert not agree_in_double(before, after, {"x": np.float32([[0, 0], [2, 1]])}, "y")


HEAD = '<ir_version: 10, opset_import: ["" : 20, "qonnx.custom_op.general" : 1]> g '


@each_of(
    "operator, expected",
    ("Round", True),
    ("ArgMax", True),
    ("Neg", False),
    ("Cast <to = 10>", False),  # whose type was not inferred
    ("Cast <to = 7>", True),
    ("qonnx.custom_op.general.Quant", True),
)
def test_which_models_make_steps(operator, expected):
    text = f"(float[2] x) => (float[2] y) {{ y = {operator} (x) }}"
    assert makes_any_steps(ir.from_onnx_text(HEAD + text)) is expected


def moves(text, place=lambda model: model.graph.initializers["w"].const_value):
    """Return what a weight is in a few moved models, less what it was."""
    model = ir.from_onnx_text(HEAD + text)
    old = np.asarray(place(model).numpy(), np.float64)
    found = [place(move_weights(model, seed)).numpy() for seed in range(8)]
    return np.stack([np.asarray(new, np.float64) - old for new in found])


def test_weights_stay_or_move_by_one_unit_in_the_last_place():
    text = """(float[4] x) => (float[4] y)
        <float[4] w = {1.25, -2.5, 0, 3}, int64[1] k = {4}> {
        a = Mul(x, w) y = Reshape(a, k) }"""
    found = moves(text)
    assert not found[:, 2].any()
    for column, size in ((0, 2**-23), (1, 2**-22), (3, 2**-22)):
        assert {-1, 0, 1} >= {round(m / size) for m in found[:, column]} != {0}
    assert len({tuple(row) for row in found}) > 4
    assert not moves(text, lambda m: m.graph.initializers["k"].const_value).any()


@each_of("dtype, half", ("float16", 14336), ("bfloat16", 16128), ("double", 0.5))
def test_scales_of_other_floats_move_as_well(dtype, half):
    text = f"({dtype}[2] x) => ({dtype}[2] y) <{dtype} w = {{{half}}}> {{ y = Mul(x, w) }}"
    found = moves(text)
    assert found.any()
    assert (np.abs(found) < 0.01).all()


def test_constants_move_in_bodies_and_functions_too():
    text = """(float[2] x, bool c) => (float[2] y) { y = If(c) <
        then_branch = t () => (float[2] o) {
            w = Constant<value = float {0.5}>() o = Mul(x, w) },
        else_branch = e () => (float[2] p) {
            v = Constant<value_floats = [0.5, 0.25]>() p = Mul(x, v) }> }"""
    for name in ("then_branch", "else_branch"):
        assert moves(
            text,
            lambda m, name=name: constant_tensor(
                m.graph[-1].attributes[name].as_graph()[0].outputs[0]
            ),
        ).any()


@each_row("""nodes
- c = Less(x, w) y = Cast<to = 1>(c)
- a = Mul(x, w) b = Cast<to = 7>(a) y = Cast<to = 1>(b)
- a = Add(x, w) i = ArgMax<keepdims = 1>(a) y = Cast<to = 1>(i)
- z = Constant<value = float {0.0}>() o = Constant<value = float {1.0}>() r = Range(z, w, o) s
  = Shape(r) f = Cast<to = 1>(s) y = Mul(x, f)
""")
def test_what_decides_only_sizes_indices_and_comparisons_stays(nodes):
    assert not moves(f"(float[1] x) => (float[1] y) <float w = {{0.3}}> {{ {nodes} }}").any()


def test_exponents_do_not_move():
    text = "(float[4] x) => (float[4] y) <float e = {2}> { y = Pow(x, e) }"
    assert not moves(text, lambda m: m.graph.initializers["e"].const_value).any()


def test_a_constant_that_a_rule_folds_may_be_rounded():
    """In float16 ``(x + 0.1) + 0.3`` and ``x + 0.4`` differ by the rounding of 0.4."""
    header = '<ir_version: 10, opset_import: ["" : 20]> g (float16[1] x) => (float16[1] y) '
    half = [int(np.float16(n).view(np.uint16)) for n in (0.1, 0.3, 0.1 + 0.3)]
    before = ir.from_onnx_text(f"""{header} <float16 c = {{{half[0]}}}, float16 d =
        {{{half[1]}}}> {{ a = Add(x, c) y = Add(a, d) }}""")
    after = ir.from_onnx_text(f"{header} <float16 c = {{{half[2]}}}> {{ y = Add(x, c) }}")
    x = np.float16([-0.4])
    old = (x + np.float16(0.1)) + np.float16(0.3)
    far = np.float16(0.5)
    for new in (x + np.float16(0.1 + 0.3), old):
        assert is_rounding(before, after, {"x": x}, old, new, "y")
    assert not is_rounding(before, after, {"x": x}, old, old + far, "y")
