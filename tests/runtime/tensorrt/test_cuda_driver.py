"""The driver's library through ctypes: a fake one; nothing here is executed on a GPU."""

import ast
import re
from pathlib import Path

import pytest

from onnx_passes.errors import EngineCrashedError, EngineError, EngineUnavailableError
from onnx_passes.runtime.tensorrt import cuda
from onnx_passes.runtime.tensorrt.cuda import Cuda, Driver, device, gpu_count, gpu_missing
from tests.runtime.tensorrt.fake_gpu import forget


@pytest.fixture
def no_driver(monkeypatch):
    monkeypatch.setattr(cuda, "DRIVER", "libcuda-of-nobody.so.1")
    forget()
    yield
    monkeypatch.undo()
    forget()


def test_without_a_driver_one_sentence_says_so(no_driver):
    told = (
        "there is no NVIDIA driver on this machine (libcuda-of-nobody.so.1 cannot be loaded)"
    )
    assert (gpu_count(), gpu_missing(), device()) == (0, told, None)
    with pytest.raises(EngineUnavailableError) as failure:
        Cuda()
    assert failure.value.message == told
    assert "NVIDIA GPU" in failure.value.help


def test_a_driver_without_a_gpu_is_told_from_no_driver(gpu):
    gpu.fail("cuInit", 100)
    assert gpu_count() == 0
    assert gpu_missing() == "the driver finds no GPU that it can use (CUDA_ERROR_NO_DEVICE)"


def test_memory_is_kept_and_grows(gpu):
    cuda = Cuda()
    memory = cuda.device_memory()
    first = memory.reserve(100)
    assert memory.reserve(40) == memory.reserve(100) == first
    assert gpu.count("cuMemAlloc_v2") == 1
    memory.reserve(101)
    assert (gpu.count("cuMemAlloc_v2"), gpu.count("cuMemFree_v2")) == (2, 1)
    assert memory.size == 101
    memory.close()
    memory.close()
    assert memory.address == 0
    cuda.close()
    cuda.close()
    assert gpu.alive == (0, 0, 0, 0)


def test_an_error_has_the_name_that_cuda_gives_it(gpu):
    cuda = Cuda()
    memory = cuda.device_memory()
    gpu.fail("cuMemAlloc_v2", 2)
    with pytest.raises(EngineError) as failure:
        memory.reserve(8)
    told = "cuMemAlloc_v2 failed: CUDA_ERROR_OUT_OF_MEMORY: out of memory"
    assert (failure.value.message, failure.value.help) == (
        told,
        "use a smaller batch or workspace",
    )
    assert (memory.address, memory.size) == (0, 0)
    gpu.fail("cuStreamSynchronize", 4711)
    with pytest.raises(EngineError, match="cuStreamSynchronize failed: error 4711"):
        cuda.synchronize()


def test_a_lost_gpu_is_a_crash(gpu):
    cuda = Cuda()
    gpu.fail("cuStreamSynchronize", 700)
    with pytest.raises(EngineCrashedError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        cuda.synchronize()


def test_every_function_that_is_called_is_one_of_the_driver(gpu):
    """ctypes reports a name with a mistake only when it is called, and that is on a GPU."""
    from onnx_passes.runtime.tensorrt import cuda

    library = Driver()._library
    for name in functions_of(cuda):
        assert hasattr(library, name), name


def functions_of(*modules):
    """Return the functions of the driver that modules name, and so call."""
    found = []
    for module in modules:
        tree = ast.parse(Path(module.__file__).read_text())
        texts = [str(n.value) for n in ast.walk(tree) if isinstance(n, ast.Constant)]
        functions = [text for text in texts if re.fullmatch(r"cu[A-Z]\w+", text)]
        assert functions
        found += functions
    return found
