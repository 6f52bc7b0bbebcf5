"""A small model of each version that an operator of onnx has had.

The tests of the onnx package have the latest versions only. Their nodes are taken back to an
older one: inputs that were attributes become attributes. What the version lacks is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper, numpy_helper
from onnx.defs import OpSchema

from onnx_passes.errors import OnnxPassesError
from onnx_passes.runtime.engine_base import Data, Outputs
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.runtime.reference import ReferenceEngine
from tests.corpus.backend_models import BackendModel, ids, load
from tests.tables import outputs_of

Key = tuple[str, str, int]
"""Domain, operator and version."""

RENAMED = {("Pad", "pads"): "paddings"}
"""What attributes of the first versions were called, by the input that they became."""

ADDED: Mapping[str, Mapping[str, Any]] = {
    "BatchNormalization": {"is_test": 1, "consumed_inputs": [0, 0, 0, 1, 1]},
    "Dropout": {"is_test": 1},
    "Upsample": {"height_scale": 2.0, "width_scale": 3.0},
    "GRU": {"linear_before_reset": 0},
}
"""Attributes that versions have which the latest lacks, where a schema has them."""

SPARE = {("steps", 4)}
"""Inputs, and where, that a version may lack if they are ones."""

_MOST_CASES = 40
_INVALID = (onnx.checker.ValidationError, onnx.shape_inference.InferenceError)


class NotMadeError(Exception):
    """A test of onnx cannot be taken back to a version."""


@cache
def schemas() -> Mapping[Key, OpSchema]:
    """Return all versions of the operators of onnx's domains."""
    history = onnx.defs.get_all_schemas_with_history()
    found = {(s.domain, s.name, s.since_version): s for s in history}
    return dict(sorted(found.items()))


@cache
def cases() -> Mapping[tuple[str, str], Sequence[str]]:
    """Return the names of the node tests of each operator."""
    found: dict[tuple[str, str], list[str]] = {}
    for name in ids("node"):
        nodes = load(name).model.graph.node
        if len(nodes) == 1:
            found.setdefault((nodes[0].domain, nodes[0].op_type), []).append(name)
    return found


def make(key: Key) -> BackendModel:
    """Return a model of one version, with inputs, and outputs as an engine has them.

    Raises:
        NotMadeError: It cannot be made.
    """
    schema = schemas()[key]
    if schema.deprecated:
        raise NotMadeError("the version withdraws the operator")
    reason, spare = "onnx has no test of it", None
    for name in cases().get(key[:2], ())[:_MOST_CASES]:
        case = load(name)
        try:
            model = _taken_back(case, schema)
            onnx.checker.check_model(model)
            _check_types(model)
        except (NotMadeError, ValueError, *_INVALID) as error:
            reason = str(error).strip().splitlines()[0]
            continue
        feeds = {v.name: case.samples[0][0][v.name] for v in model.graph.input}
        outputs = run(model, feeds)
        made = _case(key, model, feeds, outputs or {})
        if outputs is not None:
            _declare(model, outputs)
            try:
                onnx.checker.check_model(model, full_check=True)
            except _INVALID as error:
                reason = str(error).strip().splitlines()[0]
                continue
            return made
        spare = spare or made
    if spare is not None:
        return spare
    raise NotMadeError(reason)


def with_constants(case: BackendModel) -> BackendModel:
    """Return a model in which operands behind the first are constants, as they mostly are.

    Two nodes follow one another where the result is of the type and shape of the operand.
    """
    ((feeds, _),) = case.samples
    (node,) = case.model.graph.node
    plain = all(isinstance(value, np.ndarray) for value in feeds.values())
    if not plain or not feeds or any(a.HasField("g") for a in node.attribute):
        return case
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    model.ir_version = max(model.ir_version, 4)
    graph, (node,) = model.graph, model.graph.node
    first, *others = graph.input
    for value in others:
        graph.initializer.append(
            numpy_helper.from_array(np.asarray(feeds[value.name]), value.name)
        )
        graph.input.remove(value)
    given = {first.name: feeds[first.name]}
    if graph.output[0].type == first.type and len(node.output) == 1:
        second = graph.node.add()
        second.CopyFrom(node)
        second.input[0] = node.output[0] = "between"
        second.output[0] = graph.output[0].name
    outputs = run(model, given)
    if outputs is None:
        return case
    _declare(model, outputs)
    return BackendModel(f"{case.id}/constants", model, None, ((given, outputs),), 1e-3, 1e-5)


def _case(key, model, feeds, outputs):
    name = "/".join(map(str, key))
    return BackendModel(name, model, None, ((dict(feeds), dict(outputs)),), 1e-3, 1e-5)


def run(model: onnx.ModelProto, feeds: Mapping[str, Data]) -> Outputs | None:
    """Return what ONNX Runtime computes, or the reference; None if neither runs the model."""
    for engine in (OnnxRuntimeEngine(prepacking=False), ReferenceEngine()):
        try:
            return outputs_of(engine, ir.from_proto(model), dict(feeds))
        except OnnxPassesError:
            continue
    return None


