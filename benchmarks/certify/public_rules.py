"""Every rewrite rule that the installed onnxscript publishes, found by walking its modules."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from onnxscript.rewriter import RewriteRule, RewriteRuleSet

_PREFIX = "onnxscript.rewriter."


@dataclass(frozen=True)
class PublicRule:
    """One rule.

    Attributes:
        family: The module that holds it, below ``onnxscript.rewriter``.
        name: The variable that holds it, with its place where that is a set of rules.
        rule: The rule.
    """

    family: str
    name: str
    rule: RewriteRule

    @property
    def label(self) -> str:
        """Return family and name."""
        return f"{self.family}:{self.name}"

    @property
    def code(self) -> str:
        """Return what rules that one piece of code makes have in common."""
        checks: Any = self.rule._condition_function
        rewrite: Any = self.rule._replacement_pattern
        owner = getattr(checks, "__self__", None)
        if owner is not None:
            return type(owner).__qualname__
        return f"{getattr(checks, '__qualname__', '')} {rewrite._function.__qualname__}"


class _Rules:
    """What ``onnx-passes certify --rules`` takes: an object that has rules."""

    @property
    def rules(self) -> list[RewriteRule]:
        """Return the rules, in the order of ``public_rules``."""
        return [public.rule for public in public_rules()]


everything = _Rules()
"""All of them, as one subject: ``benchmarks.certify.public_rules:everything``."""


@functools.cache
def public_rules() -> tuple[PublicRule, ...]:
    """Return every rule once, in the order of the modules."""
    found: dict[int, PublicRule] = {}
    for module in _modules():
        family = module.__name__.removeprefix(_PREFIX)
        for name, value in vars(module).items():
            for label, rule in (*_rules_in(name, value), *_made(module, name, value)):
                found.setdefault(id(rule), PublicRule(family, label, rule))
    return tuple(found.values())


def _modules() -> Iterator[Any]:
    import onnxscript.rewriter

    for info in pkgutil.walk_packages(onnxscript.rewriter.__path__, _PREFIX):
        # Models and helpers for onnxscript's own tests hold no rules.
        if ".models" not in info.name and "test" not in info.name:
            yield importlib.import_module(info.name)


def _rules_in(name: str, value: Any) -> Iterator[tuple[str, RewriteRule]]:
    if isinstance(value, RewriteRule):
        yield name, value
    elif isinstance(value, RewriteRuleSet):
        yield from ((f"{name}[{i}]", rule) for i, rule in enumerate(value.rules))
    elif isinstance(value, list | tuple):
        rules = [v for v in value if isinstance(v, RewriteRule)]
        yield from ((f"{name}[{i}]", rule) for i, rule in enumerate(rules))


def _made(module: Any, name: str, make: Any) -> Iterator[tuple[str, RewriteRule]]:
    """Return the rules of a public function that makes a set of them from no arguments."""
    if name.startswith("_") or not name.endswith("_rules") or not inspect.isfunction(make):
        return
    if make.__module__ != module.__name__ or inspect.signature(make).parameters:
        return
    made = make()
    if isinstance(made, RewriteRuleSet | list | tuple):
        yield from _rules_in(f"{name}()", made)
