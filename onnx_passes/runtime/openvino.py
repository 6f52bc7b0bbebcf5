"""OpenVINO as an engine: a compiler that fuses nodes, and executes without a GPU."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from types import ModuleType
from typing import Literal

import numpy as np
import onnx
import onnx.inliner
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.errors import (
    EngineError,
    EngineUnavailableError,
    UnsupportedModelError,
    did_you_mean,
)
from onnx_passes.model.walk import all_nodes, all_tensors
from onnx_passes.plain import Foreign
from onnx_passes.runtime.engine_base import Data, Feeds, Outputs, SessionInterface
from onnx_passes.runtime.engine_models import assign_seeds, infer_types, split_for_engine

_BY_ADDRESS = "*/_ORT_MEM_ADDR_/*"
"""Location of external data whose offset is an address in this process."""
_BITS = {
    "bf16": ir.DataType.BFLOAT16,
    "f8e4m3": ir.DataType.FLOAT8E4M3FN,
    "f8e5m2": ir.DataType.FLOAT8E5M2,
    "f8e8m0": ir.DataType.FLOAT8E8M0,
}
"""Element types that numpy lacks, by OpenVINO's names."""
_INT32 = np.iinfo(np.int32)
_OTHER = "run this model on another engine: onnxruntime, or the reference engine"


@dataclass(frozen=True)
class OpenVinoEngine:
    """Run a model on OpenVINO, with its weights by reference.

    OpenVINO computes in bfloat16 on processors that have it, and quantises activations of some
    matrix products, unless configured otherwise: here it computes in float32 unless
    ``precision`` says so. Where the device computes in another precision than asked for, the
    model is refused. It computes 64-bit integers in 32 bits: a feed that does not fit is an
    error.

    Attributes:
        device: A device by OpenVINO's name. Those that choose one by themselves (AUTO, MULTI,
            HETERO, BATCH) are refused.
        precision: Type of the floating-point arithmetic.
        threads: Threads of a run. One keeps reductions in a fixed order; 0 leaves the number
            to OpenVINO.
        seed: Seed of the random operators that have none of their own, together with the
            name of what each computes.
    """

    device: str = "CPU"
    precision: Literal["f32", "bf16", "f16"] = "f32"
    threads: int = 1
    seed: int = 0

    @property
    def name(self) -> str:
        """The name, with every option that changes the numbers and is not the default."""
        usual = asdict(OpenVinoEngine())
        changed = {key: value for key, value in asdict(self).items() if value != usual[key]}
        parts = [f"{key}={value}" for key, value in changed.items()]
        return f"openvino[{', '.join(parts)}]" if parts else "openvino"

    def describe(self) -> dict[str, str | int | float | bool]:
        """Return the version, the device and every option."""
        ov, core = self._core()
        device = str(core.get_property(self.device, "FULL_DEVICE_NAME"))
        facts = {"engine": "openvino", "version": str(ov.__version__), "device_name": device}
        return {**facts, **asdict(self)}

    @contextmanager
    def prepare(self, model: ir.Model) -> Iterator[OpenVinoSession]:
        """Make ``model`` ready; see ``Engine.prepare``."""
        self._core()
        _refuse_types(model)
        session = OpenVinoSession(self, assign_seeds(model, self.seed))
        with closing(session):
            yield session

    def compile(self, proto: onnx.ModelProto) -> Foreign:
        """Return OpenVINO's compiled model."""
        _, core = self._core()
        settings = {
            "INFERENCE_PRECISION_HINT": self.precision,
            "EXECUTION_MODE_HINT": "ACCURACY",
            "NUM_STREAMS": 1,
        }
        if self.device == "CPU":
            settings["INFERENCE_NUM_THREADS"] = self.threads
            settings["ENABLE_CPU_PINNING"] = False
            settings["DYNAMIC_QUANTIZATION_GROUP_SIZE"] = "0"
        kind: type[EngineError] = UnsupportedModelError
        try:
            read = core.read_model(proto.SerializeToString())
            kind = EngineError
            compiled = core.compile_model(read, self.device, settings)
            used = compiled.get_property("INFERENCE_PRECISION_HINT").to_string()
        except Exception as error:  # pybind raises RuntimeError for whatever C++ throws
            raise _translate(error, kind) from error
        if used != self.precision:
            why = f"{self.device} computes in {used}, not in {self.precision}"
            raise UnsupportedModelError(why, help=f"ask for openvino{{precision={used}}}")
        return compiled

    def _core(self) -> tuple[ModuleType, Foreign]:
        ov, core = load_openvino()
        if self.device not in (present := list(core.available_devices)):
            why = f"OpenVINO finds no device {self.device!r}"
            raise EngineUnavailableError(why, help=did_you_mean(self.device, present))
        return ov, core


