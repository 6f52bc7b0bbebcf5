"""The protobuf of a model without its weights, and the weights beside it by name.

Serialising the weights of a decoder costs more than one inference, and stops at 2 GiB. The
graph without them is a few hundred kilobytes; an engine takes the tensors by reference.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar
from weakref import WeakKeyDictionary

import onnx
import onnx_ir as ir

from onnx_passes.errors import EngineError
from onnx_passes.ops.bodies import attach_bodies
from onnx_passes.runtime.graph_writer import GraphWriter, function_into, opsets_into

T = TypeVar("T")


@dataclass(frozen=True)
class Weightless:
    """A model without its weights, and the weights.

    Attributes:
        proto: The model; tensors in ``weights`` are declared in it as external data.
        weights: The tensors left out, by the name they have in the main graph.
    """

    proto: onnx.ModelProto
    weights: dict[str, ir.TensorProtocol]


_KEPT: WeakKeyDictionary[ir.Model, Weightless | None] = WeakKeyDictionary()
"""Models that nothing changes, with their parts once they are needed."""
_SPLITTING = Lock()


def keep_split(model: ir.Model) -> None:
    """Declare that nothing will change a model, so that it is split only once.

    Args:
        model: The model, such as the original of a run, which is checked, run and drawn for.
    """
    _KEPT.setdefault(model, None)


def forget_split(model: ir.Model) -> None:
    """Say that a model may change again, after :func:`keep_split`."""
    _KEPT.pop(model, None)


def split_weights(model: ir.Model) -> Weightless:
    """Split weights from ``model`` without changing it or copying a large tensor.

    Large tensors of subgraphs move to the main graph, because engines accept outside data
    only there. Where that would change their meaning, and inside functions, they are
    serialised in place. Documentation and metadata, which engines ignore, are dropped.
    Operators that have a body in :mod:`onnx_passes.ops.bodies` get it as a function.

    Args:
        model: The model; its tensors are shared, not copied.

    Returns:
        The protobuf, and the tensors left out of it.

    Raises:
        onnx_ir.serde.SerdeError: The model holds what onnx-ir cannot serialise.
        OSError: The file of a tensor cannot be read.
        ValueError: The file of a tensor is too short.
    """
    if model not in _KEPT:
        return _split(model)
    with _SPLITTING:  # engines ask on several threads
        kept = _KEPT[model]
        if kept is None:
            kept = _KEPT[model] = _split(model)
    proto = onnx.ModelProto()
    proto.CopyFrom(kept.proto)
    return Weightless(proto, dict(kept.weights))


def _split(model: ir.Model) -> Weightless:
    proto = onnx.ModelProto(ir_version=model.ir_version)
    if model.domain:
        proto.domain = model.domain
    opsets_into(proto.opset_import, model.opset_imports)
    writer = GraphWriter.of_model(proto.graph, model)
    writer.graph_into(proto.graph, model.graph)
    writer.drop_unused()
    for function in model.functions.values():
        function_into(proto.functions.add(), function, model.ir_version)
    attach_bodies(proto)
    return Weightless(proto, writer.weights)


def split_for_engine(
    model: ir.Model, load: Callable[[ir.TensorProtocol], T]
) -> tuple[onnx.ModelProto, dict[str, T]]:
    """Split weights from ``model``, in the form of an engine.

    Args:
        model: As for ``split_weights``.
        load: Makes the engine's form of a tensor.

    Returns:
        The protobuf, and the weights left out of it.

    Raises:
        EngineError: The model cannot be serialised, or the data of a weight is not there.
    """
    try:
        split = split_weights(model)
    except (ir.serde.SerdeError, OSError, ValueError, TypeError) as error:
        cause: BaseException = error
        while cause.__cause__ is not None:  # onnx-ir wraps an error at every level
            cause = cause.__cause__
        raise EngineError(f"the model cannot be serialised: {cause}") from error
    weights: dict[str, T] = {}
    for name, tensor in split.weights.items():
        try:
            weights[name] = load(tensor)
        except (OSError, ValueError) as error:
            raise EngineError(
                f"the data of weight {name!r} cannot be read: {error}",
                help="keep the external data beside the model that it belongs to",
            ) from error
    return split.proto, weights
