"""YAML to plain data, with the place of everything kept.

Scalars follow the core schema of YAML 1.2: ``1e-5`` is a number, ``on`` and ``2024-01-01`` are
text. The keys of a mapping are always text, since tensors are called ``1`` as well. Tags that
would make objects are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import yaml
from yaml.composer import Composer
from yaml.parser import Parser
from yaml.reader import Reader, ReaderError
from yaml.resolver import BaseResolver
from yaml.scanner import Scanner

from onnx_passes.config.source import Source, Span
from onnx_passes.errors import ConfigError

Path: TypeAlias = tuple[str | int, ...]

MAX_DEPTH = 64
MAX_NODES = 100_000

_TAG = "tag:yaml.org,2002:"
_TAB_HELP = "YAML is indented with spaces; a tab is never right before a key or an item"


@dataclass
class Tree:
    """Plain data, and where each part of it was written.

    Attributes:
        data: Mappings, lists and scalars.
        keys: Where the key or the list item at a path starts.
        values: Where the value at a path is.
    """

    data: Any = None
    keys: dict[Path, Span] = field(default_factory=dict)
    values: dict[Path, Span] = field(default_factory=dict)

    def key(self, path: Path) -> Span | None:
        """Return where the key at ``path`` is, or of the nearest key around it."""
        return self.keys.get(path) or self._nearest(path)

    def value(self, path: Path) -> Span | None:
        """Return where the value at ``path`` is, or the nearest around it."""
        return self._nearest(path)

    def _nearest(self, path: Path) -> Span | None:
        for size in range(len(path), -1, -1):
            if (span := self.values.get(path[:size])) is not None:
                return span
        return None

    def graft(self, path: Path, other: Tree) -> None:
        """Take over the places of ``other``, which now stands at ``path``."""
        for table, new in ((self.keys, other.keys), (self.values, other.values)):
            for old in [p for p in table if p[: len(path)] == path]:
                if table is self.values or old != path:
                    del table[old]
            table.update({path + sub: span for sub, span in new.items()})


def parse_yaml(source: Source, text: str | None = None) -> Tree:
    """Parse one YAML document.

    Args:
        source: What is pointed at.
        text: What is parsed, if not the text of ``source``; offsets must agree.

    Raises:
        ConfigError: It is not YAML, has a key twice, or is too deep or too big.
    """
    composer = None
    try:
        composer = _Composer(source, source.text if text is None else text)
        root = composer.get_single_node()
    except ReaderError as error:
        raise ConfigError(
            f"the character U+{_code_point(error):04X} does not belong in YAML",
            where=source.span(error.position).where,
            help="remove it, or write it as an escape in double quotes",
        ) from error
    except yaml.MarkedYAMLError as error:
        raise _syntax_error(source, error) from error
    except (ValueError, OverflowError) as error:
        # PyYAML lets chr() complain about an escape such as "\UFFFFFFFF".
        mark = composer.get_mark() if composer is not None else None
        raise ConfigError(
            f"not valid YAML: {error}",
            where=_span(source, mark).where if mark is not None else None,
        ) from error
    builder = _Builder(source)
    if root is not None:
        builder.tree.data = builder.build(root, ())
    return builder.tree


class _Composer(Reader, Scanner, Parser, Composer, BaseResolver):
    """PyYAML's composer with the scalars of the core schema, and a limit of depth."""

    def __init__(self, source: Source, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)
        BaseResolver.__init__(self)
        self.source = source
        self.depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise _too_deep(_span(self.source, self.get_mark()))
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
    _Composer.add_implicit_resolver(_TAG + _tag, re.compile(rf"^{_pattern}\Z"), _first)