class OpenVinoSession:
    """A model compiled by OpenVINO, and the weights that it points into."""

    def __init__(self, engine: OpenVinoEngine, model: ir.Model) -> None:
        """Compile a model with its defaults as constants."""
        self._engine = engine
        self._interface = SessionInterface(model)
        proto, self._weights = split_for_engine(model, _array)
        self._proto: onnx.ModelProto | None = _complete(proto, self._weights)
        self._requests: dict[frozenset[str], Foreign] = {}
        self._request(frozenset())

    def close(self) -> None:
        """Free what was compiled, then release the weights that it points into."""
        self._requests, self._weights, self._proto = {}, {}, None

    def run(self, feeds: Feeds, outputs: Sequence[str] | None = None) -> Outputs:
        """Run once; see ``Session.run``."""
        names = self._interface.check(feeds, outputs)
        request = self._request(frozenset(feeds) - {*self._interface.required})
        for port in request.model_inputs:
            name = next(n for n in port.get_names() if n in self._interface.inputs)
            request.set_tensor(port, _tensor(name, feeds[name], port))
        try:
            request.infer()
        except Exception as error:
            raise _translate(error) from error
        places = {name: index for index, name in enumerate(self._interface.outputs)}
        return {name: _data(request.get_output_tensor(places[name])) for name in names}

    def _request(self, given: frozenset[str]) -> Foreign:
        """Return a request of the model where inputs are fed in place of their defaults."""
        if self._proto is None:
            raise EngineError("the session is closed")
        if given not in self._requests:
            proto = onnx.ModelProto()
            proto.CopyFrom(self._proto)
            del proto.graph.initializer[:]
            kept = (each for each in self._proto.graph.initializer if each.name not in given)
            proto.graph.initializer.extend(kept)
            compiled = self._engine.compile(proto)
            # Outputs are in the model's order: names are lost where two are one value.
            known = self._interface
            lost = any(known.inputs.keys().isdisjoint(p.get_names()) for p in compiled.inputs)
            if lost or len(compiled.outputs) != len(known.outputs):
                raise UnsupportedModelError("OpenVINO drops inputs or outputs of the model")
            self._requests[given] = compiled.create_infer_request()
        return self._requests[given]


@cache
def load_openvino() -> tuple[ModuleType, Foreign]:
    """Import OpenVINO; return it and the one Core through which this process uses it."""
    try:
        ov = importlib.import_module("openvino")
    except ImportError as error:
        why = f"openvino cannot be loaded: {error}"
        told = "in a checkout: pip install '.[openvino]'"
        raise EngineUnavailableError(why, help=told) from error
    return ov, ov.Core()


def _refuse_types(model: ir.Model) -> None:
    """Refuse what OpenVINO would compute in another type, or end the process with.

    Raises UnsupportedModelError for float64 and string tensors, and for inputs and outputs
    that are not tensors, have no rank, or have elements smaller than a byte.
    """
    used: set[ir.DataType | None] = set().union(*infer_types(model).values())
    used |= {v.dtype for v in model.graph.inputs} | {t.dtype for t in all_tensors(model)}
    used |= {value.dtype for node in all_nodes(model) for value in node.outputs}
    if ir.DataType.DOUBLE in used:
        raise UnsupportedModelError("OpenVINO computes float64 in float32", help=_OTHER)
    if ir.DataType.STRING in used:
        # An Identity of strings writes where it may not, as of 2026.4.
        raise UnsupportedModelError("strings are not run on OpenVINO", help=_OTHER)
    for value in (*model.graph.inputs, *model.graph.outputs):
        why = None
        if value.type is not None and not isinstance(value.type, ir.TensorType):
            why = "is not a tensor, and OpenVINO has no other values"
        elif value.dtype is not None and value.dtype.itemsize < 1:
            why = f"is {value.dtype.name.lower()}, which is not fed or fetched"
        elif value.shape is None and value.is_graph_input():
            why = "is an input without a rank, which OpenVINO needs"
        if why is not None:
            raise UnsupportedModelError(f"{value.name!r} {why}", help=_OTHER)


