"""The steps of a pipeline as a user writes them: from YAML or text, and as text again.

In a text, steps stand between commas: a name, options behind it in ``{}``, or a step in braces
as YAML writes it. Names are not looked up yet.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, Strict

from onnx_passes.configs.problems import described, located, validate_section
from onnx_passes.configs.sections import OutputTolerance, Policy, Section
from onnx_passes.configs.yaml_tree import Source, Span, Tree, YamlPath, parse_value
from onnx_passes.errors import ConfigError
from onnx_passes.plain import Plain, PlainDict, PlainMapping

Repeat = Literal["once", "fixpoint"]

DEFAULT_LIMIT = 20


@dataclass(frozen=True)
class Places:
    """Where a step was written."""

    name: Span | None = None
    keys: Mapping[str, Span] = field(default_factory=dict)
    values: Mapping[str, Span] = field(default_factory=dict)

    @classmethod
    def of(cls, name: Span | None, tree: Tree, path: YamlPath = ()) -> Places:
        """Return the places of a step whose options stand at ``path`` in ``tree``."""
        size = len(path) + 1
        keys, values = (
            {str(p[-1]): s for p, s in table.items() if len(p) == size and p[:-1] == path}
            for table in (tree.keys, tree.values)
        )
        return cls(name, keys, values)

    def option(self, key: str, *, value: bool = False) -> Span | None:
        """Return where an option is, or its value, or else the step."""
        return (self.values if value else self.keys).get(key, self.name)


@dataclass(frozen=True)
class PassUse:
    """A pass or group with unchecked options; None means the pipeline's setting."""

    name: str
    options: PlainMapping = field(default_factory=dict)
    on_failure: Policy | None = None
    tolerance: OutputTolerance | None = None
    places: Places = field(default_factory=Places, compare=False, repr=False)


@dataclass(frozen=True)
class Group:
    """Steps that belong together; a fixpoint has failed after `limit` rounds."""

    steps: tuple[Step, ...]
    name: str = "group"
    repeat: Repeat = "once"
    limit: int = DEFAULT_LIMIT
    places: Places = field(default_factory=Places, compare=False, repr=False)


@dataclass(frozen=True)
class Checkpoint:
    """A point at which the whole model is held against the original."""

    name: str = "checkpoint"
    places: Places = field(default_factory=Places, compare=False, repr=False)


Step: TypeAlias = PassUse | Group | Checkpoint


class UseSettings(Section):
    """Settings of one use of a pass, beside its options."""

    on_failure: Policy | None = None
    """What to do if this pass fails: stop, rollback or warn."""
    tolerance: OutputTolerance | None = None
    """Tolerance of this pass, instead of the pipeline's."""


class GroupSettings(Section):
    """Settings of a group."""

    name: str | None = Field(default=None, min_length=1)
    """What a report calls the group."""
    repeat: Repeat = "once"
    """Once, or until the model stops changing (fixpoint)."""
    limit: Annotated[int, Strict(), Field(ge=1)] = DEFAULT_LIMIT
    """Number of rounds after which a fixpoint has failed."""


class CheckpointSettings(Section):
    """Settings of a checkpoint."""

    name: str = Field(default="checkpoint", min_length=1)
    """What a report calls the checkpoint."""


_NAME = re.compile(r"""[^\s,(){}<>=\[\]"'#]+""")
_SPACE = re.compile(r"\s*")
_CLOSERS = {"{": "}", "[": "]"}


def parse_pipeline(text: str, source: Source | None = None, start: int = 0) -> list[Step]:
    """Read the steps that a text names.

    Complaints point into `source`, in which the text starts at `start`. ConfigError points at
    the column.
    """
    if source is None:
        source = Source("pipeline", text, is_file=False)
    parser = _Parser(source, start + len(text))
    spans, _ = parser.split(start, parser.end)
    return [parser.step(*span) for span in spans]


