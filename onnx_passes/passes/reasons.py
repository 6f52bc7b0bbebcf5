"""Why a rule did not match where a user expected it to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import onnx
import onnx_ir as ir
from onnxscript.rewriter._basics import MatchingTracer, MatchStatus
from onnxscript.rewriter.pattern import RewriteRule

from onnx_passes.passes.node_index import Container
from onnx_passes.passes.patterns import describe

MISMATCH = "the pattern does not match"
_STAGES = {
    MatchStatus.NO_MATCH: MISMATCH,
    MatchStatus.CONDITION_FAILED: "its check refuses",
    MatchStatus.REPLACEMENT_FAILED: "its rewrite refuses",
}
NO_REASON = "its check refuses"
_SAYS_NOTHING = ("Condition function check failed", "OrValue pattern", "alternatives matched")
"""What onnxscript has in place of a reason."""
_SHOWN = 6
_MATCHED = 1000
"""Depth of a pattern that matched, and whose check or rewrite refuses."""
REFUSED = "the driver does not apply it: it is skipped, changes nothing or makes a cycle"


@dataclass
class WhyNot:
    """A question about a rule, and what the driver found.

    Attributes:
        rule: Name of the rule, or of its pass for all of its rules.
        node: Name of a node or of one of its outputs; None for every node.
        found: The reason by node and rule, and the depth to which the pattern matched.
    """

    rule: str
    node: str | None = None
    found: dict[str, dict[str, tuple[str, int]]] = field(
        default_factory=lambda: defaultdict(dict)
    )

    @staticmethod
    def of(text: str) -> WhyNot:
        """Read ``RULE[@NODE]``."""
        rule, _, node = text.partition("@")
        return WhyNot(rule, node or None)

    def asks(self, rule: str, node: ir.Node) -> bool:
        """Whether the question is about a rule at a node.

        Args:
            rule: Name of the rule.
            node: The node.
        """
        names = {node.name, *(value.name for value in node.outputs)}
        about_node = self.node is None or self.node in names
        return about_node and self.rule in (rule, rule.partition("[")[0])

    def note(self, rule: str, node: ir.Node, reason: str, depth: int) -> None:
        """Keep why a rule did not match, unless it matched further in another order.

        Args:
            rule: Name of the rule.
            node: The node.
            reason: Why it did not match.
            depth: Number of nodes up to which the pattern matched.
        """
        known = self.found[describe(node)]
        if depth >= known.get(rule, ("", 0))[1]:
            known[rule] = reason, depth

    def forget(self, rule: str, node: ir.Node) -> None:
        """Forget what was noted of a rule at a node, which is tried again or has matched.

        Args:
            rule: Name of the rule.
            node: The node.
        """
        self.found[describe(node)].pop(rule, None)

    def lines(self) -> Iterator[str]:
        """Yield a line for each rule and reason, those that came closest to a match first."""
        places: dict[tuple[str, str], list[str]] = defaultdict(list)
        depths: dict[tuple[str, str], int] = {}
        for node, rules in self.found.items():
            deepest = max((depth for _, depth in rules.values()), default=0)
            for rule, (reason, depth) in rules.items():
                if depth == deepest or self.node is not None:
                    places[rule, reason].append(node)
                    depths[rule, reason] = depth
        order = sorted(places, key=lambda key: (-depths[key], len(places[key])))
        for rule, reason in order[:_SHOWN]:
            found = places[rule, reason]
            more = f" and {len(found) - 1} more" if len(found) > 1 else ""
            yield f"{rule}: {reason}, at {found[0]}{more}"
        if order[_SHOWN:]:
            left = len({node for key in order[_SHOWN:] for node in places[key]})
            yield f"{left} nodes are further from a match: {self.rule}@NODE asks about one"


_ASKED: ContextVar[WhyNot | None] = ContextVar("asked", default=None)


@contextmanager
def asking(question: WhyNot | None) -> Iterator[None]:
    """Let drivers note what a question is about, as long as this context is open."""
    token = _ASKED.set(question)
    try:
        yield
    finally:
        _ASKED.reset(token)


def is_asking() -> bool:
    """Whether there is a question about any rule."""
    return _ASKED.get() is not None


def question_of(rule: str, node: ir.Node) -> WhyNot | None:
    """Return the question that is about a rule at a node, if there is one.

    Args:
        rule: Name of the rule.
        node: The node.
    """
    asked = _ASKED.get()
    return asked if asked is not None and asked.asks(rule, node) else None


def reason_of(
    tracer: MatchingTracer,
    rule: RewriteRule,
    model: ir.Model,
    container: Container,
    node: ir.Node,
) -> tuple[str, int]:
    """Return the reason that a trace of one match attempt holds, with its depth.

    Args:
        tracer: The tracer of onnxscript.
        rule: The rule that was tried.
        model: The model that it was tried on.
        container: The graph or function of the node.
        node: The node.
    """
    attempts = tracer.best_matches_map.get(rule, [])
    if not attempts:
        return MISMATCH, 1
    attempt = attempts[0]
    if attempt.status == MatchStatus.SUCCESS:
        return REFUSED, _MATCHED
    mismatch = attempt.status == MatchStatus.NO_MATCH
    result = attempt.match_result
    depth = len(result.nodes) if mismatch else _MATCHED
    if not result.reason or any(text in result.reason for text in _SAYS_NOTHING):
        if mismatch:
            return MISMATCH, depth
        return _too_old(rule, model, container, node) or NO_REASON, depth
    return f"{_STAGES[attempt.status]}: {result.reason}", depth


def _too_old(
    rule: RewriteRule, model: ir.Model, container: Container, node: ir.Node
) -> str | None:
    """Say which opset a rule needs to match at a node; None if it is not the opset."""
    graph = container if isinstance(container, ir.Function) else model.graph
    imports, given = graph.opset_imports, graph.opset_imports.get("", 1)
    try:
        for version in range(given + 1, onnx.defs.onnx_opset_version() + 1):
            imports[""] = version
            if rule.match(model, container, node):
                return f"it needs opset {version}, and the model has {given}"
    finally:
        imports[""] = given
    return None


__all__ = [
    "MISMATCH",
    "NO_REASON",
    "MatchingTracer",
    "WhyNot",
    "asking",
    "question_of",
    "reason_of",
]
