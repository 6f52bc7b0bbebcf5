"""OpenVINO as an engine: a compiler that fuses nodes, and executes without a GPU."""

from __future__ import annotations

import importlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, Literal

import numpy as np
import onnx
import onnx.inliner
import onnx_ir as ir

from onnx_passes.errors import EngineError, EngineUnavailableError, UnsupportedModelError
from onnx_passes.model.walk import all_nodes, all_tensors
from onnx_passes.runtime.base import Array, Data, Feeds, Outputs
from onnx_passes.runtime.interface import Interface, did_you_mean
from onnx_passes.runtime.openvino_errors import translate
from onnx_passes.runtime.seeding import with_seeds
from onnx_passes.runtime.value_types import inferred_types
from onnx_passes.runtime.weightless import split_for_engine

Precision = Literal["f32", "bf16", "f16"]

_BY_ADDRESS = "*/_ORT_MEM_ADDR_/*"
"""Location of external data whose offset is an address in this process."""

_INT32 = np.iinfo(np.int32)


@dataclass(frozen=True)
class OpenVinoEngine:
    """Run a model on OpenVINO, with its weights by reference.

    OpenVINO computes in bfloat16 on processors that have it, and quantises activations of some
    matrix products, unless told otherwise: here it computes in float32 unless ``precision``
    says so. Where the device computes in another precision than asked for, the model is
    refused. It computes 64-bit integers in 32 bits: a feed that does not fit is an error.

    Attributes:
        device: A device by OpenVINO's name. Those that choose one by themselves (AUTO, MULTI,
            HETERO, BATCH) are refused.
        precision: Type of the floating-point arithmetic.
        threads: Threads of a run. One keeps reductions in a fixed order; 0 leaves the number
            to OpenVINO.
        properties: Pairs of another property of the device and its value.
        seed: Seed of the random operators that have none of their own, together with the
            name of what each computes.
    """

    device: str = "CPU"
    precision: Precision = "f32"
    threads: int = 1
    properties: tuple[tuple[str, str], ...] = ()
    seed: int = 0

    @property
    def name(self) -> str:
        """The name, with every option that changes the numbers and is not the default."""
        parts = [] if self.device == "CPU" else [self.device]
        parts += [] if self.precision == "f32" else [f"precision={self.precision}"]
        parts += [] if self.threads == 1 else [f"threads={self.threads}"]
        parts += [f"{key}={value}" for key, value in self.properties]
        parts += [] if self.seed == 0 else [f"seed={self.seed}"]
        return f"openvino[{', '.join(parts)}]" if parts else "openvino"

    def describe(self) -> dict[str, str | int | float | bool]:
        """Return the version, the device and every option.

        Raises:
            EngineUnavailableError: OpenVINO or the device is not on this machine.
        """
        ov, core = self._core()
        return {
            "engine": "openvino",
            "version": str(ov.__version__),
            "device": self.device,
            "device_name": str(core.get_property(self.device, "FULL_DEVICE_NAME")),
            "precision": self.precision,
            "threads": self.threads,
            **{f"property.{key}": value for key, value in self.properties},
            "seed": self.seed,
        }

    @contextmanager
    def prepare(self, model: ir.Model) -> Iterator[OpenVinoSession]:
        """Make ``model`` ready; see ``Engine.prepare``."""
        self._core()
        _refuse_types(model)
        session = OpenVinoSession(self, with_seeds(model, self.seed))
        try:
            yield session
        finally:
            session.close()

    def compile(self, proto: onnx.ModelProto) -> Any:
        """Return OpenVINO's compiled model.

        Raises:
            UnsupportedModelError: OpenVINO lacks an operator, a form of it, or the precision.
            EngineError: It refuses the model for another reason.
        """
        _, core = self._core()
        settings = {
            "INFERENCE_PRECISION_HINT": self.precision,
            "EXECUTION_MODE_HINT": "ACCURACY",
            "NUM_STREAMS": 1,
            **dict(self.properties),
        }
        if self.device == "CPU":
            cpu = {"INFERENCE_NUM_THREADS": self.threads, "ENABLE_CPU_PINNING": False}
            settings = {**cpu, "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0", **settings}
        try:
            read = core.read_model(proto.SerializeToString())
        except Exception as error:  # pybind raises RuntimeError for whatever C++ throws
            raise translate(error, reading=True) from error
        try:
            compiled = core.compile_model(read, self.device, settings)
            used = compiled.get_property("INFERENCE_PRECISION_HINT").to_string()
        except Exception as error:
            raise translate(error) from error
        if used != self.precision:
            raise UnsupportedModelError(
                f"{self.device} computes in {used}, not in {self.precision}",
                help=f"ask for openvino{{precision={used}}}",
            )
        return compiled

    def _core(self) -> tuple[ModuleType, Any]:
        ov, core = load_openvino()
        present = list(core.available_devices)
        if self.device not in present:
            raise EngineUnavailableError(
                f"OpenVINO finds no device {self.device!r}",
                help=did_you_mean(self.device, present),
            )
        return ov, core


