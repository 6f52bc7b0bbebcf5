import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest

from onnx_passes.tuning.audit import audit
from onnx_passes.tuning.groups import BUILTIN, by_format, convert, partition

FORMATS = ["float16", "int8-static", "int8-dynamic", "int8-weights", "int4-weights"]
SQUARE = "/fc1/Gemm"


def built(original, known, name, node=None):
    """Return a model in a format, as it is read back, the groups and what was chosen."""
    groups = partition(original, list(BUILTIN), {}, 24)
    kinds = {
        "int8-dynamic": ("Gemm", "MatMul"),
        "int8-dynamic-smooth": ("Gemm", "MatMul"),
        **{name: ("Gemm", "MatMul") for name in BUILTIN if "nbits" in name},
    }
    names = {
        group.name: name
        if (node is None or group.name == node)
        and (name not in kinds or group.name.endswith(kinds[name]))
        else "float32"
        for group in groups
    }
    nodes = {group.name: group.nodes for group in groups}
    model = convert(original, by_format(nodes, names), BUILTIN, known)
    return ir.from_proto(ir.to_proto(model)), groups, names


def found(model, original, groups, names, ranges):
    return audit(model, original, groups, names, BUILTIN, ranges)


@pytest.mark.parametrize("name", list(BUILTIN))
def test_a_model_that_holds_what_was_chosen_has_no_findings(original, known, ranges, name):
    model, groups, names = built(original, known, name)
    assert found(model, original, groups, names, ranges) == []


def constants(model, part):
    return [v for n, v in model.graph.initializers.items() if part in n]


def put(value, array):
    value.const_value = ir.tensor(np.ascontiguousarray(array), dtype=value.dtype)


def scale_by(factor):
    def edit(value):
        array = value.const_value.numpy()
        put(value, (array * np.float32(factor)).astype(array.dtype))

    return edit


def shift_by(step):
    def edit(value):
        array = value.const_value.numpy()
        put(value, (array.astype(np.int32) + step).astype(array.dtype))

    return edit


def reverse(value):
    put(value, value.const_value.numpy()[::-1])


def wrap(value):
    """Lose saturation: the largest integers become the smallest."""
    array = value.const_value.numpy().astype(np.int32).copy()
    flat = array.reshape(-1)
    flat[np.abs(flat).argmax()] *= -1
    put(value, array.astype(value.const_value.numpy().dtype))


def one_up(value):
    array = value.const_value.numpy().astype(np.int32).copy()
    array.reshape(-1)[0] += 2 if array.reshape(-1)[0] < 5 else -2
    put(value, array.astype(value.const_value.numpy().dtype))


def roll(value):
    put(value, np.roll(value.const_value.numpy(), 1))


LEARNED = ("int4-gptq",)
WEIGHTS = {
    "int8-weights": "fc1.weight_int8",
    "int4-weights": "fc1.weight_int4",
    "int8-static": "fc1.weight_int8",
    "int8-dynamic": "fc1.weight_int8",
}
EDITS = [
    *[(f, "fc1.weight_scale", e, w) for f in WEIGHTS for e, w in (
        (scale_by(2.0), "scales doubled"),
        (scale_by(0.5), "scales halved"),
        (roll, "scales of another channel"),
    )],
    *[(f, p, wrap, "saturation lost") for f, p in WEIGHTS.items()],
    *[(f, p, one_up, "one integer off by two") for f, p in WEIGHTS.items()],
    *[(f, p, roll, "integers moved by one") for f, p in WEIGHTS.items()],
    *[
        (f, "fc1.weight_zero_point", shift_by(1), "zero point off by one")
        for f in ("int8-weights", "int4-weights", "int8-static")
    ],
    ("float16", "fc1.weight_float16", scale_by(1.1), "a weight off by a tenth"),
    ("float16", "fc1.weight_float16", reverse, "rows of a weight reversed"),
    ("int8-static", "relu1/Relu_output_0_scale", scale_by(1.5), "activation scale too large"),
    ("int8-static", "relu1/Relu_output_0_scale", scale_by(0.5), "activation scale too small"),
    *[(f, "fc1.weight_scale", e, w) for f in LEARNED for e, w in (
        (scale_by(2.0), "scales doubled"),
        (scale_by(0.5), "scales halved"),
        (roll, "scales of another channel"),
    )],
    *[(f, "fc1.weight_int4", roll, "integers moved by one") for f in LEARNED],
    *[(f, "fc1.weight_zero_point", shift_by(1), "zero point off by one") for f in LEARNED],
    ("int8-dynamic-smooth", "fc1.weight_scaled_scale", scale_by(2.0), "scales doubled"),
    ("int8-dynamic-smooth", "smoothing", scale_by(2.0), "values scaled too much"),
    ("int8-dynamic-smooth", "smoothing", roll, "values scaled by another channel"),
    ("int8-static-corrected", "fc1.weight_scale", scale_by(0.5), "scales halved"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "part", "edit", "what"), EDITS, ids=[f"{e[0]}: {e[3]}" for e in EDITS]
)
def test_a_planted_fault_is_caught_and_named(original, known, ranges, name, part, edit, what):
    model, groups, names = built(original, known, name)
    values = constants(model, part)
    assert values, f"{part}: {list(model.graph.initializers)}"
    edit(values[0])
    problems = found(model, original, groups, names, ranges)
    assert problems, what
    if "fc1" in part:
        assert {finding.node for finding in problems} == {SQUARE}


