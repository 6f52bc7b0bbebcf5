import pytest

from onnx_passes.runtime.isolated_process import end_children


@pytest.fixture(autouse=True)
def _children():
    yield
    end_children()
