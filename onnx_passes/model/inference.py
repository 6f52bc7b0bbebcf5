"""Shape inference of onnx, limited in memory and kept from sizes that it invents.

It also gives types to outputs that declare none.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias, TypeGuard

import onnx
import onnx.checker
import onnx.shape_inference
import onnx_ir as ir

from onnx_passes.model.protos import all_bodies
from onnx_passes.model.walk import all_nodes
from onnx_passes.risky_runs import INFERENCE, avoided, label, running

Body: TypeAlias = onnx.GraphProto | onnx.FunctionProto

_MARK = "?"
"""Behind the type of a node that onnx must not know."""
_COUNTS_FROM_THE_END = 11
"""The opset from which on axes of a Squeeze may be negative; engines take them before."""
_KEEPS_NAMES = 10
"""The opset at which a Slice keeps the names of the dimensions that it cuts."""
_TYPES, _VALUES = label(INFERENCE, "types"), label(INFERENCE, "values")
_LONGEST = 1 << 20
"""Elements of a vector whose values onnx may follow, at 144 bytes each."""


def infer(
    model: onnx.ModelProto,
    *,
    check_type: bool = False,
    strict_mode: bool = False,
    data_prop: bool = True,
) -> onnx.ModelProto:
    """Infer types and shapes; a model with longer vectors than ``_LONGEST`` by types alone.

    Nodes that onnx 1.23 gives false shapes are not inferred. What ends the process, such as a
    Slice whose end overflows, is not asked again. Options are those of onnx. The model stays
    as it is. Raises ``onnx.shape_inference.InferenceError`` if inference fails as a whole.
    """
    try:
        hidden = _misread(bodies := _bodies(model), _opset(model))
        inferred = _run_inference(_mask_nodes(model, hidden), check_type, strict_mode)
        # Looking for bodies takes as long as inference, and most models have none.
        bodies = _bodies(inferred) if len(bodies) > 1 else [inferred.graph]
        # To follow values, onnx makes a dimension of each element of any vector.
        data_prop = data_prop and not any(map(_is_long, _infos(bodies)))
        data_prop = data_prop and not avoided(_VALUES)
        more = _unsupported_sizes(bodies, _opset(inferred))
        if data_prop or more:
            inferred = _run_inference(
                _mask_nodes(model, hidden | more), check_type, strict_mode, data_prop
            )
    except onnx.checker.ValidationError as error:  # of functions that call each other
        raise onnx.shape_inference.InferenceError(str(error)) from error
    for node in _nodes(_bodies(inferred)) if hidden or more else ():
        node.op_type = node.op_type.removesuffix(_MARK)
    leave_maps_out(inferred)
    return inferred


def _run_inference(
    model: onnx.ModelProto, check_type: bool, strict_mode: bool, data_prop: bool = False
) -> onnx.ModelProto:
    named = _VALUES if data_prop else _TYPES
    if avoided(named):
        raise onnx.shape_inference.InferenceError("onnx's inference ends the program here")
    with running(named):
        return onnx.shape_inference.infer_shapes(model, check_type, strict_mode, data_prop)


def _misread(bodies: Sequence[Body], opset: int) -> set[str]:
    """Return results of nodes whose attributes onnx reads otherwise than engines.

    It knows no axes from the end before opset 11. It takes an STFT that says nothing for one
    of both sides.
    """
    counted = ("Squeeze", "Unsqueeze") if opset < _COUNTS_FROM_THE_END else ()
    found: set[str] = set()
    for node in _nodes(bodies):
        if node.op_type in counted:
            misread = any(axis < 0 for given in node.attribute for axis in given.ints)
        else:
            misread = node.op_type == "STFT" and not _has_attribute(node, "onesided")
        found.update(node.output if misread else ())
    return found


def _has_attribute(node: onnx.NodeProto, name: str) -> bool:
    return any(attribute.name == name for attribute in node.attribute)


def _unsupported_sizes(bodies: Sequence[Body], opset: int) -> set[str]:
    """Return results that have a size which nothing says.

    Of Attention they hold no element though no operand is empty: an unknown size of keys or
    values is taken for 0.
    """
    kinds = {"Attention"} | ({"Slice"} if opset == _KEEPS_NAMES else set())
    nodes = [node for node in _nodes(bodies) if node.op_type in kinds]
    dims = {i.name: i.type.tensor_type.shape.dim for i in _infos(bodies)} if nodes else {}
    empty = {name for name, ds in dims.items() if any(map(_is_zero, ds))}
    named = {name for name, ds in dims.items() if any(d.dim_param for d in ds)}
    found: set[str] = set()
    for node in nodes:
        if node.op_type == "Slice":
            found |= named & {*node.output}
        elif empty.isdisjoint(node.input):
            found |= empty & {*node.output}
    return found


def _is_zero(dim: onnx.TensorShapeProto.Dimension) -> bool:
    return dim.HasField("dim_value") and not dim.dim_value


def _mask_nodes(model: onnx.ModelProto, makes: set[str]) -> onnx.ModelProto:
    """Return a model whose nodes with some results onnx does not know."""
    if makes:
        model = onnx.ModelProto.FromString(model.SerializeToString())
        for node in _nodes(_bodies(model)):
            if not makes.isdisjoint(node.output):
                node.op_type += _MARK
    return model


def _opset(model: onnx.ModelProto) -> int:
    return max((entry.version for entry in model.opset_import if not entry.domain), default=0)


def _bodies(model: onnx.ModelProto) -> list[Body]:
    return [body for _, body in all_bodies(model)]


def _nodes(bodies: Iterable[Body]) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of ONNX's own domain."""
    return (node for body in bodies for node in body.node if not node.domain)


