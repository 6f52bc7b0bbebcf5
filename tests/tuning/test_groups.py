import math
from pathlib import Path

import onnx_ir as ir
import pytest

from onnx_passes.errors import PassError
from onnx_passes.tuning.choice import find_culprits
from onnx_passes.tuning.groups import BUILTIN, audit, by_format, convert, partition, prepare
from tests.tables import each_of

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


def found(model, original, groups, names):
    return audit(model, original, groups, names, BUILTIN)


@each_of("name", *list(BUILTIN))
def test_a_model_that_holds_what_was_chosen_has_no_findings(original, known, name):
    model, groups, names = built(original, known, name)
    assert found(model, original, groups, names) == []


@each_of("claimed", *FORMATS)
def test_a_node_that_stayed_in_float32_is_named(original, known, claimed):
    model, groups, names = built(original, known, "float32")
    names = dict.fromkeys(names, "float32") | {SQUARE: claimed}
    findings = found(model, original, groups, names)
    assert {finding.node for finding in findings} == {SQUARE}
    assert all(claimed in finding.problem for finding in findings)


@each_of("name", "float16", "int8-static", "int8-weights", "int8-dynamic")
def test_a_node_that_should_have_stayed_is_named(original, known, name):
    model, groups, names = built(original, known, name, SQUARE)
    (finding,) = found(model, original, groups, names | {SQUARE: "float32"})
    assert finding.node == SQUARE


def test_four_bits_are_not_eight(original, known):
    model, groups, names = built(original, known, "int4-weights", SQUARE)
    findings = found(model, original, groups, names | {SQUARE: "int8-weights"})
    assert any("weight is int4" in finding.problem for finding in findings)


def test_values_that_are_not_rounded_are_named(original, known):
    model, groups, names = built(original, known, "int8-static")
    node = next(n for n in model.graph if n.name == SQUARE)
    source = node.inputs[0].producer().inputs[0].producer().inputs[0]
    node.replace_input_with(0, source)
    findings = found(model, original, groups, names)
    assert any("reads values that are not rounded" in f.problem for f in findings)


def test_a_result_that_is_gone_is_named(original, known):
    model, groups, names = built(original, known, "float32")
    next(n for n in model.graph if n.name == SQUARE).outputs[0].name = "elsewhere"
    (finding,) = found(model, original, groups, names)
    assert "not in the model any more" in finding.problem


@each_of("name", "int4-nbits", "int4-nbits-dynamic")
def test_a_product_that_computes_otherwise_than_chosen_is_named(original, known, name):
    model, groups, names = built(original, known, name, "/fc2/MatMul")
    (layer,) = (node for node in model.graph if node.op_type == "MatMulNBits")
    level = 0 if name.endswith("dynamic") else 4
    layer.attributes["accuracy_level"] = ir.AttrInt64("accuracy_level", level)
    (finding,) = found(model, original, groups, names)
    kind = "floats" if level == 0 else "integers"
    assert finding.problem == f"it is to be {name}, and computes in {kind}"


DIGITS = Path(__file__).parents[2] / "examples" / "digits"


def test_nothing_is_to_blame_where_all_is_well(task):
    found = find_culprits(task(limits={"snr": (20.0, math.inf)}), BUILTIN["float16"])
    assert (found.nodes, found.runs) == ((), 1)
    assert any(v.dtype is ir.DataType.FLOAT16 for n in found.model.graph for v in n.outputs)


def test_none_of_the_nodes_can_be_left_out(task):
    asked = task(limits={"snr": (33.0, math.inf)})
    found = find_culprits(asked, BUILTIN["int4-weights"])
    layers = [name for name in found.nodes if name in {g.name for g in asked.groups}]
    assert layers == list(found.nodes), "only layers have weights"
    assert 0 < len(layers) < 4


def test_a_pass_that_refuses_the_model_is_told(task, original):
    model = prepare(ir.load(DIGITS / "model.onnx"))
    asked = task(model=model, limits={"snr": (33.0, math.inf)})
    with pytest.raises(PassError, match="needs opset 21"):
        find_culprits(asked, BUILTIN["int4-weights"])
