"""From a graph input to the nodes that give its values a meaning."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import numpy as np
import onnx_ir as ir

from onnx_passes.ops.input_hints import Use, ValueHint, exactly
from onnx_passes.ops.node_queries import admitted
from onnx_passes.ops.operator_class import operator_of

_BODIES = frozenset({"Loop", "Scan", "SequenceMap"})


class Tracer:
    """Follows the inputs of one model."""

    def __init__(self, model: ir.Model) -> None:
        self._leaves: dict[ir.Value, list[ir.Value]] = {}
        for node in model.graph.all_nodes():
            for inner, outer in _returned(node):
                self._leaves.setdefault(inner, []).append(outer)

    def hint(self, value: ir.Value, rng: np.random.Generator) -> ValueHint:
        """Return everything that the uses of a graph input say about its values.

        Args:
            value: The input.
            rng: Draws what hints leave open.
        """
        hint = ValueHint()
        for use, layout in self._uses(value, rng):
            found = exactly(False) if _starts_for_ever(use) else admitted(use)
            if found is not None:
                hint = hint & (found if layout else found.without_layout())
        return hint

    def _uses(self, start: ir.Value, rng: np.random.Generator) -> Iterator[tuple[Use, bool]]:
        """Yield uses, each with whether elements are still where they were in the input."""
        queue, seen = deque([(start, True)]), {start}
        while queue:
            value, layout = queue.popleft()
            following = [(outer, True) for outer in self._leaves.get(value, ())]
            for node, index in value.uses():
                yield Use(node, index, rng), layout
                following.extend(_followed(node, index))
            for after, keeps in following:
                if after not in seen:
                    seen.add(after)
                    queue.append((after, layout and keeps))


def _starts_for_ever(use: Use) -> bool:
    """Whether a value lets a Loop begin that has no trip count, and nothing that ends it.

    Its body returns the condition as it is.
    """
    node = use.node
    if node.op_type != "Loop" or node.domain or use.index != 1 or node.inputs[0] is not None:
        return False
    body = node.attributes["body"].as_graph()
    value: ir.Value | None = body.outputs[0] if body.outputs else None
    while value is not None and (made := value.producer()) is not None:
        if made.graph is not body or made.op_type != "Identity":
            return made.graph is not body
        value = made.inputs[0]
    return True


def _returned(node: ir.Node) -> Iterator[tuple[ir.Value, ir.Value]]:
    """Yield pairs of an output of a branch or body and the node's output that it becomes."""
    for attribute in node.attributes.values():
        if attribute.is_ref() or attribute.type != ir.AttributeType.GRAPH:
            continue
        inner = list(attribute.as_graph().outputs)
        if node.op_type == "Loop":
            inner = inner[1:]  # the first is the condition
        yield from zip(inner, node.outputs, strict=False)


def _followed(node: ir.Node, index: int) -> Iterator[tuple[ir.Value, bool]]:
    if node.domain:
        return
    if node.op_type in _BODIES:
        yield from _into_body(node, index)
        return
    operator = operator_of(node)
    if operator is None:
        return
    converts = node.op_type == "Cast"
    if (operator.view or converts) and index == 0:
        yield node.outputs[0], True
    elif index in operator.moves or index in operator.chooses:
        for output in node.outputs:
            yield output, False


def _into_body(node: ir.Node, index: int) -> Iterator[tuple[ir.Value, bool]]:
    attribute = node.attributes.get("body")
    if attribute is None or attribute.is_ref():
        return
    inputs = attribute.as_graph().inputs
    if node.op_type == "Loop" and 2 <= index < len(inputs):
        yield inputs[index], True
    elif node.op_type != "Loop" and index < len(inputs):
        yield inputs[index], False
