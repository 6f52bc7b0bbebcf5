"""YAML to plain data, with the place of everything, and pointers into a user's text.

Scalars follow the core schema of YAML 1.2: ``1e-5`` is a number, ``on`` and ``2024-01-01`` are
text. Keys of a mapping are always text, since tensors are called ``1`` as well.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import yaml
from yaml.reader import ReaderError

from onnx_passes.errors import ConfigError
from onnx_passes.plain import Plain, PlainDict

# The line breaks of YAML, which are not those of str.splitlines.
_BREAK = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_MARGIN = 60  # characters of a long line shown on either side of the place in question


@dataclass(frozen=True, slots=True)
class Source:
    """A text and where it comes from: a path if it `is_file`, else a name as ``--set``."""

    name: str
    text: str = field(repr=False)
    is_file: bool = True

    def span(self, start: int, end: int | None = None) -> Span:
        """Return the part from offset ``start`` to ``end``, cut at the end of its line."""
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
    """Part of one line of a source; lines and columns count from 0."""

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


MAX_DEPTH = 64
TAG = "tag:yaml.org,2002:"

_TAB_HELP = "YAML is indented with spaces; a tab is never right before a key or an item"


@dataclass(frozen=True)
class Frame:
    """Where the text that is parsed starts in its source. None is the start of the source."""

    source: Source
    start: Span | None = None

    def span(self, start: Any, end: Any = None) -> Span:
        """Return the place between two marks of PyYAML, up to the end of the first line."""
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
    """Return the root node of a YAML document, None if it is empty, or raise ConfigError."""
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


YamlPath: TypeAlias = tuple[str | int, ...]

MAX_NODES = 100_000


@dataclass
class Tree:
    """Plain data, and where it was written: the start of each key or item, and each value."""

    data: Plain = None
    keys: dict[YamlPath, Span] = field(default_factory=dict)
    values: dict[YamlPath, Span] = field(default_factory=dict)

    def key(self, path: YamlPath) -> Span | None:
        """Return where the key at ``path`` is, or of the nearest key around it."""
        return self.keys.get(path) or self.value(path)

    def value(self, path: YamlPath) -> Span | None:
        """Return where the value at ``path`` is, or the nearest around it."""
        for size in range(len(path), -1, -1):
            if (span := self.values.get(path[:size])) is not None:
                return span
        return None

    def graft(self, path: YamlPath, other: Tree) -> None:
        """Take over the places of ``other``, which now stands at ``path``."""
        for table, new in ((self.keys, other.keys), (self.values, other.values)):
            for old in [p for p in table if p[: len(path)] == path]:
                if table is self.values or old != path:
                    del table[old]
            table.update({path + sub: span for sub, span in new.items()})


def parse_yaml(source: Source) -> Tree:
    """Parse one YAML document; ConfigError also for a repeated key, or if it is too big."""
    return _parse(source.text, Frame(source))


def parse_value(source: Source, begin: int, stop: int, *, flow: bool = False) -> Tree:
    """Parse part of a source as one YAML value.

    With `flow`, the value stands within brackets, where commas end it, and at least one
    character comes before ``begin``. ConfigError if it is not a YAML value.
    """
    text = source.text[begin:stop]
    if not flow:
        return _parse(text, Frame(source, source.span(begin)))
    listed = _parse(f"[{text}]", Frame(source, source.span(begin - 1)))
    if not isinstance(listed.data, list) or len(listed.data) != 1:
        raise ConfigError("expected one value", where=source.span(begin, stop).where)
    return Tree(
        listed.data[0],
        {path[1:]: span for path, span in listed.keys.items()},
        {path[1:]: span for path, span in listed.values.items() if path},
    )


def _parse(text: str, frame: Frame) -> Tree:
    root = compose(text, frame)
    builder = _Builder(frame)
    if root is not None:
        builder.tree.data = builder.build(root, ())
    return builder.tree


class _Builder:
    """Turns nodes into data. Aliases are copied out, so their number is limited."""

    def __init__(self, frame: Frame) -> None:
        self.frame, self.tree, self.nodes = frame, Tree(), 0

    def build(self, node: yaml.Node, path: YamlPath, depth: int = 0) -> Plain:
        span = self.span(node)
        self.nodes += 1
        if depth > MAX_DEPTH:
            raise too_deep(span)
        if self.nodes > MAX_NODES:
            raise ConfigError(
                f"more than {MAX_NODES} values, aliases followed",
                where=span.where,
                help="write what aliases stand for less often; no pipeline needs so much",
            )
        if node.start_mark.index == node.end_mark.index:
            span = self.tree.keys.get(path, span)  # an empty value has no place of its own
        self.tree.values[path] = span
        if isinstance(node, yaml.MappingNode) and node.tag == TAG + "map":
            return self.mapping(node, path, depth)
        if isinstance(node, yaml.SequenceNode) and node.tag == TAG + "seq":
            return [self.item(n, (*path, i), depth) for i, n in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node, span)
        raise _unknown_tag(node.tag, span)

    def item(self, node: yaml.Node, path: YamlPath, depth: int) -> Plain:
        self.tree.keys[path] = self.span(node)
        return self.build(node, path, depth + 1)

    def mapping(self, node: yaml.MappingNode, path: YamlPath, depth: int) -> PlainDict:
        result: PlainDict = {}
        first: dict[str, int] = {}
        for key_node, value_node in node.value:
            span = self.span(key_node)
            if not isinstance(key_node, yaml.ScalarNode):
                raise ConfigError("a key must be text", where=span.where)
            key = _text(key_node, span)
            if key in first:
                raise ConfigError(
                    f"the key {key!r} is given twice",
                    where=span.where,
                    help=f"it was given on line {first[key] + 1}; keep one of them",
                )
            first[key] = span.line
            self.tree.keys[*path, key] = span
            result[key] = self.build(value_node, (*path, key), depth + 1)
        return result

    def scalar(self, node: yaml.ScalarNode, span: Span) -> Plain:
        kind, text = node.tag.removeprefix(TAG), _text(node, span)
        try:
            if kind == "str":
                return text
            if kind == "null":
                return None
            if kind == "bool":
                return {"true": True, "false": False}[text.lower()]
            if kind == "int":
                base = {"0o": 8, "0x": 16}.get(text[:2], 10)
                return int(text, base)
            if kind == "float":
                return float(re.sub(r"\.(?=[a-zA-Z])", "", text))
        except (ValueError, KeyError) as error:
            raise ConfigError(
                f"{_short(text)} cannot be read as {kind}", where=span.where
            ) from error
        raise _unknown_tag(node.tag, span)

    def span(self, node: yaml.Node) -> Span:
        return self.frame.span(node.start_mark, node.end_mark)


def _text(node: yaml.ScalarNode, span: Span) -> str:
    """Return the text of a scalar; JSON writes a character as two halves, which are joined."""
    text = str(node.value)
    if not any("\ud800" <= c <= "\udfff" for c in text):
        return text
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError as error:
        raise ConfigError("an escape is half a character", where=span.where) from error


def _unknown_tag(tag: str, span: Span) -> ConfigError:
    return ConfigError(
        f"the tag {tag.replace(TAG, '!!')!r} is not understood",
        where=span.where,
        help="a pipeline file has mappings, lists, text, numbers, true, false and null only",
    )


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:37]}...")