def _infos(bodies: Iterable[Body]) -> list[onnx.ValueInfoProto]:
    graphs = [body for body in bodies if isinstance(body, onnx.GraphProto)]
    return [info for g in graphs for info in (*g.input, *g.output, *g.value_info)]


def _is_long(info: onnx.ValueInfoProto) -> bool:
    dims = info.type.tensor_type.shape.dim
    return len(dims) == 1 and dims[0].dim_value > _LONGEST


_SMALL = 1024  # bytes; shapes, axes and indices take no more
_LOGGER = logging.getLogger(__name__)


def infer_output_types(model: onnx.ModelProto) -> list[str]:
    """Give outputs without a type the one that shape inference finds, in place.

    An output whose type is not found keeps none: engines infer it by themselves. Returns one
    sentence for each.
    """
    missing = {value.name: value for value in model.graph.output if not _is_typed(value.type)}
    if not missing:
        return []
    try:
        inferred = infer(_without_weights(model))
    except Exception as error:  # whatever C++ throws, and protobufs over 2 GiB
        _LOGGER.debug("no types are inferred: %s", error)
        return []
    graph = inferred.graph  # a type that is noted elsewhere is not inferred once more
    infos = (*graph.value_info, *graph.output)
    found = {value.name: value.type for value in infos if _is_typed(value.type)}
    notes = []
    for name, value in missing.items():
        if name in found:
            value.type.CopyFrom(found[name])
            text = _text(value.type)
            notes.append(f"the output {name!r} declares no type; {text} is inferred")
    return notes


def annotate(model: ir.Model) -> None:
    """Note types and shapes at the values of a model, as far as onnx can infer them.

    Raises ``ir.passes.PassError`` or ``ValueError`` if it fails as a whole.
    """
    from onnx_ir.passes.common import ShapeInferencePass

    # onnx-ir reads what onnx infers, and cannot hold a map.
    maps = [node for node in all_nodes(model) if makes_map(node)]
    for node in maps:
        node.op_type += _MARK
    try:
        ShapeInferencePass(check_type=False, strict_mode=False, data_prop=True)(model)
    finally:
        for node in maps:
            node.op_type = node.op_type.removesuffix(_MARK)
    # onnx-ir gives a value without a type that of the elements of its sequence.
    made = (n.outputs[0] for n in all_nodes(model) if n.op_type in _SEQUENCES and not n.domain)
    for value in made:
        if isinstance(value.type, ir.TensorType):
            value.type, value.shape = ir.SequenceType(value.type), None


_SEQUENCES = (
    "SequenceConstruct",
    "SequenceEmpty",
    "SequenceErase",
    "SequenceInsert",
    "SplitToSequence",
)


def makes_map(node: ir.Node | None) -> TypeGuard[ir.Node]:
    """Whether what a node computes has a type that onnx-ir cannot hold."""
    return node is not None and (node.domain, node.op_type) == ("ai.onnx.ml", "ZipMap")


def map_type(node: ir.Node) -> onnx.TypeProto:
    """Return the type of what a ZipMap computes."""
    found = onnx.TypeProto()
    inner = found.sequence_type.elem_type.map_type
    text = "classlabels_strings" in node.attributes
    inner.key_type = onnx.TensorProto.STRING if text else onnx.TensorProto.INT64
    inner.value_type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    return found


def leave_maps_out(model: onnx.ModelProto) -> None:
    """Take the types of maps from a model, in place; engines infer them from each ZipMap."""
    maps = {node.output[0] for node in model.graph.node if node.op_type == "ZipMap"}
    for info in [info for info in model.graph.value_info if info.name in maps]:
        model.graph.value_info.remove(info)
    for output in model.graph.output:
        if output.name in maps:
            output.ClearField("type")


def _is_typed(type_: onnx.TypeProto) -> bool:
    match type_.WhichOneof("value"):
        case None:
            return False
        case "tensor_type" | "sparse_tensor_type" as kind:
            return bool(getattr(type_, kind).elem_type != onnx.TensorProto.UNDEFINED)
        case "sequence_type":
            return _is_typed(type_.sequence_type.elem_type)
        case "optional_type":
            return _is_typed(type_.optional_type.elem_type)
    return True


def _text(type_: onnx.TypeProto) -> str:
    kind = type_.WhichOneof("value")
    if kind not in ("tensor_type", "sparse_tensor_type"):
        return f"a {str(kind).removesuffix('_type')}"
    tensor = getattr(type_, kind)
    element = onnx.TensorProto.DataType.Name(tensor.elem_type).lower()
    dims = ",".join(dim.dim_param or str(dim.dim_value) for dim in tensor.shape.dim)
    return f"{element}[{dims}]" if tensor.HasField("shape") else element


def _without_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """Copy a model, with inputs instead of large initializers."""
    graph = onnx.GraphProto(name=model.graph.name)
    light = onnx.ModelProto(ir_version=max(model.ir_version, 4), graph=graph)
    light.opset_import.extend(model.opset_import)
    light.functions.extend(model.functions)
    graph = light.graph
    graph.node.extend(model.graph.node)
    graph.input.extend(model.graph.input)
    graph.output.extend(model.graph.output)
    graph.value_info.extend(v for v in model.graph.value_info if _is_typed(v.type))
    inputs = {value.name for value in model.graph.input}
    for tensor in model.graph.initializer:
        if tensor.data_location != onnx.TensorProto.EXTERNAL and tensor.ByteSize() <= _SMALL:
            graph.initializer.append(tensor)
        elif tensor.name not in inputs:
            graph.input.append(
                onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            )
    return light
