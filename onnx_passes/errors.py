"""Errors a user can act on: what happened, where, and what to do about it.

Each class carries a stable ``code`` and the exit code of the command line. 1: a verification
failed. 2: bad usage or config. 3: the model or engine cannot be used. 4: something asked for
could not be verified. 5: a part of a data set could not be evaluated.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import ClassVar


def nearest(name: str, known: Iterable[str], most: int = 1, cutoff: float = 0.55) -> list[str]:
    """Return the known names that a mistyped one may be meant for, the nearest first.

    Of names that differ in case alone, one is returned.
    """
    by_letters = {one.lower(): one for one in known}
    found = difflib.get_close_matches(name.lower(), by_letters, most, cutoff)
    return [by_letters[letters] for letters in found]


def did_you_mean(
    name: str, known: Iterable[str], otherwise: str | None = None, most: int = 1
) -> str:
    """Return a help line: the nearest known names, else ``otherwise``.

    Without ``otherwise`` it lists all, also if one is near.
    """
    known = sorted(known)
    near = " or ".join(map(repr, nearest(name, known, most)))
    meant = f"did you mean {near}?" if near else ""
    if otherwise is not None:
        return meant or otherwise
    return f"{meant} known: {', '.join(known) or 'none'}".lstrip()


class OnnxPassesError(Exception):
    """An error with a stable code, a location where one is known, and a way out.

    Attributes:
        message: What happened.
        where: Excerpt of the place that it happened at; None if no place is known.
        help: What to do about it; None if that is not known.
    """

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 2

    def __init__(
        self, message: str, *, where: str | None = None, help: str | None = None
    ) -> None:
        """Store the parts; ``str(error)`` renders them."""
        super().__init__(message)
        self.message, self.where, self.help = message, where, help

    def __str__(self) -> str:
        """Render as the message, then location, then help."""
        parts = [self.message, self.where, f"  = help: {self.help}" if self.help else None]
        return "\n".join(part for part in parts if part)

    @property
    def sentence(self) -> str:
        """The message and the help, on one line."""
        return f"{self.message} ({self.help})" if self.help else self.message


class UsageError(OnnxPassesError):
    """The command line asks for something that cannot be done."""

    code = "usage"


class ConfigError(OnnxPassesError):
    """A pipeline file is wrong."""

    code = "config"


class UnknownPassError(ConfigError):
    """A pipeline names a pass that is not registered."""

    code = "unknown-pass"


class UnknownMetricError(ConfigError):
    """A pipeline names a metric that is not registered."""

    code = "unknown-metric"


class OptionError(ConfigError):
    """A pass is given an option that it does not have, or a value of the wrong type."""

    code = "option"


class ReferenceDataError(ConfigError):
    """Reference data does not fit the model."""

    code = "reference-data"


class ModelError(OnnxPassesError):
    """A model cannot be read, written or represented without loss."""

    code = "model"
    exit_code = 3


class EngineError(OnnxPassesError):
    """An engine cannot load or run a model."""

    code = "engine"
    exit_code = 3


class TooMuchWorkError(EngineError):
    """A model takes more operations than its caller allows."""


class EngineUnavailableError(EngineError):
    """An engine, or the provider asked of it, is not on this machine."""

    code = "engine-unavailable"


class UnsupportedModelError(EngineError):
    """An engine has no implementation of something the model needs."""

    code = "unsupported-model"


class EngineBuildError(EngineError):
    """An engine reads a model, and does not compile it."""

    code = "engine-build"


class InputsRefusedError(EngineError):
    """An engine loads the original model, and runs it on none of the inputs."""

    code = "inputs-refused"


class EngineCrashedError(EngineError):
    """The process in which an engine ran ended."""

    code = "engine-crashed"


class EngineTimeoutError(EngineError):
    """An engine ran past its time limit."""

    code = "engine-timeout"


class EngineMemoryError(EngineError):
    """An engine ran out of the memory that it may have."""

    code = "engine-memory"


class VerificationError(OnnxPassesError):
    """A pass changed what the model computes, or how it is called."""

    code = "verification"
    exit_code = 1


class PassError(OnnxPassesError):
    """A pass raised, returned the wrong thing, or did not end."""

    code = "pass"
    exit_code = 1


class FixpointError(PassError):
    """A rewrite rule, or a group of passes, does not reach a fixpoint."""

    code = "no-fixpoint"


class LostWeightsError(PassError):
    """A pass wrote to the files that the original's weights are in: no policy can go on."""

    code = "lost-weights"


class TimeLimitError(PassError):
    """A pass ran past its time limit."""

    code = "time-limit"
