"""Read a model from a file; what cannot be kept is converted with a note, or refused."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import onnx
import onnx_ir as ir

from onnx_passes.errors import ModelError
from onnx_passes.io.contents import all_graphs, all_tensors
from onnx_passes.io.formats import parse
from onnx_passes.io.order import label, topological_order


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


def load_model(path: str | Path) -> LoadedModel:
    """Read a model: ONNX binary, ONNX text, or protobuf's text or JSON form.

    Args:
        path: The file. Its extension says the form; where it does not, the content does.

    Returns:
        The model, with notes on what was changed to represent it.

    Raises:
        ModelError: The file is missing, damaged, no ONNX model, breaks the rules of a graph, or
            holds what cannot be represented; or external data is missing, too short, or
            outside of the model's folder.
    """
    path = Path(path)
    proto = parse(path)
    notes: list[str] = []
    model = _deserialize(proto, path)
    folder = path.absolute().parent
    external: dict[Path, None] = {}
    for tensor in all_tensors(model):
        if isinstance(tensor, ir.ExternalTensor):
            tensor.base_dir = folder
            external[folder / tensor.location] = None
    notes.extend(_sort(model))
    return LoadedModel(model, path, notes, tuple(external))


def _deserialize(proto: onnx.ModelProto, path: Path) -> ir.Model:
    try:
        return ir.from_proto(proto)
    except Exception as error:
        raise ModelError(
            f"the model cannot be represented: {error}",
            where=str(path),
            help="check the model with onnx.checker.check_model",
        ) from error


def _sort(model: ir.Model) -> list[str]:
    """Put producers first in every graph, and say which nodes were late."""
    notes = []
    for graph in all_graphs(model):
        nodes, order = list(graph), topological_order(graph)
        if order != nodes:
            late = next(a for a, b in zip(nodes, order, strict=True) if a is not b)
            notes.append(f"nodes were out of order, from '{label(late)}' on; sorted")
            graph.remove(nodes)
            graph.extend(order)
    return notes
