"""Run a rewrite rule on a model, with its own pattern, check and rewrite."""

from __future__ import annotations

import inspect
from typing import Any, TypeAlias

import onnx_ir as ir
from onnxscript.rewriter import RewriteRule, RewriteRuleClassBase, RewriteRuleSet

from onnx_passes.errors import UsageError
from onnx_passes.passes.context import Rewrites
from onnx_passes.passes.rewriting import rewrite

RuleLike: TypeAlias = Any
"""A rule or several: see ``rules_of``."""


def rules_of(subject: RuleLike) -> list[RewriteRule]:
    """Return the onnxscript rules that an object describes.

    Args:
        subject: A ``RewriteRule``, a ``RewriteRuleSet``, a ``RewriteRuleClassBase``, a pass of
            this project, any object with ``pattern`` and ``rewrite``, or a class of these.

    Raises:
        UsageError: It is something else, or a class that cannot be made without arguments.
    """
    if isinstance(subject, type):
        try:
            subject = for_certificate(subject)
        except TypeError as error:
            raise UsageError(
                f"rule class {subject.__name__} cannot be made without arguments: {error}",
                help="pass an instance",
            ) from None
    if isinstance(subject, RewriteRule):
        return [subject]
    if isinstance(subject, RewriteRuleClassBase):
        return [
            RewriteRule(
                subject.pattern,
                subject.rewrite,
                subject.check,
                name=subject.name,
                remove_nodes=subject.remove_nodes,
                graph_pre_visitor=subject.setup,
                graph_post_visitor=subject.cleanup,
                as_function=subject.as_function,
            )
        ]
    rules = getattr(subject, "rules", None)
    if rules is not None:
        return list(rules() if callable(rules) else rules)
    pattern, rewrite = getattr(subject, "pattern", None), getattr(subject, "rewrite", None)
    if not callable(pattern) or not callable(rewrite):
        raise UsageError(
            f"{type(subject).__name__} is no rewrite rule: it lacks pattern or rewrite",
            help="give an onnxscript RewriteRule, or a class with pattern, check and rewrite",
        )
    name = str(getattr(subject, "name", type(subject).__name__))
    return [RewriteRule(pattern, rewrite, getattr(subject, "check", None), name=name)]


def for_certificate(cls: type[object]) -> Any:
    """Return a pass as it is certified: with what its options let it assume.

    A guard that asks for an assumption admits little without it. What is assumed is not
    tested against: see ``assumes_finite``.
    """
    names = [n for n in _fields(cls) if n.startswith("assume_")]
    return cls(**dict.fromkeys(names, True))


def assumes_finite(cls: type[object]) -> bool:
    """Whether a pass claims something for finite numbers alone: always, or by an option."""
    return bool(getattr(cls, "finite_only", False)) or "assume_no_nan" in _fields(cls)


def _fields(cls: type[object]) -> list[str]:
    return [name for kind in cls.__mro__ for name in inspect.get_annotations(kind)]


def apply_rule(rule: RewriteRule, model: ir.Model) -> ir.Model | None:
    """Return a copy of ``model`` with the rule applied once, or None where it does not fire.

    The project's own driver applies it, so that what is judged is the rule. onnxscript's sweep
    renames an input that becomes an output, and lets initializers of one name overwrite one
    another.

    Args:
        rule: The rule.
        model: The model; it stays as it is.

    Raises:
        PassError: The rule raised; the message says what.
    """
    copy = model.clone()
    if rule.as_function:
        # The driver makes no functions; onnxscript's own sweep does.
        return copy if RewriteRuleSet([rule]).apply_to_model(copy) else None
    return copy if rewrite(copy, [rule], Rewrites(limit=1)) else None
