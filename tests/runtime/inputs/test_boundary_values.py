from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.ops.input_hints import ValueHint, between, exactly
from onnx_passes.runtime.inputs import adversarial, edge_samples, make_samples, name_of
from onnx_passes.runtime.inputs.boundary_values import base_sample, steering_inputs, variants
from onnx_passes.runtime.inputs.seeded_feeds import Request
from onnx_passes.verify.reference_data import check_feeds
from tests.tables import each_of, each_row

HEAD = '<ir_version: 10, opset_import: ["" : 20]> g '
X = np.float32([0.5, -2, 3])


def named(array, hint=None, span=None, *, steers=False):
    return dict(variants(array, hint or ValueHint(), span, steers=steers))


def of(model, *given, **options):
    return {feeds.name: feeds for feeds in adversarial(model, given, **options)}


def test_what_floats_get():
    found = named(X)
    kinds = ["zeros", "NaN", "Inf", "-Inf", "-0", "extremes", "denormals", "big mean"]
    assert list(found) == kinds
    assert np.isnan(found["NaN"]).tolist() == [True, False, False]
    assert np.signbit(found["-0"]).all()
    assert not np.signbit(found["zeros"]).any()
    assert {abs(float(v)) for v in found["extremes"]} == {float(np.finfo(np.float32).max)}
    assert 0 < found["denormals"][0] < np.finfo(np.float32).tiny
    assert all(a.dtype == X.dtype and a.shape == X.shape for a in found.values())


def test_what_other_types_get():
    ints = named(np.int8([1, 2, 3]))
    assert ints["extremes"].tolist() == [-128, 127, -128]
    assert ints["zeros"].tolist() == [0, 0, 0]
    assert list(named(np.array([True, False]))) == ["true", "false"]
    assert named(np.array(["a", "b"], object))["empty strings"].tolist() == ["", ""]
    assert named(np.array([1, 2], ml_dtypes.int4))["extremes"].tolist() == [-8, 7]
    assert named(np.zeros((0, 2), np.float32)) == {}


def test_nothing_leaves_the_range_of_the_user():
    found = named(X, span=(1.0, 2.0))
    assert {k: v.tolist() for k, v in found.items()} == {"extremes": [1.0, 2.0, 1.0]}
    assert named(np.int64([3]), span=(2.0, 5.0))["extremes"].tolist() == [2]
    for array in named(X, span=(-1.0, 1.0)).values():
        assert (np.abs(array[~np.isin(array, X)]) <= 1).all()


def test_indices_get_the_ends_of_their_range():
    found = named(np.int64([1, 1, 2]), between(0, 6), steers=True)
    assert found["extremes"].tolist() == [0, 6, 0]
    assert named(np.int64([2, 2]), exactly([2, 2])) == {}
    assert "zeros" not in named(np.int64([2, 2]), ValueHint(nonzero=True))


def test_what_decides_a_size_stays_ordinary(parse):
    model = parse("""g (float[N,3] x, int64[2] s, int64[2] t) => (float[A,B] y) {
        two = Constant<value_ints = [1, 1]>() u = Mul(s, two) v = Add(u, t)
        y = Reshape(x, v) }""")
    assert steering_inputs(model) == {"s", "t"}
    for feeds in adversarial(model):
        if "size" not in feeds.kind:
            assert np.abs(feeds["s"]).max() < 100
            assert np.abs(feeds["t"]).max() < 100


MOD = """(int64[N] x, float[7,2] table) => (float[N,2] y)
  { n = Constant<value_int = $>() k = Mod(x, n) y = Gather(table, k) }"""
PACK = """(float[2] x, bool[2] b, float[2] a) => (float[K] y) <bool[2] c>
  { c = $ y = Compress(a, c) }"""
DIVIDEND = "(int32[4] x) => (int32[4] y) <int32 c = {$}> { y = Div(x, c) }"


