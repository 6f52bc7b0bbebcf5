import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.errors import PassError
from onnx_passes.passes.precision.convert_float16 import ConvertFloat16
from tests.tables import each_of, each_row

CHAIN = """(float[2,3] x) => (float[2,3] y, float[3,2] z)
{ a = Exp(x) t = Transpose(a) z = Neg(t) b = Abs(a) y = Tanh(b) }"""


def operators(model):
    return [node.op_type for node in model.graph]


def kinds(model):
    return {v.name: v.dtype.name for node in model.graph for v in node.outputs}


def test_a_whole_network_has_casts_at_its_ends_only(digits, images, run):
    model, original = digits(), digits()
    assert ConvertFloat16().call(model).modified
    casts = [node for node in model.graph if node.op_type == "Cast"]
    # One is behind a Cast that the network has itself.
    assert len(casts) == operators(original).count("Cast") + 3
    (old,), (new,) = (run(m, {"image": images}) for m in (original, model))
    assert new.dtype == np.float32
    assert 0 < np.abs(old - new).max() < 0.05
    assert (old.argmax(1) == new.argmax(1)).all()


def test_weights_take_half_the_room(digits):
    model = digits()
    size = sum(v.const_value.nbytes for v in model.graph.initializers.values())
    ConvertFloat16().call(model)
    assert sum(v.const_value.nbytes for v in model.graph.initializers.values()) < 0.51 * size


@each_of("option", {"nodes": ["*conv*"]}, {"operators": ["Conv"]})
def test_some_nodes_by_pattern(digits, images, run, option):
    model = digits()
    assert ConvertFloat16(**option).call(model).modified
    halves = [n.op_type for n in model.graph if n.outputs[0].dtype is ir.DataType.FLOAT16]
    assert set(halves) == {"Conv", "Cast"}
    run(model, {"image": images})


def test_a_region_by_its_ends(typed):
    model = typed(CHAIN)
    ConvertFloat16(after=["a"], before=["y"]).call(model)
    found = {n.op_type for n in model.graph if n.outputs[0].dtype is ir.DataType.FLOAT16}
    assert found == {"Abs", "Tanh", "Cast"}


def test_an_end_that_is_no_value_is_told(typed):
    with pytest.raises(PassError, match="'after' names 'aa', which is not a value"):
        ConvertFloat16(after=["aa"]).call(typed(CHAIN))


def test_skip_keeps_nodes_in_float32(digits):
    model = digits()
    ConvertFloat16(skip_operators=["Conv"]).call(model)
    convs = [n for n in model.graph if n.op_type == "Conv"]
    assert all(n.outputs[0].dtype is ir.DataType.FLOAT for n in convs)


def test_a_name_that_matches_nothing_is_refused(digits):
    with pytest.raises(PassError, match="matches nothing"):
        ConvertFloat16(nodes=["/conv9/*"]).call(digits())


def test_readers_in_float32_share_one_cast(typed, run):
    model = typed(CHAIN)
    ConvertFloat16(operators=["Exp"]).call(model)
    assert operators(model).count("Cast") == 2
    run(model, {"x": np.ones((2, 3), np.float32)})


def test_a_movement_between_is_converted_too(typed, run):
    model = typed(CHAIN)
    ConvertFloat16(operators=["Exp", "Neg"]).call(model)
    assert kinds(model)["t"] == "FLOAT16"
    assert operators(model).count("Cast") == 3
    run(model, {"x": np.ones((2, 3), np.float32)})


def test_weights_that_overflow_keep_their_node(typed):
    model = typed("(float[2] x) => (float[2] y) <float[1] w = {1e6}> { y = Mul(x, w) }")
    pass_ = ConvertFloat16()
    assert not pass_.call(model).modified
    assert any("overflow in float16" in note for note in pass_.context.notes)


