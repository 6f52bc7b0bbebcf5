"""Write a model and its weights; a file appears complete or not at all.

Weights stand in a data file named by their content, or in a temporary file that engines map.
"""

import errno
import hashlib
import mmap
import os
import re
import secrets
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Literal, TypeAlias

import onnx
import onnx_ir as ir
from google.protobuf.message import DecodeError

from onnx_passes.errors import ModelError
from onnx_passes.model.formats import LIMIT, Form, form_of, inlined, render
from onnx_passes.model.load import (
    LoadedModel,
    complete_written,
    load_written,
    root_cause,
    write_noted_types,
)
from onnx_passes.model.protos import all_bodies
from onnx_passes.model.protos import all_tensors as all_tensor_protos
from onnx_passes.model.tensor_bytes import chunks, tensor_buffer
from onnx_passes.model.walk import Choice, all_graphs, all_tensors, tensors_replaced
from onnx_passes.model.wire import count_bytes, empty_large_tensors, parse_in_place, stream


class Pending:
    """A file being written beside its place under a temporary name."""

    def __init__(self, temporary: Path, stream: BinaryIO) -> None:
        self.temporary, self.stream = temporary, stream

    def write(self, data: bytes | memoryview) -> None:
        """Add to the content."""
        self.stream.write(data)

    def flush(self) -> None:
        """Let readers of the temporary file see all that was written."""
        self.stream.flush()

    def publish(self, path: Path) -> None:
        """Flush to the disk and move into place, over any file that is there.

        The mode of a file that is replaced stays.
        """
        self.stream.flush()
        with suppress(FileNotFoundError):
            os.chmod(self.temporary, path.stat().st_mode & 0o777)
        os.fsync(self.stream.fileno())
        self.stream.close()
        os.replace(self.temporary, path)
        _sync_folder(path.parent)


def is_device(path: Path) -> bool:
    """Whether a file that is moved to a path would take a pipe or device away.

    Links to them such as ``/dev/stdout`` count, whatever they lead to now.
    """
    folder = os.path.realpath(path.absolute().parent)
    special = path.exists() and not path.is_file() and not path.is_dir()
    return special or folder == "/dev" or folder.startswith("/proc/")


_unpublished: set[Path] = set()


def drop_unpublished() -> None:
    """Remove what is being written: for a process that ends without running its handlers."""
    for path in list(_unpublished):
        with suppress(OSError):
            path.unlink()


@contextmanager
def pending(path: Path) -> Iterator[Pending]:
    """Open a file to be published at, or beside, a path; nothing is left if it is not.

    Raises ``OSError`` if the folder cannot be written to, or a pipe or device is there.
    """
    if is_device(path):
        raise OSError(errno.EINVAL, "it is a pipe or device", str(path))
    temporary = path.with_name(f".{path.name[:200]}.{secrets.token_hex(6)}.tmp")
    # Not tempfile: its files are readable by their owner only, whatever the umask says.
    _unpublished.add(temporary)
    try:
        with open(temporary, "xb") as stream:
            yield Pending(temporary, stream)
    except OSError as error:
        if error.filename == str(temporary):  # nobody has asked for this name
            error.filename = str(path)
        raise
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()
        _unpublished.discard(temporary)


