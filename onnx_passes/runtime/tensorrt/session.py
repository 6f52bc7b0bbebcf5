"""A TensorRT engine loaded from its bytes and run, on buffers that are kept between runs.

If the shape of an output depends on data, its memory is allocated while the engine runs.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType
from typing import TypeVar

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array, DType
from onnx_passes.errors import EngineCrashedError, EngineError, EngineUnavailableError
from onnx_passes.plain import Foreign, PlainDict
from onnx_passes.runtime.engine_base import Feeds, Outputs, SessionInterface
from onnx_passes.runtime.tensorrt.bindings import (
    BuildLog,
    inspect_layers,
    make_listener,
    onnx_type,
    profiler,
    with_times,
)
from onnx_passes.runtime.tensorrt.cuda import Cuda, Memory, gpu_missing
from onnx_passes.runtime.tensorrt.engine_options import Dims

T = TypeVar("T")
Ranges = tuple[Dims, Dims, Dims]
"""Least, best and greatest: sizes of dimensions, or values."""


@dataclass(frozen=True)
class EnginePort:
    """An input or an output.

    ``shape`` has -1 for what is not fixed. TensorRT wants it in memory of the host if
    ``on_host``. If its values decide shapes, ``profiles`` have values in place of shapes.
    """

    name: str
    is_input: bool
    dtype: ir.DataType
    shape: Dims
    on_host: bool
    decides: bool = False
    profiles: tuple[Ranges, ...] = ()

    def fits(self, array: Array, index: int) -> bool:
        """Whether a value is within the profile with that number."""
        least, _, most = self.profiles[index] if index < len(self.profiles) else ((), (), ())
        if not most:
            return True  # a scalar, or values that are not limited
        sizes = tuple(array.reshape(-1).tolist()) if self.decides else array.shape
        return len(sizes) == len(least) and all(
            low <= size <= high for low, size, high in zip(least, sizes, most, strict=True)
        )


class LoadedEngine:
    """A runtime, the engine that it made of bytes, and a context to run it in.

    ``engine`` and ``context`` are objects of the bindings; ``ports`` are in the engine's
    order, and ``profiles`` counts optimization profiles.
    """

    def __init__(self, trt: ModuleType, plan: bytes, log: BuildLog) -> None:
        """Load an engine onto the GPU.

        Raises EngineUnavailableError with the log if there is no GPU or not the right one, and
        UnsupportedModelError for types that are not fed or fetched.
        """
        if (missing := gpu_missing()) is not None:
            # Without a driver a Runtime may end the process, when it is freed at the latest.
            raise EngineUnavailableError(
                missing, help="run it on a machine with an NVIDIA GPU and its driver"
            )
        self._log = log
        # Freed in the opposite order: each needs the one before it alive.
        self._runtime: Foreign | None = self._make(trt.Runtime, log.listener)
        self.engine: Foreign = self._make(self._runtime.deserialize_cuda_engine, plan)
        self.profiles: int = max(self.engine.num_optimization_profiles, 1)
        self.ports = tuple(_ports(trt, self.engine))
        self.context: Foreign = self._make(self.engine.create_execution_context)

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


def _ports(trt: ModuleType, engine: Foreign) -> Iterator[EnginePort]:
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


def _ranges(engine: Foreign, name: str, values: bool) -> Iterator[Ranges]:
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


class OutputAllocator:
    """Memory of one output, which TensorRT asks for while it runs.

    TensorRT reports ``shape`` while it runs. ``error`` is kept because no exception leaves
    TensorRT's call to ``listener``.
    """

    def __init__(self, trt: ModuleType, memory: Memory) -> None:
        """Wait for TensorRT's call."""
        self.memory = memory
        self.shape: tuple[int, ...] | None = None
        self.error: EngineError | None = None
        self.listener = _allocator(trt, self)

    def begin(self) -> None:
        """Forget the last run; its memory stays."""
        self.shape = self.error = None

    def reserve(self, size: int) -> int:
        """Return an address for a number of bytes; 0 if there is not enough memory."""
        try:
            return self.memory.reserve(size)
        except EngineError as error:
            self.error = error
            return 0


def _allocator(trt: ModuleType, grown: OutputAllocator) -> object:
    def reallocate_output(
        self: object, tensor_name: str, memory: int, size: int, alignment: int
    ) -> int:
        return grown.reserve(size)

    def reallocate_output_async(
        self: object, tensor_name: str, memory: int, size: int, alignment: int, stream: int
    ) -> int:
        return grown.reserve(size)

    def notify_shape(self: object, tensor_name: str, shape: Iterable[int]) -> None:
        grown.shape = tuple(shape)

    return make_listener(
        trt.IOutputAllocator, reallocate_output, reallocate_output_async, notify_shape
    )


