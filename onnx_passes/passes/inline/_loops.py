"""How often the body of a Loop runs, where that is known, and bodies that move out of it."""

from __future__ import annotations

from collections import Counter

import onnx_ir as ir

from onnx_passes.passes._support.calls import free
from onnx_passes.passes._support.tensors import constant_of


def body_of(node: ir.Node) -> ir.Graph | None:
    """Return the body of a node that runs it repeatedly; None for other nodes."""
    body = node.attributes.get("body")
    if node.domain or body is None or body.is_ref() or body.type != ir.AttributeType.GRAPH:
        return None
    return body.as_graph()


def trips_of(loop: ir.Node) -> int | None:
    """Return the greatest number of iterations of a Loop whose first one surely runs.

    It is as many unless the body ends it earlier. None where that is not known.
    """
    if len(loop.inputs) < 2:
        return None
    count, condition = (constant_of(value) for value in loop.inputs[:2])
    if count is None or count.size != 1:
        return None
    starts = condition is not None and condition.size == 1 and bool(condition.numpy().item())
    if loop.inputs[1] is not None and not starts:
        return None
    trips = int(count.numpy().item())
    return trips if trips >= 1 else None


def renamed(name: str | None, names: Counter[str]) -> str | None:
    """Return a name that nothing else has; the same one if it is so already.

    Args:
        name: The present name, which is counted.
        names: How often each name is used; kept up to date.
    """
    if not name or names[name] == 1:
        return name
    names[name] -= 1
    return free(name, names)
