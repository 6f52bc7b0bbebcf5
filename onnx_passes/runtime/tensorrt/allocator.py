"""Outputs whose shapes only the data decide, and tensors that are watched on the way."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from types import ModuleType

import numpy as np

from onnx_passes.arrays import Array, DType
from onnx_passes.errors import EngineError
from onnx_passes.runtime.tensorrt.binding_types import TrtMember
from onnx_passes.runtime.tensorrt.bindings import make_listener
from onnx_passes.runtime.tensorrt.cuda import Cuda, Memory
from onnx_passes.runtime.tensorrt.types import numpy_type


class Grown:
    """Memory of one output, which TensorRT asks for while it runs.

    Attributes:
        memory: Memory on the GPU.
        shape: Shape of the output; None until TensorRT reports it.
        error: What went wrong inside TensorRT's call, which an exception would not leave.
        listener: What TensorRT calls.
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


def _allocator(trt: ModuleType, grown: Grown) -> object:
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


class Watched:
    """Values of debug tensors, copied when TensorRT has computed them.

    Attributes:
        found: The values by TensorRT's name, in the order in which they came.
        error: What went wrong inside TensorRT's call.
        listener: What TensorRT calls.
    """

    def __init__(self, trt: ModuleType, cuda: Cuda) -> None:
        """Wait for TensorRT's call."""
        self.found: dict[str, Array] = {}
        self.error: EngineError | None = None
        self._cuda, self._pinned = cuda, cuda.pinned_memory()
        self._on_host = trt.TensorLocation.HOST

        def process_debug_tensor(
            self_: object,
            addr: object,
            location: object,
            type_: TrtMember,
            shape: Iterable[int],
            name: str,
            stream: int,
        ) -> None:
            self.keep(addr, location, type_, tuple(shape), name, stream)

        self.listener = make_listener(trt.IDebugListener, process_debug_tensor)

    def begin(self) -> None:
        """Forget the last run."""
        self.found, self.error = {}, None

    def keep(
        self,
        addr: object,
        location: object,
        type_: TrtMember,
        shape: tuple[int, ...],
        name: str,
        stream: int,
    ) -> None:
        """Copy a value; one of a type that numpy has no form for is left out.

        Args:
            addr: Address of the value.
            location: Whether it is on the host or the device.
            type_: Its type, as TensorRT has it.
            shape: Its shape.
            name: Its name.
            stream: The CUDA stream that computes it.
        """
        try:
            dtype = numpy_type(type_, name)
            size = dtype.itemsize * int(np.prod(shape, dtype=np.int64))
            source = _address(addr)
            if location != self._on_host:
                target = self._pinned.reserve(size)
                self._cuda.to_host(target, source, size, stream)
                self._cuda.synchronize(stream)
                source = target
            self.found[name] = copy_from_host(source, dtype, shape)
        except EngineError as error:
            self.error = self.error or error

    def close(self) -> None:
        """Free its memory."""
        self._pinned.close()


def copy_from_host(address: int, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Return a copy of an array that lies in memory of the host.

    Args:
        address: Address of the first element.
        dtype: Element type of the array.
        shape: Its shape.
    """
    count = int(np.prod(shape, dtype=np.int64))
    array = np.empty(count, dtype)
    if count:
        ctypes.memmove(array.ctypes.data, address, array.nbytes)
    return array.reshape(shape)


def _address(found: object) -> int:
    """Return an address that the bindings give as an integer, or as a capsule."""
    if isinstance(found, int):
        return found
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    return get(found, None) or 0
