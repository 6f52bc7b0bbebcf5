"""Write a model so that neither it nor what was there before is ever half there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeAlias

import onnx
import onnx_ir as ir

from onnx_passes.errors import ModelError
from onnx_passes.model.atomic import pending
from onnx_passes.model.contents import all_tensors
from onnx_passes.model.datafile import DataFile, superseded, write_data
from onnx_passes.model.dynamic_dims import write_negative_sizes
from onnx_passes.model.error_causes import root_cause
from onnx_passes.model.formats import LIMIT, Form, form_of
from onnx_passes.model.load import LoadedModel, load_written
from onnx_passes.model.protos import all_bodies
from onnx_passes.model.protos import all_tensors as all_tensor_protos
from onnx_passes.model.render import inlined, render
from onnx_passes.model.slots import Choice, replaced
from onnx_passes.model.stream import count_bytes, emptied, stream

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
    does no harm. A data file that the model written over was alone to name is removed.

    Args:
        model: The model; it is not changed.
        path: Where to; missing folders are created. The extension says the form; forms other
            than ``.onnx`` hold all weights themselves.
        external_data: ``keep``: weights go to a data file if those of the source do. Above
            2 GiB they always do.
        size_threshold: Weights of fewer bytes stay inside.
        source: What the model was loaded from; without it, ``keep`` looks at the weights.
        inspect: Called when all is written, and nothing is in its place. If it raises,
            nothing is put there.

    Returns:
        The files written, the model last.

    Raises:
        ModelError: The files cannot be written, weights cannot be read, or the form cannot
            hold the model.
    """
    path = Path(path)
    with _os_errors(path):
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
    old = superseded(path) - in_use
    data: DataFile | None = None
    with _os_errors(path):
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
    write_negative_sizes(model, proto)
    return proto


def written_bytes(model: ir.Model) -> int:
    """Return the bytes of a model's file, all weights in it; no weight is read.

    Raises:
        ModelError: The model is not valid.
    """
    choice, left = emptied(model, inlined)
    return count_bytes(serialise(model, choice, "model"), left)


def to_text(model: ir.Model) -> str:
    """Print a model in ONNX text, complete with its weights.

    Remarks that the syntax has no place for are counted in a comment at the top.

    Raises:
        ModelError: ONNX text cannot hold the model, or weights cannot be read.
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
        choice, left = emptied(model, choose)
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

    Args:
        model: The model.
        choose: Says what is written in place of each tensor.
        where: Names the file in errors.

    Raises:
        ModelError: The model is not valid, or weights cannot be read.
    """
    try:
        with replaced(model, choose):
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
def _os_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ModelError(
            f"the model cannot be written: {error.strerror or error}",
            where=str(error.filename or path),
            help="choose a file in a folder that you may write to, with room for it",
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
