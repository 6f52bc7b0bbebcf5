"""Why a rule did not match where a user expected it to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

import onnx_ir as ir
from onnxscript.rewriter._basics import MatchingTracer, MatchStatus
from onnxscript.rewriter.pattern import RewriteRule

from onnx_passes.passes.patterns import describe

_STAGES = {
    MatchStatus.NO_MATCH: "the pattern does not match",
    MatchStatus.CONDITION_FAILED: "its check refuses",
    MatchStatus.REPLACEMENT_FAILED: "its rewrite refuses",
}
NEARBY = "a node that the pattern needs around it is of another operator"
REFUSED = "the driver does not apply it: it is skipped, changes nothing or makes a cycle"


@dataclass
class WhyNot:
    """A question about a rule, and what the driver found.

    Attributes:
        rule: Name of the rule, or of its pass for all of its rules.
        node: Name of a node or of one of its outputs; None for every node.
        found: The reason by rule and node.
    """

    rule: str
    node: str | None = None
    found: dict[tuple[str, str], str] = field(default_factory=dict)

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

    def note(self, rule: str, node: ir.Node, reason: str) -> None:
        """Keep why a rule did not match; the last look at a node counts.

        Args:
            rule: Name of the rule.
            node: The node.
            reason: Why it did not match.
        """
        self.found[(rule, describe(node))] = reason

    def matched(self, rule: str, node: ir.Node) -> None:
        """Forget what was said of a node before the rule matched.

        Args:
            rule: Name of the rule.
            node: The node.
        """
        self.found.pop((rule, describe(node)), None)

    def lines(self) -> Iterator[str]:
        """Yield a line for each rule and node."""
        for (rule, node), reason in self.found.items():
            yield f"{rule} at {node}: {reason}"
        if not self.found:
            where = "" if self.node is None else f" at {self.node!r}"
            yield (
                f"{self.rule}{where}: no rule of this name was tried there: the pipeline "
                "lacks it, or no node has its operator"
            )


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


def reason_of(tracer: MatchingTracer, rule: RewriteRule) -> str:
    """Return the reason that a trace of one match attempt holds.

    Args:
        tracer: The tracer of onnxscript.
        rule: The rule that was tried.
    """
    attempts = tracer.best_matches_map.get(rule, [])
    if not attempts:
        return _STAGES[MatchStatus.NO_MATCH]
    attempt = attempts[0]
    if attempt.status == MatchStatus.SUCCESS:
        return REFUSED
    stage, reason = _STAGES[attempt.status], attempt.match_result.reason
    around = ", ".join(
        describe(cause) if isinstance(cause, ir.Node) else repr(cause.name)
        for cause in attempt.match_result.failure_nodes_and_values
    )
    return f"{stage}: {reason or 'no reason given'}" + (
        f" (around {around})" if around else ""
    )


__all__ = ["NEARBY", "MatchingTracer", "WhyNot", "asking", "question_of", "reason_of"]