def test_values_that_overflow_on_the_data_keep_their_nodes(typed, tmp_path, run):
    np.savez(tmp_path / "x.npz", x=np.full((2, 3), 12, np.float32))
    model = typed(CHAIN.replace("a = Exp(x)", "c = Neg(x) d = Neg(c) a = Exp(d)"))
    pass_ = ConvertFloat16(data=[str(tmp_path / "x.npz")])
    assert pass_.call(model).modified
    # exp(12) is 162755
    assert [n for n in "acdt" if kinds(model)[n] == "FLOAT"] == ["a", "t"]
    assert any("overflow" in note for note in pass_.context.notes)
    (_, z) = run(model, {"x": np.full((2, 3), 12, np.float32)})
    assert np.isfinite(z).all()


def test_data_of_another_model_is_refused(typed, tmp_path):
    np.savez(tmp_path / "x.npz", other=np.ones(3, np.float32))
    with pytest.raises(PassError, match="does not run the model on the data"):
        ConvertFloat16(data=[str(tmp_path / "x.npz")]).call(typed(CHAIN))


def test_data_that_is_no_file_is_refused(typed):
    with pytest.raises(PassError, match="cannot be read"):
        ConvertFloat16(data=["absent.npz"]).call(typed(CHAIN))


def test_inputs_and_outputs_are_converted_if_asked(digits, images, run):
    model = digits()
    ConvertFloat16(io="convert").call(model)
    ends = [*model.graph.inputs, *model.graph.outputs]
    assert {v.dtype for v in ends} == {ir.DataType.FLOAT16}
    assert [v.name for v in ends] == [
        v.name for v in (*digits().graph.inputs, *digits().graph.outputs)
    ]
    (new,) = run(model, {"image": images.astype(np.float16)})
    assert new.dtype == np.float16


def test_bodies_stay_as_they_are_and_read_float32(typed, run):
    model = typed("""(bool c, float[3] x) => (float[3] y) { a = Exp(x) y = If(c) <
        then_branch = t () => (float[3] p) { p = Exp(a) },
        else_branch = e () => (float[3] q) { q = Neg(a) }> }""")
    assert ConvertFloat16().call(model).modified
    (y,) = run(model, {"c": np.array(True), "x": np.zeros(3, np.float32)})
    np.testing.assert_allclose(y, np.full(3, np.e), rtol=1e-3)


def test_an_output_that_is_read_inside_keeps_its_name_and_type(typed, run):
    model = typed("(float[2] x) => (float[2] a, float[2] y) { a = Exp(x) y = Neg(a) }")
    ConvertFloat16().call(model)
    assert [(v.name, v.dtype.name) for v in model.graph.outputs] == [
        ("a", "FLOAT"),
        ("y", "FLOAT"),
    ]
    run(model, {"x": np.ones(2, np.float32)})


def test_scales_of_a_resize_stay_in_float32(typed, run):
    model = typed("""(float[1,1,2,2] x) => (float[1,1,4,4] y) <float[4] s = {1, 1, 2, 2}>
        { y = Resize <mode = "nearest"> (x, , s) }""")
    ConvertFloat16(missing="convert").call(model)
    onnx_types = {v.name: v.dtype.name for v in model.graph.initializers.values()}
    assert onnx_types == {"s": "FLOAT"}


def test_names_of_sizes_of_outputs_are_not_those_of_inner_values(typed):
    """They may be false, and ONNX Runtime reuses buffers of inner values by them."""
    model = typed("(float[N,4] x) => (float[M,4] y, float[2,4] z) { y = Exp(x) z = Neg(y) }")
    (exp, *_) = (node for node in model.graph if node.op_type == "Exp")
    assert ConvertFloat16().call(model).modified
    assert exp.outputs[0].shape is None
    assert [str(v.shape) for v in model.graph.outputs] == ["[M,4]", "[2,4]"]


