"""A pipeline as one line of text, as MLIR has it.

    shape-inference,fixpoint<limit=20>(fold-constants{size_limit=1 MiB},eliminate-identity)

A step is a name, then settings in ``<>`` (``on_failure``, ``tolerance``), then options in
``{}``. ``group<name=x>(...)`` runs steps once, ``fixpoint<limit=n>(...)`` until the model
stops changing, and ``checkpoint<name=x>`` compares the whole model. Values are YAML.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from onnx_passes.config.problems import SectionT, checked
from onnx_passes.config.source import Source
from onnx_passes.config.steps import (
    DEFAULT_LIMIT,
    Checkpoint,
    CheckpointSettings,
    Group,
    GroupSettings,
    PassUse,
    Places,
    Repeat,
    Step,
    UseSettings,
)
from onnx_passes.config.yaml_tree import MAX_DEPTH, Tree, parse_yaml
from onnx_passes.errors import ConfigError

_NAME = re.compile(r"""[^\s,(){}<>=\[\]"'#]+""")
_SPACE = re.compile(r"\s*")
_NOT_A_BREAK = re.compile("[^\n\r\x85\u2028\u2029]")
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")  # keys are always text
_LONGEST_KEY = 1000  # YAML ends its search for the ':' after 1024 characters
_CLOSERS = {"(": ")", "{": "}", "<": ">", "[": "]"}


def parse_pipeline(text: str, source: Source | None = None, start: int = 0) -> list[Step]:
    """Read the steps that a text names.

    Args:
        text: The text.
        source: What complaints point into, if ``text`` is part of something else.
        start: Offset of ``text`` in ``source``.

    Raises:
        ConfigError: The text is no pipeline; the error points at the column.
    """
    if source is None:
        source = Source("pipeline", text, is_file=False)
    return _Parser(source, start, start + len(text)).whole()


def format_steps(steps: Iterable[Step]) -> str:
    """Return the text that :func:`parse_pipeline` reads back to ``steps``."""
    return ",".join(_format(step) for step in steps)


def format_value(value: Any) -> str:
    """Return a value as YAML in one line.

    Args:
        value: None, bool, int, float, str, or lists and mappings of these.

    Raises:
        TypeError: It is something else, or text with half of a surrogate pair.
    """
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            if math.isnan(value):
                return ".nan"
            return repr(value).replace("inf", ".inf")
        case str():
            return _quoted(value)
        case list() | tuple():
            return f"[{', '.join(map(format_value, value))}]"
        case Mapping():
            return f"{{{', '.join(_pair(k, v) for k, v in value.items())}}}"
    raise TypeError(f"a {type(value).__name__} has no place in a pipeline text")


def _pair(key: Any, value: Any) -> str:
    name = key if _PLAIN_KEY.fullmatch(str(key)) else _quoted(str(key))
    if len(name) > _LONGEST_KEY:
        return f"? {name} : {format_value(value)}"
    return f"{name}: {format_value(value)}"


