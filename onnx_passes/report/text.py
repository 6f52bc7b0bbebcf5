"""Numbers, names and signs as a person reads them, the same in every writer."""

from __future__ import annotations

import math
import os
import re
import unicodedata
from dataclasses import dataclass
from typing import TextIO

# Bidirectional controls reorder what a reader sees, so a name could pose as another.
_HIDDEN = {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}
# The last two of each plane are not characters, and XML forbids the first pair.
_NO_CHARACTER = 0xFFFE


_PLAIN = 5
"""Digits up to which a large number has no exponent."""
_COLUMNS = 80
"""Those of a terminal that does not say how many it has."""
_LEAST_ROOM = 16
"""Characters of a line below which nothing is wrapped."""
_WORDS = re.compile(r"\s*(?:[#+-]?\d[\d.,]*(?:e-?\d+)? )*\S+")
NOISE = "times the noise"
"""What notes say of a limit that an engine's own noise has raised: details, on a console."""


def printable(text: str, encoding: str = "utf-8") -> str:
    r"""Return ``text`` with everything that is not a visible character escaped.

    Names come from the model, which may be hostile: terminal escapes, bidirectional controls
    and lone surrogates are shown as ``\x1b``, ``\u202e``, ``\udc80``. Line breaks stay.
    Characters that ``encoding`` lacks are escaped too.
    """
    shown = text
    if not text.isprintable():
        shown = "".join(
            char.encode("unicode_escape").decode() if _hides(char) else char for char in text
        )
    return shown.encode(encoding, "backslashreplace").decode(encoding)


def _hides(char: str) -> bool:
    if char.isascii():
        return not (char.isprintable() or char == "\n")
    hidden = unicodedata.category(char) in _HIDDEN
    return hidden or ord(char) & _NO_CHARACTER == _NO_CHARACTER


def one_line(text: str, encoding: str = "utf-8") -> str:
    r"""Return ``text`` as :func:`printable` does, with line breaks shown as ``\n``."""
    return printable(text, encoding).replace("\n", "\\n")


def ends(text: str, most: int = 400, sign: str = "…") -> str:
    """Return a text; one with more than ``most`` characters loses its middle."""
    half = most // 2
    return text if len(text) <= most else f"{text[:half]} {sign} {text[-half:]}"


def terminal_width(stream: TextIO | None) -> int | None:
    """Return the columns of a stream's terminal; None where it has none."""
    try:
        own = os.get_terminal_size(stream.fileno()).columns if stream else None
    except (OSError, ValueError, AttributeError):
        return None
    asked = os.environ.get("COLUMNS", "")
    return int(asked) if asked.isdecimal() else own or _COLUMNS


def asked_color() -> bool | None:
    """Return whether the environment asks for colours; None leaves it to the stream."""
    if os.environ.get("NO_COLOR"):
        return False
    return True if os.environ.get("FORCE_COLOR") else None


def wrapped(text: str, width: int, hang: int = 0) -> list[str]:
    """Break a line between words; a number stays beside what it counts.

    A word that is wider than a line, such as a path, begins a line, and breaks after a slash
    if it has one. ``hang`` are spaces in front of all lines but the first.
    """
    if len(text) <= width or width - hang < _LEAST_ROOM:
        return [text]
    lines, line = [], ""
    for word in _WORDS.findall(text):
        if line.strip() and len(line) + len(word) > width:
            lines.append(line)
            line = " " * hang + word.lstrip()
        else:
            line += word
        while len(line) > width:
            slash = line.rfind("/", hang + 1, width) + 1
            lines.append(line[: slash or width])
            line = " " * hang + line[slash or width :]
    return [*lines, line]


def annotation(title: str, text: str, file: str = "") -> str:
    """Return the line by which GitHub shows an error beside a commit."""

    def escaped(told: str, signs: str) -> str:
        for sign in signs:
            told = told.replace(sign, f"%{ord(sign):02X}")
        return told

    keys = {"file": file, "title": title}
    told = ",".join(f"{key}={escaped(value, '%:,')}" for key, value in keys.items() if value)
    return f"::error {told}::" + escaped(text, "%\n")