@each_row("""text | inputs
shape: (float[N,3] x, float[M,3] z) => (float[A,B] y) { s = Shape(z) y = Reshape(x, s) } | =''
end-of-a-loop: (int64 n, bool c, float limit, float x) => (float y) { y = Loop(n, c, x) <body =
  b (int64 i, bool d, float a) => (bool e, float f) { f = Add(a, a) e = Less(f, limit) }> }
  | n c limit x
truth-by-cast: =PACK.replace('$', 'Cast<to = 9>(x)') | =''
truth-by-kind: =PACK.replace('$', 'IsNaN(x)') | =''
truth-by-not: =PACK.replace('$', 'Not(b)') | =''
remainder: =MOD.replace('$', '7') | =''
large-remainder: =MOD.replace('$', str(1 << 40)) | x
negative-remainder: =MOD.replace('$', '-7') | x
divided: (int32[3] a, int32[3] b, float[3] x) => (int32[3] y, float[3] z) <int32 one = {1}> {
  c = Sub(b, one) y = Div(a, c) z = Div(x, x) } | a b
by-1000: =DIVIDEND.replace('$', '1000') | =''
by-minus-1: =DIVIDEND.replace('$', '-1') | x
by-0: =DIVIDEND.replace('$', '0') | x
""")
def test_what_steers_an_operator_stays_ordinary(text, inputs):
    assert steering_inputs(ir.from_onnx_text(HEAD + text)) == {*inputs.split()}


def test_every_sample_fits_the_model(parse):
    model = parse("""g (float[N,3] x, int64[K] i, float16[N] h, bool c)
        => (float[K,3] y, float16[N] z) {
        y = Gather(x, i) z = If(c) <then_branch = t () => (float16[N] a) { a = Neg(h) },
        else_branch = e () => (float16[N] b) { b = Abs(h) }> }""")
    found = of(model)
    for feeds in found.values():
        check_feeds(feeds, model, {}, allow_nan=True)
    assert {"adversarial: NaN in x", "adversarial: Inf in every input"} <= set(found)
    assert found["adversarial: size 0 of N"]["x"].shape == (0, 3)
    assert found["adversarial: size 1 of K"]["i"].shape == (1,)
    assert found["adversarial: true in c"]["c"] == np.array(True)


def test_given_data_are_cut_to_size(parse):
    model = parse("g (float[N,2] x, float[N] z) => (float[N,2] y) { y = Neg(x) }")
    given = {"x": np.float32([[1, 2], [3, 4]]), "z": np.float32([5, 6])}
    found = of(model, given)
    assert found["adversarial: size 1 of N"]["x"].tolist() == [[1, 2]]
    assert found["adversarial: size 1 of N"]["z"].tolist() == [5]
    assert found["adversarial: zeros in z"]["x"].tolist() == [[1, 2], [3, 4]]


def test_sizes_of_the_user_are_kept(parse):
    model = parse("g (float[N,M] x) => (float[N,M] y) { y = Neg(x) }")
    kinds = {f.name for f in adversarial(model, dims={"N": [2, 3]}) if "size" in f.name}
    assert kinds == {"adversarial: size 1 of M", "adversarial: size 0 of M"}
    assert not [f for f in adversarial(model, dims={"x": [2, 3]}) if "size" in f.name]


def test_sequences_and_optionals(parse):
    model = parse("g (seq(float[2]) x) => (seq(float[2]) y) { y = Identity(x) }")
    assert all(np.isnan(item[0]) for item in of(model)["adversarial: NaN in x"]["x"])
    model = parse("g (optional(float[2]) x) => (bool y) { y = OptionalHasElement(x) }")
    assert "adversarial: NaN in x" in of(model)


def test_a_big_mean_keeps_the_spread():
    found = named(X)["big mean"]
    np.testing.assert_allclose(found - found.mean(), X - X.mean(), atol=1e-3)
    assert found.mean() > 100 * X.std()
    assert "big mean" not in named(X, span=(-5, 5))


def test_defaults_that_callers_may_override_are_overridden():
    text = "(float[2] x, float[2] k) => (float[2] y) <float[2] k = {2, 3}> { y = Mul(x, k) }"
    model = ir.from_onnx_text(HEAD + text)
    (found,) = [f for f in adversarial(model) if f.kind == "other defaults"]
    np.testing.assert_array_equal(found["k"], np.float32([3, 4]))
    assert name_of(found) == "adversarial: other defaults in k"


