"""What is certified: passes by name, and rules from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onnx_passes.errors import OnnxPassesError

if TYPE_CHECKING:
    from onnx_passes.passes.base import Pass
    from onnx_passes.passes.pass_scope import Scope


BY_METRICS = "promises metrics, which a pipeline measures on its data; no certificate"


@dataclass(frozen=True)
class Target:
    """One thing to certify.

    Attributes:
        name: As the user named it.
        subject: ``module:object``.
        rules: Number of its rules; None where it is not a rewrite rule.
        cls: The class of the pass; None for rules from outside.
        problem: Why it cannot be certified.
    """

    name: str
    subject: str
    rules: int | None
    cls: type[Pass] | None = None
    problem: str = ""

    @property
    def by_metrics(self) -> bool:
        """Whether the pass promises metrics alone, which need a user's data."""
        from onnx_passes.contracts import Metric

        promised = () if self.cls is None else self.cls.contracts()
        return bool(promised) and all(isinstance(one, Metric) for one in promised)

    def indices(self, level: str) -> Sequence[int | None]:
        """Return what a child is started for: each rule, or the pass as a whole."""
        if self.by_metrics:
            return ()
        if self.rules is not None:
            return range(self.rules)
        return [] if level == "prove" else [None]


def targets_of(
    names: Sequence[str | type[Pass]], scope: Scope, *, everything: bool
) -> list[Target]:
    """Return the passes that names mean.

    Args:
        names: Names or classes of passes and groups.
        scope: Where names are looked up.
        everything: Whether all passes are meant.
    """
    from onnx_passes.passes.base import RewriteRulePass, RewriteRuleSetPass
    from onnx_passes.passes.registry import all_passes, collect
    from onnx_passes.verify.rules.applying import rules_of

    targets = []
    chosen = all_passes() if everything else collect(names, scope)
    for cls in dict.fromkeys(chosen):
        subject = f"{cls.__module__}:{cls.__qualname__}"
        if not issubclass(cls, RewriteRulePass | RewriteRuleSetPass):
            targets.append(Target(cls.name, subject, None, cls))
            continue
        try:
            count = len(rules_of(cls))
        except Exception as error:
            problem = f"cannot be made without options: {error}"
            targets.append(Target(cls.name, subject, 0, cls, problem))
            continue
        targets.append(Target(cls.name, subject, count, cls))
    return targets


def outside_target(subject: str) -> Target:
    """Return a rule, or a pass, of a module.

    Args:
        subject: As ``module:object``.
    """
    from onnx_passes.passes.base import Pass, RewriteRulePass, RewriteRuleSetPass
    from onnx_passes.verify.rules.applying import rules_of
    from onnx_passes.verify.rules.job import resolve

    try:
        found = resolve(subject)
        of_rules = RewriteRulePass | RewriteRuleSetPass
        if (
            isinstance(found, type)
            and issubclass(found, Pass)
            and not issubclass(found, of_rules)
        ):
            return Target(subject, subject, None)
        return Target(subject, subject, len(rules_of(found)))
    except OnnxPassesError as error:
        return Target(subject, subject, 0, problem=str(error))
