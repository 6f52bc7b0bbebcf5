"""Shares such as 10% or 0.1."""

from __future__ import annotations

import re

from onnx_passes.errors import UsageError


def read_share(given: object, what: str) -> float:
    """Read ``0.5 %``, ``0.5%`` or ``0.005``.

    Args:
        given: The text, or a number.
        what: What it is, for messages.

    Raises:
        UsageError: It is not a share.
    """
    match = re.fullmatch(r"([0-9.]+(?:[eE]-?\d+)?)\s*(%?)", str(given).strip())
    try:
        assert match is not None
        value = float(match[1]) / (100 if match[2] else 1)
    except (ValueError, AssertionError):
        raise UsageError(
            f"{what} {given!r} is not a share", help="write 0.5 %, or 0.005"
        ) from None
    return value
