"""A model loaded into ONNX Runtime: its calls, its values and its errors.

Values of types that numpy lacks are passed as typed memory, without a copy where ONNX Runtime
allows it.
"""

from __future__ import annotations

import ctypes
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array, DType
from onnx_passes.errors import EngineError, UnsupportedModelError
from onnx_passes.model.walk import all_nodes
from onnx_passes.ops.node_queries import may_draw
from onnx_passes.plain import PlainDict
from onnx_passes.runtime.engine_base import (
    Data,
    Feeds,
    Outputs,
    SessionInterface,
    mean_without_first,
)

if TYPE_CHECKING:
    import onnxruntime


# Messages hold names of nodes, so that lengths have limits: none is searched to its end twice.
_NOISE = re.compile(
    r"\[ONNXRuntimeError\] : -?\d+ : [A-Z_]+ : "
    r"|Non-zero status code returned while running \S+ node\. Name:'[^']*' Status Message: "
    r"|Exception during (initialization|loading): "
    r"|/\S{1,300}\.(cc|h|hpp|cu):\d+ [^\n]{0,1999}?\)"
    r"(::<lambda\(.{0,999}?\)>)?( const)?( \[with [^\]]{0,999}\])? "
    r"|\b\w+\.(cc|h):\d+ \w+ "
    r"|Fatal error: "
    r"|\[with [^\]]{0,999}\] "
)
_NODE = re.compile(
    r"""Name:'(?P<run>[^']+)'|Node:(?P<init>\S{1,999}) """
    r"""|Node,? \("(?P<load>[^"]+)"|[Nn]ode with name '(?P<kernel>[^']+)'"""
    r"""|[( ]node:'(?P<ep>[^']+)'|in node \((?P<type>[^)]+)\)"""
)
_RUNNING = re.compile(r"while running (?P<type>\S{1,999}) node\. Name:'(?P<name>[^']*)'")
_UNSUPPORTED = re.compile(
    r"NOT_IMPLEMENTED|Could not find an implementation|Failed to find kernel"
    r"|No Op registered|is not a registered function/op|No opset import for domain"
    r"|not currently registered or supported|(is|are) not supported"
)
_TOO_NEW = re.compile(
    r"Unsupported model IR version: (?P<ir>\d+), max supported IR version: (?P<max_ir>\d+)"
    r"|Opset (?P<opset>\d+) is under development.{0,300}?domain (?P<domain>\S+) is till opset "
    r"(?P<max_opset>\d+)",
    re.DOTALL,
)
_TAKEN = "Attempt to replace the existing tensor"
_TAKEN_HELP = (
    "the model has a tensor of a name that a fusion of ONNX Runtime gives to one of its own, "
    "as models have that ONNX Runtime saved: the pass rename-engine-names renames it"
)
_HELP = "another engine may have it: the reference engine has all standard operators and types"
_FOREIGN = re.compile(
    r"(?!ai\.onnx(\.ml)?:)\w[\w.]*:\w+\(-?\d+\) is not a registered function/op"
)
_FOREIGN_HELP = (
    "give it a function by onnx_passes.ops.register, or name the library that has it under "
    "onnxruntime.custom_ops"
)


def translate(error: Exception) -> EngineError:
    """Return what an exception of ONNX Runtime means to a user.

    UnsupportedModelError if it lacks an operator, kernel, type, opset or IR version, else
    EngineError. The message has no places in ONNX Runtime's source, and the node if it names
    one.
    """
    text = str(error)
    if found := _TOO_NEW.search(text):
        return _too_new(found)
    message = " ".join(_NOISE.sub("", text).split())
    node = _NODE.search(text)
    name = next((group for group in node.groups() if group), None) if node else None
    for running in _RUNNING.finditer(text):  # the last one is the innermost
        name = running["name"] or f"of type {running['type']}"
    where = f"  --> node {name}" if name else None
    if type(error).__name__ == "NotImplemented" or _UNSUPPORTED.search(text):
        help_ = _FOREIGN_HELP if _FOREIGN.search(text) else _HELP
        return UnsupportedModelError(message, where=where, help=help_)
    return EngineError(message, where=where, help=_TAKEN_HELP if _TAKEN in text else None)


