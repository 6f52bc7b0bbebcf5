"""Weights in a file of their own beside the model, named by their content."""

from __future__ import annotations

import hashlib
import mmap
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError

from onnx_passes.model.apart import parse_in_place
from onnx_passes.model.atomic import Pending, pending
from onnx_passes.model.contents import all_graphs, all_tensors
from onnx_passes.model.protos import all_tensors as all_tensor_protos
from onnx_passes.model.render import inlined
from onnx_passes.model.slots import Choice
from onnx_passes.model.tensor_bytes import chunks
from onnx_passes.model.tensor_file import is_temporary

IN_ATTRIBUTES = 1 << 26
"""Bytes of tensors in attributes that stay in the model, where weights go to a file."""


class DataFile:
    """A data file that is written, and not yet in its place."""

    def __init__(self, file: Pending, path: Path) -> None:
        """Remember the file, and its place."""
        self._file, self.path = file, path
        self.is_new = False

    @property
    def temporary(self) -> Path:
        """Where the content is until the file is in its place."""
        return self._file.temporary

    def publish(self) -> None:
        """Move the file into its place."""
        self.is_new = not self.path.exists()
        self._file.publish(self.path)


@contextmanager
def write_data(
    model: ir.Model, path: Path, threshold: int
) -> Iterator[tuple[DataFile | None, Choice]]:
    """Write a model's large tensors beside it, one after the other.

    Args:
        model: The model; it is not changed.
        path: Where the model will be.
        threshold: Tensors of fewer bytes stay in the model.

    Yields:
        The data file, which the block publishes, None if no tensor is large; and what to
        write for each tensor. If the block fails, a data file that was not there before is
        removed.
    """
    content = hashlib.sha256()
    offsets: dict[int, int] = {}
    end = 0
    with pending(path) as file:
        for tensor in _large(model, threshold):
            offsets[id(tensor)] = end
            for chunk in chunks(tensor):
                content.update(chunk)
                file.write(chunk)
                end += len(chunk)
        if not offsets:
            yield None, inlined
            return
        file.flush()
        place = path.with_name(f"{path.name}.{content.hexdigest()[:16]}.data")
        data = DataFile(file, place)
        try:
            yield data, _choice(place.name, offsets)
        except BaseException:
            # An interrupt may come when the model is in place already.
            if data.is_new and not _mentions(path, place):
                place.unlink(missing_ok=True)
            raise


def _choice(name: str, offsets: dict[int, int]) -> Choice:
    def choose(tensor: ir.TensorProtocol, initializer: bool) -> ir.TensorProtocol:
        if id(tensor) not in offsets:
            return inlined(tensor, initializer)
        return ir.ExternalTensor(
            name,
            offsets[id(tensor)],
            tensor.nbytes,
            tensor.dtype,
            shape=ir.Shape(tensor.shape.numpy()),
            name=tensor.name or "",
            doc_string=tensor.doc_string,
            metadata_props=dict(tensor.metadata_props),
        )

    return choose


def superseded(path: Path) -> set[Path]:
    """List the data files that belong to the model at a path alone.

    They are those that a save has named after it, that it uses, and that no other model in
    the folder uses.
    """
    pattern = re.compile(re.escape(path.name) + r"\.[0-9a-f]{16}\.data")
    try:
        beside = list(path.parent.iterdir())
        found = {file for file in beside if pattern.fullmatch(file.name)}
        if not found:
            return set()
        model = parse_in_place(path) or onnx.ModelProto.FromString(path.read_bytes())
    except (OSError, DecodeError):
        return set()
    used = {
        path.with_name(entry.value)
        for _, tensor in all_tensor_protos(model)
        for entry in tensor.external_data
        if entry.key == "location"
    }
    others = [file for file in beside if file.suffix == ".onnx" and file != path]
    return {
        file for file in found & used if not any(_mentions(other, file) for other in others)
    }


def _mentions(model: Path, file: Path) -> bool:
    try:
        with (
            open(model, "rb") as stream,
            mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            return data.find(file.name.encode()) >= 0
    except (OSError, ValueError):
        # What cannot be looked into may need the file.
        return model.exists() and (not model.is_file() or model.stat().st_size > 0)


def _large(model: ir.Model, threshold: int) -> list[ir.TensorProtocol]:
    """List the tensors to write: initializers, and others if they are external already.

    Tensors in attributes stay there unless they are many megabytes, because fewer tools read
    them from elsewhere. Protobuf holds what stays in memory, three times while it is written.
    """
    constants = {
        id(value.const_value)
        for graph in all_graphs(model)
        for value in graph.initializers.values()
    }
    tensors = [
        tensor
        for tensor in all_tensors(model)
        if tensor.dtype != ir.DataType.STRING and tensor.nbytes >= threshold
    ]
    rest = sum(tensor.nbytes for tensor in tensors if id(tensor) not in constants)
    return [
        tensor
        for tensor in tensors
        if id(tensor) in constants
        or (isinstance(tensor, ir.ExternalTensor) and not is_temporary(tensor))
        or rest > IN_ATTRIBUTES
    ]
