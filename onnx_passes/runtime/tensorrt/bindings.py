"""The Python bindings of TensorRT: what is used of their objects, types and log.

The API returns None for a failure and gives the reason only in the log. The layers of an
engine are read from the log and from the inspector.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType, new_class
from typing import Literal

import onnx_ir as ir

from onnx_passes.errors import EngineUnavailableError, UnsupportedModelError
from onnx_passes.plain import Foreign, PlainDict, PlainMapping
from onnx_passes.runtime.engine_base import mean_without_first
from onnx_passes.runtime.processes import VARIABLE
from onnx_passes.runtime.tensorrt.engine_options import Verbosity

Package = Literal["tensorrt", "tensorrt-rtx"]

MODULES: dict[Package, str] = {"tensorrt": "tensorrt", "tensorrt-rtx": "tensorrt_rtx"}

_DISTRIBUTIONS: dict[Package, tuple[str, ...]] = {
    "tensorrt": ("tensorrt", "tensorrt-cu13-bindings", "tensorrt-cu12-bindings"),
    "tensorrt-rtx": ("tensorrt-rtx", "tensorrt-rtx-cu13-bindings"),
}


def install_help(package: Package) -> str:
    """Return what installs a package."""
    return f"in a checkout: pip install '.[{package}]'"


def installed_version(package: Package) -> str | None:
    """Return the version of a package, found without loading its libraries; None without."""
    if importlib.util.find_spec(MODULES[package]) is None:
        return None
    for distribution in _DISTRIBUTIONS[package]:
        try:
            return version(distribution)
        except PackageNotFoundError:
            continue
    return "unknown"


def make_listener(base: type, *methods: Callable[..., object]) -> object:
    """Return what TensorRT calls back: an object of a class of the bindings.

    ``methods`` are functions of ``self``, and of what TensorRT gives by position; each
    overrides the method of its name.
    """
    named = {method.__name__: method for method in methods}
    made: object = new_class("Listener", (base,), exec_body=lambda own: own.update(named))()
    return made


def network_flags(trt: ModuleType) -> int:
    """Return the flags of a strongly typed network: 11 has no other kind, and 10 needs it."""
    flag = getattr(trt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)
    return 0 if flag is None else 1 << int(flag)


def load_bindings(package: Package) -> ModuleType:
    """Import the bindings of a package, with the libraries behind them."""
    if installed_version(package) is None:
        raise EngineUnavailableError(f"{package} is not installed", help=install_help(package))
    try:
        return importlib.import_module(MODULES[package])
    except (ImportError, OSError) as error:
        raise EngineUnavailableError(
            f"{package} cannot be loaded: {error}",
            help=f"its libraries are missing; {install_help(package)}",
        ) from error


_TYPES: dict[str, ir.DataType] = {
    "FLOAT": ir.DataType.FLOAT,
    "HALF": ir.DataType.FLOAT16,
    "BF16": ir.DataType.BFLOAT16,
    "INT8": ir.DataType.INT8,
    "INT32": ir.DataType.INT32,
    "INT64": ir.DataType.INT64,
    "BOOL": ir.DataType.BOOL,
    "UINT8": ir.DataType.UINT8,
    "FP8": ir.DataType.FLOAT8E4M3FN,
    "E8M0": ir.DataType.FLOAT8E8M0,
}
"""Members of ``DataType`` with a byte or more to an element. INT4 and FP4 share bytes."""


def onnx_type(found: Foreign, name: str) -> ir.DataType:
    """Return ONNX's type for one of the bindings.

    ``name`` is the tensor, for messages. Raises UnsupportedModelError if its elements share
    bytes, or ONNX has no such type.
    """
    known = _TYPES.get(found.name)
    if known is None:
        raise UnsupportedModelError(
            f"the tensor {name!r} is {found.name.lower()}, which is not fed or fetched",
            help="cast it at the border of the model, to int8 or float",
        )
    return known


MARK = "Layers:\n"
"""What the builder's list of layers begins with, in its log."""

_FIELD = re.compile(r"(?:^|, )(Name|LayerType|Inputs|TacticName|StreamId|Metadata): ")
_LAYER = re.compile(r"^Name: ", re.MULTILINE)
_NODE = re.compile(r"\[ONNX Layer: ([^\]]*)\]")


def read_logged_layers(text: str) -> list[PlainDict]:
    """Read the list of layers that a builder logs, which needs no GPU.

    ``text`` begins with ``MARK``; empty for none. Layers are plain data of
    :class:`onnx_passes.runtime.tensorrt.engine.EngineLayer`.
    """
    body = text.removeprefix(MARK).partition("\n\n")[0]
    starts = [match.start() for match in _LAYER.finditer(body)]
    ends = [*starts[1:], len(body)] if starts else []
    return [_layer(_fields(body[a:b])) for a, b in zip(starts, ends, strict=True)]


