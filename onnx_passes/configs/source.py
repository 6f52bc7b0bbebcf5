"""Text a user wrote, and how to point into it."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field

# The line breaks of YAML, which are not those of str.splitlines.
_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_MARGIN = 60  # characters of a long line shown on either side of the place in question


@dataclass(frozen=True, slots=True)
class Source:
    """A text and where it comes from.

    Attributes:
        name: What a message calls it: a path, or ``--set``.
        text: The text.
        is_file: Whether ``name`` is a path, so that lines count.
    """

    name: str
    text: str = field(repr=False)
    is_file: bool = True

    def span(self, start: int, end: int | None = None) -> Span:
        """Return the part from offset ``start`` to ``end``, cut at the end of its line.

        Args:
            start: Offset of the first character, from 0.
            end: Offset after the last character; None for one character.
        """
        line = column = 0
        for match in _BREAK.finditer(self.text):
            if match.end() > start:
                break
            line, column = line + 1, match.end()
        return Span(self, line, start - column, max(1, (end or start) - start))

    def line(self, number: int) -> str:
        """Return a line, counted from 0, without its break."""
        lines = _BREAK.split(self.text)
        return lines[number] if number < len(lines) else ""


@dataclass(frozen=True, slots=True)
class Span:
    """Part of one line of a source.

    Attributes:
        source: The source.
        line: Line, counted from 0.
        column: Column of its first character, counted from 0.
        width: Number of characters.
    """

    source: Source
    line: int
    column: int
    width: int = 1

    @property
    def offset(self) -> int:
        """Offset of its first character in the source."""
        starts = [0, *(m.end() for m in _BREAK.finditer(self.source.text))]
        return starts[self.line] + self.column

    @property
    def place(self) -> str:
        """Where it is, as ``file:line:column`` counted from 1."""
        if self.source.is_file:
            return f"{self.source.name}:{self.line + 1}:{self.column + 1}"
        return f"{self.source.name}, column {self.column + 1}"

    @property
    def where(self) -> str:
        """The place, and the line with the part underlined."""
        line = self.source.line(self.line)
        column = min(self.column, len(line))
        stop = min(column + self.width, len(line))
        first, last = max(0, column - _MARGIN), min(len(line), column + _MARGIN)
        before, part = _shown(line[first:column]), _shown(line[column : min(stop, last)])
        text = f"{'…' if first else ''}{before}{part}{_shown(line[min(stop, last) : last])}"
        text += "…" if last < len(line) else ""
        caret = " " * (_columns(before) + bool(first)) + "^" * max(1, _columns(part))
        number = str(self.line + 1)
        gutter = " " * len(number)
        return (
            f"{gutter}--> {_shown(self.place)}\n{gutter} |\n"
            f"{number} | {text}\n{gutter} | {caret}"
        )


def _shown(text: str) -> str:
    """Return ``text`` with a blank for every character that would move the cursor."""
    return "".join(c if c.isprintable() else " " for c in text)


def _columns(text: str) -> int:
    wide = sum(unicodedata.east_asian_width(c) in "WF" for c in text)
    return len(text) + wide - sum(unicodedata.combining(c) != 0 for c in text)
