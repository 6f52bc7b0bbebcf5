"""A model loaded into ONNX Runtime."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import DType
from onnx_passes.errors import EngineError, UnsupportedModelError
from onnx_passes.model.walk import all_nodes
from onnx_passes.ops.node_queries import may_draw
from onnx_passes.plain import PlainDict
from onnx_passes.runtime import ort_values
from onnx_passes.runtime.engine_base import Data, Feeds, Outputs
from onnx_passes.runtime.interface import SessionInterface
from onnx_passes.runtime.ort_errors import translate
from onnx_passes.runtime.timing import mean_without_first

if TYPE_CHECKING:
    import onnxruntime


_IN_ORDER = 0x0001 | 0x0100
"""numpy's flags C_CONTIGUOUS and ALIGNED."""


class OrtSession:
    """A session of ONNX Runtime, and the weights that it points into.

    Attributes:
        in_turn: Whether runs beside each other would not repeat themselves: the generators of
            random operators go on from run to run, seeded or not.
        placed: Number of nodes by execution provider; empty on the CPU, and if ONNX Runtime
            does not report it.
    """

    def __init__(
        self,
        model: ir.Model,
        session: onnxruntime.InferenceSession,
        weights: Mapping[str, onnxruntime.OrtValue],
        placed: Mapping[str, int] | None = None,
    ) -> None:
        self.placed = dict(placed or {})
        self._interface = SessionInterface(model)
        self.in_turn = any(map(may_draw, all_nodes(model)))
        self._types = {output.name: output.type for output in session.get_outputs()}
        self._fed = _numpy_types(model, self._types.values())
        self._names = list(self._interface.outputs)
        self._session: onnxruntime.InferenceSession | None = session
        self._weights: Mapping[str, onnxruntime.OrtValue] = weights

    def close(self) -> None:
        """Free the session, then release the weights that it points into."""
        self._session = None
        self._weights = {}

    def layers(self) -> list[PlainDict]:
        """Return each node with its mean time, where the engine profiles; it ends with this.

        Raises:
            EngineError: The session is closed.
        """
        if self._session is None:
            raise EngineError("the session is closed")
        # Without a profile this is an empty text.
        path = self._session.end_profiling()
        return node_times(Path(path)) if path else []

    def run(self, feeds: Feeds, outputs: Sequence[str] | None = None) -> Outputs:
        """Run once; see ``Session.run``."""
        if outputs is None and self._session is not None and self._fits(feeds):
            try:
                results = self._session.run(self._names, feeds)
            except Exception as error:
                raise translate(error) from error
            return dict(zip(self._names, results, strict=False))
        names = self._interface.check(feeds, outputs)
        if self._session is None:
            raise EngineError("the session is closed")
        # Its one way of running takes anything and cannot return types that numpy lacks; its
        # other way takes and returns tensors only.
        exotic = {name for name in names if self._types[name] in ort_values.EXOTIC_NAMES}
        if exotic and all(self._types[name].startswith("tensor(") for name in names):
            exotic = set(names)
        try:
            found = self._run_any(self._session, feeds, [n for n in names if n not in exotic])
            found |= self._run_tensors(self._session, feeds, [n for n in names if n in exotic])
        except EngineError:
            raise
        except Exception as error:
            raise translate(error) from error
        return {name: found[name] for name in names}

    def _fits(self, feeds: Feeds) -> bool:
        """Whether ONNX Runtime takes the feeds as they are, and returns arrays.

        A run of a small model takes some microseconds, as checking and converting does.
        """
        fed = self._fed
        if fed is None or len(feeds) != len(fed) or not isinstance(feeds, dict):
            return False
        for name, data in feeds.items():
            if type(data) is not np.ndarray or data.dtype is not fed.get(name):
                return False
            if data.flags.num & _IN_ORDER != _IN_ORDER:
                return False
        return True

    def _run_any(
        self, session: onnxruntime.InferenceSession, feeds: Feeds, names: list[str]
    ) -> Outputs:
        if not names:
            return {}
        results = session.run(names, {name: _feed(data) for name, data in feeds.items()})
        return {n: ort_values.to_data(v) for n, v in zip(names, results, strict=True)}

    def _run_tensors(
        self, session: onnxruntime.InferenceSession, feeds: Feeds, names: list[str]
    ) -> Outputs:
        if not names:
            return {}
        wrapped = {name: _wrap(name, data) for name, data in feeds.items()}
        results = session.run_with_ort_values(names, wrapped)
        return {n: ort_values.to_array(v) for n, v in zip(names, results, strict=True)}


def _numpy_types(model: ir.Model, outputs: Iterable[str]) -> dict[str, DType] | None:
    """Return the dtype of each input; None if an input or output is not an array of numpy's.

    Args:
        model: The model.
        outputs: The types of its outputs, as ONNX Runtime spells them.
    """
    found: dict[str, DType] = {}
    for value in model.graph.inputs:
        declared = value.type
        if not isinstance(declared, ir.TensorType) or declared.dtype in ort_values.EXOTIC:
            return None
        if declared.dtype == ir.DataType.STRING:
            return None
        found[str(value.name)] = declared.dtype.numpy()
    plain = all(t.startswith("tensor(") and t not in ort_values.EXOTIC_NAMES for t in outputs)
    return found if plain else None


def _feed(data: Data) -> object:
    if isinstance(data, list):
        return [_feed(item) for item in data]
    if not isinstance(data, (np.ndarray, np.generic)):
        return data
    array = np.asarray(data)
    if array.dtype.kind in "OSUT":
        return array.astype(object)
    if ort_values.element_type(array) in ort_values.EXOTIC:
        return ort_values.of_array(array)
    # ONNX Runtime takes a buffer for native and in order, whatever it is.
    return np.require(array, array.dtype.newbyteorder("="), ["C", "A"])


def _wrap(name: str, data: Data) -> onnxruntime.OrtValue:
    if isinstance(data, np.ndarray | np.generic):
        array = np.asarray(data)
        if array.dtype.kind not in "OSUT":
            return ort_values.of_array(array)
    raise UnsupportedModelError(
        f"ONNX Runtime cannot feed {name!r}, which is not a numeric tensor, to a model that "
        "returns a type that numpy lacks",
        help="cast the output to float, or run this model on the reference engine",
    )


_END = "_kernel_time"


def node_times(path: Path) -> list[PlainDict]:
    """Return the nodes of a profile, in the order of their first run, with their mean times.

    Args:
        path: The file that ONNX Runtime wrote; it is removed.

    Returns:
        Layers as plain data; see :class:`onnx_passes.runtime.layers.EngineLayer`.
    """
    try:
        events = json.loads(path.read_text())
    finally:
        path.unlink(missing_ok=True)
    return _means(event for event in events if _is_kernel(event))


def _is_kernel(event: PlainDict) -> bool:
    return event.get("cat") == "Node" and str(event.get("name", "")).endswith(_END)


def _means(events: Iterable[PlainDict]) -> list[PlainDict]:
    times: dict[tuple[str, str, str], list[float]] = {}
    for event in events:
        told = event.get("args", {})
        provider = str(told.get("provider", ""))
        name = str(event["name"]).removesuffix(_END)
        key = name, str(told.get("op_name", "")), provider
        times.setdefault(key, []).append(float(event["dur"]) * 1e-6)
    return [
        {"name": name, "kind": kind, "how": how, "seconds": mean_without_first(each)}
        for (name, kind, how), each in times.items()
    ]