def duration(seconds: float) -> str:
    """Return a wall time with two or three digits: ``12 ms``, ``1.4 s``, ``2 min 5 s``."""
    if seconds < 0.9995:
        return f"{seconds * 1e3:.0f} ms" if seconds >= 0.00095 else "<1 ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def whole_seconds(seconds: float) -> str:
    """Return a wall time without fractions: ``12 s``, ``2 min 5 s``."""
    return f"{seconds:.0f} s" if seconds < 59.5 else duration(seconds)


def size(count: int) -> str:
    """Return a number of bytes in decimal units: ``102.2 MB``."""
    value, units = float(count), ("bytes", "kB", "MB", "GB")
    for unit in units:
        if value < 999.95 or unit == "GB":
            return f"{count} bytes" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1000
    raise AssertionError  # the last unit always returns


def amount(value: float, unit: str) -> str:
    """Return a cost with its unit: ``97.7 kB`` for bytes (B), ``13.8 ms`` for seconds (s)."""
    if unit == "s" and 0 < abs(value) < 1:
        return f"{1e3 * value:.4g} ms"
    if unit != "B":
        return f"{value:.4g} {unit}"
    return ("-" if value < 0 else "") + size(round(abs(value)))


def bound(error: float) -> str:
    """Return an error rounded up to two digits, so that "within" it is true: ``3.1e-7``."""
    if not math.isfinite(error) or error == 0:
        return f"{error:g}"
    exponent = math.floor(math.log10(abs(error)))
    digits = math.ceil(round(error / 10.0 ** (exponent - 1), 6))
    return number(digits * 10.0 ** (exponent - 1), 2)


def number(value: float, digits: int = 4) -> str:
    """Return a number with that many digits and a short exponent: ``3.142``, ``1e-5``."""
    text = f"{value:.{digits}g}"
    mantissa, _, exponent = text.partition("e")
    if exponent and 0 < int(exponent) < _PLAIN:
        return f"{float(text):.0f}"
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa


def percent(share: float, digits: int = 3) -> str:
    """Return a share as text: ``34 %``."""
    return f"{number(100 * share, digits)} %"


def plural(count: int, noun: str) -> str:
    """Return ``1 node`` or ``1,024 nodes``."""
    ending = "" if count == 1 else "es" if noun.endswith(("s", "x")) else "s"
    return f"{count:,} {noun}{ending}"


def are(count: int, noun: str) -> str:
    """Return ``1 element is`` or ``1,024 elements are``."""
    return f"{plural(count, noun)} {'is' if count == 1 else 'are'}"


def change(before: float, after: float) -> str:
    """Return the change in percent with its sign, or nothing where there is none to state."""
    if before == after or before == 0:
        return ""
    percent = 100 * (after - before) / before
    return f"{percent:+.1f} %" if abs(percent) >= 0.05 else ""


def ending_text(gap: float, ended: str) -> str:
    """Say how good a choice of formats is, and why the search for it ended."""
    if ended == "optimal":
        return "no other choice is expected to cost less"
    return f"another choice may cost up to {gap:.2%} less; ended: {ended}"


def snr_text(value: float | str, digits: int) -> str:
    """Return a signal-to-noise ratio in dB as text; NaN if nothing was run."""
    number = float(value)
    return "not run" if math.isnan(number) else f"{number:.{digits}f}"


@dataclass(frozen=True)
class Glyphs:
    """The few signs that are not ASCII, and what stands in for them."""

    encoding: str
    arrow: str
    ellipsis: str

    @classmethod
    def of(cls, encoding: str | None) -> Glyphs:
        """Return those that the encoding of a stream can show."""
        name = encoding or "utf-8"
        try:
            "→…".encode(name)
        except (UnicodeEncodeError, LookupError):
            return cls("ascii", "->", "...")
        return cls(name, "→", "…")

    def name(self, text: str) -> str:
        """Return a name from the model so that it can do no harm and fits on one line."""
        return one_line(ends(text, sign=self.ellipsis), self.encoding)

    def step(self, before: object, after: object) -> str:
        return f"{before}" if before == after else f"{before} {self.arrow} {after}"
