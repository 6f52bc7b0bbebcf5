"""An engine brought back from its bytes, and what it says of itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType
from typing import TypeVar

import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.errors import EngineError, EngineUnavailableError
from onnx_passes.runtime.tensorrt.binding_types import TrtContext, TrtEngine, TrtRuntime
from onnx_passes.runtime.tensorrt.cuda_driver import gpu_missing
from onnx_passes.runtime.tensorrt.engine_options import Dims
from onnx_passes.runtime.tensorrt.log import BuildLog
from onnx_passes.runtime.tensorrt.types import onnx_type

T = TypeVar("T")
Ranges = tuple[Dims, Dims, Dims]
"""Least, best and greatest: sizes of dimensions, or values."""


@dataclass(frozen=True)
class EnginePort:
    """An input or an output.

    Attributes:
        name: Its name.
        is_input: Whether it is fed.
        dtype: Its element type.
        shape: Its shape, with -1 for what is not fixed.
        on_host: Whether TensorRT wants it in memory of the host.
        decides: Whether its values decide shapes.
        profiles: Per profile, the shapes that an input may have, or its values where these
            decide shapes.
    """

    name: str
    is_input: bool
    dtype: ir.DataType
    shape: Dims
    on_host: bool
    decides: bool = False
    profiles: tuple[Ranges, ...] = ()

    def fits(self, array: Array, index: int) -> bool:
        """Whether a value is within a profile.

        Args:
            array: The value of the input, of any shape; of integers if it decides shapes.
            index: Number of the profile.
        """
        least, _, most = self.profiles[index] if index < len(self.profiles) else ((), (), ())
        if not most:
            return True  # a scalar, or values that are not limited
        sizes = tuple(array.reshape(-1).tolist()) if self.decides else array.shape
        return len(sizes) == len(least) and all(
            low <= size <= high for low, size, high in zip(least, sizes, most, strict=True)
        )


class Loaded:
    """A runtime, the engine that it made of bytes, and a context to run it in.

    Attributes:
        engine: The bindings' ``ICudaEngine``.
        context: The bindings' ``IExecutionContext``.
        ports: Inputs and outputs, in the engine's order.
        profiles: Number of its optimization profiles.
    """

    def __init__(
        self, trt: ModuleType, plan: bytes, log: BuildLog, *, host_code: bool = False
    ) -> None:
        """Load an engine onto the GPU.

        Args:
            trt: The bindings.
            plan: The engine, serialised.
            log: What TensorRT logs to.
            host_code: Whether code for the host in the engine may run: one for later versions
                brings its libraries with it.

        Raises:
            EngineUnavailableError: There is no GPU, or the engine is not for it; the message
                has what was logged.
            UnsupportedModelError: An input or output has a type that is not fed or fetched.
        """
        if (missing := gpu_missing()) is not None:
            # Without a driver a Runtime may end the process, when it is freed at the latest.
            raise EngineUnavailableError(
                missing, help="run it on a machine with an NVIDIA GPU and its driver"
            )
        self._log = log
        # Freed in the opposite order: each needs the one before it alive.
        self._runtime: TrtRuntime | None = self._make(trt.Runtime, log.listener)
        if host_code:
            self._runtime.engine_host_code_allowed = True
        self.engine: TrtEngine = self._make(self._runtime.deserialize_cuda_engine, plan)
        self.profiles: int = max(self.engine.num_optimization_profiles, 1)
        self.ports = tuple(_ports(trt, self.engine))
        self.context: TrtContext = self._make(self.engine.create_execution_context)

    def _make(self, make: Callable[..., T | None], *arguments: object) -> T:
        try:
            found = make(*arguments)
        except (TypeError, RuntimeError) as error:  # pybind11 has no object to give
            raise self._refusal(str(error)) from error
        if found is None:
            raise self._refusal("it gives no reason")
        return found

    def _refusal(self, otherwise: str) -> EngineUnavailableError:
        said = "; ".join(self._log.errors) or otherwise
        return EngineUnavailableError(
            f"TensorRT cannot load the engine on this GPU: {said}",
            help="build it on this machine, with the version that is installed here",
        )

    def close(self) -> None:
        """Free all of it; again does nothing."""
        for name in ("context", "engine", "_runtime"):
            self.__dict__.pop(name, None)


def _ports(trt: ModuleType, engine: TrtEngine) -> Iterator[EnginePort]:
    for index in range(engine.num_io_tensors):
        name = engine.get_tensor_name(index)
        is_input = engine.get_tensor_mode(name) == trt.TensorIOMode.INPUT
        on_host = engine.get_tensor_location(name) == trt.TensorLocation.HOST
        decides = bool(engine.is_shape_inference_io(name))
        yield EnginePort(
            name,
            is_input,
            onnx_type(engine.get_tensor_dtype(name), name),
            tuple(engine.get_tensor_shape(name)),
            on_host,
            decides,
            tuple(_ranges(engine, name, decides)) if is_input else (),
        )


def _ranges(engine: TrtEngine, name: str, values: bool) -> Iterator[Ranges]:
    for index in range(engine.num_optimization_profiles):
        found: Sequence[Sequence[int]] = ()
        if values:
            # The bindings' own signature has the two arguments the wrong way round.
            with suppress(RuntimeError):
                found = engine.get_tensor_profile_values(index, name)
        else:
            found = engine.get_tensor_profile_shape(name, index)
        least, best, most = (tuple(each) for each in found) if found else ((), (), ())
        yield least, best, most


def skeleton(ports: tuple[EnginePort, ...]) -> ir.Model:
    """Return a model without nodes that is called as an engine is.

    Raises:
        EngineError: The engine has no inputs or outputs.
    """
    if not ports:
        raise EngineError("the engine has neither inputs nor outputs")
    values = {
        port.name: ir.Value(
            name=port.name,
            shape=ir.Shape([None if size < 0 else size for size in port.shape]),
            type=ir.TensorType(port.dtype),
        )
        for port in ports
    }
    graph = ir.Graph(
        [values[port.name] for port in ports if port.is_input],
        [values[port.name] for port in ports if not port.is_input],
        nodes=[],
        opset_imports={"": 20},
        name="engine",
    )
    return ir.Model(graph, ir_version=10)
