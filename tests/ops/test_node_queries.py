import numpy as np
import onnx_ir as ir

from onnx_passes.ops import families  # noqa: F401 - which registers the operators
from onnx_passes.ops.node_queries import (
    around,
    beyond,
    breakpoints_of,
    expects_nan,
    may_draw,
    ties_of,
)
from onnx_passes.passes.analysis.value_ranges import ranges_of
from tests.tables import each_of


def test_a_row_of_more_elements_than_fit_has_the_range_of_its_type():
    text = """<ir_version: 10, opset_import: ["" : 20]> g (float[1099511627776] x)
        => (float[1] y) { r = Relu(x) y = ReduceSum(r) }"""
    found = ranges_of(ir.from_onnx_text(text), {"x": (0.0, 1.0)}, {}).intervals
    assert found["y"][1] > 1e38


HEAD = '<ir_version: 10, opset_import: ["" : 20]> g (float[4] x) => (float[4] y) '


@each_of(
    "text, found",
    ("{ y = Relu(x) }", [0.0]),
    ("<float k = {2}, float h = {6}> { y = Clip(x, k, h) }", [2.0, 6.0]),
    ("<float k = {3}> { y = Max(x, k) }", [3.0]),
    ("{ y = Sin(x) }", []),
)
def test_what_an_operand_is_compared_with_is_a_breakpoint(text, found):
    assert breakpoints_of(ir.from_onnx_text(HEAD + text).graph).get("x", []) == found


@each_of("dtype", np.float16, np.float32, np.float64)
def test_values_lie_on_both_sides_and_are_finite(dtype):
    like = np.zeros((2, 8), dtype)
    (drawn,) = around([2.0, float(np.finfo(np.float32).max)], like)
    assert (drawn.shape, drawn.dtype) == (like.shape, like.dtype)
    assert np.isfinite(drawn).all()
    assert {True, False} == set((drawn[drawn != 2] > 2).ravel().tolist())
    assert 2 in drawn


@each_of("dtype", np.float16, np.float32)
def test_all_values_lie_on_one_side(dtype):
    over, under = beyond([-3.0, 6.0], np.zeros((2, 3), dtype))
    assert (over.dtype, over.shape) == (dtype, (2, 3))
    assert (over > 6).all()
    assert (under < -3).all()
    assert len(np.unique(over)) == 6


@each_of("kind", np.int8, np.uint8, np.int64, np.uint64)
def test_integers_lie_beside_a_breakpoint_and_within_their_type(kind):
    (row,) = around([7.0, 1e30, -1e30], np.zeros(8, kind))
    assert row.dtype == kind
    assert {6, 7, 8} <= set(row.tolist())
    assert around([0.0], np.zeros(4, np.uint8))[0].size == 4


@each_of(
    "domain, found",
    ("qonnx.custom_op.general", [0.5, 2.0]),
    ("onnx_passes.ops", [0.5, 2.0]),
    ("my", None),
)
def test_constant_thresholds_are_breakpoints(domain, found):
    """Thresholds moved by the last bit, as if a value had to exceed them, were verified."""
    thresholds = ir.tensor(np.float32([[0.5, 2.0, np.inf]]))
    x, held = ir.Value(name="x"), ir.Value(name="t", const_value=thresholds)
    assert breakpoints_of([ir.Node(domain, "MultiThreshold", [x, held])]).get("x") == found


def quantiser(op_type, domain, *constants):
    held = [
        ir.Value(name=f"c{place}", const_value=ir.tensor(array))
        for place, array in enumerate(constants)
    ]
    return ir.Node(domain, op_type, [ir.Value(name="x"), *held])


def test_a_value_is_drawn_where_it_saturates():
    """A quantiser of 16 bits got one bit more, and was verified."""
    bits = (np.float32(0.5), np.float32(0), np.float32(16))
    wide = quantiser("Quant", "qonnx.custom_op.general", *bits)
    assert breakpoints_of([wide])["x"] == [-(2**14), 2**14, 2**15]
    node = quantiser("QuantizeLinear", "", np.float32(0.5), np.int8(0))
    node.outputs[0].type = ir.TensorType(ir.DataType.INT8)
    assert breakpoints_of([node])["x"] == [-64, 64, 128]
    unknown = quantiser("Quant", "qonnx.custom_op.general", np.float32(0.5))
    assert not breakpoints_of([unknown])


@each_of("scale, known", (0.25, True), (0.1, False))
def test_ties_of_powers_of_two_are_floats(scale, known):
    found = ties_of([quantiser("QuantizeLinear", "", np.float32(scale), np.int8(0))])
    assert list(found) == (["x"] if known else [])
    assert all(np.array_equal(ties, ties.astype(np.float32)) for ties in found.values())


def test_a_scale_of_text_has_no_breakpoint():
    node = ir.Node("", "QuantizeLinear", [ir.Value(name="x"), ir.Value(name="s")])
    node.inputs[1].const_value = ir.tensor(["a"])
    assert not breakpoints_of([node])
    assert not ties_of([node])


@each_of(
    "domain, op_type, draws",
    ("", "Bernoulli", True),
    ("", "RandomUniformLike", True),
    ("", "Dropout", True),
    ("", "Relu", False),
    ("com.microsoft", "BitmaskDropout", True),
    ("com.microsoft", "Gelu", False),
    ("my", "Bernoulli", False),
)
def test_what_draws_is_known_by_domain_and_name(domain, op_type, draws):
    assert may_draw(ir.Node(domain, op_type, [])) is draws


@each_of("tracks, found", ((0, 1), True), ((0, 0), False), ((), False))
def test_which_trees_have_a_place_for_missing_numbers(tracks, found):
    given = {"nodes_missing_value_tracks_true": list(tracks)} if tracks else {}
    x = ir.Value(name="x")
    node = ir.node("TreeEnsembleRegressor", [x], given, domain="ai.onnx.ml")
    assert expects_nan(node) is found