def _too_new(found: re.Match[str]) -> UnsupportedModelError:
    if found["ir"]:
        return UnsupportedModelError(
            f"the model has IR version {found['ir']}, and this ONNX Runtime knows versions up "
            f"to {found['max_ir']}",
            help=f"save the model with IR version {found['max_ir']}, or update onnxruntime",
        )
    return UnsupportedModelError(
        f"the model imports opset {found['opset']} of {found['domain']}, and this ONNX Runtime"
        f" knows opsets up to {found['max_opset']}",
        help=f"convert the model to opset {found['max_opset']}, or update onnxruntime",
    )


NON_NUMPY_TYPES = frozenset(
    d
    for d in ir.DataType
    if d and d.numpy().isbuiltin != 1 and not d.name.startswith("FLOAT6")
)
"""Element types that ONNX Runtime knows and numpy does not."""
_PACKED = frozenset(d for d in NON_NUMPY_TYPES if d.bitwidth < 8)

NON_NUMPY_TYPE_NAMES = frozenset(f"tensor({dtype.name.lower()})" for dtype in NON_NUMPY_TYPES)
"""The tensors of these types, as ONNX Runtime spells them."""


def of_tensor(tensor: ir.TensorProtocol) -> onnxruntime.OrtValue:
    """Wrap a weight; the value keeps alive the memory that it points to.

    Memory is shared where its layout is contiguous and native, as in mapped files. Strings
    cannot be wrapped.
    """
    if tensor.dtype not in _PACKED:
        return of_array(tensor.numpy())
    return _typed(_spread(_packed_bytes(tensor), tuple(tensor.shape.numpy())), tensor.dtype)


def _packed_bytes(tensor: ir.TensorProtocol) -> Array:
    if isinstance(tensor, ir.ExternalTensor) and tensor.size:
        tensor.numpy()  # maps the file
        if tensor.raw is not None:
            return np.frombuffer(tensor.raw, np.uint8, tensor.nbytes, tensor.offset or 0)
    if isinstance(tensor, ir.PackedTensor):
        return np.ascontiguousarray(tensor.numpy_packed()).reshape(-1).view(np.uint8)
    return np.frombuffer(tensor.tobytes(), np.uint8)


def _spread(packed: Array, shape: tuple[int, ...]) -> Array:
    # ONNX Runtime takes the shape from the array and the size from the element type, so the
    # array must claim one byte an element; it reads only the packed ones.
    strides = tuple(np.cumprod((1, *shape[:0:-1]))[::-1].tolist()) if shape else ()
    return np.lib.stride_tricks.as_strided(packed, shape, strides, writeable=False)


def of_array(array: Array) -> onnxruntime.OrtValue:
    """Wrap an array of any element type but strings, sharing its memory."""
    dtype = element_type(array)
    if dtype in _PACKED:
        return of_tensor(ir.Tensor(array, dtype=dtype))
    array = np.require(array, array.dtype.newbyteorder("="), ["C", "A"])
    return _typed(array, dtype)


def element_type(array: Array) -> ir.DataType:
    """Return the ONNX element type of an array."""
    try:
        return ir.DataType.from_numpy(array.dtype.newbyteorder("="))
    except TypeError as error:
        raise EngineError(f"a feed has dtype {array.dtype}, which ONNX lacks") from error


def _typed(array: Array, dtype: ir.DataType) -> onnxruntime.OrtValue:
    import onnxruntime as ort

    try:
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array, dtype.value)
    except RuntimeError as error:
        raise UnsupportedModelError(
            f"ONNX Runtime has no element type {dtype.name.lower()}",
            help="run this model on the reference engine",
        ) from error


def to_array(value: onnxruntime.OrtValue) -> Array:
    """Return the tensor of an OrtValue in host memory as an array that owns its memory."""
    dtype = ir.DataType(value.element_type())
    if dtype not in NON_NUMPY_TYPES:
        array: Array = value.numpy()
        return array
    shape = tuple(value.shape())
    data = np.frombuffer(
        ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes()), np.uint8
    )
    if dtype in _PACKED:
        return ir.PackedTensor(data, dtype, shape=ir.Shape(shape)).numpy()
    return data.view(dtype.numpy()).reshape(shape).copy()


def to_data(value: object) -> Data:
    """Return a result of ``InferenceSession.run`` in the form of this package.

    A sequence of maps (the output of ZipMap) becomes a list with one pair of arrays a map:
    its keys in ascending order, and their values. ZipMap has these in float32.
    """
    if value is None or isinstance(value, np.ndarray):
        return value
    if isinstance(value, dict):
        keys = sorted(value)
        return [np.asarray(keys), np.asarray([value[key] for key in keys], np.float32)]
    if isinstance(value, list):
        return [to_data(item) for item in value]
    return np.asarray(value)