def _sync_folder(folder: Path) -> None:
    """Make a rename last through a power cut, where the file system knows how."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


_PAGE = 4096
_KEEPER = "onnx_passes.scratch"


class TensorFile:
    """A temporary file of tensors. It lives as long as any of them."""

    def __init__(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="onnx-passes-")
        weakref.finalize(self, folder.cleanup)
        self._folder, self._end = folder.name, 0
        # Its name is not one that a model may have guessed.
        self._name = f"weights-{secrets.token_hex(8)}"

    def append(self, tensor: ir.TensorProtocol) -> ir.ExternalTensor:
        """Write a tensor from memory, not of strings, and return it as one in the file."""
        with open(Path(self._folder) / self._name, "ab") as file:
            file.truncate(self._end)  # what a failed write has left
            file.write(b"\0" * (-self._end % _PAGE))
            start = self._end + -self._end % _PAGE
            size = file.write(tensor_buffer(tensor))
        self._end = start + size
        found = ir.ExternalTensor(
            self._name,
            start,
            size,
            tensor.dtype,
            shape=ir.Shape(tensor.shape.numpy()),
            name=tensor.name or "",
            base_dir=self._folder,
        )
        found.meta[_KEEPER] = self
        return found


def is_temporary(tensor: ir.ExternalTensor) -> bool:
    """Whether a tensor lies in a temporary file, and not in one that came with a model."""
    return _KEEPER in tensor.meta


Stamp: TypeAlias = "tuple[int, int, int] | None"
"""Number, size and time of the last change of a file; None if there is none."""


def stamps_of(model: ir.Model) -> dict[Path, Stamp]:
    """Return the files that came with a model, each with its stamp.

    Weights are read from there when they are needed. Nothing may write there meanwhile.
    """
    outside = (t for t in all_tensors(model) if isinstance(t, ir.ExternalTensor))
    paths = {Path(tensor.path) for tensor in outside if not is_temporary(tensor)}
    return {path: _stamp(path) for path in paths}


def changed_files(stamps: Mapping[Path, Stamp]) -> list[str]:
    """Return the names of the files that are not what they were."""
    return sorted(path.name for path, stamp in stamps.items() if _stamp(path) != stamp)


def _stamp(path: Path) -> Stamp:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


IN_ATTRIBUTES = 1 << 26
"""Bytes of tensors in attributes that stay in the model, where weights go to a file."""


class DataFile:
    """A data file that is written, and not yet in its place."""

    def __init__(self, file: Pending, path: Path) -> None:
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

    Tensors below ``threshold`` bytes stay in the model. Yields the data file, which the block
    publishes, or None if no tensor is large. Beside it is what to write for each tensor. If
    the block fails, a data file that was not there before is removed.
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


def owned_data_files(path: Path) -> set[Path]:
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


Inspect: TypeAlias = Callable[[ir.Model, Callable[[], ir.Model]], None]
"""Takes the model in memory, and what reads the written one; raises if they differ."""

# Room for the graph itself in a file whose weights fill the rest.
_MARGIN = 1 << 26


def save_model(
    model: ir.Model,
    path: str | Path,
    *,
    external_data: Literal["keep", "inline", "external"] = "keep",
    size_threshold: int = 1024,
    source: LoadedModel | None = None,
    inspect: Inspect | None = None,
) -> list[Path]:
    """Write a model; what was at the path stays complete until the new one is.

    Weights outside of the model's file go to one data file beside it, whose name holds a hash
    of its content: ``model.onnx.<hash>.data``. So a model and its data file belong together
    even if saving is interrupted, and saving over the model that the weights are mapped from
    does no harm. A data file that the model written over was alone to name is removed. Missing
    folders are created. The extension says the form; forms other than ``.onnx`` hold all
    weights. With ``keep``, weights go to a data file if those of ``source`` do, else if those
    of the model do. Above 2 GiB they always do. Weights below ``size_threshold`` bytes stay
    inside. ``inspect`` is called when all is written, and nothing is in its place; if it
    raises, nothing is put there. Returns the files written, the model last. Raises
    ``ModelError`` if files cannot be written, weights cannot be read, or the form cannot hold
    the model.
    """
    path = Path(path)
    with writing(path):
        if "\0" in str(path) or (path.exists() and not path.is_file()):
            raise ModelError(
                "the path is not that of a file",
                where=str(path),
                help="give the path of a file, such as model.onnx",
            )
    form = form_of(path) or "binary"
    outside = _wants_data_file(model, external_data, source, form, path)
    in_use = {Path(t.path) for t in all_tensors(model) if isinstance(t, ir.ExternalTensor)}
    if source is not None:
        in_use.update(source.external)
    old = owned_data_files(path) - in_use
    data: DataFile | None = None
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if outside:
            with write_data(model, path, size_threshold) as (data, choose):
                _publish(model, path, form, choose, data, inspect)
        else:
            _publish(model, path, form, inlined, None, inspect)
        kept = {data.path} if data is not None else set()
        for file in old - kept:
            file.unlink(missing_ok=True)
    return [*kept, path]


def to_proto(model: ir.Model) -> onnx.ModelProto:
    """Return a model as ONNX's own, as files hold it."""
    proto = ir.to_proto(model)
    complete_written(proto)
    write_noted_types(model, proto)
    return proto


def written_bytes(model: ir.Model) -> int:
    """Return the bytes of a model's file, all weights in it; no weight is read."""
    choice, left = empty_large_tensors(model, inlined)
    return count_bytes(serialise(model, choice, "model"), left)


