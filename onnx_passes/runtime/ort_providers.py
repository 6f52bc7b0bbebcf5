"""Execution providers of ONNX Runtime: those of the build, and those of packages beside it."""

from __future__ import annotations

import importlib
import importlib.util
from types import ModuleType
from typing import TYPE_CHECKING

from onnx_passes.errors import EngineUnavailableError

if TYPE_CHECKING:
    import onnxruntime

EXACT: dict[str, dict[str, str]] = {"CUDAExecutionProvider": {"use_tf32": "0"}}
"""Options that a provider gets unless others are given: it is to compute what a model says."""

_CPU = "CPUExecutionProvider"
_PLUGINS = {"NvTensorRTRTXExecutionProvider": "onnxruntime_ep_nv_tensorrt_rtx"}
_GPU_BUILD = "pip uninstall onnxruntime, then pip install onnxruntime-gpu"
_HELP = {
    "CUDAExecutionProvider": _GPU_BUILD,
    "TensorrtExecutionProvider": f"{_GPU_BUILD}, and the libraries of TensorRT 10",
    "NvTensorRTRTXExecutionProvider": "pip install onnxruntime-ep-nv-tensorrt-rtx",
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
    return f"check {_BROKEN.get(provider, 'its driver and libraries')}; or ask for {_CPU}"


def is_plugin(provider: str) -> bool:
    """Whether a provider comes as a package of its own, and is chosen by device."""
    return provider in _PLUGINS


def add_plugin(
    ort: ModuleType,
    options: onnxruntime.SessionOptions,
    provider: str,
    settings: dict[str, str],
) -> None:
    """Give a session the devices of a provider that comes as a package of its own."""
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
