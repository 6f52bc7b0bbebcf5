"""Whether a written file holds the model that was verified, to the last byte.

The file is read by the loader, and both models are walked side by side. Weights are compared
piece by piece, so that neither side is ever in memory whole.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, zip_longest

import numpy as np
import onnx_ir as ir

from onnx_passes.errors import ModelError, VerificationError
from onnx_passes.model.digest import Key, leaf_key, shape_key, type_key
from onnx_passes.model.tensor_bytes import chunks, string_data, tensor_buffer

_GRAPHS = (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS)
_TENSORS = (ir.AttributeType.TENSOR, ir.AttributeType.TENSORS)
_MOST = 3
_SMALL = 1 << 12
"""Bytes of a tensor that is compared in one piece, which most are."""
_HELP = (
    "no file was replaced; check the disk and the memory of this machine, "
    "and report the model if it happens again"
)

Part = tuple[str, Key | ir.TensorProtocol]
"""A place in a model, and what is there."""


@dataclass
class ReadBack:
    """Reads a file back before it replaces another one.

    Attributes:
        remarks: Whether doc strings, metadata and noted types of inner values count. The ONNX
            text form holds none of them.
        parts: Number of parts that were equal.
        tensor_bytes: Size of the tensors among them.
        seconds: Wall time.
    """

    remarks: bool = True
    parts: int = 0
    tensor_bytes: int = 0
    seconds: float = 0.0

    def __call__(self, model: ir.Model, load: Callable[[], ir.Model]) -> None:
        """Read the file, and compare.

        Args:
            model: The model that was verified.
            load: Reads the file.

        Raises:
            VerificationError: The file cannot be read, or holds another model.
            ModelError: Weights of the model in memory cannot be read.
        """
        start = time.perf_counter()
        try:
            written = load()
        except ModelError as error:
            told = f"the written file cannot be read back: {error.message}"
            raise VerificationError(told, where=error.where, help=_HELP) from error
        found = list(islice(self._differences(model, written), _MOST + 1))
        self.seconds = time.perf_counter() - start
        if found:
            more = " and more" if len(found) > _MOST else ""
            raise VerificationError(
                "the written file, read back, is not the model that was verified: "
                f"{', '.join(found[:_MOST])}{more}",
                help=_HELP,
            )

    def _differences(self, model: ir.Model, found: ir.Model) -> Iterator[str]:
        """Name the places in which two models differ."""
        pairs = zip_longest(self._parts(model), self._parts(found), fillvalue=("the end", ()))
        for (place, ours), (_, theirs) in pairs:
            if isinstance(ours, tuple) or isinstance(theirs, tuple):
                same = ours == theirs
            else:
                same = same_content(ours, theirs)
                self.tensor_bytes += ours.nbytes
            if same:
                self.parts += 1
            else:
                yield place

    def _parts(self, model: ir.Model) -> Iterator[Part]:
        remarks: Key = (
            model.producer_name or "",
            model.producer_version or "",
            model.domain or "",
            model.model_version or 0,
            model.doc_string or "",
            _properties(model.metadata_props),
            tuple(map(repr, model.device_configurations)),
        )
        yield "the header", (model.ir_version, remarks if self.remarks else None)
        yield "the opset imports", _properties(model.opset_imports)
        yield "the list of functions", tuple(map(repr, model.functions))
        yield from self._graph(model.graph, f"graph '{model.graph.name}'")
        for function in model.functions.values():
            place = f"function '{function.domain}::{function.name}'"
            yield f"{place}, opset imports", _properties(function.opset_imports)
            yield from self._attributes(function.attributes, place)
            yield from self._graph(function.graph, place, of_function=True)

    def _graph(
        self, graph: ir.Graph, place: str, *, of_function: bool = False
    ) -> Iterator[Part]:
        yield (
            place,
            (
                # A file has no place for the name of a function's graph.
                "" if of_function else graph.name or "",
                self._remarks(graph.doc_string, graph.metadata_props),
                len(graph.inputs),
                tuple(graph.initializers),
                len(graph),
                len(graph.outputs),
            ),
        )
        for value in (*graph.inputs, *graph.outputs):
            yield f"{place}, value '{value.name}'", self._value(value, interface=True)
        for name, value in graph.initializers.items():
            here = f"{place}, initializer '{name}'"
            tensor = value.const_value
            if tensor is None:
                yield here, self._value(value, interface=True)
                continue
            # Its type is that of its tensor, whether it is noted or not.
            noted = self._remarks(value.doc_string or tensor.doc_string, {})
            yield here, (name, noted, int(tensor.dtype), tuple(tensor.shape.numpy()))
            yield f"{here}, content", tensor
        for number, node in enumerate(graph):
            here = f"node {number} '{node.name or ''}' ({node.op_type})"
            yield from self._node(
                node, here if place.startswith("graph") else f"{place}, {here}"
            )

    def _node(self, node: ir.Node, place: str) -> Iterator[Part]:
        inputs = [None if value is None else value.name or None for value in node.inputs]
        outputs = [self._value(value, interface=False) for value in node.outputs]
        while outputs and not node.outputs[len(outputs) - 1].name:
            outputs.pop()
        yield (
            place,
            (
                (node.domain, node.op_type, node.overload, node.name or ""),
                tuple(inputs),
                tuple(outputs),
                tuple(sorted(node.attributes)),
                self._remarks(node.doc_string, node.metadata_props),
                tuple(map(repr, node.device_configurations)),
            ),
        )
        yield from self._attributes(node.attributes, place)

    def _attributes(self, attributes: Mapping[str, ir.Attr], place: str) -> Iterator[Part]:
        for name in sorted(attributes):
            attribute = attributes[name]
            here = f"{place}, attribute '{name}'"
            kind, value = attribute.type, attribute.value
            if attribute.is_ref() or value is None or kind not in (*_GRAPHS, *_TENSORS):
                yield here, leaf_key(attribute)
            elif kind in _GRAPHS:
                graphs = (value,) if kind == ir.AttributeType.GRAPH else tuple(value)
                yield here, (int(kind), len(graphs))
                for graph in graphs:
                    yield from self._graph(graph, here)
            else:
                tensors = (value,) if kind == ir.AttributeType.TENSOR else tuple(value)
                yield here, (int(kind), len(tensors))
                for tensor in tensors:
                    yield here, (int(tensor.dtype), tuple(tensor.shape.numpy()))
                    yield f"{here}, content", tensor

    def _value(self, value: ir.Value, *, interface: bool) -> Key:
        if not (interface or self.remarks):
            return (value.name or "",)
        # A file has no place for a shape without a type, and for either without a name.
        type_ = value.type if value.name else None
        shape = None if type_ is None else shape_key(value.shape)
        noted = self._remarks(value.doc_string, value.metadata_props)
        return (value.name or "", type_key(type_), shape, noted)

    def _remarks(self, doc_string: str | None, properties: Mapping[str, str]) -> Key | None:
        return (doc_string or "", _properties(properties)) if self.remarks else None


def same_content(ours: ir.TensorProtocol, theirs: ir.TensorProtocol) -> bool:
    """Whether two tensors of one type and shape hold the same bytes, read in pieces.

    Args:
        ours: The tensor in memory.
        theirs: The tensor in the file.

    Raises:
        ModelError: The data cannot be read.
    """
    if ours.dtype != theirs.dtype or ours.nbytes != theirs.nbytes:
        return False
    if ours.dtype == ir.DataType.STRING:
        return string_data(ours) == string_data(theirs)
    outside = isinstance(ours, ir.ExternalTensor) or isinstance(theirs, ir.ExternalTensor)
    if ours.nbytes <= _SMALL and not outside:
        return bytes(tensor_buffer(ours)) == bytes(tensor_buffer(theirs))
    return all(
        _same_bytes(one, other)
        for one, other in zip(chunks(ours), chunks(theirs), strict=True)
    )


def _same_bytes(one: bytes | memoryview, other: bytes | memoryview) -> bool:
    # Views compare element by element; NumPy compares eight bytes at a time.
    whole = len(one) // 8 * 8
    if len(one) != len(other) or bytes(one[whole:]) != bytes(other[whole:]):
        return False
    ours, theirs = (np.frombuffer(data[:whole], np.uint64) for data in (one, other))
    return np.array_equal(ours, theirs)


def _properties(entries: Mapping[str, str] | Mapping[str, int]) -> Key:
    return tuple(sorted(entries.items()))
