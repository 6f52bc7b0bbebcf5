"""``--set verify.scope=model``: one key of a pipeline file, changed from outside."""

from __future__ import annotations

import re

from onnx_passes.configs.problems import described, dotted
from onnx_passes.configs.source import Source, Span
from onnx_passes.configs.yaml_tree import Path, Tree, parse_value
from onnx_passes.errors import ConfigError
from onnx_passes.plain import Plain

_PART = re.compile(r""""([^"]*)"|'([^']*)'|([^.="'\s]+)""")
_HELP = "write KEY=VALUE, such as verify.scope=model or passes.0.fold-constants.size_limit=1"


def apply_override(tree: Tree, text: str) -> None:
    """Change one key of a pipeline file.

    Args:
        tree: The file, changed in place.
        text: ``KEY=VALUE``. Keys are joined by dots, list items are numbers from 0, and a key
            that holds a dot is quoted. The value is YAML.

    Raises:
        ConfigError: The text is not an assignment, or its key leads through something that is
            neither a mapping nor a list.
    """
    source = Source("--set", text, is_file=False)
    parts, begin = _split(source)
    value = parse_value(source, begin, len(text))
    if not value.values:
        value.values[()] = source.span(0, begin)
    if tree.data is None:
        tree.data = {}
    container: Plain = tree.data
    path: Path = ()
    for index, (part, span) in enumerate(parts):
        key = _key(container, path, part, span)
        path = (*path, key)
        if index == len(parts) - 1:
            container[key] = value.data
            tree.graft(path, value)
            tree.keys[path] = span
        else:
            if isinstance(key, str) and container.get(key) is None:
                container[key] = {}
                tree.keys[path] = tree.values[path] = span
            container = container[key]


def _split(source: Source) -> tuple[list[tuple[str, Span]], int]:
    """Return the parts of the key, and the offset of the value."""
    parts: list[tuple[str, Span]] = []
    pos = 0
    while True:
        match = _PART.match(source.text, pos)
        if match is None:
            raise ConfigError("expected a key", where=source.span(pos).where, help=_HELP)
        part = next(group for group in match.groups() if group is not None)
        parts.append((part, source.span(match.start(), match.end())))
        pos = match.end() + 1
        follows = source.text[pos - 1 : pos]
        if follows == "=":
            return parts, pos
        if follows != ".":
            raise ConfigError("expected '='", where=source.span(pos - 1).where, help=_HELP)


def _key(container: Plain, path: Path, part: str, span: Span) -> str | int:
    """Return ``part`` as a key of ``container``."""
    if isinstance(container, dict):
        return part
    if not isinstance(container, list):
        raise ConfigError(
            f"'{dotted(path)}' is {described(container)}, which has no key {part!r}",
            where=span.where,
            help=f"set '{dotted(path)}' as a whole",
        )
    if not part.isdecimal() or not part.isascii() or int(part[:9]) >= len(container):
        items = f"items 0 to {len(container) - 1}" if container else "no items"
        raise ConfigError(
            f"'{dotted(path)}' is a list with {items}, and {part!r} is none of them",
            where=span.where,
            help=f"set '{dotted(path)}' as a whole",
        )
    return int(part)
