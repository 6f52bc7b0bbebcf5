"""Providers that are not here, that fail to load, or that let the CPU do their work."""

import textwrap

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest

from onnx_passes.errors import EngineUnavailableError
from onnx_passes.runtime import ort_providers
from onnx_passes.runtime.engines import engine_from_config
from onnx_passes.runtime.ort import OnnxRuntimeEngine

MODEL = '<ir_version: 8, opset_import: ["": 17]> g (float[2] x) => (float[2] y) { y = Neg(x) }'
FEEDS = {"x": np.ones(2, np.float32)}
PLUGIN = "NvTensorRTRTXExecutionProvider"


def prepare(provider):
    engine = engine_from_config("onnxruntime", {"provider": provider})
    with engine.prepare(ir.from_onnx_text(MODEL)) as session:
        return session.run(FEEDS)


@pytest.mark.parametrize(
    ("provider", "install"),
    [
        ("CUDAExecutionProvider", "onnxruntime-gpu"),
        ("TensorrtExecutionProvider", "onnxruntime-gpu"),
        (PLUGIN, "pip install onnxruntime-ep-nv-tensorrt-rtx"),
    ],
)
def test_a_provider_that_is_not_here_is_told_with_what_to_install(provider, install):
    if provider in onnxruntime.get_available_providers():
        pytest.skip(f"{provider} is here")
    if provider == PLUGIN and ort_providers.importlib.util.find_spec(
        "onnxruntime_ep_nv_tensorrt_rtx"
    ):
        pytest.skip("its package is here")
    with pytest.raises(EngineUnavailableError) as failure:
        prepare(provider)
    assert failure.value.message == f"this build of ONNX Runtime has no {provider}"
    assert install in failure.value.help
    assert failure.value.exit_code == 3


@pytest.mark.parametrize("provider", ["CUDAExecutionProvider", "TensorrtExecutionProvider"])
def test_a_provider_that_lets_the_cpu_work_in_its_place_is_an_error(provider, monkeypatch):
    """What the GPU build does where a library is missing: it lists it, and uses the CPU."""
    monkeypatch.setattr(
        onnxruntime, "get_available_providers", lambda: [provider, "CPUExecutionProvider"]
    )
    real = onnxruntime.InferenceSession
    monkeypatch.setattr(
        onnxruntime,
        "InferenceSession",
        lambda data, options, providers, enable_fallback: real(data, options),
    )
    with pytest.raises(EngineUnavailableError) as failure:
        prepare(provider)
    assert failure.value.message == (
        f"{provider} cannot be used here: ONNX Runtime fell back to CPUExecutionProvider"
    )
    assert failure.value.help.startswith("check the driver")


def test_a_package_whose_library_does_not_load_is_told_with_the_reason(tmp_path, monkeypatch):
    (tmp_path / "libep.so").write_text("no library")
    (tmp_path / "onnxruntime_ep_nv_tensorrt_rtx.py").write_text(
        textwrap.dedent(f"""
            def get_library_path():
                return {str(tmp_path / "libep.so")!r}
        """)
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(
        EngineUnavailableError, match=f"{PLUGIN} cannot be loaded: "
    ) as failure:
        prepare(PLUGIN)
    assert "libep.so" in failure.value.message
    assert "nvidia-smi" in failure.value.help


def test_tf32_is_off_unless_asked_for_and_recorded(monkeypatch):
    cuda = "CUDAExecutionProvider"
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [cuda])
    assert OnnxRuntimeEngine(provider=cuda).describe()["provider.use_tf32"] == "0"
    asked = OnnxRuntimeEngine(provider=cuda, provider_options=(("use_tf32", "1"),))
    assert asked.describe()["provider.use_tf32"] == "1"
    assert "use_tf32=1" in asked.name
