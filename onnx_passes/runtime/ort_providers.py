"""Execution providers of ONNX Runtime: those of the build, and those of packages beside it."""

from __future__ import annotations

import importlib
import importlib.util
from collections import Counter
from types import ModuleType
from typing import TYPE_CHECKING

from onnx_passes.errors import EngineUnavailableError
from onnx_passes.model.ort_sessions import CPU

if TYPE_CHECKING:
    import onnxruntime

EXACT: dict[str, dict[str, str]] = {
    "CUDAExecutionProvider": {"use_tf32": "0"},
    "OpenVINOExecutionProvider": {"device_type": "CPU", "precision": "FP32"},
}
"""Options that a provider gets unless others are given: it is to compute what a model says."""

_PLUGINS = {"NvTensorRTRTXExecutionProvider": "onnxruntime_ep_nv_tensorrt_rtx"}


def _instead(package: str) -> str:
    """Return how to install a build of ONNX Runtime in place of the plain one."""
    return f"pip uninstall onnxruntime, then pip install {package}"


_GPU_BUILD = _instead("onnxruntime-gpu")
_HELP = {
    "CUDAExecutionProvider": _GPU_BUILD,
    "TensorrtExecutionProvider": f"{_GPU_BUILD}, and the libraries of TensorRT 10",
    "NvTensorRTRTXExecutionProvider": "pip install onnxruntime-ep-nv-tensorrt-rtx",
    "OpenVINOExecutionProvider": _instead("onnxruntime-openvino"),
    "DmlExecutionProvider": f"{_instead('onnxruntime-directml')}, on Windows",
    "QNNExecutionProvider": f"{_instead('onnxruntime-qnn')}, on Windows or Linux for ARM",
    "CoreMLExecutionProvider": "the build of onnxruntime for macOS has it",
    "XnnpackExecutionProvider": "build ONNX Runtime with --use_xnnpack: packages lack it",
}
_BROKEN = {
    "CUDAExecutionProvider": "the driver, CUDA and cuDNN: onnxruntime-gpu[cuda,cudnn]",
    "TensorrtExecutionProvider": "the driver, and libnvinfer.so.10 where libraries are found",
    "NvTensorRTRTXExecutionProvider": "the driver: nvidia-smi",
}


def load_onnxruntime() -> ModuleType:
    """Import ONNX Runtime.

    Raises:
        EngineUnavailableError: It is not installed.
    """
    try:
        return importlib.import_module("onnxruntime")
    except ImportError as error:
        raise EngineUnavailableError(
            "onnxruntime is not installed", help="pip install onnxruntime"
        ) from error


def with_provider(provider: str) -> ModuleType:
    """Return ONNX Runtime, with a provider that this build or a package beside it has.

    Raises:
        EngineUnavailableError: Neither has it, or its libraries cannot be loaded; the help
            says what to install or to check.
    """
    ort = load_onnxruntime()
    present = ort.get_available_providers()
    if provider in present:
        return ort
    module = _PLUGINS.get(provider)
    if module is None or importlib.util.find_spec(module) is None:
        raise EngineUnavailableError(
            f"this build of ONNX Runtime has no {provider}",
            help=_HELP.get(provider, f"it has {', '.join(present)}"),
        )
    if not _devices(ort, provider):
        _register(ort, provider, module)
    return ort


def broken_help(provider: str) -> str:
    """Return what to check where a provider is there and cannot be used."""
    return f"check {_BROKEN.get(provider, 'its driver and libraries')}; or ask for {CPU}"


def nodes_by_provider(session: onnxruntime.InferenceSession) -> dict[str, int]:
    """Return how many nodes each provider got, the most first.

    Args:
        session: One that records it; see ``record_ep_graph_assignment_info``.

    Returns:
        Nothing if this ONNX Runtime does not report it. Fused nodes count as what they were.
    """
    if not hasattr(session, "get_provider_graph_assignment_info"):
        return {}
    found: Counter[str] = Counter()
    for part in session.get_provider_graph_assignment_info():
        found[part.ep_name] += len(part.get_nodes())
    return dict(found.most_common())


def is_plugin(provider: str) -> bool:
    """Whether a provider comes as a package of its own, and is chosen by device."""
    return provider in _PLUGINS


def add_plugin(
    ort: ModuleType,
    options: onnxruntime.SessionOptions,
    provider: str,
    settings: dict[str, str],
) -> None:
    """Give a session the devices of a provider that comes as a package of its own.

    Args:
        ort: The module of ONNX Runtime.
        options: Options of the session; they are changed.
        provider: Name of the provider.
        settings: Its options by name.
    """
    options.add_provider_for_devices(_devices(ort, provider), settings)


def _register(ort: ModuleType, provider: str, module: str) -> None:
    try:
        package = importlib.import_module(module)
        ort.register_execution_provider_library(provider, package.get_library_path())
    except Exception as error:  # ONNX Runtime's exceptions share no base
        said = str(error).rpartition(" : ")[2]
        raise EngineUnavailableError(
            f"{provider} cannot be loaded: {said}", help=broken_help(provider)
        ) from error
    if not _devices(ort, provider):
        raise EngineUnavailableError(
            f"{provider} finds no GPU that it can use", help=broken_help(provider)
        )


def _devices(ort: ModuleType, provider: str) -> list[object]:
    return [device for device in ort.get_ep_devices() if device.ep_name == provider]
