"""What no rule may read while it is applied: notes that a call of the model may contradict."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import onnx_ir as ir

from onnx_passes.model.walk import graphs_within


@contextmanager
def overridable_hidden(model: ir.Model) -> Iterator[None]:
    """Hide the values of initializers that are also inputs: the caller may override them."""
    hidden = [
        (value, value.const_value)
        for value in model.graph.inputs
        if value.const_value is not None
    ]
    for value, _ in hidden:
        value.const_value = None
    try:
        yield
    finally:
        for value, tensor in hidden:
            value.const_value = tensor


@contextmanager
def types_of_functions_hidden(model: ir.Model) -> Iterator[None]:
    """Hide types and shapes noted in functions: those of one call are not those of another."""
    hidden = [
        (value, value.type, value.shape)
        for function in model.functions.values()
        for graph in graphs_within(function.graph)
        for node in graph
        for value in node.outputs
        if value.type is not None or value.shape is not None
    ]
    for value, _, _ in hidden:
        value.type = value.shape = None
    try:
        yield
    finally:
        for value, type_, shape in hidden:
            value.type, value.shape = type_, shape
