"""Hints for the certificate of eliminate-noop-reduce: images of one pixel."""

from __future__ import annotations

from onnx_passes.passes.hints import Hint, data

HINTS: dict[str, Hint] = {
    "eliminate-noop-reduce[5]": Hint({"x": data("n c 1 1", "n c 1", "n c 1 1 1")}),
}
