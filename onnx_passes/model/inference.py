"""Shape inference of onnx, kept from memory without end and from sizes that it invents."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
import onnx.checker
import onnx.shape_inference

from onnx_passes.made_up import INFERENCE, avoided, label, running
from onnx_passes.model.protos import all_bodies

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
    Slice whose end overflows, is not asked again.

    Args:
        model: A model, which is left as it is.
        check_type: Whether onnx checks the types of inputs.
        strict_mode: Whether onnx raises if it cannot infer a node.
        data_prop: Whether onnx follows the values of shapes.

    Raises:
        onnx.shape_inference.InferenceError: Inference fails as a whole.
    """
    try:
        hidden = _misread(model)
        inferred = _ask(_hide(model, hidden), check_type, strict_mode)
        # To follow values, onnx makes a dimension of each element of any vector.
        data_prop = data_prop and not any(map(_is_long, _infos(inferred)))
        data_prop = data_prop and not avoided(_VALUES)
        more = _invented(inferred)
        if data_prop or more:
            inferred = _ask(_hide(model, hidden | more), check_type, strict_mode, data_prop)
    except onnx.checker.ValidationError as error:  # of functions that call each other
        raise onnx.shape_inference.InferenceError(str(error)) from error
    for node in _nodes(inferred) if hidden or more else ():
        node.op_type = node.op_type.removesuffix(_MARK)
    return inferred


def _ask(
    model: onnx.ModelProto, check_type: bool, strict_mode: bool, data_prop: bool = False
) -> onnx.ModelProto:
    named = _VALUES if data_prop else _TYPES
    if avoided(named):
        raise onnx.shape_inference.InferenceError("onnx's inference ends the program here")
    with running(named):
        return onnx.shape_inference.infer_shapes(model, check_type, strict_mode, data_prop)


def _misread(model: onnx.ModelProto) -> set[str]:
    """Return results of nodes whose attributes onnx reads otherwise than engines.

    It knows no axes from the end before opset 11. It takes an STFT that says nothing for one
    of both sides.
    """
    counted = ("Squeeze", "Unsqueeze") if _opset(model) < _COUNTS_FROM_THE_END else ()
    found: set[str] = set()
    for node in _nodes(model):
        if node.op_type in counted:
            misread = any(axis < 0 for given in node.attribute for axis in given.ints)
        else:
            misread = node.op_type == "STFT" and not _says(node, "onesided")
        found.update(node.output if misread else ())
    return found


def _says(node: onnx.NodeProto, name: str) -> bool:
    return any(attribute.name == name for attribute in node.attribute)


def _invented(inferred: onnx.ModelProto) -> set[str]:
    """Return results that have a size which nothing says.

    Of Attention they hold no element though no operand is empty: an unknown size of keys or
    values is taken for 0.
    """
    kinds = {"Attention"} | ({"Slice"} if _opset(inferred) == _KEEPS_NAMES else set())
    nodes = [node for node in _nodes(inferred) if node.op_type in kinds]
    dims = {i.name: i.type.tensor_type.shape.dim for i in _infos(inferred)} if nodes else {}
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


def _hide(model: onnx.ModelProto, makes: set[str]) -> onnx.ModelProto:
    """Return a model whose nodes with some results onnx does not know."""
    if makes:
        model = onnx.ModelProto.FromString(model.SerializeToString())
        for node in _nodes(model):
            if not makes.isdisjoint(node.output):
                node.op_type += _MARK
    return model


def _opset(model: onnx.ModelProto) -> int:
    return max((entry.version for entry in model.opset_import if not entry.domain), default=0)


def _nodes(model: onnx.ModelProto) -> Iterator[onnx.NodeProto]:
    """Yield the nodes of ONNX's own domain, those of bodies and functions too."""
    for _, body in all_bodies(model):
        yield from (node for node in body.node if not node.domain)


def _infos(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    bodies = [b for _, b in all_bodies(model) if isinstance(b, onnx.GraphProto)]
    return [info for b in bodies for info in (*b.input, *b.output, *b.value_info)]


def _is_long(info: onnx.ValueInfoProto) -> bool:
    dims = info.type.tensor_type.shape.dim
    return len(dims) == 1 and dims[0].dim_value > _LONGEST
