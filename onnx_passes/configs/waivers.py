"""Waivers: what a pipeline file accepts though it is not verified, why, and until when."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from fnmatch import fnmatchcase
from pathlib import PurePath

from onnx_passes.passes.naming import pipeline_name


@dataclass(frozen=True)
class Waiver:
    """A known shortcoming of a rule or a pass that a user accepts.

    Attributes:
        what: Name of the rule or pass.
        is_rule: Whether it is a rule.
        reason: Why it is accepted.
        model: Pattern of the names of model files.
        expires: The last day on which it counts; None for no end.
    """

    what: str
    is_rule: bool
    reason: str
    model: str = "*"
    expires: date | None = None

    def __str__(self) -> str:
        """Name what is accepted: ``rule merge-relus``."""
        return f"{'rule' if self.is_rule else 'pass'} {self.what}"

    def has_expired(self, today: date) -> bool:
        """Whether its last day is over."""
        return self.expires is not None and today > self.expires

    def covers_model(self, name: str) -> bool:
        """Whether it is for a model, by the name of its file without the folder."""
        return fnmatchcase(PurePath(name).name, self.model)


def find_waivers(
    waivers: Iterable[Waiver],
    pass_name: str,
    rules: Sequence[str],
    model_name: str,
    today: date,
) -> tuple[Waiver, ...]:
    """Return the waivers that accept what a pass has done to a model; none if they do not.

    A waiver of the pass accepts all of it. Waivers of rules accept it if each of the rules
    has one.

    Args:
        waivers: The waivers of the pipeline file.
        pass_name: Name of the pass, with or without options.
        rules: The rules that are to blame, or that were applied.
        model_name: Name of the model's file.
        today: The day, for waivers that expire.
    """
    valid = [w for w in waivers if w.covers_model(model_name) and not w.has_expired(today)]
    own = _plain(pass_name.partition("{")[0])
    of_pass = next((w for w in valid if not w.is_rule and _plain(w.what) == own), None)
    if of_pass is not None:
        return (of_pass,)
    by_rule = {_plain(w.what): w for w in reversed(valid) if w.is_rule}
    wanted = list(dict.fromkeys(map(_plain, rules)))
    if not wanted or any(rule not in by_rule for rule in wanted):
        return ()
    return tuple(by_rule[rule] for rule in wanted)


def _plain(name: str) -> str:
    """Return a name as pipelines write it, however it was given."""
    name = name.strip()
    return pipeline_name(name) if name[:1].isupper() else name.replace("_", "-")
