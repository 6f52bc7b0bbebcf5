"""Give values other names, and what refers to them by name with them."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from onnx_passes.model.walk import graphs_within
from onnx_passes.passes._support.scopes import QUANTIZATION, own_values


def _annotations_of(value: ir.Value) -> Iterator[dict[str, str]]:
    """Yield the quantization annotations that can refer to a value: those that see it."""
    if value.graph is not None:
        for graph in graphs_within(value.graph):
            for other in own_values(graph):
                if other.meta.get(QUANTIZATION):
                    yield other.meta[QUANTIZATION]


def rename_value(value: ir.Value, new: str) -> None:
    """Give a value another name; quantization annotations follow it.

    Args:
        value: The value.
        new: Its new name.
    """
    for annotation in list(_annotations_of(value)):
        for key in [k for k, name in annotation.items() if name == value.name]:
            annotation[key] = new
    value.name = new
