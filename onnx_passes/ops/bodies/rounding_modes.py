"""The eight rounding modes of QONNX."""

from __future__ import annotations

from collections.abc import Callable

from onnx_passes.ops.bodies.writer import Writer


def round_by(mode: str, to: Writer, x: str) -> str:
    """Round to integers.

    Args:
        mode: Name of the mode, in any case. ``ROUND_TO_ZERO`` is an older name of ``DOWN``.
        to: The body.
        x: The value, of float32.

    Raises:
        ValueError: There is no such mode.
    """
    rule = _MODES.get(mode.upper())
    if rule is None:
        raise ValueError(f"there is no rounding mode {mode!r}")
    return rule(to, x)


def is_rounding_mode(mode: str) -> bool:
    """Whether a name is one of a rounding mode."""
    return mode.upper() in _MODES


def _half_even(to: Writer, x: str) -> str:
    if to.opset >= 11:
        return to.Round(x)
    # Adding 2**23 leaves no bits behind the point; the addition itself rounds half to even.
    size, big = to.Abs(x), to.number(2.0**23)
    rounded = to.Sub(to.Add(size, big), big)
    return to.Mul(_sign(to, x), to.Where(to.Less(size, big), rounded, size))


def _up(to: Writer, x: str) -> str:
    return to.Mul(_sign(to, x), to.Ceil(to.Abs(x)))


def _down(to: Writer, x: str) -> str:
    # numpy's fix: -0 stays -0, which a product with Sign would lose.
    return to.Where(to.Greater(x, to.number(0, x)), to.Floor(x), to.Ceil(x))


def _half_up(to: Writer, x: str) -> str:
    return to.Mul(_sign(to, x), to.Floor(to.Add(to.Abs(x), to.number(0.5, x))))


def _half_down(to: Writer, x: str) -> str:
    return to.Mul(_sign(to, x), to.Ceil(to.Sub(to.Abs(x), to.number(0.5, x))))


def _sign(to: Writer, x: str) -> str:
    return to.Sign(x)


_MODES: dict[str, Callable[[Writer, str], str]] = {
    "ROUND": _half_even,
    "HALF_EVEN": _half_even,
    "CEIL": lambda to, x: to.Ceil(x),
    "FLOOR": lambda to, x: to.Floor(x),
    "UP": _up,
    "DOWN": _down,
    "ROUND_TO_ZERO": _down,
    "HALF_UP": _half_up,
    "HALF_DOWN": _half_down,
}
