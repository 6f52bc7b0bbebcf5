"""NVIDIA's driver, called through ctypes, and the GPUs that it sees.

docs/decisions/0007-cuda-through-the-driver.md says why not through cudart or a package.
"""

from __future__ import annotations

import ctypes
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

    Attributes:
        name: As its maker calls it.
        capability: Its compute capability, such as "8.9".
        memory: Bytes of its memory.
        driver: Version of CUDA that the driver knows, such as "13.0".
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
        """Load and start it.

        Raises:
            EngineUnavailableError: There is no driver, or it finds no GPU.
        """
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

        Raises:
            EngineCrashedError: The GPU, or the context on it, is lost.
            EngineError: It fails otherwise; the message has CUDA's name of the error.
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
