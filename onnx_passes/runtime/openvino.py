"""OpenVINO as an engine: a compiler that fuses nodes, and executes without a GPU."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Literal

import onnx
import onnx_ir as ir

from onnx_passes.errors import EngineUnavailableError, UnsupportedModelError
from onnx_passes.model.walk import all_nodes, all_tensors
from onnx_passes.plain import Foreign
from onnx_passes.runtime.interface import did_you_mean
from onnx_passes.runtime.openvino_errors import translate
from onnx_passes.runtime.openvino_session import OpenVinoSession
from onnx_passes.runtime.seeding import with_seeds
from onnx_passes.runtime.value_types import infer_types

Precision = Literal["f32", "bf16", "f16"]


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
        properties: Pairs of another property of the device and its value.
        seed: Seed of the random operators that have none of their own, together with the
            name of what each computes.
        profile: Whether sessions report their layers and the time of each.
    """

    device: str = "CPU"
    precision: Precision = "f32"
    threads: int = 1
    properties: tuple[tuple[str, str], ...] = ()
    seed: int = 0
    profile: bool = False

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
        ov, _ = self._core()
        _refuse_types(model)
        model = with_seeds(model, self.seed)
        session = OpenVinoSession(ov, self.compile, model, profile=self.profile)
        try:
            yield session
        finally:
            session.close()

    def compile(self, proto: onnx.ModelProto) -> Foreign:
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
            **({"PERF_COUNT": True} if self.profile else {}),
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

    def _core(self) -> tuple[ModuleType, Foreign]:
        ov, core = load_openvino()
        present = list(core.available_devices)
        if self.device not in present:
            raise EngineUnavailableError(
                f"OpenVINO finds no device {self.device!r}",
                help=did_you_mean(self.device, present),
            )
        return ov, core


@cache
def load_openvino() -> tuple[ModuleType, Foreign]:
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
            f"openvino cannot be loaded: {error}",
            help="in a checkout: pip install '.[openvino]'",
        ) from error
    return ov, ov.Core()


def _refuse_types(model: ir.Model) -> None:
    """Refuse what OpenVINO would compute in another type, or end the process with.

    Raises:
        UnsupportedModelError: The model has float64 or string tensors, or an input or output
            is not a tensor, or has less than a byte to an element.
    """
    graph = model.graph
    used: set[ir.DataType | None] = set().union(*infer_types(model).values())
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
