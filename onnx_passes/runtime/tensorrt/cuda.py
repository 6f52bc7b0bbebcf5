"""NVIDIA's CUDA driver, called through ctypes: GPUs, a context, a stream and memory.

Why not through cudart or a package: docs/maintainers/decisions/0007-cuda-through-the-driver.md
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from onnx_passes.errors import EngineCrashedError, EngineError, EngineUnavailableError

DRIVER = "libcuda.so.1"
"""The library that comes with NVIDIA's driver, and with nothing else."""

_MAJOR, _MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR
_NO_MEMORY = 2  # CUDA_ERROR_OUT_OF_MEMORY
_NAME_BYTES = 256
_DRIVER_HELP = "check the driver of the GPU: nvidia-smi"

# After these the context is lost: every call of the process fails until it ends. From the
# list of CUresult in NVIDIA's "CUDA Driver API".
_FATAL = frozenset({46, 214, 220, 226, 700, 702, 709, 710, *range(714, 720), 721, 999})


@dataclass(frozen=True)
class Device:
    """A GPU.

    ``capability`` is such as "8.9", ``memory`` in bytes, and ``driver`` the version of CUDA
    that it knows.
    """

    name: str
    capability: str
    memory: int
    driver: str


def gpu_count() -> int:
    """Return the number of GPUs that the driver reports; 0 without a driver.

    TensorRT itself must not be asked: without a driver it may end the process.
    """
    return _look()[0]


def gpu_missing() -> str | None:
    """Return why nothing can be executed on this machine, in one clause; None where it can."""
    return _look()[1]


def device() -> Device | None:
    """Return the first GPU; None without one. ``CUDA_VISIBLE_DEVICES`` chooses which it is."""
    return _device() if gpu_count() else None


@cache
def _look() -> tuple[int, str | None]:
    try:
        driver = Driver()
        count = driver.integer("cuDeviceGetCount")
    except EngineError as error:
        return 0, error.message
    return count, None if count else "the driver sees no GPU on this machine"


@cache
def _device() -> Device:
    driver = Driver()
    index = driver.integer("cuDeviceGet", 0)
    name = ctypes.create_string_buffer(_NAME_BYTES)
    driver.call("cuDeviceGetName", name, _NAME_BYTES, index)
    memory = ctypes.c_size_t()
    driver.call("cuDeviceTotalMem_v2", ctypes.byref(memory), index)
    major, minor = (
        driver.integer("cuDeviceGetAttribute", which, index) for which in (_MAJOR, _MINOR)
    )
    version = driver.integer("cuDriverGetVersion")
    return Device(
        name.value.decode(errors="replace"),
        f"{major}.{minor}",
        memory.value,
        f"{version // 1000}.{version % 1000 // 10}",
    )


class Driver:
    """The library, started; each call returns a code, and a bad one becomes an error."""

    def __init__(self) -> None:
        """Load and start it; EngineUnavailableError if there is no driver, or no GPU."""
        try:
            self._library: ctypes.CDLL = ctypes.CDLL(DRIVER)
        except OSError as error:
            raise EngineUnavailableError(
                f"there is no NVIDIA driver on this machine ({DRIVER} cannot be loaded)",
                help="run it on a machine with an NVIDIA GPU and its driver",
            ) from error
        code = self._library.cuInit(0)
        if code:
            raise EngineUnavailableError(
                f"the driver finds no GPU that it can use ({self.describe_error(code)})",
                help=_DRIVER_HELP,
            )

    def call(self, function: str, *arguments: object) -> None:
        """Call a function.

        Raises EngineCrashedError if the GPU, or the context on it, is lost; else EngineError
        with CUDA's name of the error.
        """
        code = getattr(self._library, function)(*arguments)
        if not code:
            return
        message = f"{function} failed: {self.describe_error(code)}"
        if code in _FATAL:
            raise EngineCrashedError(
                message, help=f"the GPU is lost to this process; {_DRIVER_HELP}"
            )
        help_ = "use a smaller batch or workspace" if code == _NO_MEMORY else _DRIVER_HELP
        raise EngineError(message, help=help_)

    def integer(self, function: str, *arguments: object) -> int:
        """Call a function that returns an integer through its first argument."""
        value = ctypes.c_int()
        self.call(function, ctypes.byref(value), *arguments)
        return value.value

    def describe_error(self, code: int) -> str:
        """Return an error's name and what CUDA says of it."""
        words = []
        for function in ("cuGetErrorName", "cuGetErrorString"):
            text = ctypes.c_char_p()
            if not getattr(self._library, function)(code, ctypes.byref(text)) and text.value:
                words.append(text.value.decode(errors="replace"))
        return ": ".join(words) or f"error {code}"


_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING


class Cuda:
    """The primary context of the first GPU, which TensorRT uses too, and a stream on it."""

    def __init__(self) -> None:
        """Take part in the context; errors are those of :class:`Driver`."""
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

    def synchronize(self) -> None:
        """Wait for the stream; what failed on it fails here."""
        self._driver.call("cuStreamSynchronize", self._stream)

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
        """Copy from pinned memory, on the stream."""
        if size:
            self._driver.call(
                "cuMemcpyHtoDAsync_v2",
                _u64(target),
                ctypes.c_void_p(source),
                ctypes.c_size_t(size),
                self._stream,
            )

    def to_host(self, target: int, source: int, size: int) -> None:
        """Copy to pinned memory, on the stream."""
        if size:
            self._driver.call(
                "cuMemcpyDtoHAsync_v2",
                ctypes.c_void_p(target),
                _u64(source),
                ctypes.c_size_t(size),
                self._stream,
            )

    def close(self) -> None:
        """Give the stream and the context back; again does nothing."""
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

    ``address`` is 0 before the first :meth:`reserve`; ``size`` is in bytes.
    """

    def __init__(self, allocate: Callable[[int], int], free: Callable[[int], None]) -> None:
        self._allocate, self._free = allocate, free
        self.address = self.size = 0

    def reserve(self, size: int) -> int:
        """Return an address with room for a number of bytes, which may be 0 for TensorRT.

        What was in it is lost where it grows. Raises EngineError without enough memory.
        """
        wanted = max(size, 1)
        if wanted > self.size:
            self.close()
            self.address = self._allocate(wanted)
            self.size = wanted
        return self.address

    def close(self) -> None:
        """Free it; again does nothing."""
        address, self.address, self.size = self.address, 0, 0
        if address:
            self._free(address)


def _u64(address: int) -> ctypes.c_uint64:
    # CUdeviceptr is an integer of the size of a pointer, which ctypes would cut to an int.
    return ctypes.c_uint64(address)
