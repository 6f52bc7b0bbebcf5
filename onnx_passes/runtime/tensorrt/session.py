"""A TensorRT engine made ready to run, on buffers that are kept from run to run."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import ModuleType

import numpy as np

from onnx_passes.errors import EngineCrashedError, EngineError
from onnx_passes.plain import PlainDict
from onnx_passes.runtime.engine_base import Array, Feeds, Outputs
from onnx_passes.runtime.interface import SessionInterface
from onnx_passes.runtime.tensorrt.allocator import Grown, Watched, copy_from_host
from onnx_passes.runtime.tensorrt.binding_types import TrtContext
from onnx_passes.runtime.tensorrt.built_layers import inspect_layers, profiler, with_times
from onnx_passes.runtime.tensorrt.cuda import Cuda, Memory
from onnx_passes.runtime.tensorrt.loaded import EnginePort, Loaded, skeleton
from onnx_passes.runtime.tensorrt.log import BuildLog


class TensorRtSession:
    """An engine on the GPU, its context, and the memory of its inputs and outputs.

    Attributes:
        interface: How it is called.
    """

    def __init__(
        self,
        trt: ModuleType,
        plan: bytes,
        log: BuildLog,
        *,
        interface: SessionInterface | None = None,
        watch: bool = False,
        host_code: bool = False,
        profile: bool = False,
    ) -> None:
        """Load an engine.

        Args:
            trt: The bindings.
            plan: The engine, serialised.
            log: What TensorRT logs to.
            interface: How the model was called; by default as the engine is.
            watch: Whether a run without names also returns the debug tensors of the engine.
            host_code: Whether code for the host in the engine may run.
            profile: Whether the time of each layer is kept, which slows runs down.

        Raises:
            EngineUnavailableError: There is no GPU, or the engine is not for it.
            EngineError: The GPU cannot be used.
        """
        self._trt, self._log = trt, log
        self._loaded: Loaded | None = None
        self._device: dict[str, Memory] = {}
        self._host: dict[str, Memory] = {}
        self._grown: dict[str, Grown] = {}
        self._watched: Watched | None = None
        self._times: dict[str, list[float]] = {}
        self._profile = 0
        self._cuda = Cuda()
        try:
            self._loaded = Loaded(trt, plan, log, host_code=host_code)
            ports = self._loaded.ports
            self._inputs = [port for port in ports if port.is_input]
            self._outputs = {port.name: port for port in ports if not port.is_input}
            self.interface = interface or SessionInterface(skeleton(ports))
            self._check_outputs()
            if watch:
                self._watch(self._loaded.context)
            if profile:
                self._profiler = profiler(trt, self._times)
                self._loaded.context.profiler = self._profiler
        except BaseException:
            self.close()
            raise

    def _check_outputs(self) -> None:
        if lacking := [name for name in self.interface.outputs if name not in self._outputs]:
            raise EngineError(f"the engine lacks the outputs {', '.join(lacking)}")

    def _watch(self, context: TrtContext) -> None:
        self._watched = Watched(self._trt, self._cuda)
        if not context.set_debug_listener(self._watched.listener):
            raise self._failure("TensorRT takes no listener for debug tensors")
        context.unfused_tensors_debug_state = True

    def run(self, feeds: Feeds, outputs: Sequence[str] | None = None) -> Outputs:
        """Run once; see ``Session.run``.

        A session that watches adds the debug tensors unless ``outputs`` names some.

        Raises:
            EngineCrashedError: The GPU is lost to this process.
            EngineError: No profile holds the shapes, or TensorRT fails.
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
        if self._watched is not None:
            self._watched.begin()
        done = context.execute_async_v3(self._cuda.stream)
        # A kernel that failed says so here, and TensorRT in its log.
        self._cuda.synchronize()
        self._raise_from_callbacks()
        if not done:
            raise self._failure("TensorRT does not run the engine")
        found: Outputs = {n: self._fetch(context, self._outputs[n]) for n in names}
        if self._watched is not None and outputs is None:
            found |= {n: v for n, v in self._watched.found.items() if n not in found}
        return found

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
            if self._watched is not None:
                self._watched.close()
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

    def _choose_profile(self, loaded: Loaded, arrays: dict[str, Array]) -> None:
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

    def _feed(self, context: TrtContext, port: EnginePort, array: Array) -> None:
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

    def _infer_shapes(self, context: TrtContext) -> None:
        try:
            lacking = context.infer_shapes()
        except RuntimeError as error:
            raise self._failure(f"TensorRT cannot infer the shapes: {error}") from error
        if lacking:
            raise self._failure(f"TensorRT lacks the shapes of {', '.join(lacking)}")

    def _place(self, context: TrtContext, port: EnginePort) -> None:
        """Give an output its memory, or the means to ask for it where the data decide."""
        shape = tuple(context.get_tensor_shape(port.name))
        if any(size < 0 for size in shape):
            grown = self._grown.get(port.name)
            if grown is None:
                on_host = self._cuda.pinned_memory if port.on_host else None
                grown = Grown(self._trt, (on_host or self._cuda.device_memory)())
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

    def _fetch(self, context: TrtContext, port: EnginePort) -> Array:
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

    def _set_address(self, context: TrtContext, port: EnginePort, address: int) -> None:
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
        errors += [self._watched.error] if self._watched is not None else []
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