def copy_from_host(address: int, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Return a copy of an array that lies in memory of the host."""
    count = int(np.prod(shape, dtype=np.int64))
    array = np.empty(count, dtype)
    if count:
        ctypes.memmove(array.ctypes.data, address, array.nbytes)
    return array.reshape(shape)


class TensorRtSession:
    """An engine on the GPU, its context, and the memory of its inputs and outputs."""

    def __init__(
        self,
        trt: ModuleType,
        plan: bytes,
        log: BuildLog,
        *,
        interface: SessionInterface,
        profile: bool = False,
    ) -> None:
        """Load an engine.

        The model is called by ``interface``. ``profile`` keeps the time of each layer, which
        slows runs down. Errors are those of :class:`LoadedEngine`, and EngineError for a GPU
        that fails.
        """
        self._trt, self._log = trt, log
        self._loaded: LoadedEngine | None = None
        self._device: dict[str, Memory] = {}
        self._host: dict[str, Memory] = {}
        self._grown: dict[str, OutputAllocator] = {}
        self._times: dict[str, list[float]] = {}
        self._profile = 0
        self._cuda = Cuda()
        try:
            self._loaded = LoadedEngine(trt, plan, log)
            ports = self._loaded.ports
            self._inputs = [port for port in ports if port.is_input]
            self._outputs = {port.name: port for port in ports if not port.is_input}
            self.interface = interface
            self._check_outputs()
            if profile:
                self._profiler = profiler(trt, self._times)
                self._loaded.context.profiler = self._profiler
        except BaseException:
            self.close()
            raise

    def _check_outputs(self) -> None:
        if lacking := [name for name in self.interface.outputs if name not in self._outputs]:
            raise EngineError(f"the engine lacks the outputs {', '.join(lacking)}")

    def run(self, feeds: Feeds, outputs: Sequence[str] | None = None) -> Outputs:
        """Run once; see ``Session.run``.

        Raises EngineCrashedError if the GPU is lost to this process, and EngineError if no
        profile holds the shapes, or TensorRT fails.
        """
        names = self.interface.check(feeds, outputs)
        if self._loaded is None:
            raise EngineError("the session is closed")
        self._check_defaults(feeds)
        self._log.begin()
        self._cuda.activate()
        context = self._loaded.context
        arrays = {port.name: self._array(port, feeds) for port in self._inputs}
        self._choose_profile(self._loaded, arrays)
        for port in self._inputs:
            self._feed(context, port, arrays[port.name])
        self._infer_shapes(context)
        for port in self._outputs.values():
            self._place(context, port)
        done = context.execute_async_v3(self._cuda.stream)
        # A kernel that failed says so here, and TensorRT in its log.
        self._cuda.synchronize()
        self._raise_from_callbacks()
        if not done:
            raise self._failure("TensorRT does not run the engine")
        return {n: self._fetch(context, self._outputs[n]) for n in names}

    def layers(self) -> list[PlainDict]:
        """Return the layers of the engine, with the times of those that were profiled."""
        if self._loaded is None:
            raise EngineError("the session is closed")
        return with_times(inspect_layers(self._trt, self._loaded.engine), self._times)

    def close(self) -> None:
        """Free the memory, the engine and the stream; again does nothing."""
        loaded, self._loaded = self._loaded, None
        memories = [*self._device.values(), *self._host.values()]
        memories += [grown.memory for grown in self._grown.values()]
        # After a fault of the GPU each of these fails as well, and says nothing new.
        with suppress(EngineCrashedError):
            self._cuda.activate()
            if loaded is not None:
                loaded.close()
            for memory in memories:
                memory.close()
            self._cuda.close()

    def _check_defaults(self, feeds: Feeds) -> None:
        known = {*self.interface.required, *(port.name for port in self._inputs)}
        if extra := [name for name in feeds if name not in known]:
            raise EngineError(
                f"the engine has no input {extra[0]!r}: its default is compiled in",
                help="leave it out of the inputs, or let it have no initializer",
            )

    def _array(self, port: EnginePort, feeds: Feeds) -> Array:
        data = feeds.get(port.name)
        if not isinstance(data, np.ndarray | np.generic):
            raise EngineError(f"the engine has an input {port.name!r}, which is not fed")
        array = np.asarray(data)
        wanted = port.dtype.numpy()
        if array.dtype.newbyteorder("=") != wanted:
            raise EngineError(
                f"the input {port.name!r} is fed {array.dtype}, and the engine takes {wanted}"
            )
        # A buffer is copied as it lies: native and in order.
        return np.require(array, wanted, ["C", "A"])

    def _choose_profile(self, loaded: LoadedEngine, arrays: dict[str, Array]) -> None:
        """Take the profile in use if the inputs fit it, else the first that they fit."""
        order = sorted(range(loaded.profiles), key=lambda index: index != self._profile)
        for index in order:
            if all(port.fits(arrays[port.name], index) for port in self._inputs):
                break
        else:
            raise EngineError(
                f"no profile of the engine holds {_shapes(arrays)}: {self._ranges(arrays)}",
                help="build it with 'profiles' that hold these shapes",
            )
        if index == self._profile:
            return
        if not loaded.context.set_optimization_profile_async(index, self._cuda.stream):
            raise self._failure(f"TensorRT does not take profile {index}")
        self._cuda.synchronize()
        self._profile = index

    def _ranges(self, arrays: dict[str, Array]) -> str:
        ranges = []
        for port in self._inputs:
            bad = [i for i in range(len(port.profiles)) if not port.fits(arrays[port.name], i)]
            for index in bad[:1]:
                least, _, most = port.profiles[index]
                ranges.append(f"{port.name} may be {list(least)} to {list(most)}")
        return ", ".join(ranges)

    def _feed(self, context: Foreign, port: EnginePort, array: Array) -> None:
        if not context.set_input_shape(port.name, tuple(array.shape)):
            raise self._failure(
                f"TensorRT does not take {list(array.shape)} for {port.name!r}"
            )
        pinned = self._memory(self._host, port.name, self._cuda.pinned_memory)
        address = pinned.reserve(array.nbytes)
        _write(address, array)
        if not port.on_host:
            memory = self._memory(self._device, port.name, self._cuda.device_memory)
            target = memory.reserve(array.nbytes)
            self._cuda.to_device(target, address, array.nbytes)
            address = target
        self._set_address(context, port, address)

    def _infer_shapes(self, context: Foreign) -> None:
        try:
            lacking = context.infer_shapes()
        except RuntimeError as error:
            raise self._failure(f"TensorRT cannot infer the shapes: {error}") from error
        if lacking:
            raise self._failure(f"TensorRT lacks the shapes of {', '.join(lacking)}")

    def _place(self, context: Foreign, port: EnginePort) -> None:
        """Give an output its memory, or the means to ask for it where the data decide."""
        shape = tuple(context.get_tensor_shape(port.name))
        if any(size < 0 for size in shape):
            grown = self._grown.get(port.name)
            if grown is None:
                on_host = self._cuda.pinned_memory if port.on_host else None
                grown = OutputAllocator(self._trt, (on_host or self._cuda.device_memory)())
                self._grown[port.name] = grown
                if not context.set_output_allocator(port.name, grown.listener):
                    raise self._failure(f"TensorRT takes no allocator for {port.name!r}")
            grown.begin()
            return
        if port.name in self._grown:
            context.set_output_allocator(port.name, None)
            self._grown.pop(port.name).memory.close()
        size = math.prod(shape) * port.dtype.numpy().itemsize
        if port.on_host:
            memory = self._memory(self._host, port.name, self._cuda.pinned_memory)
        else:
            memory = self._memory(self._device, port.name, self._cuda.device_memory)
        self._set_address(context, port, memory.reserve(size))

    def _fetch(self, context: Foreign, port: EnginePort) -> Array:
        grown = self._grown.get(port.name)
        shape = tuple(context.get_tensor_shape(port.name)) if grown is None else grown.shape
        if shape is None or any(size < 0 for size in shape):
            raise self._failure(f"TensorRT does not report the shape of {port.name!r}")
        dtype = port.dtype.numpy()
        size = math.prod(shape) * dtype.itemsize
        near = self._host if port.on_host else self._device
        source = near[port.name] if grown is None else grown.memory
        if port.on_host:
            found: Array = copy_from_host(source.address, dtype, shape)
            return found
        pinned = self._memory(self._host, port.name, self._cuda.pinned_memory)
        address = pinned.reserve(size)
        self._cuda.to_host(address, source.address, size)
        self._cuda.synchronize()
        found = copy_from_host(address, dtype, shape)
        return found

    def _set_address(self, context: Foreign, port: EnginePort, address: int) -> None:
        if not context.set_tensor_address(port.name, address):
            raise self._failure(f"TensorRT does not take the memory of {port.name!r}")

    def _memory(
        self, known: dict[str, Memory], name: str, make: Callable[[], Memory]
    ) -> Memory:
        if name not in known:
            known[name] = make()
        return known[name]

    def _raise_from_callbacks(self) -> None:
        errors = [grown.error for grown in self._grown.values()]
        for error in errors:
            if error is not None:
                raise error

    def _failure(self, message: str) -> EngineError:
        said = "; ".join(self._log.errors)
        return EngineError(f"{message}: {said}" if said else message, where=self._log.text)


def _write(address: int, array: Array) -> None:
    if array.nbytes:
        ctypes.memmove(address, array.ctypes.data, array.nbytes)


def _shapes(arrays: dict[str, Array]) -> str:
    return ", ".join(f"{name} of shape {list(array.shape)}" for name, array in arrays.items())