_IN_ORDER = 0x0001 | 0x0100
"""numpy's flags C_CONTIGUOUS and ALIGNED."""


class OrtSession:
    """A session of ONNX Runtime, and the weights that it points into.

    ``in_turn`` is set for random operators, whose generators continue from run to run, seeded
    or not; ``anew`` starts them again. ``placed`` counts nodes by execution provider; it is
    empty on the CPU, and if ONNX Runtime does not report it.
    """

    def __init__(
        self,
        model: ir.Model,
        session: onnxruntime.InferenceSession,
        weights: Mapping[str, onnxruntime.OrtValue],
        placed: Mapping[str, int] | None = None,
        anew: Callable[[], onnxruntime.InferenceSession] | None = None,
    ) -> None:
        self.placed = dict(placed or {})
        self._anew, self._has_run = anew, False
        self._interface = SessionInterface(model)
        self.in_turn = any(map(may_draw, all_nodes(model)))
        self._types = {output.name: output.type for output in session.get_outputs()}
        self._fed = _numpy_types(model, self._types.values())
        self._names = list(self._interface.outputs)
        self._session: onnxruntime.InferenceSession | None = session
        self._weights: Mapping[str, onnxruntime.OrtValue] = weights

    def restart(self) -> None:
        """Let the next run draw what the first one drew."""
        if self.in_turn and self._has_run and self._anew is not None:
            self._session = self._anew()
        self._has_run = True

    def close(self) -> None:
        """Free the session, then release the weights that it points into."""
        self._session = self._anew = None
        self._weights = {}

    def layers(self) -> list[PlainDict]:
        """Return each node with its mean time, if the engine profiles; this ends profiling."""
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
        exotic = {name for name in names if self._types[name] in NON_NUMPY_TYPE_NAMES}
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
        return {n: to_data(v) for n, v in zip(names, results, strict=True)}

    def _run_tensors(
        self, session: onnxruntime.InferenceSession, feeds: Feeds, names: list[str]
    ) -> Outputs:
        if not names:
            return {}
        wrapped = {name: _wrap(name, data) for name, data in feeds.items()}
        results = session.run_with_ort_values(names, wrapped)
        return {n: to_array(v) for n, v in zip(names, results, strict=True)}


def _numpy_types(model: ir.Model, outputs: Iterable[str]) -> dict[str, DType] | None:
    """Return the dtype of each input; None if an input or output is not an array of numpy's.

    ``outputs`` are types as ONNX Runtime spells them.
    """
    found: dict[str, DType] = {}
    for value in model.graph.inputs:
        declared = value.type
        if not isinstance(declared, ir.TensorType) or declared.dtype in NON_NUMPY_TYPES:
            return None
        if declared.dtype == ir.DataType.STRING:
            return None
        found[str(value.name)] = declared.dtype.numpy()
    plain = all(t.startswith("tensor(") and t not in NON_NUMPY_TYPE_NAMES for t in outputs)
    return found if plain else None


def _feed(data: Data) -> object:
    if isinstance(data, list):
        return [_feed(item) for item in data]
    if not isinstance(data, (np.ndarray, np.generic)):
        return data
    array = np.asarray(data)
    if array.dtype.kind in "OSUT":
        return array.astype(object)
    if element_type(array) in NON_NUMPY_TYPES:
        return of_array(array)
    # ONNX Runtime takes a buffer for native and in order, whatever it is.
    return np.require(array, array.dtype.newbyteorder("="), ["C", "A"])


def _wrap(name: str, data: Data) -> onnxruntime.OrtValue:
    if isinstance(data, np.ndarray | np.generic):
        array = np.asarray(data)
        if array.dtype.kind not in "OSUT":
            return of_array(array)
    raise UnsupportedModelError(
        f"ONNX Runtime cannot feed {name!r}, which is not a numeric tensor, to a model that "
        "returns a type that numpy lacks",
        help="cast the output to float, or run this model on the reference engine",
    )


_END = "_kernel_time"


def node_times(path: Path) -> list[PlainDict]:
    """Return the nodes of a profile, in the order of their first run, with their mean times.

    The file is removed. Layers are plain data of
    :class:`onnx_passes.runtime.tensorrt.engine.EngineLayer`.
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