def with_weights(text, **arrays):
    """Return a model of a text, with initializers by name."""
    proto = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]> {text}')
    for name, array in arrays.items():
        proto.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return ir.from_proto(proto)


def divided(array):
    """Return a model that divides by a constant."""
    kind = "float" if array.dtype.kind == "f" else str(array.dtype)
    text = f"g ({kind}[{array.size}] x) => ({kind}[{array.size}] y) {{ y = Div(x, d) }}"
    return with_weights(text, d=array)


@each_of("size, steers", (8192, False), (8193, True))
def test_a_dividend_stays_ordinary_if_the_divisor_is_not_at_hand(size, steers):
    # Integers of more than 64 KiB are left out of the model that samples are made for.
    model = divided(np.full(size, 3, np.int64))
    assert ("x" in steering_inputs(base_sample(Request(model), ()).model)) is steers
    kinds = {feeds.kind for feeds in edge_samples(model)}
    assert ("large integers" not in kinds) is steers


@each_of("make", adversarial, edge_samples)
def test_a_large_default_is_read_from_the_model_itself(make):
    default = np.arange(300, dtype=np.float32)
    text = "g (float[300] x, float[300] k) => (float[300] y) { y = Mul(x, k) }"
    model = with_weights(text, k=default)
    (found,) = [f for f in make(model) if f.kind == "other defaults"]
    np.testing.assert_array_equal(found["k"], default + 1)


def edges(text, **options):
    found = edge_samples(ir.from_onnx_text(HEAD + text), **options)
    assert not any(feeds.asked for feeds in found)
    return {feeds.kind: feeds for feeds in found}


def test_words_are_for_strings():
    text = """(float[4] x, string[4] s) => (float[4] y, float[4] z) {
        t = Cast<to = 8>(x) y = Cast<to = 1>(t) z = Cast<to = 1>(s) }"""
    found = edges(text)["unknown words"]
    assert (found.name, found["x"].dtype) == ("edge: unknown words in s", np.float32)


def test_floats_have_ties_zeros_and_equal_values():
    drawn = edges("(float[64] x) => (float[64] y) { y = Round(x) }")["multiples of 1/2"]["x"]
    assert drawn.dtype == np.float32
    assert set(drawn % 1) == {0, 0.5}
    assert 0 in drawn
    assert len(set(drawn)) < len(drawn)


def test_what_is_compared_with_a_constant_lies_on_both_sides_of_it():
    found = edges("""(float[8] x, float[8] z) => (bool[8] y, float[8] w) <float k = {100}>
        { y = Less(x, k) w = Neg(z) }""")["limits"]
    assert 100 in found["x"]
    assert (found["x"] > 100).any()
    assert ((found["x"] < 100) & (found["x"] > 80)).any()
    assert (np.abs(found["z"]) < 10).all()


def test_what_is_quantised_by_a_power_of_two_lies_half_way_between_levels():
    text = """(float[8] x, float[8] z) => (uint8[8] y, uint8[8] w)
        <float s = {0.25}, float t = {0.3}, uint8 k = {3}>
        { y = QuantizeLinear(x, s, k) w = QuantizeLinear(z, t, k) }"""
    found = edges(text)["ties"]
    assert set(found["x"] / 0.25 % 1) == {0.5}
    assert set(found["z"] / 0.25 % 1) != {0.5}


@each_of(
    "call, empty",
    ("ReduceSum(x, front)", True),
    ("ReduceL2(x)", True),
    ("ReduceSum(x, end)", False),  # ONNX Runtime keeps the size of this axis
    ("ReduceMean(x)", False),  # the standard does not say what that is
)
def test_sums_of_nothing_are_asked_for_where_the_standard_defines_them(call, empty):
    found = edges(
        "(float[N,2] x) => (float[A,B] y) <int64[1] front = {0}, int64[1] end = {-1}> "
        "{ y = " + call + " }"
    )
    assert ("size 0" in found) == empty


