"""Constant targets for Reshape and Expand where the dimensions are known in half."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.domains.sizes import Element, dimension
from onnx_passes.passes._support.knowledge import Knowledge


def constant_target(
    node: ir.Node, facts: Knowledge, *, nonempty: bool
) -> ir.TensorProtocol | None:
    """Return a constant that gives a Reshape or Expand the same result as its computed target.

    Dynamic dimensions stay dynamic: a Reshape infers one (-1) or copies some (0), an Expand
    keeps some (1).

    Args:
        node: Any node.
        facts: What is known of its inputs.
        nonempty: Whether dynamic dimensions are known to be above 0: engines refuse to infer a
            dimension beside one that is 0.
    """
    rule = _RULES.get(node.op_type) if node.domain == "" else None
    if rule is None or len(node.inputs) != 2 or node.inputs[0] is None:
        return None
    known = facts.of(node.inputs[1])
    if known is None or known.rank != 1 or known.numbers is not None:
        return None
    target = rule(node, known.elements, nonempty)
    return None if target is None else ir.Tensor(np.array(target, dtype=np.int64))


def _reshape(node: ir.Node, target: tuple[Element, ...], nonempty: bool) -> list[int] | None:
    data = node.inputs[0]
    assert data is not None, "the caller looks"
    unknown = [i for i, element in enumerate(target) if not isinstance(element, int)]
    numbers = [element for element in target if isinstance(element, int)]
    rank = 0 if data.shape is None else len(data.shape)
    # A 0 copies the dimension of the same place, which the target says too, empty or not; the
    # dimension keeps its name behind it, which a -1 loses.
    copied = [
        i
        for i in unknown
        if i < rank and target[i] is not None and target[i] == dimension(data, i)
    ]
    if len(unknown) == 1 and not copied and all(number > 0 for number in numbers):
        return [e if isinstance(e, int) else -1 for e in target]
    if any(n < -1 for n in numbers) or any(i >= rank for i in unknown):
        return None
    allowzero = node.attributes.get_int("allowzero", 0)
    if allowzero and 0 in numbers:
        return None
    others = [i for i in unknown if i not in copied]
    if len(others) > 1 or (others and not (nonempty and all(n > 0 for n in numbers))):
        return None
    return [
        e if isinstance(e, int) else -1 if index in others else 0
        for index, e in enumerate(target)
    ]


def _expand(node: ir.Node, target: tuple[Element, ...], nonempty: bool) -> list[int] | None:
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


_Rule = Callable[[ir.Node, tuple[Element, ...], bool], list[int] | None]
_RULES: dict[str, _Rule] = {
    "Expand": _expand,
    "Reshape": _reshape,
}
