"""The part of CUDA that a session needs: a context, a stream, and memory that is reused."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from onnx_passes.errors import EngineError
from onnx_passes.runtime.tensorrt.cuda_driver import Driver

_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING


class Cuda:
    """The primary context of the first GPU, which TensorRT uses too, and a stream on it."""

    def __init__(self) -> None:
        """Take part in the context.

        Raises:
            EngineUnavailableError: There is no driver, or no GPU.
            EngineError: The GPU cannot be used.
        """
        self._driver = Driver()
        self._device = self._driver.integer("cuDeviceGet", 0)
        self._context = ctypes.c_void_p()
        self._stream = ctypes.c_void_p()
        self._closed = False
        self._driver.call(
            "cuDevicePrimaryCtxRetain", ctypes.byref(self._context), self._device
        )
        try:
            self.activate()
            self._driver.call("cuStreamCreate", ctypes.byref(self._stream), _NON_BLOCKING)
        except EngineError:
            self._driver.call("cuDevicePrimaryCtxRelease_v2", self._device)
            raise

    @property
    def stream(self) -> int:
        """The stream's handle, as TensorRT wants it."""
        return self._stream.value or 0

    def activate(self) -> None:
        """Make the context that of this thread."""
        self._driver.call("cuCtxSetCurrent", self._context)

    def synchronize(self, stream: int | None = None) -> None:
        """Wait for a stream, by default one's own; what failed on it fails here.

        Raises:
            EngineError: As :meth:`Driver.call`.
        """
        handle = self._stream if stream is None else ctypes.c_void_p(stream)
        self._driver.call("cuStreamSynchronize", handle)

    def device_memory(self) -> Memory:
        """Return memory on the GPU, none to begin with."""
        return Memory(self._allocate, lambda at: self._driver.call("cuMemFree_v2", _u64(at)))

    def pinned_memory(self) -> Memory:
        """Return memory of the host that the GPU can reach, none to begin with."""
        return Memory(
            self._allocate_pinned,
            lambda at: self._driver.call("cuMemFreeHost", ctypes.c_void_p(at)),
        )

    def to_device(self, target: int, source: int, size: int) -> None:
        """Copy from pinned memory, on the stream.

        Args:
            target: Address on the device.
            source: Address of pinned memory.
            size: Bytes.
        """
        if size:
            self._driver.call(
                "cuMemcpyHtoDAsync_v2",
                _u64(target),
                ctypes.c_void_p(source),
                ctypes.c_size_t(size),
                self._stream,
            )

    def to_host(self, target: int, source: int, size: int, stream: int | None = None) -> None:
        """Copy to pinned memory, on a stream, by default one's own.

        Args:
            target: Address of pinned memory.
            source: Address on the device.
            size: Bytes.
            stream: The stream; None for one's own.
        """
        if size:
            self._driver.call(
                "cuMemcpyDtoHAsync_v2",
                ctypes.c_void_p(target),
                _u64(source),
                ctypes.c_size_t(size),
                self._stream if stream is None else ctypes.c_void_p(stream),
            )

    def close(self) -> None:
        """Give the stream and the context back; again does nothing.

        Raises:
            EngineError: As :meth:`Driver.call`.
        """
        if self._closed:
            return
        self._closed = True
        try:
            self._driver.call("cuStreamDestroy_v2", self._stream)
        finally:
            self._driver.call("cuDevicePrimaryCtxRelease_v2", self._device)

    def _allocate(self, size: int) -> int:
        address = ctypes.c_uint64()
        self._driver.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def _allocate_pinned(self, size: int) -> int:
        address = ctypes.c_void_p()
        self._driver.call("cuMemAllocHost_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value or 0


class Memory:
    """A piece of memory that grows when it has to, and stays for the next run.

    Attributes:
        address: Where it lies; 0 before the first :meth:`reserve`.
        size: Its bytes.
    """

    def __init__(self, allocate: Callable[[int], int], free: Callable[[int], None]) -> None:
        self._allocate, self._free = allocate, free
        self.address = self.size = 0

    def reserve(self, size: int) -> int:
        """Return an address with room for a number of bytes, which may be 0 for TensorRT.

        What was in it is lost where it grows.

        Raises:
            EngineError: There is not that much memory.
        """
        wanted = max(size, 1)
        if wanted > self.size:
            self.close()
            self.address = self._allocate(wanted)
            self.size = wanted
        return self.address

    def close(self) -> None:
        """Free it; again does nothing.

        Raises:
            EngineError: As :meth:`Driver.call`.
        """
        address, self.address, self.size = self.address, 0, 0
        if address:
            self._free(address)


def _u64(address: int) -> ctypes.c_uint64:
    # CUdeviceptr is an integer of the size of a pointer, which ctypes would cut to an int.
    return ctypes.c_uint64(address)
