"""Write a model to a file so that neither it nor what was there before is ever half there."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import onnx
import onnx_ir as ir

from onnx_passes.errors import ModelError
from onnx_passes.io.atomic import pending
from onnx_passes.io.contents import all_graphs, all_tensors
from onnx_passes.io.formats import LIMIT, form_of
from onnx_passes.io.load import LoadedModel
from onnx_passes.io.tensors import tensor_buffer

_CHUNK = 1 << 24


def save_model(
    model: ir.Model,
    path: str | Path,
    *,
    external_data: Literal["keep", "inline", "external"] = "keep",
    size_threshold: int = 1024,
    source: LoadedModel | None = None,
) -> list[Path]:
    """Write a model; what was at the path before stays complete until the new one is.

    Weights outside of the file go to one data file beside it, whose name ends in a hash of its
    content: a model and its data file always belong together, even if saving is interrupted.

    Args:
        model: The model; it is not changed.
        path: Where to; missing folders are created. The extension says the form.
        external_data: ``keep``: weights go to a data file if those of the source do.
        size_threshold: Weights of fewer bytes stay inside.
        source: What the model was loaded from; without it, ``keep`` looks at the weights.

    Returns:
        The files written.

    Raises:
        ModelError: The files cannot be written, or the form cannot hold the model.
    """
    path = Path(path)
    form = form_of(path) or "binary"
    outside = form == "binary" and _wants_data_file(model, external_data, source)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        written: list[Path] = []
        chosen: dict[int, ir.TensorProtocol] = {}
        if outside:
            chosen = _write_data(model, path, size_threshold, written)
        with _replaced(model, chosen):
            proto = ir.to_proto(model)
        with pending(path) as file:
            if form == "text":
                file.stream.write(onnx.printer.to_text(proto).encode())
            elif form == "binary":
                file.stream.write(proto.SerializeToString(deterministic=True))
            else:
                onnx.save_model(proto, file.stream, format=form)
            file.publish(path)
    except OSError as error:
        raise ModelError(
            f"the model cannot be written: {error.strerror}",
            where=str(path),
            help="choose a file in a folder that you may write to",
        ) from error
    return [*written, path]


def to_text(model: ir.Model) -> str:
    """Print a model in ONNX text, weights included."""
    with _replaced(model, {}):
        return str(onnx.printer.to_text(ir.to_proto(model)))


def _wants_data_file(model: ir.Model, wish: str, source: LoadedModel | None) -> bool:
    tensors = list(all_tensors(model))
    if wish == "external" or sum(tensor.nbytes for tensor in tensors) > LIMIT - (1 << 26):
        return True
    if wish == "inline":
        return False
    if source is not None:
        return bool(source.external)
    return any(isinstance(tensor, ir.ExternalTensor) for tensor in tensors)


def _write_data(
    model: ir.Model, path: Path, threshold: int, written: list[Path]
) -> dict[int, ir.TensorProtocol]:
    content, places = hashlib.sha256(), []
    with pending(path) as file:
        offset = 0
        for tensor in _initializers(model):
            if tensor.nbytes < threshold or tensor.dtype == ir.DataType.STRING:
                continue
            data = tensor_buffer(tensor)
            for start in range(0, len(data), _CHUNK):
                chunk = data[start : start + _CHUNK]
                content.update(chunk)
                file.stream.write(chunk)
            places.append((tensor, offset))
            offset += len(data)
        if not places:
            return {}
        name = f"{path.name}.{content.hexdigest()[:16]}.data"
        file.publish(path.with_name(name))
    written.append(path.with_name(name))
    return {
        id(tensor): ir.ExternalTensor(
            name,
            offset,
            tensor.nbytes,
            tensor.dtype,
            shape=ir.Shape(tensor.shape),
            name=tensor.name or "",
            doc_string=tensor.doc_string,
            metadata_props=dict(tensor.metadata_props),
        )
        for tensor, offset in places
    }


def _initializers(model: ir.Model) -> Iterator[ir.TensorProtocol]:
    seen: set[int] = set()
    for graph in all_graphs(model):
        for value in graph.initializers.values():
            if value.const_value is not None and id(value.const_value) not in seen:
                seen.add(id(value.const_value))
                yield value.const_value


@contextmanager
def _replaced(model: ir.Model, chosen: dict[int, ir.TensorProtocol]) -> Iterator[None]:
    """Swap tensors while the model is serialised: those chosen, and those of other files."""
    values = [v for graph in all_graphs(model) for v in graph.initializers.values()]
    before = [value.const_value for value in values]
    try:
        for value, tensor in zip(values, before, strict=True):
            if tensor is None:
                continue
            if id(tensor) in chosen:
                value.const_value = chosen[id(tensor)]
            elif isinstance(tensor, ir.ExternalTensor):
                value.const_value = ir.Tensor(
                    tensor.numpy(),
                    dtype=tensor.dtype,
                    shape=ir.Shape(tensor.shape),
                    name=tensor.name,
                    doc_string=tensor.doc_string,
                    metadata_props=dict(tensor.metadata_props),
                )
        yield
    finally:
        for value, tensor in zip(values, before, strict=True):
            value.const_value = tensor
