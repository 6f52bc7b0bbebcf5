"""Read a model from a file; what cannot be kept is converted with a note, or refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import onnx
import onnx_ir as ir

from onnx_passes.errors import ModelError
from onnx_passes.model.apart import SMALL, Pieces, parse_apart, parse_in_place, parse_pieces
from onnx_passes.model.contents import all_graphs, all_tensors
from onnx_passes.model.convert import convert
from onnx_passes.model.data_rules import check_data
from onnx_passes.model.dynamic_dims import read_dynamic_dims
from onnx_passes.model.error_causes import root_cause
from onnx_passes.model.fidelity import lost, split
from onnx_passes.model.formats import LIMIT, Form, form_of, parse
from onnx_passes.model.model_rules import check_header, check_rules
from onnx_passes.model.order import label, topological_order
from onnx_passes.model.protos import all_tensors as all_tensor_protos
from onnx_passes.model.slots import make_immutable, replaced
from onnx_passes.model.tensor_bytes import holding


@dataclass(frozen=True)
class LoadedModel:
    """A model and where it came from.

    Attributes:
        model: The model; external weights are memory-mapped when first used.
        path: The file it was read from.
        notes: What was changed while reading, one sentence each.
        external: The external data files it uses.
    """

    model: ir.Model
    path: Path
    notes: list[str]
    external: tuple[Path, ...]


def load_model(path: str | Path, *, weights: Path | None = None) -> LoadedModel:
    """Read a model: ONNX binary, ONNX text, or protobuf's text or JSON form.

    Args:
        path: The file. Its extension says the form; where it does not, the content does.
        weights: A file to which large initializers of a binary model are copied, not through
            memory, and from which they are mapped. It has to stay while the model is used;
            nothing is there where they are not in the model's file.

    Returns:
        The model, with notes on what was changed to represent it.

    Raises:
        OSError: The weights cannot be copied to their file.
        ModelError: The file is missing, damaged or not an ONNX model. The model breaks the
            rules of a graph or holds what cannot be represented. External data are missing,
            too short, or outside of the model's folder.
    """
    path = Path(path)
    pieces = None
    lean = _lean(path, weights)
    apart = weights.name if weights is not None and lean is not None else None
    if lean is None and (pieces := _pieces(path)) is not None:
        lean, apart = pieces.proto, pieces.location
    proto = parse(path) if lean is None else lean
    model, notes, external = _represent(proto, path, apart)
    if pieces is not None:
        _put_back(pieces, model)
    if weights is not None:
        for tensor in all_tensors(model):
            if isinstance(tensor, ir.ExternalTensor) and tensor.location == apart:
                tensor.base_dir = weights.absolute().parent
    notes += _check_kept(proto, model, path)
    notes += read_dynamic_dims(model)
    # Weights in protobufs are copied at each look, and hold the whole file in memory.
    with _own_errors(path):
        make_immutable(model, layout="any")
    notes += _sort(model, path)
    return LoadedModel(model, path, notes, external)


def load_written(path: Path, form: Form, moved: Mapping[str, str]) -> ir.Model:
    """Read a file that was written just now; its large weights stay in files.

    Args:
        path: The file.
        form: Its form, whatever its extension says.
        moved: Names of data files that are still under other names, and these.

    Raises:
        ModelError: As :func:`load_model`.
        OSError: The file cannot be read.
    """
    lean = parse_in_place(path) if form == "binary" else None
    proto = parse(path, form) if lean is None else lean
    for _, tensor in all_tensor_protos(proto):
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = moved.get(entry.value, entry.value)
    model, _, _ = _represent(proto, path, path.name)
    _check_kept(proto, model, path)
    read_dynamic_dims(model)
    _sort(model, path)
    return model


def _represent(
    proto: onnx.ModelProto, path: Path, apart: str | None
) -> tuple[ir.Model, list[str], tuple[Path, ...]]:
    """Return the model that a protobuf holds, what was converted, and its data files."""
    check_header(proto, path)
    notes = convert(proto, path)
    check_rules(proto, path)
    external = check_data(proto, path, apart=apart)
    with _own_errors(path):
        model = deserialize(proto)
    folder = path.absolute().parent
    for tensor in all_tensors(model):
        if isinstance(tensor, ir.ExternalTensor):
            tensor.base_dir = folder
    return model, notes, external


def _lean(path: Path, weights: Path | None) -> onnx.ModelProto | None:
    """Read a model without its weights, if that can be done and is asked for."""
    if weights is None or not _may_be_binary(path):
        return None
    proto = parse_apart(path, weights)
    if proto is None:
        weights.unlink(missing_ok=True)
    return proto


def _pieces(path: Path) -> Pieces | None:
    """Read a model with large weights in pieces, if that can be done."""
    try:
        # Beyond the limit nobody else could read it.
        if not _may_be_binary(path) or not SMALL < path.stat().st_size <= LIMIT:
            return None
        return parse_pieces(path)
    except OSError:
        return None  # the usual reader says why


def _may_be_binary(path: Path) -> bool:
    return path.is_file() and form_of(path) in ("binary", None)


def _put_back(pieces: Pieces, model: ir.Model) -> None:
    """Give initializers what was read apart from them."""
    for value in model.graph.initializers.values():
        noted = value.const_value
        if isinstance(noted, ir.ExternalTensor) and noted.location == pieces.location:
            data = memoryview(pieces.contents[noted.offset or 0])
            value.const_value = holding(data, noted)


@contextmanager
def _own_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except ModelError as error:
        error.where = error.where or str(path)
        raise
    except (ir.serde.SerdeError, ValueError, TypeError, KeyError) as error:
        raise ModelError(
            f"the model cannot be represented: {root_cause(error)}",
            where=str(path),
            help="correct the model where it is made; onnx.checker.check_model says more",
        ) from error


def deserialize(proto: onnx.ModelProto) -> ir.Model:
    """Return the model that a protobuf holds; what it may not hold is not looked for."""
    model = ir.from_proto(proto)
    for function in proto.functions:
        # onnx-ir 1.1 reads the types of values inside a function, not of its inputs.
        noted = {info.name: info for info in function.value_info}
        own = model.functions[function.domain, function.name, function.overload]
        for value in own.inputs:
            if value.name in noted:
                ir.serde.deserialize_value_info_proto(noted[value.name], value)
    return model


def _check_kept(proto: onnx.ModelProto, model: ir.Model, path: Path) -> list[str]:
    """Compare with the model as it would be written again.

    Initializers are left out: their protobufs are kept as they are.
    """
    stand_in = ir.tensor([0])
    with (
        _own_errors(path),
        replaced(model, lambda tensor, initializer: stand_in if initializer else tensor),
    ):
        back = ir.to_proto(model)
    grave, remarks = split(lost(proto, back, skip=frozenset({"initializer"})))
    if grave:
        more = f" and {len(grave) - 3} more" if len(grave) > 3 else ""
        raise ModelError(
            f"the model cannot be represented without loss: {', '.join(grave[:3])}{more}",
            where=str(path),
            help="remove this from the model, if it is not needed",
        )
    return [f"not kept: {loss}" for loss in remarks]


def _sort(model: ir.Model, path: Path) -> list[str]:
    """Put producers first in every graph, and say which nodes were late."""
    notes = []
    for graph in all_graphs(model):
        try:
            nodes, order = list(graph), topological_order(graph)
        except ModelError as error:
            error.where = f"{path}: graph '{graph.name}'" if graph.name else str(path)
            raise
        if order != nodes:
            late = next(a for a, b in zip(nodes, order, strict=True) if a is not b)
            notes.append(f"nodes were out of order, from '{label(late)}' on; they were sorted")
            graph.remove(nodes)
            graph.extend(order)
    return notes
