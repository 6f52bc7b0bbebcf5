"""Passes that are given by patterns and their replacements."""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import onnx_ir as ir
from onnxscript.rewriter._basics import MatchContext
from onnxscript.rewriter.pattern import MatchResult, RewriteRule

from onnx_passes.passes.hints import Hints
from onnx_passes.passes.kinds import Pass, is_shipped

if TYPE_CHECKING:
    from onnx_passes.passes.patterns import PatternInfo

# onnxscript resolves operators and pattern variables by attribute, which no type checker sees.
Op: TypeAlias = Any
Var: TypeAlias = Any
Value: TypeAlias = ir.Value


@dataclass(frozen=True)
class Rule:
    """One rewrite of a pass, as ``RewriteRuleSetPass.rules`` yields it.

    The functions are those of onnxscript's rewriter, without ``self``; parameters of the check
    and of the rewrite are bound by name.

    Attributes:
        pattern: Builds the subgraph to find.
        rewrite: Builds the subgraph to put in its place.
        check: Accepts a match, or fails with the reason; None to accept each.
        name: What reports, ``--why-not`` and hints call it, behind the name of the pass;
            empty for its number.
    """

    pattern: Callable[..., object]
    rewrite: Callable[..., object]
    check: Callable[..., MatchResult | bool] | None = None
    name: str = ""


class Rewriting(Pass):
    """What the two kinds of rewrite pass share: rules, and the driver that applies them."""

    commute: ClassVar[bool] = False
    """Also match with the operands of Add and Mul swapped."""
    exclusive: ClassVar[bool] = False
    """Match only where no inner value has a reader outside of the match."""
    hints: ClassVar[Hints] = MappingProxyType({})
    """What operands rules need, by their names, for ``certify``; of ``*`` all other rules."""

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if "rules" in vars(cls):
            setattr(cls, "rules", _as_rewrite_rules(cls.rules))  # noqa: B010 - for mypy

    @abc.abstractmethod
    def rules(self) -> Iterable[Rule | RewriteRule]:
        """Return the rules, in the order in which they are tried at a node.

        Each :class:`Rule` becomes one of onnxscript, and more if operands commute.
        """

    def rewrite_rules(self) -> list[RewriteRule]:
        """Return what :meth:`rules` became: rules of onnxscript."""
        return [rule for rule in self.rules() if not isinstance(rule, Rule)]

    def patterns(self) -> list[PatternInfo]:
        """Return the rules with what the driver has to know of them.

        To build them takes longer than to match them on a small model. Those of a pass that
        depend on its options alone are built once for all its turns in a run.
        """
        from onnx_passes.passes.patterns import PatternInfo

        cls, known = type(self), self.context.rules
        # The methods too: a test may put another rule in.
        methods = [
            getattr(cls, name, None) for name in ("rules", "pattern", "rewrite", "check")
        ]
        key = (cls, *methods, repr(sorted(self.options.items())))
        found = known.get(key)
        if found is None:
            found = [PatternInfo.of(rule) for rule in self.rewrite_rules()]
            if self.repeats_itself and cls.call is Rewriting.call:
                known[key] = found
        return found

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Apply the rules until none matches."""
        from onnx_passes.passes.driver import rewrite
        from onnx_passes.passes.node_index import NodeIndex

        rewrites = self.context.rewrites
        index, rewrites.index = rewrites.index, None
        # A pass with a call of its own may have changed the model before this one.
        if index is None or index.model is not model or type(self).call is not Rewriting.call:
            index = NodeIndex.of(model)
        applied = rewrite(model, self.patterns(), rewrites, index)
        rewrites.index = None if applied else index
        return ir.passes.PassResult(model, modified=bool(applied))

    def _made(self, rule: Rule, name: str) -> list[RewriteRule]:
        found = RewriteRule(
            rule.pattern,
            rule.rewrite,
            rule.check or _accept,
            name=name,
            remove_nodes=self.exclusive,
        )
        return list(found.commute()) if self.commute else [found]


def only_rewrites(pass_: Pass) -> bool:
    """Whether a pass of the library does nothing but apply its rules."""
    cls = type(pass_)
    return is_shipped(cls) and issubclass(cls, Rewriting) and cls.call is Rewriting.call


def _accept(*_: object, **__: object) -> bool:
    return True


def _as_rewrite_rules(
    rules: Callable[[Any], Iterable[Rule | RewriteRule]],
) -> Callable[[Any], list[RewriteRule]]:
    """Return a method that gives rules of onnxscript, whichever kind ``rules`` gives."""

    @functools.wraps(rules)
    def made(self: Rewriting) -> list[RewriteRule]:
        found: list[RewriteRule] = []
        for number, rule in enumerate(rules(self)):
            if isinstance(rule, Rule):
                found += self._made(rule, f"{self.name}[{rule.name or number}]")
            else:
                found.append(rule)
        return found

    return made


class RewriteRulePass(Rewriting):
    """A rewrite given by a pattern, a side condition and a replacement.

    Mix it with :class:`Transformation` or :class:`Annotation`. The three methods are those of
    onnxscript's rewriter; parameters of :meth:`check` and :meth:`rewrite` are bound by name.
    """

    @abc.abstractmethod
    def pattern(self, op: Op, *args: Any, **kwargs: Any) -> Var:
        """Build the subgraph to find."""

    @abc.abstractmethod
    def rewrite(self, op: Op, *args: Any, **kwargs: Any) -> Var:
        """Build the subgraph to put in its place."""

    def check(self, context: MatchContext, *args: Any, **kwargs: Any) -> MatchResult | bool:
        """Accept a match, or fail with the reason."""
        return MatchResult()

    def rules(self) -> Iterable[Rule | RewriteRule]:
        return self._made(Rule(self.pattern, self.rewrite, self.check), self.name)


class RewriteRuleSetPass(Rewriting):
    """Several rewrites as one pass.

    Implement :meth:`rules`, which yields each as a :class:`Rule`. Or implement
    :meth:`pattern`, :meth:`rewrite` and, for side conditions, :meth:`check`. They return lists
    of the same length, as functions of the signatures of :class:`RewriteRulePass`.
    """

    def pattern(self) -> list[Callable[..., object]]:
        """Return the patterns."""
        raise NotImplementedError(f"{type(self).__name__} defines neither rules nor pattern")

    def rewrite(self) -> list[Callable[..., object]]:
        """Return the replacements."""
        raise NotImplementedError(f"{type(self).__name__} defines neither rules nor rewrite")

    def check(self) -> list[Callable[..., MatchResult | bool]]:
        """Return the side conditions."""
        return [_accept for _ in self.pattern()]

    def rules(self) -> Iterable[Rule | RewriteRule]:
        triples = zip(self.pattern(), self.rewrite(), self.check(), strict=True)
        return [Rule(*triple) for triple in triples]
