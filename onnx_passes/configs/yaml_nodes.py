"""YAML text to nodes: PyYAML's composer with other scalars, limits, and clear complaints."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import yaml
from yaml.reader import ReaderError

from onnx_passes.configs.source import Source, Span
from onnx_passes.errors import ConfigError

MAX_DEPTH = 64
TAG = "tag:yaml.org,2002:"

_TAB_HELP = "YAML is indented with spaces; a tab is never right before a key or an item"


@dataclass(frozen=True)
class Frame:
    """Where the text that is parsed starts in its source.

    Attributes:
        source: The source.
        start: Its first character; None for the start of the source.
    """

    source: Source
    start: Span | None = None

    def span(self, start: Any, end: Any = None) -> Span:
        """Return the place between two marks of PyYAML, up to the end of the first line.

        Args:
            start: A mark of PyYAML.
            end: The mark after the last character; None for one character.
        """
        line, column = start.line, start.column
        if self.start is not None:
            column += self.start.column if line == 0 else 0
            line += self.start.line
        if end is None:
            width = 1
        elif end.line == start.line:
            width = end.column - start.column
        else:
            width = len(self.source.line(line).rstrip()) - column
        return Span(self.source, line, column, max(1, width))

    def offset(self, position: int) -> Span:
        """Return the place of a character, counted from the start."""
        return self.source.span(position + (self.start.offset if self.start else 0))


def compose(text: str, frame: Frame) -> yaml.Node | None:
    """Return the root node of one YAML document; None if it is empty.

    Args:
        text: The document.
        frame: Where the text is in its file.

    Raises:
        ConfigError: It is not YAML, or is too deep.
    """
    composer = None
    try:
        composer = _Composer(frame, text)
        root: yaml.Node | None = composer.get_single_node()
    except ReaderError as error:
        raise ConfigError(
            f"the character U+{_code_point(error):04X} does not belong in YAML",
            where=frame.offset(error.position).where,
            help="remove it, or write it as an escape in double quotes",
        ) from error
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(frame, error) from error
    except (ValueError, OverflowError) as error:
        # PyYAML lets chr() complain about an escape such as "\UFFFFFFFF".
        where = frame.span(composer.get_mark()).where if composer is not None else None
        raise ConfigError(f"not valid YAML: {error}", where=where) from error
    return root


class _Composer(yaml.BaseLoader):
    """PyYAML's composer with the scalars of the core schema, and a limit of depth."""

    def __init__(self, frame: Frame, text: str) -> None:
        super().__init__(text)
        self.frame, self.depth = frame, 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise too_deep(self.frame.span(self.get_mark()))
        node: yaml.Node | None = super().compose_node(parent, index)
        self.depth -= 1
        return node


for _tag, _pattern, _first in (
    ("null", r"(?:null|Null|NULL|~|)", [*"nN~", ""]),
    ("bool", r"(?:true|True|TRUE|false|False|FALSE)", [*"tTfF"]),
    ("int", r"(?:[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+)", [*"-+0123456789"]),
    (
        "float",
        r"(?:[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))",
        [*"-+.0123456789"],
    ),
    ("merge", r"<<", ["<"]),
):
    _Composer.add_implicit_resolver(TAG + _tag, re.compile(rf"^{_pattern}\Z"), _first)


def _syntax_error(frame: Frame, error: yaml.MarkedYAMLError) -> ConfigError:
    mark = error.problem_mark or error.context_mark
    span = frame.span(mark) if mark is not None else None
    where = span.where if span is not None else None
    problem = error.problem or error.context or "it cannot be parsed"
    line = frame.source.line(span.line) if span is not None else ""
    if span is not None and "\t" in line[: len(line) - len(line.lstrip())]:
        return ConfigError(
            "a tab indents this line",
            where=Span(frame.source, span.line, line.index("\t")).where,
            help=_TAB_HELP,
        )
    if "'\\t'" in problem:
        return ConfigError("a tab stands where YAML allows none", where=where, help=_TAB_HELP)
    if "single document" in problem or "single document" in (error.context or ""):
        return ConfigError(
            "a second YAML document starts here",
            where=where,
            help="a pipeline file is one document: remove the '---'",
        )
    context = f" {error.context}" if error.context and error.context != problem else ""
    help_ = "keys of one level begin at one column; texts of special characters take quotes"
    if "flow" in context:
        help_ = "brackets hold texts between single commas: [optimize, my-pass]"
    if error.context_mark is not None and "stream" in problem:
        begun = frame.span(error.context_mark)
        help_ = f"close what begins at line {begun.line + 1}, column {begun.column + 1}"
    return ConfigError(f"not valid YAML: {problem}{context}", where=where, help=help_)


def _code_point(error: ReaderError) -> int:
    character = error.character
    return character if isinstance(character, int) else ord(str(character))


def too_deep(span: Span) -> ConfigError:
    """Return the complaint about something nested too deep."""
    return ConfigError(
        f"nested more than {MAX_DEPTH} deep",
        where=span.where,
        help="an alias inside of its own anchor has no end; no pipeline needs such depth",
    )
