"""What an engine in a file holds, as TensorRT reads it beside a GPU."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import onnx_ir as ir

from onnx_passes.errors import EngineCrashedError, EngineUnavailableError
from onnx_passes.plain import PlainDict
from onnx_passes.runtime.engine_base import Session
from onnx_passes.runtime.isolated import call_alone
from onnx_passes.runtime.tensorrt.bindings import (
    BuildLog,
    Package,
    inspect_layers,
    install_help,
    installed_version,
    load_bindings,
)
from onnx_passes.runtime.tensorrt.cuda import gpu_missing
from onnx_passes.runtime.tensorrt.engine import load_bytes
from onnx_passes.runtime.tensorrt.session import EnginePort, LoadedEngine, skeleton

SUFFIXES = (".engine", ".plan", ".trt")
"""Endings of names that people give to engines."""
_MARK = b"vtrt"
"""What engines of TensorRT for RTX 1.7 begin with."""


def is_engine(path: str | Path) -> bool:
    """Whether a file is an engine, by its mark or by the ending of its name."""
    place = Path(path)
    if place.suffix.lower() in SUFFIXES:
        return True
    try:
        if not place.is_file():  # a pipe waits until someone writes
            return False
        with place.open("rb") as file:
            return file.read(len(_MARK)) == _MARK
    except OSError:
        return False


def describe_engine(
    path: str | Path, package: Package, *, seconds: float | None = 600.0
) -> PlainDict:
    """Describe what an engine holds, in a child process.

    Returns the file's size; beside a GPU that takes it also inputs and outputs with profiles,
    layers, and device memory, elsewhere ``not_read`` with the reason. ``seconds`` may be None
    for no limit. Raises ConfigError for the file, EngineTimeoutError, EngineCrashedError, and
    EngineError if TensorRT refuses it.
    """
    facts = {"engine": str(path), "bytes": len(load_bytes(path, "engine"))}
    if (missing := gpu_missing()) is not None:
        why = f"{missing}: TensorRT describes an engine only on a machine with a GPU"
        return {**facts, "not_read": why}
    if installed_version(package) is None:
        why = f"{package} is not installed ({install_help(package)})"
        return {**facts, "not_read": why}
    return {**facts, **_ask(Path(path), package, seconds)}


@contextmanager
def load_engine(path: str | Path, package: Package, **options: object) -> Iterator[Session]:
    """Make an engine from a file ready to run, in a child process by default.

    The session is called as the engine is. ``options`` are those of the engine, such as
    ``time_limit``. Raises ConfigError for file or option, EngineUnavailableError without the
    right GPU, and EngineError if TensorRT refuses it.
    """
    from onnx_passes.runtime.engines import engine_from_config

    facts = describe_engine(path, package)
    if "not_read" in facts:
        raise EngineUnavailableError(facts["not_read"])
    ports = tuple(_port(each) for each in facts["ports"])
    place = str(Path(path).absolute())
    runner = engine_from_config(package, {"load": place, **options})
    with runner.prepare(skeleton(ports)) as session:
        yield session


def _ask(path: Path, package: Package, seconds: float | None) -> PlainDict:
    while_ = f"telling what {path} holds"
    try:
        facts: PlainDict = call_alone(
            package, read_engine, package, str(path), while_=while_, seconds=seconds
        )
    except EngineCrashedError as error:
        error.help = "it may be built by another version: build the engine again"
        raise
    return facts


def read_engine(package: Package, path: str) -> PlainDict:
    """Return what an engine holds, loaded in this process; see :func:`describe_engine`."""
    return _read(load_bindings(package), Path(path).read_bytes())


def _read(trt: ModuleType, plan: bytes) -> PlainDict:
    log = BuildLog(trt, "error")
    loaded = LoadedEngine(trt, plan, log)
    try:
        engine = loaded.engine
        return {
            "name": engine.name,
            "device_memory": engine.device_memory_size_v2,
            "profiles": loaded.profiles,
            "ports": [_plain(port) for port in loaded.ports],
            "layers": inspect_layers(trt, engine),
        }
    finally:
        loaded.close()


def _plain(port: EnginePort) -> PlainDict:
    return {**dataclasses.asdict(port), "dtype": port.dtype.name}


def _port(facts: PlainDict) -> EnginePort:
    return EnginePort(
        facts["name"],
        facts["is_input"],
        ir.DataType[facts["dtype"]],
        tuple(facts["shape"]),
        facts["on_host"],
        facts["decides"],
    )


def lines(facts: PlainDict) -> Iterator[str]:
    """Write what :func:`describe_engine` returned as text."""
    yield f"engine {facts['engine']}: {facts['bytes']:,} bytes"
    if "not_read" in facts:
        yield f"not read: {facts['not_read']}"
        return
    yield f"device memory: {facts['device_memory']:,} bytes for a context"
    yield f"profiles: {facts['profiles']}"
    for port in facts["ports"]:
        kind = "input" if port["is_input"] else "output"
        place = ", on the host" if port["on_host"] else ""
        yield f"{kind} {port['name']}: {port['dtype'].lower()}{port['shape']}{place}"
        for index, (least, best, most) in enumerate(port["profiles"]):
            what = "values" if port["decides"] else "shapes"
            yield f"    profile {index}: {what} {least} to {most}, best {best}"
    yield f"layers: {len(facts['layers'])}"
    for layer in facts["layers"]:
        yield f"    {layer['kind']} {layer['name']}".replace("     ", "    ")
