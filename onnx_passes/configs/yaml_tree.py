"""YAML to plain data, with the place of everything kept.

Scalars follow the core schema of YAML 1.2: ``1e-5`` is a number, ``on`` and ``2024-01-01`` are
text. The keys of a mapping are always text, since tensors are called ``1`` as well. Tags that
would make objects are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

import yaml

from onnx_passes.configs.source import Source, Span
from onnx_passes.configs.yaml_nodes import MAX_DEPTH, TAG, Frame, compose, too_deep
from onnx_passes.errors import ConfigError
from onnx_passes.plain import Plain, PlainDict

Path: TypeAlias = tuple[str | int, ...]

MAX_NODES = 100_000


@dataclass
class Tree:
    """Plain data, and where each part of it was written.

    Attributes:
        data: Mappings, lists and scalars.
        keys: Where the key or the list item at a path starts.
        values: Where the value at a path is.
    """

    data: Plain = None
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
        """Take over the places of ``other``, which now stands at ``path``.

        Args:
            path: Where ``other`` is put.
            other: Places from its own root.
        """
        for table, new in ((self.keys, other.keys), (self.values, other.values)):
            for old in [p for p in table if p[: len(path)] == path]:
                if table is self.values or old != path:
                    del table[old]
            table.update({path + sub: span for sub, span in new.items()})


def parse_yaml(source: Source) -> Tree:
    """Parse a source as one YAML document.

    Raises:
        ConfigError: It is not YAML, has a key twice, or is too deep or too big.
    """
    return _parse(source.text, Frame(source))


def parse_value(source: Source, begin: int, stop: int, *, flow: bool = False) -> Tree:
    """Parse part of a source as one YAML value.

    Args:
        source: The source; with ``flow``, there is at least one character before ``begin``.
        begin: Offset of the first character.
        stop: Offset after the last.
        flow: Whether the value stands within brackets, where commas end it.

    Raises:
        ConfigError: It is not a YAML value.
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

    def build(self, node: yaml.Node, path: Path, depth: int = 0) -> Plain:
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

    def item(self, node: yaml.Node, path: Path, depth: int) -> Plain:
        self.tree.keys[path] = self.span(node)
        return self.build(node, path, depth + 1)

    def mapping(self, node: yaml.MappingNode, path: Path, depth: int) -> PlainDict:
        result: PlainDict = {}
        first: dict[str, int] = {}
        merged: list[yaml.Node] = []
        for key_node, value_node in node.value:
            span = self.span(key_node)
            if key_node.tag == TAG + "merge":
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

    def merge(self, result: PlainDict, node: yaml.MappingNode, path: Path, depth: int) -> None:
        """Add the keys of a ``<<`` that the mapping does not give itself."""
        other = _Builder(self.frame)
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

    def scalar(self, node: yaml.ScalarNode, span: Span) -> Plain:
        kind, text = node.tag.removeprefix(TAG), _text(node, span)
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