def _check_types(model: onnx.ModelProto) -> None:
    bare = onnx.ModelProto()
    bare.CopyFrom(model)
    for value in bare.graph.output:
        value.ClearField("type")
    onnx.shape_inference.infer_shapes(bare, check_type=True, strict_mode=True)


def _declare(model: onnx.ModelProto, outputs: Outputs) -> None:
    for value in model.graph.output:
        found = outputs[value.name]
        if value.type.HasField("tensor_type") and isinstance(found, np.ndarray):
            value.type.tensor_type.ClearField("shape")
            value.type.tensor_type.shape.dim.extend(
                onnx.TensorShapeProto.Dimension(dim_value=size) for size in found.shape
            )


def _taken_back(case: BackendModel, schema: OpSchema) -> onnx.ModelProto:
    """Return the model of a test with the node of a version."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    (node,) = model.graph.node
    feeds = case.samples[0][0]
    new, inputs = onnx.defs.get_schema(node.op_type, domain=node.domain), {}
    for index, name in enumerate(node.input):
        place, attribute = _place(new, schema, index)
        if place is not None:
            inputs[place] = name
        elif not name:
            continue
        elif attribute is not None and name in feeds:
            node.attribute.append(_attribute(attribute, np.asarray(feeds[name]), schema))
        elif (new.inputs[index].name, index) not in SPARE or not _is_one(feeds.get(name)):
            raise NotMadeError(f"the version has no input {new.inputs[index].name}")
    del node.input[:]
    node.input.extend(inputs.get(place, "") for place in range(max(inputs, default=-1) + 1))
    _fit_attributes(node, schema, feeds)
    del node.output[schema.max_output :]
    for values, names in ((model.graph.input, node.input), (model.graph.output, node.output)):
        kept = [v for v in values if v.name in set(names)]
        if node.op_type not in ("If", "Loop", "Scan"):
            del values[:]
            values.extend(kept)
    main = schema.since_version if not schema.domain else 17
    opsets = {"": main, schema.domain: schema.since_version}
    del model.opset_import[:]
    model.opset_import.extend(helper.make_opsetid(*item) for item in opsets.items())
    model.ir_version = max(3, helper.find_min_ir_version_for(model.opset_import, True))
    del model.graph.value_info[:]
    return model


def _is_one(data: Data | None) -> bool:
    return isinstance(data, np.ndarray) and bool(np.all(data == 1))


def _place(new: OpSchema, old: OpSchema, index: int) -> tuple[int | None, str | None]:
    """Return which input of a version an input of the latest was, or which attribute."""
    last = len(new.inputs) - 1
    if index >= last and "Variadic" in str(new.inputs[last].option):
        return index, None
    name, names = new.inputs[index].name, [formal.name for formal in old.inputs]
    if name in names:
        return names.index(name), None
    attribute = RENAMED.get((old.name, name), name.lower())
    if attribute in old.attributes or name in old.attributes:
        return None, attribute if attribute in old.attributes else name
    same = index < len(names) and names[index] not in [f.name for f in new.inputs]
    return (index if same else None), None


def _attribute(name, array, schema):
    kinds = OpSchema.AttrType
    kind = schema.attributes[name].type
    if kind in (kinds.INTS, kinds.FLOATS):
        cast = int if kind == kinds.INTS else float
        made = helper.make_attribute(name, [cast(x) for x in array.reshape(-1)] or [cast(0)])
        del (made.ints if kind == kinds.INTS else made.floats)[array.size :]
        return made
    if array.size != 1 or kind not in (kinds.INT, kinds.FLOAT):
        raise NotMadeError(f"the attribute {name} is not one number")
    number = array.reshape(-1)[0]
    return helper.make_attribute(name, int(number) if kind == kinds.INT else float(number))


def _fit_attributes(node: onnx.NodeProto, schema: OpSchema, feeds: Mapping[str, Data]) -> None:
    given = {attribute.name: attribute for attribute in node.attribute}
    newest = onnx.defs.get_schema(node.op_type, domain=node.domain).attributes
    for name, attribute in [*given.items()]:
        if name not in schema.attributes:
            default = newest[name].default_value if name in newest else None
            value = helper.get_attribute_value
            if default is None or value(attribute) != value(default):
                raise NotMadeError(f"the version has no attribute {name}")
            del given[name]
        elif name == "to" and schema.attributes[name].type == OpSchema.AttrType.STRING:
            given[name] = helper.make_attribute(
                name, onnx.TensorProto.DataType.Name(attribute.i)
            )
    for name, value in ADDED.get(node.op_type, {}).items():
        if name in schema.attributes and name not in given:
            given[name] = helper.make_attribute(name, value)
    arrays = [np.asarray(feeds[name]) for name in node.input if name in feeds]
    if "broadcast" in schema.attributes and len({array.shape for array in arrays}) > 1:
        given["broadcast"] = helper.make_attribute("broadcast", 1)
    del node.attribute[:]
    node.attribute.extend(given.values())
