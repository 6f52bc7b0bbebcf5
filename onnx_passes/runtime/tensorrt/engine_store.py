"""Engines and timing caches as files, and a folder of engines by what they were made of."""

from __future__ import annotations

import json
from pathlib import Path

import onnx_ir as ir

from onnx_passes.errors import ConfigError
from onnx_passes.model.digest import digest, tensor_digest
from onnx_passes.model.save import pending
from onnx_passes.runtime.tensorrt.bindings import Package, installed_version
from onnx_passes.runtime.tensorrt.cuda_driver import device
from onnx_passes.runtime.tensorrt.engine_options import TensorRtOptions
from onnx_passes.runtime.weightless import split_for_engine

_NOT_OF_THE_ENGINE = {
    *("verbosity", "cache", "save", "load", "require", "timing_cache"),
    *("region_builds", "region_share"),
}


def save_engine(path: str | Path, plan: bytes, option: str = "save") -> None:
    """Write an engine, or what else TensorRT serialises, in one step or not at all.

    Args:
        path: The file.
        plan: Its content.
        option: What asked for it, for the message.

    Raises:
        ConfigError: It cannot be written.
    """
    place = Path(path)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with pending(place) as file:
            file.write(plan)
            file.publish(place)
    except OSError as error:
        raise ConfigError(f"{option}: {path}: {error.strerror or error}") from error


def load_bytes(path: str | Path, option: str, *, missing: bytes | None = None) -> bytes:
    """Return what a file holds.

    Args:
        path: The file.
        option: What asked for it, for the message.
        missing: Returned where there is no such file; None where that is an error.

    Raises:
        ConfigError: It cannot be read.
    """
    try:
        return Path(path).read_bytes()
    except FileNotFoundError as error:
        if missing is not None:
            return missing
        raise ConfigError(f"{option}: there is no file {path}") from error
    except OSError as error:
        raise ConfigError(f"{option}: {path}: {error.strerror or error}") from error


def find_cached(package: Package, options: TensorRtOptions, model: ir.Model) -> Path | None:
    """Return where the cache has the engine of a model, whether it is there or not.

    The name is a digest of all that makes an engine: the model with names and weights, the
    options, the version of the package, and the GPU with its driver. Hooks are code, whose
    effect has no digest: with them nothing is cached.

    Args:
        package: Which package builds it.
        options: The options of the engine.
        model: The model.

    Returns:
        The file; None where the options name no cache, or a hook.

    Raises:
        ModelError: The data of a weight cannot be read.
    """
    if not options.cache or options.network_hook or options.config_hook:
        return None
    given = options.model_dump(mode="json", exclude=_NOT_OF_THE_ENGINE)
    here = device()
    key = digest(
        "engine",
        package,
        installed_version(package),
        json.dumps(given, sort_keys=True),
        None if here is None else (here.name, here.capability, here.driver),
        tuple(_content(path) for path in options.plugins),
        content_digest(model),
    )
    return Path(options.cache) / f"{key.hex()}.engine"


def content_digest(model: ir.Model) -> bytes:
    """Return a digest of a model, with its names and the content of its weights.

    Raises:
        ModelError: The data of a weight cannot be read.
    """
    proto, weights = split_for_engine(model, lambda tensor: tensor)
    return digest(
        proto.SerializeToString(deterministic=True),
        tuple((name, tensor_digest(tensor)) for name, tensor in sorted(weights.items())),
    )


def _content(path: str) -> bytes:
    return digest(load_bytes(path, "plugins"))
