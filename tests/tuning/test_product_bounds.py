"""Sound bounds: never exceeded by inputs in the range, and not much larger than need be."""

import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.tuning.groups import prepare
from onnx_passes.tuning.part_formats import BUILTIN, Observed, convert
from onnx_passes.tuning.product_bounds import product_bound

FORMATS = [
    *("int8-static", "int8-dynamic", "int8-weights", "int4-weights", "int8-nbits"),
    *("float16", "bfloat16", "int16", "int8-nbits-dynamic", "int4-nbits-dynamic"),
]
WIDE = {"outputs": False, "weights": "int16", "activations": "int16"}


def product(kind, rng):
    """Return a model of one product of [64, 40] by a weight of [40, 24], or a Conv."""
    weight = rng.standard_normal((40, 24)).astype(np.float32)
    if kind == "Conv":
        weight = rng.standard_normal((6, 4, 3, 3)).astype(np.float32)
    shape = (2, 4, 8, 8) if kind == "Conv" else (64, 40)
    x = ir.Value(name="x", type=ir.TensorType(ir.DataType.FLOAT), shape=ir.Shape(shape))
    bias = weight.reshape(-1)[: 6 if kind == "Conv" else 24]
    w, b = (
        ir.Value(
            name=name,
            type=ir.TensorType(ir.DataType.FLOAT),
            shape=ir.Shape(array.shape),
            const_value=ir.tensor(array, name=name),
        )
        for name, array in (("w", weight), ("b", bias))
    )
    attributes = {"kernel_shape": [3, 3]} if kind == "Conv" else {}
    inputs = [x, w] if kind == "MatMul" else [x, w, b]
    node = ir.node(kind, inputs, attributes, name="product")
    node.outputs[0].name = "y"
    node.outputs[0].type = ir.TensorType(ir.DataType.FLOAT)
    constants = [w] if kind == "MatMul" else [w, b]
    graph = ir.Graph(
        [x], [node.outputs[0]], nodes=[node], initializers=constants, opset_imports={"": 21}
    )
    return prepare(ir.Model(graph, ir_version=10)), shape


@pytest.mark.parametrize("kind", ["MatMul", "Gemm", "Conv"])
@pytest.mark.parametrize("name", FORMATS)
def test_no_input_in_the_range_exceeds_the_bound(kind, name):
    rng = np.random.default_rng(0)
    model, shape = product(kind, rng)
    # Results are not rounded to a grid here: the bound is that of the product.
    formats = BUILTIN | {}
    if name == "int8-static":
        formats[name] = type(BUILTIN[name])(name, "quantize-static", {"outputs": False}, 8, 8)
    formats["int16"] = type(BUILTIN["float16"])("int16", "quantize-static", WIDE, 16, 16)
    low, high = -1.5, 2.5
    ranges = {"x": (low, high), "y": (-100.0, 100.0)}
    after = convert(model, {name: ["product"]}, formats, Observed(ranges))
    (node,) = model.graph
    bound = product_bound(after, node, ranges)
    changed = [n.op_type for n in after.graph] != [kind]
    possible = kind == "MatMul" or "nbits" not in name
    # Conv has no bfloat16 before opset 22.
    without = [("Conv", "int8-dynamic"), ("Conv", "bfloat16")]
    assert changed == (possible and (kind, name) not in without)
    if not changed:
        assert bound is None
        return
    assert np.isfinite(bound)
    engine, worst = OnnxRuntimeEngine(), 0.0
    with engine.prepare(model) as old, engine.prepare(after) as new:
        for number in range(60):
            x = rng.uniform(low, high, shape).astype(np.float32)
            if number % 3 == 1:  # the ends, where errors are largest
                x = rng.choice([low, high], shape).astype(np.float32)
            elif number % 3 == 2:
                x = (rng.integers(0, 256, shape) * (4 / 255) + low + 4 / 510).astype(
                    np.float32
                )
                x = np.clip(x, low, high)
            found = [session.run({"x": x})["y"] for session in (old, new)]
            worst = max(worst, float(np.abs(found[0] - found[1]).max()))
    assert worst <= bound
    assert bound <= 100 * worst, f"{bound} for a measured {worst}"


def test_a_product_that_may_overflow_in_float16_has_no_bound():
    model, _ = product("MatMul", np.random.default_rng(0))
    (node,) = model.graph
    for size, known in ((1.0, True), (1e4, False)):
        ranges = {"x": (-size, size), "y": (-9.0, 9.0)}
        after = convert(model, {"float16": ["product"]}, BUILTIN, Observed(ranges))
        assert (product_bound(after, node, ranges) is not None) == known


SMOOTHED = {
    "static": ("quantize-static", {"outputs": False}, 8, 8),
    "dynamic": ("quantize-dynamic", {"least": 1}, 8, 8),
    "not powers of two": ("quantize-static", {"outputs": False}, 8, 8),
    "corrected": ("quantize-static", {"outputs": False}, 8, 8),
}


@pytest.mark.parametrize("kind", ["MatMul", "Gemm", "Conv"])
@pytest.mark.parametrize("name", SMOOTHED)
def test_no_input_exceeds_the_bound_of_a_smoothed_layer(kind, name):
    rng = np.random.default_rng(0)
    model, shape = product(kind, rng)
    axis = 1 if kind == "Conv" else -1
    count = shape[axis]
    reach = 4.0 ** rng.integers(-2, 3, count)  # some channels have outliers
    ends = (-reach).astype(np.float32), (reach * 0.7).astype(np.float32)
    full = [1] * len(shape)
    full[axis] = -1
    low, high = (end.reshape(full) for end in ends)

    def draw(number):
        if number % 2:  # the ends, where errors are largest
            return np.where(rng.random(shape) < 0.5, low, high).astype(np.float32)
        return rng.uniform(low, high, shape).astype(np.float32)

    both = np.concatenate([np.broadcast_to(end, shape) for end in (low, high)])
    sample = {"x": both.astype(np.float32)}
    options = {"powers": name != "not powers of two"}
    behind = (("correct-biases", {}),) if name == "corrected" else ()
    item = type(BUILTIN["float16"])(
        "smooth", *SMOOTHED[name], (("smooth-activations", options),), behind
    )
    ranges = {"x": (float(low.min()), float(high.max())), "y": (-1e3, 1e3)}
    known = Observed(ranges, [sample])
    after = convert(model, {"smooth": ["product"]}, {"smooth": item}, known)
    (node,) = model.graph
    if kind == "Conv" and name == "dynamic":
        return  # smoothed, and not rounded
    assert product_bound(after, node, ranges) is None, "channels are not known"
    bound = product_bound(after, node, ranges, lambda name: ends)
    engine, worst = OnnxRuntimeEngine(), 0.0
    with engine.prepare(model) as old, engine.prepare(after) as new:
        for number in range(60):
            x = draw(number)
            found = [session.run({"x": x})["y"] for session in (old, new)]
            worst = max(worst, float(np.abs(found[0] - found[1]).max()))
    assert worst <= bound
    assert bound <= 100 * worst, f"{bound} for a measured {worst}"


def test_values_beyond_the_grid_count():
    model, _ = product("MatMul", np.random.default_rng(0))
    narrow, wide = {"x": (-1.0, 1.0), "y": (-9.0, 9.0)}, {"x": (-3.0, 3.0)}
    after = convert(model, {"int8-static": ["product"]}, BUILTIN, Observed(narrow))
    (node,) = model.graph
    assert product_bound(after, node, wide) > 50 * product_bound(after, node, narrow)