_LACKS = re.compile(r"No conversion rule found for operations: (.*\S)")
_NODE = re.compile(r"<Node\((\w+)\): ([^>]*)>|(?:Operation|node with) name:? '?([^\s']+)")
_BEFORE = re.compile(r".*(?:src/\S+:\d+|API failed with \w+|node '[^']*'|name '[^']*'):", re.S)
"""Places in OpenVINO's source, and what it was doing, up to the reason."""
_UNSUPPORTED = re.compile(r"(not|n't|un|no) ?support|not implemented", re.IGNORECASE)


def _translate(error: Exception, kind: type[EngineError] = EngineError) -> EngineError:
    """Return what an exception of OpenVINO says, with the node where it names one.

    OpenVINO raises RuntimeError for all. ``kind`` holds unless the message says "not
    supported".
    """
    text = str(error)
    if lack := _LACKS.search(text):
        return UnsupportedModelError(f"OpenVINO has no conversion for {lack[1]}", help=_OTHER)
    where = None
    if node := _NODE.search(text):
        where = f"  --> node {node[2]} ({node[1]})" if node[1] else f"  --> node {node[3]}"
    reason = _BEFORE.sub("", text.partition("\nSummary:")[0]).split() or text.split()
    if _UNSUPPORTED.search(text):
        kind = UnsupportedModelError
    return kind(" ".join(reason), where=where, help=_OTHER)


def _array(tensor: ir.TensorProtocol) -> Array:
    """Return the bytes of a tensor as ONNX stores them, in place where that is possible."""
    if tensor.dtype.itemsize < 1:
        return np.frombuffer(tensor.tobytes(), np.uint8)
    return np.require(tensor.numpy(), requirements=["C", "A"])


def _complete(proto: onnx.ModelProto, weights: dict[str, Array]) -> onnx.ModelProto:
    """Return a model whose weights are found by their addresses, and without functions."""
    for tensor in proto.graph.initializer:
        if (array := weights.get(tensor.name)) is not None:
            del tensor.external_data[:]
            tensor.external_data.add(key="location", value=_BY_ADDRESS)
            tensor.external_data.add(key="offset", value=str(array.ctypes.data))
            tensor.external_data.add(key="length", value=str(array.nbytes))
    if not proto.functions:
        return proto
    try:
        inlined: onnx.ModelProto = onnx.inliner.inline_local_functions(proto)
    except Exception as error:  # the inliner raises what C++ throws
        raise EngineError(f"the functions of the model cannot be inlined: {error}") from error
    return inlined


def _tensor(name: str, data: Data, port: Foreign) -> Foreign:
    tensor = load_openvino()[0].Tensor
    array: Array = np.asarray(data)
    if array.dtype.kind in "iu" and array.dtype.itemsize >= 4 and array.size:
        wide = int(array.max() if array.max() > _INT32.max else array.min())
        if not _INT32.min <= wide <= _INT32.max:
            why = f"and OpenVINO computes {array.dtype} in int32"
            raise EngineError(f"the input {name!r} holds {wide}, {why}", help=_OTHER)
    array = np.require(array, array.dtype.newbyteorder("="), ["C", "A"])
    if array.dtype.isbuiltin == 1:
        return tensor(array, shared_memory=True)
    array, kind = array.view(f"u{array.dtype.itemsize}"), port.get_element_type()
    return tensor(array, list(array.shape), kind)


def _data(tensor: Foreign) -> Array:
    found: Array = np.array(tensor.data)  # OpenVINO writes the next results there
    # A type that numpy lacks comes as its bits, in one that numpy has.
    kind = _BITS.get(tensor.element_type.to_string())
    return found if kind is None else found.view(kind.numpy())
