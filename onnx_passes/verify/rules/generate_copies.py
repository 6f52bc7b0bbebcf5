"""Copies of the nodes of a graph, under names of their own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import onnx_ir as ir

Variant: TypeAlias = "tuple[ir.Model, tuple[ir.Value, ...]]"
"""A model, and its inputs with concrete shapes."""


def copied(
    nodes: Iterable[ir.Node], suffix: str
) -> tuple[list[ir.Node], dict[ir.Value, ir.Value]]:
    """Return copies of nodes that read one another, and the copy of each of their results.

    Args:
        nodes: In an order in which each comes behind those it reads.
        suffix: Of the copies' names.
    """
    copies: list[ir.Node] = []
    values: dict[ir.Value, ir.Value] = {}
    for node in nodes:
        inputs = [None if v is None else values.get(v, v) for v in node.inputs]
        copy = ir.Node(
            node.domain,
            node.op_type,
            inputs,
            list(node.attributes.values()),
            num_outputs=len(node.outputs),
        )
        for old, new in zip(node.outputs, copy.outputs, strict=True):
            new.name, new.type, new.shape = f"{old.name}{suffix}", old.type, old.shape
            values[old] = new
        copies.append(copy)
    return copies, values