class OpenVinoSession:
    """A model compiled by OpenVINO, and the weights that it points into."""

    def __init__(self, engine: OpenVinoEngine, model: ir.Model) -> None:
        self._engine = engine
        self._interface = Interface(model)
        proto, weights = split_for_engine(model, _array)
        self._defaults = {
            str(value.name): value.const_value
            for value in model.graph.inputs
            if value.const_value is not None
        }
        self._proto: onnx.ModelProto | None = _by_address(proto, weights)
        self._weights = weights
        self._requests: dict[frozenset[str], Any] = {}
        self._request(frozenset())

    def close(self) -> None:
        """Free what was compiled, then let go of the weights that it points into."""
        self._requests = {}
        self._weights = {}
        self._proto = None

    def run(self, feeds: Feeds, outputs: Sequence[str] | None = None) -> Outputs:
        """Run once; see ``Session.run``."""
        names = self._interface.check(feeds, outputs)
        if self._proto is None:
            raise EngineError("the session is closed")
        given = {name for name in self._defaults if name in feeds}
        request = self._request(frozenset(given))
        for port in request.model_inputs:
            name = next(n for n in port.get_names() if n in self._interface.inputs)
            request.set_tensor(port, _tensor(name, feeds[name], port))
        try:
            request.infer()
        except Exception as error:
            raise translate(error) from error
        found: Outputs = {
            name: _data(request.get_output_tensor(index), self._interface.outputs[name])
            for index, name in enumerate(self._interface.outputs)
            if name in names
        }
        return {name: found[name] for name in names}

    def _request(self, given: frozenset[str]) -> Any:
        """Return a request of the model in which defaults that are fed are not constants."""
        assert self._proto is not None
        if given not in self._requests:
            compiled = self._engine.compile(_without_defaults(self._proto, given))
            for name, port in zip(self._interface.outputs, compiled.outputs, strict=False):
                if name not in port.get_names():
                    raise UnsupportedModelError(f"OpenVINO returns no output {name!r}")
            self._requests[given] = compiled.create_infer_request()
        return self._requests[given]


@cache
def load_openvino() -> tuple[ModuleType, Any]:
    """Import OpenVINO.

    Returns:
        The package, and the one object through which this process asks it.

    Raises:
        EngineUnavailableError: It is not installed, or does not load.
    """
    try:
        ov = importlib.import_module("openvino")
    except ImportError as error:
        raise EngineUnavailableError(
            f"openvino cannot be loaded: {error}", help="pip install 'onnx-passes[openvino]'"
        ) from error
    return ov, ov.Core()