def inspect_layers(trt: ModuleType, engine: Foreign) -> list[PlainDict]:
    """Ask TensorRT's inspector for the layers of an engine that is loaded."""
    inspector = engine.create_engine_inspector()
    text = inspector.get_engine_information(trt.LayerInformationFormat.JSON)
    try:
        found = json.loads(text)
    except ValueError:
        return [{"name": line, "kind": ""} for line in text.splitlines() if line]
    layers = found.get("Layers", []) if isinstance(found, dict) else found
    return [
        _layer(one) if isinstance(one, dict) else {"name": str(one), "kind": ""}
        for one in layers
    ]


def with_times(
    layers: Iterable[PlainMapping], times: Mapping[str, Sequence[float]]
) -> list[PlainDict]:
    """Return layers with their mean times, and those that only the profiler knows.

    ``times`` are seconds of each run, by layer.
    """
    found = [dict(one) for one in layers]
    known = {one["name"] for one in found}
    found += [{"name": name, "kind": ""} for name in times if name not in known]
    for one in found:
        if one["name"] in times:
            one["seconds"] = mean_without_first(times[one["name"]])
    return found


def profiler(trt: ModuleType, times: dict[str, list[float]]) -> object:
    """Return what TensorRT reports the time of each layer to, after each run.

    Seconds of each run are added to ``times``, by layer.
    """

    def report_layer_time(self: object, layer_name: str, ms: float) -> None:
        times.setdefault(layer_name, []).append(ms * 1e-3)

    return make_listener(trt.IProfiler, report_layer_time)


def _fields(text: str) -> dict[str, str]:
    """Return the fields of a layer that stand outside of its lists of tensors."""
    text = "".join(_outside(text))
    marks = list(_FIELD.finditer(text))
    ends = [*(mark.start() for mark in marks[1:]), len(text)]
    return {
        mark[1]: text[mark.end() : end].strip() for mark, end in zip(marks, ends, strict=True)
    }


def _outside(text: str) -> Iterator[str]:
    """Yield what is not inside of braces, which hold tensors with names of their own."""
    depth = 0
    for part in re.split(r"([{}])", text):
        if part in "{}" and part:
            depth += 1 if part == "{" else -1
        elif not depth:
            yield part


def _layer(entry: PlainMapping) -> PlainDict:
    return {
        "name": str(entry.get("Name", "?")),
        "kind": str(entry.get("LayerType", "")),
        "how": str(entry.get("TacticName") or entry.get("TacticValue") or ""),
        "nodes": ", ".join(_NODE.findall(str(entry.get("Metadata", "")))),
    }


_SEVERITIES = ("INTERNAL_ERROR", "ERROR", "WARNING", "INFO", "VERBOSE")
_ERRORS = _SEVERITIES[:2]
_KEPT: dict[Verbosity, int] = {"error": 2, "warning": 3, "info": 4, "verbose": 5}
_MOST_LINES = 200
_TOLD_LINES: dict[Verbosity, int] = {"error": 0, "warning": 10, "info": 40, "verbose": 200}
_SOURCE = re.compile(r"In \w+ at \S+:\d+\)?$")
_STDERR = 2


class BuildLog:
    """The lines that were logged, with their severity.

    ``lines`` are pairs of severity and text, the oldest first; of many, the oldest that are
    not errors are dropped. ``layers`` is the last list of layers, whatever the verbosity.
    """

    def __init__(self, trt: ModuleType, verbosity: Verbosity = "warning") -> None:
        """Start to listen."""
        self.lines: list[tuple[str, str]] = []
        self.layers = ""
        self._verbosity: Verbosity = verbosity
        self._kept = _SEVERITIES[: _KEPT[verbosity]]

        def log(self_: object, severity: Foreign, message: str) -> None:
            self._keep(severity.name, message)

        self.listener = make_listener(trt.ILogger, log)

    def begin(self) -> None:
        """Forget what was logged about something else."""
        self.lines.clear()

    @property
    def errors(self) -> list[str]:
        """What went wrong, in the compiler's words, without places in its own source."""
        found = [_SOURCE.sub("", text).strip() for kind, text in self.lines if kind in _ERRORS]
        return list(dict.fromkeys(found))

    @property
    def text(self) -> str | None:
        """The last lines, errors among them, as the excerpt of an error; None for none."""
        count = _TOLD_LINES[self._verbosity]
        kept = [f"{kind}: {text}" for kind, text in self.lines][-count:] if count else []
        return "\n".join(f"  | {line}" for line in kept) or None

    def _keep(self, severity: str, message: str) -> None:
        if message.startswith(MARK):
            self.layers = message
        if severity not in self._kept:
            return
        if severity in _ERRORS and VARIABLE in os.environ:
            # In a child, stderr is a file that its parent quotes if the process dies next.
            os.write(_STDERR, f"{severity}: {message}\n".encode())
        if len(self.lines) >= _MOST_LINES:
            spare = (i for i, (kind, _) in enumerate(self.lines) if kind not in _ERRORS)
            if (index := next(spare, None)) is None:
                return  # errors alone, and the first ones say the most
            del self.lines[index]
        self.lines.append((severity, message))
