"""Run a rewrite rule on a model, with its own pattern, check and rewrite."""

from __future__ import annotations

from typing import Any, TypeAlias

import onnx_ir as ir
from onnxscript.rewriter import RewriteRule, RewriteRuleClassBase, RewriteRuleSet

from onnx_passes.errors import UsageError

RuleLike: TypeAlias = Any
"""A ``RewriteRule``, a ``RewriteRuleClassBase``, or an object with pattern and rewrite."""


def as_rewrite_rule(rule: RuleLike) -> RewriteRule:
    """Return anything that describes a rewrite as onnxscript's rule.

    Raises:
        UsageError: The object is no rule, or a class that cannot be made without arguments.
    """
    if isinstance(rule, RewriteRule):
        return rule
    if isinstance(rule, type):
        try:
            rule = rule()
        except TypeError as error:
            raise UsageError(
                f"rule class {rule.__name__} cannot be made without arguments: {error}",
                help="pass an instance",
            ) from None
    if isinstance(rule, RewriteRuleClassBase):
        return RewriteRule(
            rule.pattern,
            rule.rewrite,
            rule.check,
            name=rule.name,
            remove_nodes=rule.remove_nodes,
            graph_pre_visitor=rule.setup,
            graph_post_visitor=rule.cleanup,
            as_function=rule.as_function,
        )
    pattern, rewrite = getattr(rule, "pattern", None), getattr(rule, "rewrite", None)
    if not callable(pattern) or not callable(rewrite):
        raise UsageError(
            f"{type(rule).__name__} is no rewrite rule: it lacks pattern or rewrite",
            help="give an onnxscript RewriteRule, or a class with pattern, check and rewrite",
        )
    name = str(getattr(rule, "name", type(rule).__name__))
    return RewriteRule(pattern, rewrite, getattr(rule, "check", None), name=name)


def apply_rule(rule: RewriteRule, model: ir.Model) -> ir.Model | None:
    """Return a copy of ``model`` with the rule applied, or None where it does not fire."""
    copy = model.clone()
    fired = RewriteRuleSet([rule]).apply_to_model(copy)
    return copy if fired else None