class _Builder:
    """Turns nodes into data. Aliases are copied out, so their number is limited."""

    def __init__(self, source: Source) -> None:
        self.source, self.tree, self.nodes = source, Tree(), 0

    def build(self, node: yaml.Node, path: Path, depth: int = 0) -> Any:
        span = self.span(node)
        self.nodes += 1
        if depth > MAX_DEPTH:
            raise _too_deep(span)
        if self.nodes > MAX_NODES:
            raise ConfigError(
                f"more than {MAX_NODES} values, aliases followed",
                where=span.where,
                help="write what aliases stand for less often; no pipeline needs so much",
            )
        if node.start_mark.index == node.end_mark.index:
            span = self.tree.keys.get(path, span)  # an empty value has no place of its own
        self.tree.values[path] = span
        if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
            return self.mapping(node, path, depth)
        if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
            return [self.item(n, (*path, i), depth) for i, n in enumerate(node.value)]
        if isinstance(node, yaml.ScalarNode):
            return self.scalar(node, span)
        raise _unknown_tag(node.tag, span)

    def item(self, node: yaml.Node, path: Path, depth: int) -> Any:
        self.tree.keys[path] = self.span(node)
        return self.build(node, path, depth + 1)

    def mapping(self, node: yaml.MappingNode, path: Path, depth: int) -> dict[str, Any]:
        result: dict[str, Any] = {}
        first: dict[str, int] = {}
        merged: list[yaml.Node] = []
        for key_node, value_node in node.value:
            span = self.span(key_node)
            if key_node.tag == _TAG + "merge":
                merged.append(value_node)
                continue
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
        for source_node in merged:
            for mapping_node in self.merge_sources(source_node):
                self.merge(result, mapping_node, path, depth)
        return result

    def merge(
        self, result: dict[str, Any], node: yaml.MappingNode, path: Path, depth: int
    ) -> None:
        """Add the keys of a ``<<`` that the mapping does not give itself."""
        other = _Builder(self.source)
        other.nodes = self.nodes
        data = other.build(node, (), depth + 1)
        self.nodes = other.nodes
        for key, value in data.items():
            if key not in result:
                result[key] = value
                for table, new in (
                    (self.tree.keys, other.tree.keys),
                    (self.tree.values, other.tree.values),
                ):
                    table.update({path + p: s for p, s in new.items() if p[:1] == (key,)})

    def merge_sources(self, node: yaml.Node) -> Iterator[yaml.MappingNode]:
        nodes = node.value if isinstance(node, yaml.SequenceNode) else [node]
        for inner in nodes:
            if not isinstance(inner, yaml.MappingNode):
                raise ConfigError(
                    "'<<' takes a mapping, or a list of mappings",
                    where=self.span(inner).where,
                )
            yield inner

    def scalar(self, node: yaml.ScalarNode, span: Span) -> Any:
        kind, text = node.tag.removeprefix(_TAG), _text(node, span)
        try:
            if kind in ("str", "merge"):
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
        return _span(self.source, node.start_mark, node.end_mark)


def _text(node: yaml.ScalarNode, span: Span) -> str:
    """Return the text of a scalar; JSON writes a character as two halves, which are joined."""
    text = str(node.value)
    if not any("\ud800" <= c <= "\udfff" for c in text):
        return text
    try:
        return text.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError as error:
        raise ConfigError("an escape stands for half a character", where=span.where) from error


def _span(source: Source, start: Any, end: Any = None) -> Span:
    if end is None:
        return Span(source, start.line, start.column)
    if end.line == start.line:
        width = end.column - start.column
    else:
        width = len(source.line(start.line).rstrip()) - start.column
    return Span(source, start.line, start.column, max(1, width))


def _syntax_error(source: Source, error: yaml.MarkedYAMLError) -> ConfigError:
    mark = error.problem_mark or error.context_mark
    where = _span(source, mark).where if mark is not None else None
    problem = error.problem or error.context or "it cannot be parsed"
    line = source.line(mark.line) if mark is not None else ""
    if mark is not None and "\t" in line[: len(line) - len(line.lstrip())]:
        column = line.index("\t")
        return ConfigError(
            "a tab indents this line",
            where=Span(source, mark.line, column).where,
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
    return ConfigError(f"not valid YAML: {problem}{context}", where=where)


def _code_point(error: ReaderError) -> int:
    character = error.character
    return character if isinstance(character, int) else ord(str(character))


def _too_deep(span: Span) -> ConfigError:
    return ConfigError(
        f"nested more than {MAX_DEPTH} deep",
        where=span.where,
        help="an alias inside of its own anchor has no end; no pipeline needs such depth",
    )


def _unknown_tag(tag: str, span: Span) -> ConfigError:
    return ConfigError(
        f"the tag {tag.replace(_TAG, '!!')!r} is not understood",
        where=span.where,
        help="a pipeline file has mappings, lists, text, numbers, true, false and null only",
    )


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else f"{text[:37]}...")
