"""The layers of an engine: as the builder logs them, and as the inspector reports them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import ModuleType

from onnx_passes.plain import PlainDict, PlainMapping
from onnx_passes.runtime.tensorrt.binding_types import TrtEngine
from onnx_passes.runtime.tensorrt.bindings import make_listener
from onnx_passes.runtime.timing import mean_without_first

MARK = "Layers:\n"
"""What the builder's list of layers begins with, in its log."""

_FIELD = re.compile(r"(?:^|, )(Name|LayerType|Inputs|TacticName|StreamId|Metadata): ")
_LAYER = re.compile(r"^Name: ", re.MULTILINE)
_NODE = re.compile(r"\[ONNX Layer: ([^\]]*)\]")


def read_logged_layers(text: str) -> list[PlainDict]:
    """Read the list of layers that a builder logs, which needs no GPU.

    Args:
        text: The message, which begins with ``MARK``; empty for none.

    Returns:
        Layers as plain data; see :class:`onnx_passes.runtime.layers.EngineLayer`.
    """
    body = text.removeprefix(MARK).partition("\n\n")[0]
    starts = [match.start() for match in _LAYER.finditer(body)]
    ends = [*starts[1:], len(body)] if starts else []
    return [_layer(_fields(body[a:b])) for a, b in zip(starts, ends, strict=True)]


def inspect_layers(trt: ModuleType, engine: TrtEngine) -> list[PlainDict]:
    """Ask TensorRT's inspector for the layers of an engine that is loaded.

    Args:
        trt: The bindings.
        engine: The engine of the bindings.
    """
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

    Args:
        layers: Layers as plain data.
        times: Seconds of each run, by layer.
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

    Args:
        trt: The bindings.
        times: Seconds of each run, by layer; added to.
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