@each_of("reduction, kind", ("none", "FLOAT16"), ("add", "FLOAT"), ("max", "FLOAT"))
def test_scatters_that_reduce_stay_in_float32_as_their_kernels_refuse(
    typed, run, reduction, kind
):
    model = typed(f"""(float[3] x, int64[2,1] i, float[2] u) => (float[3] y) {{
        s = ScatterND<reduction = "{reduction}">(x, i, u) y = Neg(s) }}""")
    assert ConvertFloat16().call(model).modified
    assert kinds(model)["s"] == kind
    x, i, u = np.ones(3, np.float32), np.int64([[0], [2]]), np.ones(2, np.float32)
    run(model, {"x": x, "i": i, "u": u})


@each_of(
    "nodes, size",
    ("h = ReduceMax(r) s = Concat<axis = 0>(one, one, h, h) y = Resize(x, , s)", 300),
    ("e = Sqrt(r) f = Mul(e, k) i = Cast<to = 7>(f) y = Gather<axis = 2>(x, i)", 103),
)
def test_floats_that_sizes_and_places_are_computed_by_stay_in_float32(typed, run, nodes, size):
    model = typed(f"""(float[1,1,H,W] x) => (float[N,C,h,w] z)
        <float[1] t = {{224}}, float[1] one = {{1}}, float[1] k = {{40}}> {{
        n = Shape<start = 2, end = 3>(x) m = Cast<to = 1>(n) r = Div(t, m)
        {nodes} z = Relu(y) }}""")
    feeds = {"x": np.arange(size * size, dtype=np.float32).reshape(1, 1, size, size) / 99}
    (before,) = run(model, feeds)
    assert ConvertFloat16(missing="convert").call(model).modified
    (after,) = run(model, feeds)
    assert after.shape == before.shape
    np.testing.assert_allclose(after, before, rtol=2e-3)


@each_of("variance, kind", ("1", "FLOAT16"), ("1e6", "FLOAT"))
def test_scales_follow_the_data_where_they_fit(typed, run, variance, kind):
    """CUDA has no kernel of BatchNormalization for data in float16 and scales in float32."""
    model = typed(f"""(float[1,1,2,2] x) => (float[1,1,2,2] y)
        <float[1] s = {{2}}, float[1] b = {{1}},
        float[1] m = {{1}}, float[1] v = {{{variance}}}>
        {{ y = BatchNormalization(x, s, b, m, v) }}""")
    ConvertFloat16().call(model)
    (node,) = (n for n in model.graph if n.op_type == "BatchNormalization")
    assert [v.dtype.name for v in node.inputs] == ["FLOAT16"] * 3 + [kind] * 2
    run(model, {"x": np.ones((1, 1, 2, 2), np.float32)})


@each_of("perm, kind", ("1, 0, 2", "FLOAT"), ("1, 2, 0", "FLOAT"), ("0, 2, 1", "FLOAT16"))
def test_a_product_that_crashes_behind_a_transpose_stays_in_float32(typed, run, perm, kind):
    """Fused in float16, it ended the process: a recurrent layer before a dense one."""
    model = typed(f"""(float[2,2,2] x) => (float[2,2,1] y) <float[2,1] w = {{1, 2}}>
        {{ a = Exp(x) t = Transpose<perm = [{perm}]>(a) y = MatMul(t, w) }}""")
    ConvertFloat16().call(model)
    nodes = [n for n in model.graph if n.op_type in ("MatMul", "Transpose")]
    assert [n.outputs[0].dtype.name for n in nodes] == [kind, kind]
    run(model, {"x": np.ones((2, 2, 2), np.float32)}, optimization="all")


ANGLES = """(KIND[4] p, float[4] x) => (float[4] y) <float[1] c = {0.5}>
{ f = Cast<to = 1>(p) u = Neg(f) a = Mul(u, c) s = Cos(a) y = Mul(s, x) }"""