class _Parser:
    """Reads parts of a source up to its ``end``; parts are offsets of begin and end."""

    def __init__(self, source: Source, end: int) -> None:
        self.source, self.text, self.end = source, source.text, end

    def split(
        self, begin: int, end: int, opening: int | None = None
    ) -> tuple[list[tuple[int, int]], int]:
        """Return the parts between commas, and where the last one ends.

        They end at the brace that closes ``opening``, or at ``end`` without one. Commas in
        brackets and quotes do not count.
        """
        stack = [] if opening is None else [(opening, "}")]
        outer, parts = len(stack), list[tuple[int, int]]()
        quote, before, pos = "", "{" if stack else "", begin
        while pos < end:
            char = self.text[pos]
            if quote:
                if char == "\\" and quote == '"':
                    pos += 1
                elif char == quote:
                    quote = ""
            elif char in "\"'" and before in ("=", ",", ":", "?", "[", "{"):
                quote = char
            elif char in _CLOSERS:
                stack.append((pos, _CLOSERS[char]))
            elif stack and char == stack[-1][1]:
                stack.pop()
                if len(stack) < outer:
                    return [*parts, (begin, pos)], pos
            elif char == "," and len(stack) == outer:
                parts.append((begin, pos))
                begin = pos + 1
            before = before if char.isspace() else char
            pos += 1
        if stack:
            unclosed = stack[-1][0]
            raise self.error(f"{self.text[unclosed]!r} is never closed", unclosed)
        return [*parts, (begin, end)], end

    def step(self, begin: int, end: int) -> Step:
        """Read a name with its options, or a step in braces as YAML writes it."""
        begin = self.space(begin, end)
        if begin < end and self.text[begin] == "{":
            tree = parse_value(self.source, begin, end)
            if not isinstance(tree.data, dict) or not tree.data:
                raise self.error("this step names no pass", begin)
            return _from_mapping(tree.data, tree, ())
        name, pos = self.name("a pass", begin, end)
        place = self.source.span(begin, pos)
        options, pos = Tree({}), self.space(pos, end)
        if pos < end and self.text[pos] == "{":
            pairs, stop = self.split(pos + 1, end, pos)
            if len(pairs) > 1 or self.space(*pairs[0]) < stop:
                for pair in pairs:
                    self.option(options, *pair)
            pos = self.space(stop + 1, end)
        if pos < end:
            separate = "separate passes with commas"
            raise self.error(f"unexpected {self.text[pos]!r}", pos, help=separate)
        if name == "checkpoint" and not options.data:
            return Checkpoint(places=Places(place))
        return PassUse(name, options.data, places=Places.of(place, options))

    def option(self, tree: Tree, begin: int, end: int) -> None:
        """Read ``key=value`` into a tree."""
        begin = self.space(begin, end)
        key, pos = self.name("an option", begin, end)
        place = self.source.span(begin, pos)
        if key in tree.data:
            raise ConfigError(f"{key!r} is given twice", where=place.where)
        pos = self.space(pos, end)
        if self.text[pos] != "=":
            raise self.error(f"{key!r} needs a value: {key.rstrip(':')}=...", pos)
        begin = self.space(pos + 1, end)
        if begin == end:
            raise self.error(f"{key!r} has no value", begin, help="write null for none")
        value = parse_value(self.source, begin, end, flow=True)
        tree.data[key] = value.data
        tree.graft((key,), value)
        tree.keys[key,] = place

    def name(self, what: str, begin: int, end: int) -> tuple[str, int]:
        """Return a name, and where it ends."""
        match = _NAME.match(self.text, begin, end)
        if match is None:
            got = f", got {self.text[begin]!r}" if begin < self.end else ""
            raise self.error(f"expected the name of {what}{got}", begin)
        return match[0], match.end()

    def space(self, begin: int, end: int) -> int:
        """Return where spaces end."""
        match = _SPACE.match(self.text, begin, end)
        return begin if match is None else match.end()

    def error(self, message: str, at: int, help: str | None = None) -> ConfigError:
        return ConfigError(message, where=self.source.span(at).where, help=help)


_FORMS = (
    "a step is a pass name, {pass: {option: value}}, {group: [...], repeat: fixpoint}, "
    "or 'checkpoint'"
)

_FIXPOINT = "write '- group: [...]' and, right below 'group', 'repeat: fixpoint'"


def read_steps(data: Plain, tree: Tree, path: YamlPath) -> tuple[Step, ...]:
    """Return the steps of a list or a text, and those that were read already as they are."""
    if data is None:
        return ()
    if isinstance(data, str):
        return tuple(_from_text(data, tree, path))
    if not isinstance(data, list | tuple):
        raise ConfigError(
            f"{'.'.join(map(str, path))}: expected a list of steps, got {described(data)}",
            where=located(tree.value(path)),
            help=_FORMS,
        )
    return tuple(
        step for i, item in enumerate(data) for step in _read_item(item, tree, (*path, i))
    )


def _read_item(item: Plain, tree: Tree, path: YamlPath) -> list[Step]:
    if isinstance(item, PassUse | Group | Checkpoint):
        return [item]
    if isinstance(item, str):
        return _from_text(item, tree, path)
    if isinstance(item, dict) and item:
        return [_from_mapping(item, tree, path)]
    raise ConfigError(
        f"{described(item)} is not a step", where=located(tree.value(path)), help=_FORMS
    )


def _from_text(text: str, tree: Tree, path: YamlPath) -> list[Step]:
    span = tree.value(path)
    if span is None:
        return parse_pipeline(text)
    raw = span.source.line(span.line)
    for quote in (0, 1):  # a plain scalar, or one in quotes without escapes
        column = span.column + quote
        if raw[column : column + len(text)] == text:
            return parse_pipeline(text, span.source, span.offset + quote)
    return parse_pipeline(text, Source(span.place, text, is_file=False))


