import pytest

from onnx_passes.runtime.isolated import end_children
from tests.runtime.tensorrt import fake_gpu


@pytest.fixture(autouse=True)
def _children():
    yield
    end_children()


@pytest.fixture
def gpu(monkeypatch, tmp_path):
    """Stand in for NVIDIA's driver; nothing is executed on it."""
    control = fake_gpu.plug_in(monkeypatch, tmp_path)
    if control is None:
        pytest.skip("there is no C compiler to make the fake driver with")
    yield control
    monkeypatch.undo()
    fake_gpu.forget()