@each_of("kind, wide", ("int64", "uas"), ("uint8", ""))
def test_what_is_computed_of_large_integers_alone_stays_in_float32(typed, run, kind, wide):
    model = typed(ANGLES.replace("KIND", kind))
    pass_ = ConvertFloat16()
    assert pass_.call(model).modified
    assert [name for name in "uas" if kinds(model)[name] == "FLOAT"] == list(wide)
    told = any("integers float16 would round: " in note for note in pass_.context.notes)
    assert told is bool(wide)
    p, x = np.array([1, 30, 100, 255]), np.ones(4, np.float32)
    p = p * 40 + 1 if wide else p
    (y,) = run(model, {"p": p.astype(kind), "x": x})
    np.testing.assert_allclose(y, np.cos(p / 2), atol=2e-3 if wide else 0.1)


def test_integers_that_are_small_on_the_data_are_converted(typed):
    model, pass_ = typed(ANGLES.replace("KIND", "int64")), ConvertFloat16()
    pass_.context.samples = [{"p": np.arange(4), "x": np.ones(4, np.float32)}]
    assert pass_.call(model).modified
    assert {kinds(model)[name] for name in "uas"} == {"FLOAT16"}


@each_of("number, kept", (2049, True), (2050, False), (2049.5, False))
def test_integers_that_have_no_half_keep_their_node(typed, number, kept):
    text = f"(float[2] x) => (float[2] y) <float[1] w = {{{number}}}> {{ y = Sub(x, w) }}"
    assert ConvertFloat16().call(typed(text)).modified is not kept


def test_made_up_inputs_show_what_overflows(typed):
    text = "(float[2,9] x) => (float[2,9] y) { s = Exp(x) t = Exp(s) y = Neg(t) }"
    model, pass_ = typed(text), ConvertFloat16()
    pass_.context.made_up = [{"x": np.full((2, 9), 2.4, np.float32)}]  # exp(exp(2.4)) is 61400
    assert pass_.call(model).modified
    assert {name: kinds(model)[name] for name in "st"} == {"s": "FLOAT16", "t": "FLOAT"}
    assert any("made-up inputs, 8 times as large" in note for note in pass_.context.notes)


def test_made_up_inputs_on_which_the_model_does_not_run_show_nothing(typed):
    model, pass_ = typed(CHAIN), ConvertFloat16()
    pass_.context.made_up = [{"other": np.ones(3, np.float32)}]
    assert pass_.call(model).modified
    assert any("constants alone" in note for note in pass_.context.notes)


@each_row("""nodes | kept
- e = Add(v, eps) s = Sqrt(e) y = Div(d, s) | ={'Add', 'Sqrt'}
- e = Add(v, eps) s = Sqrt(e) r = Reciprocal(s) y = Mul(d, r) | ={'Add', 'Sqrt', 'Reciprocal',
  'Mul'}
- e = Add(v, eps) r = Pow(e, h) y = Mul(d, r) | ={'Add', 'Pow', 'Mul'}
- e = Max(v, eps) t = Unsqueeze(e, one) l = Squeeze(t, one) y = Div(d, l) | ={'Max',
  'Unsqueeze', 'Squeeze', 'Div'}
- e = Clip(v, eps) l = Log(e) y = Mul(d, l) | ={'Clip', 'Log'}
- e = Add(v, eps) s = Neg(e) y = Div(d, s) | ={'Add', 'Neg', 'Div'}
""")
def test_what_reads_a_vanishing_epsilon_stays_in_float32(typed, run, nodes, kept):
    model = typed(
        f"""(float[2,4] x) => (float[2,4] y, float[2,1] e)
        <float eps = {{1e-12}}, float h = {{-0.5}}, int64[1] one = {{1}}> {{
        m = ReduceMean(x, one) d = Sub(x, m) q = Mul(d, d) v = ReduceMean(q, one) {nodes} }}"""
    )
    feed = {"x": np.array([[0.25] * 4, [1, 2, 3, 4]], np.float32)}
    wide, _ = run(model, feed)
    ConvertFloat16().call(model)
    half, _ = run(model, feed)
    np.testing.assert_array_equal(np.isnan(half), np.isnan(wide))
    wide = [n for n in model.graph if n.outputs[0].dtype is ir.DataType.FLOAT]
    assert {n.op_type for n in wide} - {"Cast"} == kept
