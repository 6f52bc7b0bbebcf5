"""A pipeline as one line of text, as MLIR has it.

    shape-inference,fixpoint<limit=20>(fold-constants{size_limit=1 MiB},eliminate-identity)

A step is a name, then settings in ``<>`` (``on_failure``, ``tolerance``), then options in
``{}``. ``group<name=x>(...)`` runs steps once, ``fixpoint<limit=n>(...)`` until the model
stops changing, and ``checkpoint<name=x>`` compares the whole model. Values are YAML.
"""

from __future__ import annotations

import re

from onnx_passes.configs.problems import SectionT, checked
from onnx_passes.configs.source import Source
from onnx_passes.configs.steps import (
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
from onnx_passes.configs.yaml_nodes import MAX_DEPTH
from onnx_passes.configs.yaml_tree import Tree, parse_value
from onnx_passes.errors import ConfigError

_NAME = re.compile(r"""[^\s,(){}<>=\[\]"'#]+""")
_SPACE = re.compile(r"\s*")
_CLOSERS = {"(": ")", "{": "}", "<": ">", "[": "]"}


def parse_pipeline(text: str, source: Source | None = None, start: int = 0) -> list[Step]:
    """Read the steps that a text names.

    Args:
        text: The text.
        source: What complaints point into, if ``text`` is part of something else.
        start: Offset of ``text`` in ``source``.

    Raises:
        ConfigError: The text is not a pipeline; the error points at the column.
    """
    if source is None:
        source = Source("pipeline", text, is_file=False)
    return _Parser(source, start, start + len(text)).whole()


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
        value = parse_value(self.source, begin, stop, flow=True)
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
