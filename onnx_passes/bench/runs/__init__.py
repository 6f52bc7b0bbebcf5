"""One or several models on one or several engines: the same inputs, outputs held together.

with Runner("model.onnx", OnnxRuntimeEngine()) as runner:
outputs = runner.infer({"x": x})

found = compare([Runner("a.onnx"), Runner("b.onnx")], generate(model))
assert found.passed
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnx_passes.bench.runs.comparison import compare
    from onnx_passes.bench.runs.judges import Settings, judge
    from onnx_passes.bench.runs.results import (
        Found,
        Latency,
        Pair,
        Run,
        open_results,
        save_results,
    )
    from onnx_passes.bench.runs.runner import Loader, Runner

__all__ = [
    "Found",
    "Latency",
    "Loader",
    "Pair",
    "Run",
    "Runner",
    "Settings",
    "compare",
    "judge",
    "open_results",
    "save_results",
]

_HOMES = {
    "compare": "comparison",
    **dict.fromkeys(("judge", "Settings"), "judges"),
    **dict.fromkeys(("Found", "Latency", "Pair", "Run"), "results"),
    **dict.fromkeys(("open_results", "save_results"), "results"),
    **dict.fromkeys(("Loader", "Runner"), "runner"),
}


def __getattr__(name: str) -> Any:
    # A model is read before the rest is loaded: reading takes the most memory.
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
