"""Passes that are given by patterns and their replacements."""

from __future__ import annotations

import abc
from typing import Any, ClassVar, TypeAlias

import onnx_ir as ir
from onnxscript.rewriter import MatchResult, RewriteRule

from onnx_passes.passes.kinds import Pass

# onnxscript resolves operators and pattern variables by attribute, which no type checker sees.
Op: TypeAlias = Any
Var: TypeAlias = Any
Value: TypeAlias = ir.Value


class _Rewriting(Pass):
    """What the two kinds of rewrite pass share: rules, and the driver that applies them."""

    commute: ClassVar[bool] = False
    """Also match with the operands of Add and Mul swapped."""
    exclusive: ClassVar[bool] = False
    """Match only where no inner value has a reader outside of the match."""

    @abc.abstractmethod
    def rules(self) -> list[RewriteRule]:
        """Return the rules, in the order in which they are tried at a node."""

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Apply the rules until none matches."""
        from onnx_passes.passes.driver import rewrite
        from onnx_passes.passes.node_index import NodeIndex

        rewrites = self.context.rewrites
        index, rewrites.index = rewrites.index, None
        # A pass with a call of its own may have changed the model before this one.
        if index is None or index.model is not model or type(self).call is not _Rewriting.call:
            index = NodeIndex.of(model)
        applied = rewrite(model, self.rules(), rewrites, index)
        rewrites.index = None if applied else index
        return ir.passes.PassResult(model, modified=bool(applied))

    def _rules(self, *triples: tuple[Any, Any, Any, str]) -> list[RewriteRule]:
        rules = [
            RewriteRule(pattern, rewrite, check, name=name, remove_nodes=self.exclusive)
            for pattern, rewrite, check, name in triples
        ]
        return [r for rule in rules for r in rule.commute()] if self.commute else rules


class RewriteRulePass(_Rewriting):
    """A rewrite given by a pattern, a side condition and a replacement.

    Mix it with :class:`Transformation` or :class:`Annotation`. The three methods are those of
    onnxscript's rewriter; parameters of :meth:`check` and :meth:`rewrite` are bound by name.
    """

    @abc.abstractmethod
    def pattern(self, op: Op, *args: Any, **kwargs: Any) -> Any:
        """Build the subgraph to find."""

    @abc.abstractmethod
    def rewrite(self, op: Op, *args: Any, **kwargs: Any) -> Any:
        """Build the subgraph to put in its place."""

    def check(self, context: Any, *args: Any, **kwargs: Any) -> MatchResult | bool:
        """Accept a match, or fail with the reason."""
        return MatchResult()

    def rules(self) -> list[RewriteRule]:
        return self._rules((self.pattern, self.rewrite, self.check, self.name))


class RewriteRuleSetPass(_Rewriting):
    """Several rewrites as one pass.

    :meth:`pattern`, :meth:`rewrite` and, where there are side conditions, :meth:`check` return
    lists of the same length, as functions of the signatures of :class:`RewriteRulePass`.
    """

    @abc.abstractmethod
    def pattern(self) -> list[Any]:
        """Return the patterns."""

    @abc.abstractmethod
    def rewrite(self) -> list[Any]:
        """Return the replacements."""

    def check(self) -> list[Any]:
        """Return the side conditions."""
        return [lambda *_, **__: True for _ in self.pattern()]

    def rules(self) -> list[RewriteRule]:
        triples = zip(self.pattern(), self.rewrite(), self.check(), strict=True)
        named = [(*triple, f"{self.name}[{i}]") for i, triple in enumerate(triples)]
        return self._rules(*named)
