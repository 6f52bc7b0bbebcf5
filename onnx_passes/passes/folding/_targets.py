"""Constant targets for Reshape and Expand where the dimensions are known in half."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from onnx_passes.passes._support.known import Element, Knowledge, dimension


def constant_target(node: ir.Node, facts: Knowledge) -> ir.TensorProtocol | None:
    """Return a constant that gives a Reshape or Expand the same result as its computed target.

    Dynamic dimensions stay dynamic: a Reshape infers one (-1) or copies some (0), an Expand
    keeps some (1).
    """
    rule = _RULES.get(node.op_type) if node.domain == "" else None
    if rule is None or len(node.inputs) != 2 or node.inputs[0] is None:
        return None
    known = facts.of(node.inputs[1])
    if known is None or known.rank != 1 or known.numbers is not None:
        return None
    target = rule(node, known.elements)
    return None if target is None else ir.Tensor(np.array(target, dtype=np.int64))


def _reshape(node: ir.Node, target: tuple[Element, ...]) -> list[int] | None:
    data = node.inputs[0]
    assert data is not None, "the caller looks"
    unknown = [i for i, element in enumerate(target) if not isinstance(element, int)]
    numbers = [element for element in target if isinstance(element, int)]
    if len(unknown) == 1 and all(number > 0 for number in numbers):
        return [e if isinstance(e, int) else -1 for e in target]
    if node.attributes.get_int("allowzero", 0) or any(n < -1 for n in numbers):
        return None
    if data.shape is None or any(i >= len(data.shape) for i in unknown):
        return None
    # A 0 copies the dimension of the same place, which the target says too, empty or not.
    copies = all(target[i] is not None and target[i] == dimension(data, i) for i in unknown)
    return [e if isinstance(e, int) else 0 for e in target] if copies else None


def _expand(node: ir.Node, target: tuple[Element, ...]) -> list[int] | None:
    data = node.inputs[0]
    assert data is not None, "the caller looks"
    if data.shape is None:
        return None
    offset = len(data.shape) - len(target)
    result = []
    for index, element in enumerate(target):
        if isinstance(element, int):
            result.append(element)
        elif element is None or index + offset < 0:
            return None
        elif element == dimension(data, index + offset):
            result.append(1)
        else:
            return None
    return result if all(number >= 0 for number in result) else None


_RULES: dict[str, Callable[[ir.Node, tuple[Element, ...]], list[int] | None]] = {
    "Expand": _expand,
    "Reshape": _reshape,
}