@pytest.mark.parametrize("claimed", FORMATS)
def test_a_node_that_stayed_in_float32_is_named(original, known, ranges, claimed):
    model, groups, names = built(original, known, "float32")
    names = dict.fromkeys(names, "float32") | {SQUARE: claimed}
    findings = found(model, original, groups, names, ranges)
    assert {finding.node for finding in findings} == {SQUARE}
    assert all(claimed in finding.problem for finding in findings)


@pytest.mark.parametrize("name", ["float16", "int8-static", "int8-weights", "int8-dynamic"])
def test_a_node_that_should_have_stayed_is_named(original, known, ranges, name):
    model, groups, names = built(original, known, name, SQUARE)
    (finding,) = found(model, original, groups, names | {SQUARE: "float32"}, ranges)
    assert finding.node == SQUARE


def test_four_bits_are_not_eight(original, known, ranges):
    model, groups, names = built(original, known, "int4-weights", SQUARE)
    findings = found(model, original, groups, names | {SQUARE: "int8-weights"}, ranges)
    assert any("4 bits" in finding.problem for finding in findings)


@pytest.mark.parametrize(("index", "kind"), [(1, "scale"), (2, "zero point")])
def test_two_quantisers_that_differ_are_named(original, known, ranges, index, kind):
    model, groups, names = built(original, known, "int8-static")
    node = next(n for n in model.graph if n.op_type == "QuantizeLinear")
    (second,) = node.outputs[0].consumers()
    old = second.inputs[index]
    array = old.const_value.numpy()
    changed = array * 2 if index == 1 else (array.astype(int) + 1).astype(array.dtype)
    new = ir.Value(name="other", type=old.type, const_value=ir.tensor(changed))
    new.const_value.name = "other"
    model.graph.register_initializer(new)
    second.replace_input_with(index, new)
    findings = found(model, original, groups, names, ranges)
    assert any(f"differ in their {kind}" in finding.problem for finding in findings)


def test_axes_of_scales_that_are_swapped_are_named(original, known, ranges):
    model, groups, names = built(original, known, "int8-weights", "/conv2/Conv")
    node = next(
        n for n in model.graph
        if n.op_type == "DequantizeLinear" and "conv2" in n.inputs[0].name
    )  # fmt: skip
    shape = node.inputs[0].const_value.numpy().shape
    node.attributes["axis"] = ir.AttrInt64("axis", 1)
    scale = node.inputs[1]
    put(scale, np.resize(scale.const_value.numpy(), shape[1]))
    zero = node.inputs[2]
    put(zero, np.resize(zero.const_value.numpy(), shape[1]))
    (finding,) = found(model, original, groups, names, ranges)
    assert finding.node == "/conv2/Conv"


def test_values_that_are_not_rounded_are_named(original, known, ranges):
    model, groups, names = built(original, known, "int8-static")
    node = next(n for n in model.graph if n.name == SQUARE)
    source = node.inputs[0].producer().inputs[0].producer().inputs[0]
    node.replace_input_with(0, source)
    findings = found(model, original, groups, names, ranges)
    assert any("reads values that are not rounded" in f.problem for f in findings)


def test_a_result_that_is_gone_is_named(original, known, ranges):
    model, groups, names = built(original, known, "float32")
    next(n for n in model.graph if n.name == SQUARE).outputs[0].name = "elsewhere"
    (finding,) = found(model, original, groups, names, ranges)
    assert "not in the model any more" in finding.problem


@pytest.mark.parametrize("name", ["int4-nbits", "int8-nbits"])
@pytest.mark.parametrize("part", ["_scale", "_uint"])
def test_packed_weights_are_read_as_well(original, known, ranges, name, part):
    model, groups, names = built(original, known, name, "/fc2/MatMul")
    (value,) = constants(model, part)
    array = value.const_value.numpy()
    put(value, array * 2 if part == "_scale" else array ^ 3)
    (finding,) = found(model, original, groups, names, ranges)
    assert finding.node == "/fc2/MatMul"


def test_bfloat16_is_told_from_float32(original, known, ranges):
    model, groups, names = built(original, known, "bfloat16", SQUARE)
    (value,) = constants(model, "fc1.weight")
    assert value.const_value.numpy().dtype in (np.float32, ml_dtypes.bfloat16)
    assert found(model, original, groups, names, ranges) == []


@pytest.mark.parametrize("name", ["int4-nbits", "int4-nbits-dynamic"])
def test_a_product_that_computes_otherwise_than_chosen_is_named(original, known, ranges, name):
    model, groups, names = built(original, known, name, "/fc2/MatMul")
    (layer,) = (node for node in model.graph if node.op_type == "MatMulNBits")
    level = 0 if name.endswith("dynamic") else 4
    layer.attributes["accuracy_level"] = ir.AttrInt64("accuracy_level", level)
    (finding,) = found(model, original, groups, names, ranges)
    kind = "floats" if level == 0 else "integers"
    assert finding.problem == f"it is to be {name}, and computes in {kind}"
