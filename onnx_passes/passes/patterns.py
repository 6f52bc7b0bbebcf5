"""What the driver must know of a rule's pattern, and how nodes are shown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import onnx_ir as ir
from onnxscript.rewriter import RewriteRule


@dataclass(frozen=True, eq=False)
class PatternInfo:
    """A rule and the shape of its pattern.

    Attributes:
        rule: The rule.
        root: Domain and operator of the node that a match is found from; None for any.
        depth: Number of nodes on the longest path of the pattern.
        size: Number of nodes of the pattern, alternatives included.
    """

    rule: RewriteRule
    root: tuple[str, str] | None
    depth: int
    size: int

    @classmethod
    def of(cls, rule: RewriteRule) -> PatternInfo:
        """Measure the pattern of ``rule``."""
        # onnxscript has no public accessor for a rule's pattern.
        pattern: Any = rule._target_pattern
        roots = (
            [pattern.output_node] if pattern.has_single_output_node else pattern.output_nodes
        )
        identifier = roots[0].op_identifier()
        depths: dict[int, int] = {}
        depth = max((_depth(node, depths) for node in roots), default=0)
        # Several outputs: one root may lie downstream of the other by a path of any length.
        return cls(rule, identifier and identifier[:2], depth, max(len(depths), depth))


def _depth(node: Any, depths: dict[int, int]) -> int:
    if id(node) not in depths:
        depths[id(node)] = 0  # patterns are acyclic; this only marks the visit
        below = (_depth(p, depths) for value in node.inputs for p in _producers(value))
        depths[id(node)] = 1 + max(below, default=0)
    return depths[id(node)]


def _producers(value: Any) -> Iterable[Any]:
    if value is None:
        return
    alternatives = getattr(value, "_values", None)  # an Or pattern
    if alternatives is not None:
        for alternative in alternatives:
            yield from _producers(alternative)
    elif value.producer() is not None:
        yield value.producer()


def rule_name(rule: RewriteRule) -> str:
    """Return the rule's name, or that of the function it rewrites with."""
    function = getattr(rule._replacement_pattern, "_function", None)
    return rule.name or getattr(function, "__qualname__", None) or "anonymous-rule"


def shorten(text: str, width: int = 60) -> str:
    """Return ``text``, its middle left out where it is wider than ``width``."""
    half = (width - 3) // 2
    return text if len(text) <= width else f"{text[:half]}...{text[-half:]}"


def describe(node: ir.Node) -> str:
    """Show a node on one line: ``y = Clip(x, lo, hi)``, attributes in braces."""

    def names(values: Iterable[ir.Value | None]) -> str:
        return ", ".join("" if v is None else shorten(str(v.name)) for v in values)

    operator = f"{node.domain}::{node.op_type}" if node.domain else node.op_type
    attributes = ", ".join(_attribute(a) for a in node.attributes.values())
    braces = f" {{{attributes}}}" if attributes else ""
    return f"{names(node.outputs)} = {operator}({names(node.inputs)}){braces}"


def _attribute(attribute: ir.Attr) -> str:
    if attribute.is_ref():
        return f"{attribute.name}=@{attribute.ref_attr_name}"
    if attribute.type in (ir.AttributeType.GRAPH, ir.AttributeType.GRAPHS):
        return f"{attribute.name}=<graph>"
    if attribute.type is ir.AttributeType.TENSOR:
        tensor = attribute.as_tensor()
        if tensor.size == 1 and tensor.dtype is not ir.DataType.STRING:
            return f"{attribute.name}={tensor.numpy().item()}"
        return f"{attribute.name}=<{tensor.dtype.name.lower()}{list(tensor.shape)}>"
    text = str(attribute.value)
    return f"{attribute.name}={shorten(text, 40)}"