def _quoted(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in ("null", "true", "false"):
        return text
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    if character in '"\\' or character < " ":
        return json.dumps(character)[1:-1]
    if character.isprintable():
        return character
    code = ord(character)
    if 0xD800 <= code <= 0xDFFF:
        raise TypeError("half a character has no place in a pipeline text")
    return f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"


def _format(step: Step) -> str:
    if isinstance(step, Checkpoint):
        name = {} if step.name == "checkpoint" else {"name": step.name}
        return f"checkpoint{_settings(name)}"
    if isinstance(step, Group):
        word = "group" if step.repeat == "once" else "fixpoint"
        given: dict[str, Any] = {} if step.name == word else {"name": step.name}
        if step.repeat == "fixpoint" or step.limit != DEFAULT_LIMIT:
            given["limit"] = step.limit
        return f"{word}{_settings(given)}({format_steps(step.steps)})"
    settings: dict[str, Any] = {}
    if step.on_failure is not None:
        settings["on_failure"] = step.on_failure
    if step.tolerance is not None:
        settings["tolerance"] = step.tolerance.model_dump(exclude_defaults=True)
    options = f"{{{_pairs(step.options)}}}" if step.options else ""
    return f"{step.name}{_settings(settings)}{options}"


def _settings(settings: Mapping[str, Any]) -> str:
    return f"<{_pairs(settings)}>" if settings else ""


def _pairs(values: Mapping[str, Any]) -> str:
    return ",".join(f"{key}={format_value(value)}" for key, value in values.items())


class _Parser:
    """Recursive descent over part of a source."""

    def __init__(self, source: Source, start: int, end: int) -> None:
        self.source, self.pos, self.end = source, start, end
        self.depth = 0

    def whole(self) -> list[Step]:
        steps = self.steps("")
        if self.pos < self.end:
            raise self.error(f"unexpected {self.peek()!r}", self.pos)
        return steps

    def steps(self, closer: str) -> list[Step]:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error(f"groups are nested more than {MAX_DEPTH} deep", self.pos)
        steps = [self.step()]
        while self.take(","):
            steps.append(self.step())
        self.depth -= 1
        if self.peek() not in ("", closer):
            raise self.error(
                f"unexpected {self.peek()!r}", self.pos, help="separate passes with commas"
            )
        return steps

    def step(self) -> Step:
        start = self.space()
        name = self.name("a pass")
        place = self.source.span(start, self.pos)
        if name in ("group", "fixpoint"):
            return self.group(name, Places(place))
        settings = self.pairs("<")
        if name == "checkpoint":
            return Checkpoint(self.check(CheckpointSettings, settings).name, Places(place))
        use = self.check(UseSettings, settings)
        options = self.pairs("{")
        places = Places.of(place, options)
        return PassUse(name, options.data, use.on_failure, use.tolerance, places)

    def group(self, word: str, places: Places) -> Group:
        tree = self.pairs("<")
        if ("repeat",) in tree.keys:
            raise ConfigError(
                "'repeat' is said by the word before it",
                where=tree.keys["repeat",].where,
                help="write group(...) or fixpoint(...)",
            )
        settings = self.check(GroupSettings, tree)
        opening = self.space()
        if not self.take("("):
            raise self.error(f"{word} needs its passes: {word}(a,b)", opening)
        steps = self.steps(")")
        self.close(")", opening)
        repeat: Repeat = "once" if word == "group" else "fixpoint"
        return Group(tuple(steps), settings.name or word, repeat, settings.limit, places)

    def pairs(self, opener: str) -> Tree:
        """Read ``key=value`` pairs in brackets, if there are any."""
        tree = Tree({})
        opening = self.space()
        if not self.take(opener):
            return tree
        closer = _CLOSERS[opener]
        while self.peek() != closer or tree.data:
            self.pair(tree, closer, opening)
            if not self.take(","):
                break
        self.close(closer, opening)
        return tree

    def pair(self, tree: Tree, closer: str, opening: int) -> None:
        start = self.space()
        if start >= self.end:
            raise self.error(f"{self.source.text[opening]!r} is never closed", opening)
        key = self.name("an option" if closer == "}" else "a setting")
        place = self.source.span(start, self.pos)
        if key in tree.data:
            raise ConfigError(f"{key!r} is given twice", where=place.where)
        if not self.take("="):
            raise self.error(f"{key!r} needs a value: {key}=...", self.space())
        begin = self.space()
        stop = self.value_end(begin, closer, opening)
        if begin == stop:
            raise self.error(f"{key!r} has no value", begin, help="write null for none")
        value = parse_value(self.source, begin, stop)
        tree.data[key] = value.data
        tree.graft((key,), value)
        tree.keys[key,] = place
        self.pos = stop

    def value_end(self, begin: int, closer: str, opening: int) -> int:
        """Return the offset of the ``,`` or the bracket that ends a value."""
        text, stack, quote, before = self.source.text, [(opening, closer)], "", "="
        pos = begin
        while pos < self.end:
            char = text[pos]
            if quote:
                if char == "\\" and quote == '"':
                    pos += 1
                elif char == quote:
                    quote = ""
            elif char in "\"'" and before in "=,:?[{":
                quote = char
            elif char in "[{":
                stack.append((pos, _CLOSERS[char]))
            elif char == stack[-1][1]:
                if len(stack) == 1:
                    return pos
                stack.pop()
            elif char == "," and len(stack) == 1:
                return pos
            before = before if char.isspace() else char
            pos += 1
        unclosed = stack[-1][0]
        raise self.error(f"{text[unclosed]!r} is never closed", unclosed)

    def check(self, cls: type[SectionT], tree: Tree) -> SectionT:
        return checked(cls, tree.data, tree)

    def close(self, closer: str, opening: int) -> None:
        if self.take(closer):
            return
        if self.space() >= self.end:
            raise self.error(f"{self.source.text[opening]!r} is never closed", opening)
        raise self.error(f"expected ',' or {closer!r}, got {self.peek()!r}", self.pos)

    def name(self, what: str) -> str:
        match = _NAME.match(self.source.text, self.pos, self.end)
        if match is None:
            got = f", got {self.peek()!r}" if self.peek() else ""
            raise self.error(f"expected the name of {what}{got}", self.pos)
        self.pos = match.end()
        return match[0]

    def space(self) -> int:
        match = _SPACE.match(self.source.text, self.pos, self.end)
        self.pos = match.end() if match is not None else self.pos
        return self.pos

    def peek(self) -> str:
        return self.source.text[self.pos : self.pos + 1] if self.space() < self.end else ""

    def take(self, char: str) -> bool:
        found = self.peek() == char
        self.pos += found
        return found

    def error(self, message: str, at: int, help: str | None = None) -> ConfigError:
        return ConfigError(message, where=self.source.span(at).where, help=help)


def parse_value(source: Source, begin: int, stop: int) -> Tree:
    """Read part of a source as one YAML value in flow style.

    Args:
        source: The source; there is at least one character before ``begin``.
        begin: Offset of the first character.
        stop: Offset after the last.
    """
    # Blanks before it keep every offset, so that YAML's complaints point at the right place.
    blank = _NOT_A_BREAK.sub(" ", source.text[: begin - 1])
    listed = parse_yaml(source, f"{blank}[{source.text[begin:stop]}]")
    if not isinstance(listed.data, list) or len(listed.data) != 1:
        raise ConfigError("expected one value", where=source.span(begin, stop).where)
    return Tree(
        listed.data[0],
        {path[1:]: span for path, span in listed.keys.items()},
        {path[1:]: span for path, span in listed.values.items() if path},
    )
