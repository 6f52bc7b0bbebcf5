"""Values in the bodies of If, Loop and Scan, which are no outputs of the model."""

from __future__ import annotations

from collections.abc import Iterator

import onnx_ir as ir

from onnx_passes.errors import UsageError
from onnx_passes.graph.walk import subgraphs_of


def in_bodies(model: ir.Model) -> Iterator[tuple[ir.Node, ir.Node]]:
    """Yield the nodes in bodies, each after the node of the main graph that holds it."""
    for node in model.graph:
        for body in subgraphs_of(node):
            for inner in body.all_nodes():
                yield node, inner


def inside(name: str, model: ir.Model) -> UsageError | None:
    """Return what to tell who asks for a value of a body; None if it is in none."""
    for holder, inner in in_bodies(model):
        if name in (value.name for value in inner.outputs):
            return UsageError(
                f"the value {name!r} lies in a body of {_title(holder)}, and cannot be an "
                "output of the model",
                help=f"name {holder.outputs[0].name!r}, which the node gives, or cut the body "
                f"out: onnx-passes extract MODEL -o body.onnx --outputs {name}",
            )
    return None


def not_shown(model: ir.Model) -> str:
    """Say which values are left out where all are asked for."""
    counts: dict[str, int] = {}
    for holder, inner in in_bodies(model):
        title = _title(holder)
        counts[title] = counts.get(title, 0) + len(inner.outputs)
    some = ", ".join(list(counts)[:3]) + (", ..." if len(counts) > 3 else "")
    return (
        f"{sum(counts.values())} values in the bodies of {some} are not shown: these nodes "
        "are compared by what they give; extract cuts a body out, to compare it alone"
    )


def _title(node: ir.Node) -> str:
    return f"{node.op_type} {(node.name or node.outputs[0].name)!r}"