def _from_mapping(item: PlainDict, tree: Tree, path: YamlPath) -> Step:
    if "group" in item:
        return _group(item, tree, path)
    if "checkpoint" in item:
        return _checkpoint(item, tree, path)
    names = [key for key in item if key not in UseSettings.model_fields]
    if len(names) != 1:
        at = (*path, names[1]) if names else path
        raise ConfigError(
            f"one step names {len(names)} passes: {', '.join(names)}"
            if names
            else "this step names no pass",
            where=located(tree.key(at)),
            help="give each pass its own '- ', and indent its options below its name",
        )
    (name,) = names
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} is not the name of a pass", where=located(tree.key((*path, name)))
        )
    if name == "fixpoint":
        raise ConfigError(
            "'fixpoint' is not a pass", where=located(tree.key((*path, name))), help=_FIXPOINT
        )
    options = {} if item[name] is None else item[name]
    if not isinstance(options, dict):
        raise ConfigError(
            f"the options of {name!r} are {described(options)}, not a mapping",
            where=located(tree.value((*path, name))),
            help=f"write {name}: {{option: value}}",
        )
    settings = {key: value for key, value in item.items() if key != name}
    use = validate_section(UseSettings, settings, tree, path)
    places = Places.of(tree.key((*path, name)), tree, (*path, name))
    return PassUse(name, options, use.on_failure, use.tolerance, places)


def _group(item: PlainDict, tree: Tree, path: YamlPath) -> Group:
    rest = {key: value for key, value in item.items() if key != "group"}
    settings = validate_section(GroupSettings, rest, tree, path)
    steps = read_steps(item["group"], tree, (*path, "group"))
    if not steps:
        raise ConfigError("the group has no steps", where=located(tree.key((*path, "group"))))
    default = "group" if settings.repeat == "once" else "fixpoint"
    places = Places(tree.key((*path, "group")))
    return Group(steps, settings.name or default, settings.repeat, settings.limit, places)


def _checkpoint(item: PlainDict, tree: Tree, path: YamlPath) -> Checkpoint:
    at = (*path, "checkpoint")
    for key in item:
        if key != "checkpoint":
            raise ConfigError(
                f"a checkpoint has no setting {key!r}", where=located(tree.key((*path, key)))
            )
    data = {} if item["checkpoint"] is None else item["checkpoint"]
    settings = validate_section(CheckpointSettings, data, tree, at)
    return Checkpoint(settings.name, Places(tree.key(at)))


_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")  # keys are always text
_LONGEST_KEY = 1000  # YAML ends its search for the ':' after 1024 characters


def format_steps(steps: Iterable[Step]) -> str:
    """Return the text that ``parse_pipeline`` reads back to ``steps``."""
    return ",".join(_format(step) for step in steps)


def format_value(value: Plain) -> str:
    """Return plain data as YAML in one line, or raise TypeError."""
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


def _key(key: Plain) -> str:
    return str(key) if _PLAIN_KEY.fullmatch(str(key)) else _quoted(str(key))


def _pair(key: Plain, value: Plain) -> str:
    name = _key(key)
    if len(name) > _LONGEST_KEY:
        return f"? {name} : {format_value(value)}"
    return f"{name}: {format_value(value)}"


def _quoted(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in ("null", "true", "false"):
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        raise TypeError("half a character has no place in a pipeline text") from None
    return json.dumps(text, ensure_ascii=not text.isprintable())  # JSON is YAML


def _format(step: Step) -> str:
    if isinstance(step, PassUse) and step.on_failure is None and step.tolerance is None:
        pairs = ",".join(f"{key}={format_value(value)}" for key, value in step.options.items())
        return f"{step.name}{{{pairs}}}" if pairs else step.name
    plain = _plain(step)
    return plain if isinstance(plain, str) else format_value(plain)


def _plain(step: Step) -> str | PlainDict:
    """Return a step as YAML holds it."""
    if isinstance(step, Checkpoint):
        named = step.name != "checkpoint"
        return {"checkpoint": {"name": step.name}} if named else "checkpoint"
    if isinstance(step, Group):
        group: PlainDict = {"group": [_plain(inner) for inner in step.steps]}
        if step.name != ("group" if step.repeat == "once" else "fixpoint"):
            group["name"] = step.name
        if step.repeat != "once":
            group["repeat"] = step.repeat
        if step.limit != DEFAULT_LIMIT:
            group["limit"] = step.limit
        return group
    use: PlainDict = {step.name: dict(step.options)}
    if step.on_failure is not None:
        use["on_failure"] = step.on_failure
    if step.tolerance is not None:
        use["tolerance"] = step.tolerance.model_dump(exclude_defaults=True)
    return step.name if use == {step.name: {}} else use
