"""Tolerances as a command has them."""

from __future__ import annotations

import math
from collections.abc import Iterable

from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.errors import UsageError
from onnx_passes.verify.runs.judging import Simple

_HOW = "write exact, 1e-3 (for both), or rtol=1e-3,atol=1e-5"


def read_limits(tolerance: str | None, rtol: Iterable[str], atol: Iterable[str]) -> Simple:
    """Read limits.

    Args:
        tolerance: ``exact``, a number for both, or ``rtol=..,atol=..``; None for the defaults
            of each dtype.
        rtol: ``1e-3`` for all outputs, or ``NAME:1e-3`` for one.
        atol: The same.

    Raises:
        UsageError: A text is not a limit, or an exact comparison is given limits.
    """
    base = {} if tolerance in (None, "exact") else _tolerance(str(tolerance))
    named: dict[str, dict[str, float]] = {}
    for key, texts in (("rtol", rtol), ("atol", atol)):
        for text in texts:
            if tolerance == "exact":
                raise UsageError(f"--tolerance exact leaves no room for --{key} {text}")
            name, colon, value = text.rpartition(":")
            number = _number(value, f"--{key} {text!r}")
            if colon:
                named.setdefault(name, {})[key] = number
            else:
                base[key] = number
    if tolerance == "exact":
        return Simple(Equality())
    return Simple(Tolerance(**base), {n: Tolerance(**base | own) for n, own in named.items()})


def _tolerance(text: str) -> dict[str, float]:
    if "=" not in text:
        number = _number(text, f"--tolerance {text!r}")
        return {"rtol": number, "atol": number}
    found: dict[str, float] = {}
    for part in text.split(","):
        key, _, value = part.strip().partition("=")
        if key not in ("rtol", "atol"):
            raise UsageError(f"--tolerance {text!r} cannot be read", help=_HOW)
        found[key] = _number(value, f"--tolerance {text!r}")
    return found


def _number(text: str, option: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        help_ = (
            _HOW if option.startswith("--tolerance") else "write NAME:1e-3, or 1e-3 for all"
        )
        raise UsageError(f"{option}: {text!r} is not a number of 0 or more", help=help_)
    return value