@each_row("""text | empty
a window: (float[N,2,8] x) => (float[A,B,C] y) { y = MaxPool<kernel_shape = [2]>(x) } | =True
another dimension: (float[2,N,8] x) => (float[2,N,8] y) { y = Softmax<axis = 1>(x) } | =False
recurrence: (float[5,N,3] x, float[1,4,3] w, float[1,4,1] r) => (float[A,B,C,D] y) { y =
  LSTM<hidden_size = 1>(x, w, r) } | =False
integers: (float[N] x) => (int64[1] y) <int64[1] k = {12}> { n = Shape(x) y = Div(k, n) } |
  =False
""")
def test_no_rows_are_asked_for_where_no_kernel_ends_the_process(text, empty):
    assert ("size 0" in edges(text)) == empty


def test_rows_are_there_twice_where_a_model_drops_them():
    """So the best 24 boxes were left out ahead of a suppression that found enough without."""
    found = edges("""(float[N] score, float[1,N,4] box) => (int64[K,3] kept)
        <int64[1] most = {24}, int64[2] both = {0, 1}, int64 each = {15}> {
        best, place = TopK(score, most) s = Unsqueeze(best, both)
        b = Gather<axis = 1>(box, place) kept = NonMaxSuppression(b, s, each) }""")
    boxes = next(f["box"] for kind, f in found.items() if kind.startswith("sizes over"))
    assert len(np.unique(boxes, axis=1)[0]) == -(-boxes.shape[1] // 2)


@each_of("axis, empty", (0, True), (1, False))
def test_no_row_beside_one_row_is_no_sample(axis, empty):
    """ONNX Runtime gives a row of what is left in memory."""
    text = f"""(float[N,2] x) => (float[A,B] y) <float[1,2] k = {{1, 2}}>
    {{ y = Concat<axis = {axis}>(x, k) }}"""
    assert ("size 0" in edges(text)) == empty


LOOP = """(int64 n, bool c, float[2] x) => (float[2] y) { y = Loop(n, c, x) <
    body = b (int64 i, bool k, float[2] s) => (bool l, float[2] t) {
    l = Identity(k) t = Sin(s) }> }"""


def test_a_loop_runs_once_and_not_at_all():
    found = edges(LOOP)
    assert found["count 0"]["n"] == 0
    assert not found["count 0"]["c"]
    assert found["count 1"]["n"] == 1
    assert "negated" not in found  # it might not end


def test_a_loop_runs_more_often_than_loops_are_unrolled():
    """So eight steps passed for a loop over any number of them."""
    assert edges(LOOP)["count 17"]["n"] == 17


def test_a_single_integer_is_large_and_crosses_what_it_meets():
    """So the remainder of a step by 512 was dropped."""
    found = edges("(int64[1] n) => (int64[1] y) <int64 k = {512}> { y = Mod(n, k) }")
    assert found["large integers"]["n"] > 1 << 60
    assert "large integers" not in edges(LOOP)


@each_of("call", "Identity(x)", "Sub(x, mean)", "Mul(mean, x)")
def test_numbers_are_missing_where_they_are_computed_from(call):
    """So trees were written anew without what marks a missing number."""
    text = "(float[2,4] x) => (bool[2,4] y) <float[4] mean = {1, 2, 3, 4}> "
    found = edges(f"{text} {{ d = {call} y = IsNaN(d) }}")["NaN"]["x"]
    assert np.isnan(found).any()
    assert not np.isnan(found).all()


@each_of("call", "Sub(u, k)", "Sub(k, u)")
def test_rows_are_those_of_a_constant_that_they_are_subtracted_from(call):
    """So a distance to itself, expanded to |x|^2 - 2xk + |k|^2, had no root."""
    found = edges(f"""(float[4,2] x) => (float[4,3,2] y)
        <int64[1] one = {{1}}, float[3,2] k = {{1, 2, 3, 4, 5, 6}}>
        {{ u = Unsqueeze(x, one) y = {call} }}""")["values of constants"]["x"]
    assert found.tolist() == [[1, 2], [3, 4], [5, 6], [1, 2]]


def test_the_first_of_large_numbers_is_not_the_largest():
    """So the largest sigmoid was taken for that of the largest number."""
    found = edges("(float[3,4] x) => (float[3,4] y) { y = Sigmoid(x) }")["large floats"]["x"]
    assert (found[:2, 0] < found[:2, -1]).all()
    assert (found[:2].argmax(axis=1) == 3).all()


def test_booleans_are_negated():
    text = "(bool[3] c, float[3] x) => (float[3] y) { y = Where(c, x, x) }"
    (ordinary, other) = (
        [f["c"] for f in edge_samples(ir.from_onnx_text(HEAD + text)) if f.kind == kind]
        for kind in ("multiples of 1/2", "negated")
    )
    np.testing.assert_array_equal(other[0], ~ordinary[0])


@each_of("text", "float[2] w = {1, 2}", "bool w = {1}")
def test_an_input_with_a_default_has_another_value(text):
    kind = text.partition(" w")[0]
    text = f"(float[2] x, {kind} w) => (float[2] y, {kind} v) <{text}> {{"
    text += " y = Neg(x) v = Identity(w) }"
    model = ir.from_onnx_text(HEAD + text)
    found = edges(text)["other defaults"]["w"]
    assert (found != model.graph.initializers["w"].const_value.numpy()).all()


def test_a_large_input_has_no_edges():
    assert edges("(float[300, 300] x) => (float[300, 300] y) { y = Neg(x) }") == {}


@each_of("call", "Gather(v, i)", "OneHot(i, depth, pair)", "GatherElements(v, i)")
def test_indices_count_from_the_end_where_they_may(call):
    found = edges(
        "(int64[3] i) => (float[A] y) <float[4] v = {1, 2, 3, 4}, int64 depth = {4}, "
        "float[2] pair = {0, 1}> { y = " + call + " }"
    )["indices from the end"]["i"]
    assert (found < 0).any()
    assert (found >= -4).all()


@each_of("kind", "uint8", "int8", "float", "bool")
def test_indices_count_from_the_end_in_types_that_hold_them(kind):
    """Bytes that lead into a table of 256 ended the run with an OverflowError."""
    table = ", ".join(map(str, range(256)))
    text = f"""({kind}[3] i) => (float[A] y) <float[256] v = {{{table}}}> {{
        j = Cast<to = 7>(i) y = Gather(v, j) }}"""
    found = [each["i"] for kind, each in edges(text).items() if kind == "indices from the end"]
    assert all((array < 0).any() for array in found)


@each_of("seed", *range(5))
def test_small_floats_overflowed_no_exponential_and_had_no_zero(seed):
    """So `Log(1 + Exp(x))` passed for Softplus, and `-x` for `0 - x` behind a reciprocal."""
    found = edges("(float[2] x) => (float[2] y) { y = Softplus(x) }", seed=seed)
    rows = edges("(float[2,2] x) => (float[2,2] y) { y = Softplus(x) }", seed=seed)
    for each in (found, rows):
        assert each["large floats"]["x"].max() >= 100
        assert each["large floats"]["x"].min() <= -100
        assert 0 in each["multiples of 1/2"]["x"]


def test_floats_are_large_in_either_branch():
    """So `c * x + (1 - c) * y` passed for Where(c, x, y), where the other one overflows."""
    model = ir.from_onnx_text(
        HEAD + "(bool[2,1] c, float[2,2] x) => (float[2,2] y) { y = Where(c, x, x) }"
    )
    found = [f["c"] for f in edge_samples(model) if f.kind == "large floats"]
    np.testing.assert_array_equal(found[0], ~found[1])


def test_large_integers_cancelled_in_pairs_so_that_a_sum_of_floats_was_right():
    found = edges("(int32[8] x) => (int32[8] y) { y = Neg(x) }")["large integers"]["x"]
    exact = found.astype(np.int64).sum()
    assert exact != found.astype(np.float32).sum()
    assert abs(found.astype(np.int64)).min() > 2**30
    assert (found * np.int32(10) // np.int32(5) != found * np.int32(2)).any()  # they wrap


@each_of("joined, repeats", ("add", True), ("none", False))
def test_indices_of_joined_updates_never_repeated(joined, repeats):
    """So a sum of duplicates could be lost."""
    text = f"""(float[4] x, int64[4] i, float[4] u) => (float[4] y)
        {{ y = ScatterElements<reduction = "{joined}">(x, i, u) }}"""
    model = ir.from_onnx_text(HEAD + text)
    drawn = [one.feeds["i"] for one in make_samples(model, seed=0, samples=8)]
    assert any(len(set(row.tolist())) < 4 for row in drawn) is repeats