def _refuse_types(model: ir.Model) -> None:
    """Refuse what OpenVINO would compute in another type, or end the process with.

    Raises:
        UnsupportedModelError: The model has float64 or string tensors, or an input or output
            is not a tensor, or has less than a byte to an element.
    """
    graph = model.graph
    used: set[ir.DataType | None] = set().union(*inferred_types(model).values())
    used |= {value.dtype for value in graph.inputs} | {t.dtype for t in all_tensors(model)}
    used |= {value.dtype for node in all_nodes(model) for value in node.outputs}
    if ir.DataType.DOUBLE in used:
        raise UnsupportedModelError(
            "OpenVINO computes float64 in float32",
            help="run this model on onnxruntime, or convert it to float32",
        )
    if ir.DataType.STRING in used:
        raise UnsupportedModelError(
            "strings are not run on OpenVINO, whose CPU device corrupts memory with them",
            help="run this model on onnxruntime",
        )
    for value in (*graph.inputs, *graph.outputs):
        if value.type is not None and not isinstance(value.type, ir.TensorType):
            raise UnsupportedModelError(
                f"{value.name!r} is not a tensor, and OpenVINO has no other values"
            )
        if value.dtype is not None and value.dtype.itemsize < 1:
            raise UnsupportedModelError(
                f"{value.name!r} is {value.dtype.name.lower()}, which is not fed or fetched",
                help="cast it at the border of the model, to int8 or float",
            )


def _array(tensor: ir.TensorProtocol) -> Array:
    """Return the bytes of a tensor as ONNX stores them, in place where that is possible."""
    if tensor.dtype.itemsize < 1:
        return np.frombuffer(tensor.tobytes(), np.uint8)
    return np.require(tensor.numpy(), requirements=["C", "A"])


def _by_address(proto: onnx.ModelProto, weights: dict[str, Array]) -> onnx.ModelProto:
    """Return a model whose weights are found by their addresses, and without functions."""
    for initializer in proto.graph.initializer:
        if (array := weights.get(initializer.name)) is not None:
            del initializer.external_data[:]
            place = {
                "location": _BY_ADDRESS,
                "offset": str(array.ctypes.data),
                "length": str(array.nbytes),
            }
            for key, text in place.items():
                initializer.external_data.add(key=key, value=text)
    if not proto.functions:
        return proto
    try:
        inlined: onnx.ModelProto = onnx.inliner.inline_local_functions(proto)
    except Exception as error:  # the inliner raises what C++ throws
        raise EngineError(f"the functions of the model cannot be inlined: {error}") from error
    return inlined


def _without_defaults(proto: onnx.ModelProto, given: Collection[str]) -> onnx.ModelProto:
    if not given:
        return proto
    found = onnx.ModelProto()
    found.CopyFrom(proto)
    kept = [each for each in found.graph.initializer if each.name not in given]
    del found.graph.initializer[:]
    found.graph.initializer.extend(kept)
    return found


def _tensor(name: str, data: Data, port: Any) -> Any:
    ov, _ = load_openvino()
    assert isinstance(data, np.ndarray | np.generic), "the interface has tensors only"
    array = np.asarray(data)
    if array.dtype.kind in "iu" and array.dtype.itemsize >= 4 and array.size:
        low, high = int(array.min()), int(array.max())
        if low < _INT32.min or high > _INT32.max:
            raise EngineError(
                f"the input {name!r} holds {low if low < _INT32.min else high}, and OpenVINO "
                f"computes {array.dtype} in int32",
                help="give values of 32 bits, or run this model on onnxruntime",
            )
    array = np.require(array, array.dtype.newbyteorder("="), ["C", "A"])
    if array.dtype.isbuiltin == 1:
        return ov.Tensor(array, shared_memory=True)
    bits = array.view(np.dtype(f"u{array.dtype.itemsize}"))
    return ov.Tensor(bits, list(array.shape), port.get_element_type())


def _data(tensor: Any, declared: ir.TypeProtocol | None) -> Array:
    found: Array = np.array(tensor.data)  # OpenVINO writes the next results there
    assert isinstance(declared, ir.TensorType), "other outputs are refused"
    kind = declared.dtype.numpy()
    # A type that numpy lacks comes as its bits, in one that numpy has.
    return found if kind.isbuiltin == 1 else found.view(kind)
