"""Shape inference of onnx, kept from memory without end and from sizes that it invents."""

from __future__ import annotations

import onnx
import onnx.checker
import onnx.shape_inference

from onnx_passes.made_up import INFERENCE, avoided, label, running
from onnx_passes.model.protos import all_bodies

_HIDDEN = "Unknown"
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

    onnx takes an unknown size of keys or values for 0: such an Attention is not inferred. What
    ends the process, such as a Slice whose end overflows, is not asked again.

    Args:
        model: A model, which is left as it is.
        check_type: Whether onnx checks the types of inputs.
        strict_mode: Whether onnx raises if it cannot infer a node.
        data_prop: Whether onnx follows the values of shapes.

    Raises:
        onnx.shape_inference.InferenceError: Inference fails as a whole.
    """
    try:
        # To follow values, onnx makes a dimension of each element of any vector.
        inferred = _ask(model, check_type, strict_mode)
        data_prop = data_prop and not any(map(_is_long, _infos(inferred)))
        data_prop = data_prop and not avoided(_VALUES)
        if hidden := _invented(inferred):
            model = onnx.ModelProto.FromString(model.SerializeToString())
            _rename(model, "Attention", _HIDDEN, hidden)
        if data_prop or hidden:
            inferred = _ask(model, check_type, strict_mode, data_prop)
    except onnx.checker.ValidationError as error:  # of functions that call each other
        raise onnx.shape_inference.InferenceError(str(error)) from error
    _rename(inferred, _HIDDEN, "Attention", hidden)
    return inferred


def _ask(
    model: onnx.ModelProto, check_type: bool, strict_mode: bool, data_prop: bool = False
) -> onnx.ModelProto:
    named = _VALUES if data_prop else _TYPES
    if avoided(named):
        raise onnx.shape_inference.InferenceError("onnx's inference ends the program here")
    with running(named):
        return onnx.shape_inference.infer_shapes(model, check_type, strict_mode, data_prop)


def _invented(inferred: onnx.ModelProto) -> set[str]:
    """Return the results of Attention that hold no element, though no operand is empty."""
    nodes = [node for _, body in all_bodies(inferred) for node in body.node]
    nodes = [node for node in nodes if node.op_type == "Attention" and not node.domain]
    empty = {i.name for i in _infos(inferred) if nodes and _is_empty(i)}
    return {
        name
        for node in nodes
        for name in empty & {*node.output}
        if empty.isdisjoint(node.input)
    }


def _is_empty(info: onnx.ValueInfoProto) -> bool:
    dims = info.type.tensor_type.shape.dim
    return any(dim.HasField("dim_value") and dim.dim_value == 0 for dim in dims)


def _rename(model: onnx.ModelProto, old: str, new: str, makes: set[str]) -> None:
    for _, body in all_bodies(model) if makes else ():
        for node in body.node:
            if node.op_type == old and not makes.isdisjoint(node.output):
                node.op_type = new


def _infos(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    bodies = [b for _, b in all_bodies(model) if isinstance(b, onnx.GraphProto)]
    return [info for b in bodies for info in (*b.input, *b.output, *b.value_info)]


def _is_long(info: onnx.ValueInfoProto) -> bool:
    dims = info.type.tensor_type.shape.dim
    return len(dims) == 1 and dims[0].dim_value > _LONGEST
