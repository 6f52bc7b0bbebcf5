"""The bytes of a model in each form."""

from __future__ import annotations

import re

import onnx
import onnx_ir as ir
from google.protobuf.message import EncodeError

from onnx_passes.errors import ModelError
from onnx_passes.model.fidelity import lost, split
from onnx_passes.model.formats import Form
from onnx_passes.model.protos import attribute_tensors
from onnx_passes.model.tensor_bytes import ListedTensor

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def inlined(tensor: ir.TensorProtocol, initializer: bool) -> ir.TensorProtocol:
    """Give a tensor as one that is written with its data, in the form that it was read in.

    Args:
        tensor: The tensor.
        initializer: Whether it is an initializer; the result does not depend on it.
    """
    if isinstance(tensor, ListedTensor):
        return tensor.listed()
    if not isinstance(tensor, ir.ExternalTensor):
        return tensor
    return ir.LazyTensor(
        lambda: ir.Tensor(tensor.numpy(), dtype=tensor.dtype, shape=ir.Shape(tensor.shape)),
        dtype=tensor.dtype,
        shape=ir.Shape(tensor.shape),
        cache=False,
        name=tensor.name,
        doc_string=tensor.doc_string,
        metadata_props=dict(tensor.metadata_props),
    )


def render(model: onnx.ModelProto, form: Form, where: str) -> bytes:
    """Serialise a model, always to the same bytes.

    Args:
        model: The model.
        form: The form of the file.
        where: The file, for messages.

    Raises:
        ModelError: The form cannot hold the model.
    """
    try:
        if form == "binary":
            return bytes(model.SerializeToString(deterministic=True))
        if form == "text":
            return _text(model, where)
        return bytes(onnx.serialization.registry.get(form).serialize_proto(model))
    except (EncodeError, ValueError) as error:
        raise ModelError(
            f"the model cannot be written in this form: {error}",
            where=where,
            help="save it as .onnx with external data",
        ) from error


def _text(model: onnx.ModelProto, where: str) -> bytes:
    """Print a model, and read it again to know that nothing but remarks is gone."""
    try:
        printed, unnamed = _parseable(model)
        text = onnx.printer.to_text(printed)
        grave, remarks = split(lost(printed, onnx.parser.parse_model(text)))
        remarks += unnamed
    except (onnx.parser.ParseError, RuntimeError, IndexError, ValueError) as error:
        raise ModelError(
            f"ONNX text has no words for something in this model: {error}",
            where=where,
            help="save it as .onnx, .textproto or .json",
        ) from error
    if grave:
        raise ModelError(
            f"ONNX text has no words for something in this model: {', '.join(grave[:3])}",
            where=where,
            help="save it as .onnx, .textproto or .json",
        )
    if remarks:
        text = (
            f"# without {len(remarks)} doc strings or other remarks; .onnx keeps them\n{text}"
        )
    return text.encode()


def _parseable(model: onnx.ModelProto) -> tuple[onnx.ModelProto, list[str]]:
    """Leave out names that the parser of ONNX text cannot read, and return which those are.

    The name of a tensor that is an attribute says nothing: the value of a Constant has its
    name from the node. PyTorch writes such names, with slashes.
    """
    named = [tensor.name for _, tensor in attribute_tensors(model) if _unreadable(tensor)]
    if not named:
        return model, []
    copied = onnx.ModelProto()
    copied.CopyFrom(model)
    for _, tensor in attribute_tensors(copied):
        if _unreadable(tensor):
            tensor.ClearField("name")
    return copied, named


def _unreadable(tensor: onnx.TensorProto) -> bool:
    return bool(tensor.name) and not _WORD.fullmatch(tensor.name)
