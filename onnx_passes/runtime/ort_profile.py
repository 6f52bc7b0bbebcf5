"""What ONNX Runtime's own profile says of each node."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from onnx_passes.plain import PlainDict
from onnx_passes.runtime.timing import mean_without_first

_END = "_kernel_time"


def node_times(path: Path) -> list[PlainDict]:
    """Return the nodes of a profile, in the order of their first run, with their mean times.

    Args:
        path: The file that ONNX Runtime wrote; it is removed.

    Returns:
        Layers as plain data; see :class:`onnx_passes.runtime.layers.EngineLayer`.
    """
    try:
        events = json.loads(path.read_text())
    finally:
        path.unlink(missing_ok=True)
    return _means(event for event in events if _is_kernel(event))


def _is_kernel(event: PlainDict) -> bool:
    return event.get("cat") == "Node" and str(event.get("name", "")).endswith(_END)


def _means(events: Iterable[PlainDict]) -> list[PlainDict]:
    times: dict[tuple[str, str, str], list[float]] = {}
    for event in events:
        told = event.get("args", {})
        provider = str(told.get("provider", ""))
        name = str(event["name"]).removesuffix(_END)
        key = name, str(told.get("op_name", "")), provider
        times.setdefault(key, []).append(float(event["dur"]) * 1e-6)
    return [
        {"name": name, "kind": kind, "how": how, "seconds": mean_without_first(each)}
        for (name, kind, how), each in times.items()
    ]
