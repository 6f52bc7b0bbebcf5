"""What a model loses on its way through another form, found by comparing protobufs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import onnx
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet
from onnx import numpy_helper

# The order of these says nothing.
_UNORDERED: dict[str, Callable[[Any], str]] = {
    "value_info": lambda entry: str(entry.name),
    "metadata_props": lambda entry: str(entry.key),
    "opset_import": lambda entry: str(entry.domain),
    "quantization_annotation": lambda entry: str(entry.tensor_name),
    "quant_parameter_tensor_names": lambda entry: str(entry.key),
    "attribute": lambda entry: entry if isinstance(entry, str) else str(entry.name),
}
REMARKS = frozenset({"doc_string", "metadata_props", "value_info", "denotation"})
"""Fields that no engine needs."""


def split(losses: Iterable[str]) -> tuple[list[str], list[str]]:
    """Part losses into those that matter and those of remarks."""
    grave: list[str] = []
    remarks: list[str] = []
    for loss in losses:
        fields = {re.split(r"[\[ ]", part)[0] for part in loss.split(".")}
        (grave if REMARKS.isdisjoint(fields) else remarks).append(loss)
    return grave, remarks


def lost(
    before: Message, after: Message, skip: frozenset[str] = frozenset(), place: str = ""
) -> Iterator[str]:
    """Name what a message holds that another does not, as paths of fields.

    Whether a default is spelled out, how a tensor's data are stored, and types of values
    that ``after`` adds make no difference.

    Args:
        before: The message as it was.
        after: What became of it.
        skip: Names of fields that are not compared.
        place: The path of the message itself.
    """
    # Weights are not worth serialising at each level on the way down.
    if not _holds_graphs(before) and (
        before.SerializeToString(deterministic=True)
        == after.SerializeToString(deterministic=True)
    ):
        return
    if isinstance(before, onnx.TensorProto):
        yield from _lost_tensor(before, after, skip, place)
        return
    for field, value in before.ListFields():
        if field.name in skip:
            continue
        path = f"{place}.{field.name}" if place else field.name
        other = getattr(after, field.name)
        if isinstance(value, Message):
            if not after.HasField(field.name) and value.ByteSize():
                yield path
            else:
                yield from lost(value, other, skip, path)
        elif isinstance(value, str | bytes | int | float | bool):
            if value != other and not (value != value and other != other):  # NaN
                yield path
        else:
            if isinstance(after, onnx.GraphProto) and field.name == "value_info":
                other = [*after.input, *after.output, *other]  # there it need not be repeated
            yield from _lost_items(field.name, value, other, skip, path)
    for unknown in UnknownFieldSet(before):
        yield f"{place}.(field {unknown.field_number}, unknown to onnx {onnx.__version__})"
    # A field that is there only afterwards changes what the model says.
    for field, _ in after.ListFields():
        if (
            field.name not in skip
            and field.name != "value_info"
            and _unset(before, field.name)
        ):
            yield f"{place}.{field.name} (added)"


def _holds_graphs(message: Message) -> bool:
    if isinstance(message, onnx.NodeProto):
        return any(map(_holds_graphs, message.attribute))
    if isinstance(message, onnx.AttributeProto):
        return message.HasField("g") or len(message.graphs) > 0
    return isinstance(message, onnx.ModelProto | onnx.GraphProto | onnx.FunctionProto)


def _unset(message: Message, name: str) -> bool:
    value = getattr(message, name)
    if isinstance(value, Message):
        return not message.HasField(name)
    return hasattr(value, "__len__") and not isinstance(value, str | bytes) and not len(value)


def _lost_items(
    name: str,
    before: Sequence[object],
    after: Sequence[object],
    skip: frozenset[str],
    path: str,
) -> Iterator[str]:
    if name in _UNORDERED:
        key = _UNORDERED[name]
        others = {key(item): item for item in after}
        pairs = [(item, others.get(key(item))) for item in before]
        if name != "value_info" and len(after) > len(before):
            yield f"{path} (added)"
    elif len(before) != len(after):
        yield f"{path} ({len(before)} entries became {len(after)})"
        return
    else:
        pairs = list(zip(before, after, strict=True))
    for index, (item, other) in enumerate(pairs):
        label = getattr(item, "name", "") if isinstance(item, Message) else ""
        here = f"{path}[{label or index}]"
        if other is None:
            yield here
        elif isinstance(item, Message):
            yield from lost(item, other, skip, here)
        elif item != other and not (item != item and other != other):
            yield here


def _lost_tensor(
    before: onnx.TensorProto, after: Message, skip: frozenset[str], place: str
) -> Iterator[str]:
    assert isinstance(after, onnx.TensorProto)
    same = before.data_type == after.data_type and list(before.dims) == list(after.dims)
    location = onnx.TensorProto.EXTERNAL
    if location in (before.data_location, after.data_location):
        same = same and _places(before) == _places(after)
    elif same:
        left, right = numpy_helper.to_array(before), numpy_helper.to_array(after)
        if left.dtype == object:
            same = bool(np.array_equal(left, right))
        else:
            # Bits, not values: a NaN equals itself, and 0.0 is not -0.0.
            same = left.tobytes() == right.tobytes()
    if not same:
        yield f"{place}.data"
    for name in ("name", "doc_string"):
        if name not in skip and getattr(before, name) != getattr(after, name):
            yield f"{place}.{name}"


def _places(tensor: onnx.TensorProto) -> dict[str, str]:
    found = {entry.key: entry.value for entry in tensor.external_data}
    # A checksum says nothing new about data that are there.
    return {key: found[key] for key in ("location", "offset", "length") if key in found}