def to_text(model: ir.Model) -> str:
    """Print a model in ONNX text, complete with its weights.

    Remarks that the syntax has no place for are counted in a comment at the top. Raises
    ``ModelError`` if ONNX text cannot hold the model, or weights cannot be read.
    """
    return render(serialise(model, inlined, "text"), "text", "text").decode()


def _publish(
    model: ir.Model,
    path: Path,
    form: Form,
    choose: Choice,
    data: DataFile | None,
    inspect: Inspect | None,
) -> None:
    where = str(path)
    if form == "binary":
        choice, left = empty_large_tensors(model, choose)
        content = stream(serialise(model, choice, where), left, where)
    else:
        content = iter([render(serialise(model, choose, where), form, where)])
    with pending(path) as file:
        for piece in content:
            file.write(piece)
        file.flush()
        if inspect is not None:
            moved = {data.path.name: data.temporary.name} if data is not None else {}
            inspect(model, lambda: load_written(file.temporary, form, moved))
        if data is not None:
            data.publish()
        file.publish(path)


def serialise(model: ir.Model, choose: Choice, where: str) -> onnx.ModelProto:
    """Return a model as the protobuf that is written.

    ``choose`` says what replaces each tensor. Raises ``ModelError`` if the model is not valid,
    or weights cannot be read.
    """
    try:
        with tensors_replaced(model, choose):
            proto = to_proto(model)
    except (ir.serde.SerdeError, ValueError, TypeError) as error:
        cause = root_cause(error)
        if isinstance(cause, ModelError | OSError):
            raise cause from error
        raise ModelError(
            f"the model cannot be written: {cause}",
            where=where,
            help="check what the last pass put into the model",
        ) from error
    for _, tensor in all_tensor_protos(proto):
        # onnx-ir 1.1 writes a tensor's metadata twice if it was read from a protobuf.
        entries = {entry.key: entry.value for entry in tensor.metadata_props}
        if len(entries) < len(tensor.metadata_props):
            tensor.ClearField("metadata_props")
            for key, value in entries.items():
                tensor.metadata_props.add(key=key, value=value)
    for _, body in all_bodies(proto):
        if isinstance(body, onnx.GraphProto):
            _leave_out_types_of_constants(body)
    return proto


def _leave_out_types_of_constants(graph: onnx.GraphProto) -> None:
    """Drop the types that onnx-ir notes of initializers: the tensors say as much."""
    constants = {tensor.name: tensor for tensor in graph.initializer}
    plain: dict[tuple[int, ...], bytes] = {}  # most have one of a few types and shapes

    def says_as_much(info: onnx.ValueInfoProto) -> bool:
        tensor = constants.get(info.name)
        if tensor is None or len(info.ListFields()) > 2:
            return False
        key = (tensor.data_type, *tensor.dims)
        if key not in plain:
            type_ = onnx.helper.make_tensor_type_proto(tensor.data_type, tensor.dims)
            plain[key] = type_.SerializeToString(deterministic=True)
        same: bool = info.type.SerializeToString(deterministic=True) == plain[key]
        return same

    kept = [info for info in graph.value_info if not says_as_much(info)]
    if len(kept) < len(graph.value_info):
        del graph.value_info[:]
        graph.value_info.extend(kept)


@contextmanager
def writing(
    path: Path,
    what: str = "the model",
    way: str = "choose a file in a folder that you may write to, with room for it",
) -> Iterator[None]:
    """Raise ModelError that says what cannot be written, where, and what to do."""
    try:
        yield
    except OSError as error:
        raise ModelError(
            f"{what} cannot be written: {error.strerror or error}",
            where=str(error.filename or path),
            help=way,
        ) from error


def _wants_data_file(
    model: ir.Model, wish: str, source: LoadedModel | None, form: Form, path: Path
) -> bool:
    tensors = list(all_tensors(model))
    size = sum(tensor.nbytes for tensor in tensors if tensor.dtype != ir.DataType.STRING)
    if form != "binary":
        if size > LIMIT:
            raise ModelError(
                f"{size} bytes of weights are too many for one file of this form",
                where=str(path),
                help="give the file the extension .onnx",
            )
        return False
    if wish == "external" or size > LIMIT - _MARGIN:
        return True
    if wish == "inline":
        return False
    if source is not None:
        return bool(source.external)
    return any(isinstance(tensor, ir.ExternalTensor) for tensor in tensors)
