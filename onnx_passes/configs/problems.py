"""From what pydantic found wrong to one sentence that points at the place."""

from __future__ import annotations

from typing import TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from onnx_passes.configs.sections import Reference, Section
from onnx_passes.configs.yaml_tree import Span, Tree, YamlPath
from onnx_passes.errors import ConfigError, did_you_mean
from onnx_passes.plain import Plain, PlainMapping

SectionT = TypeVar("SectionT", bound=Section)

_EXPECTED = {
    "bool": "true or false",
    "dict": "a mapping",
    "float": "a number",
    "int": "a whole number",
    "list": "a list",
    "model": "a mapping",
    "string": "text",
    "tuple": "a list",
}


def validate_section(
    cls: type[SectionT], data: object, tree: Tree, path: YamlPath = ()
) -> SectionT:
    """Return the section that ``data`` describes.

    `path` is where it stands in the tree. ConfigError names the first unknown key or wrong
    value.
    """
    try:
        return cls.model_validate(data, context=SectionPlace(tree, path))
    except ValidationError as error:
        raise _explained(error.errors(include_url=False), tree, path) from error


class SectionPlace:
    """Where a section stands, for validators that read on by themselves."""

    def __init__(self, tree: Tree, path: YamlPath) -> None:
        self.tree, self.path = tree, path


def located(span: Span | None) -> str | None:
    """Return the excerpt of a place, if it is known."""
    return span.where if span is not None else None


def _explained(errors: list[ErrorDetails], tree: Tree, base: YamlPath) -> ConfigError:
    # A misspelt key explains the errors that follow from it.
    first = next((e for e in errors if e["type"] == "unknown_key"), errors[0])
    path = _present(tree, base, first["loc"])
    context: PlainMapping = first.get("ctx", {})
    match first["type"]:
        case "unknown_key":
            key, known = str(context["key"]), list(context["known"])
            return ConfigError(
                f"unknown key {key!r}{_inside(path)}",
                where=located(tree.key((*path, key))),
                help=unknown_key_help(key, known, path),
            )
        case "same_key":
            key, other = str(context["key"]), str(context["other"])
            return ConfigError(
                f"{key!r} and {other!r} are two names of one key{_inside(path)}",
                where=located(tree.key((*path, key))),
                help="keep one of them",
            )
        case "missing":
            return ConfigError(
                f"{str(first['loc'][-1])!r} is missing{_inside(path)}",
                where=located(tree.value(path)),
            )
        case kind:
            message = (
                f"{dotted(path)}: expected {_expected(kind, first, context)}, "
                f"got {described(first['input'])}"
            )
            choices = _choices(first) if kind == "literal_error" else []
            given = first["input"]
            hint = did_you_mean(given, choices, "") if isinstance(given, str) else ""
            return ConfigError(message, where=located(tree.value(path)), help=hint or None)


def unknown_key_help(key: str, known: list[str], path: YamlPath) -> str:
    """Return what to do about an unknown key."""
    fields = {} if Section.whole is None else Section.whole.model_fields
    inner = {name: getattr(f.annotation, "model_fields", ()) for name, f in fields.items()}
    homes = [f"'{name}'" for name, keys in inner.items() if key in keys]
    if homes := (["the file itself"] if key in fields else homes):
        return f"{key!r} is a key of {' and of '.join(homes)}"
    others = f"the keys here are {', '.join(known)}" if known else "it has no keys"
    if not path:
        others += "; data for your own passes goes under 'extra:'"
    return did_you_mean(key, known, others)


def described(value: object) -> str:
    """Say what a value is, in the terms of YAML."""
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case dict():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case str():
            return f"the text {value if len(value) <= 40 else value[:37] + '...'!r}"
        case _:
            return str(value) if len(str(value)) <= 40 else f"a {type(value).__name__}"


def dotted(path: YamlPath) -> str:
    """Return a path as ``--set`` takes it."""
    parts = (str(part) for part in path)
    return ".".join(p if p.isprintable() else repr(p) for p in parts) or "the file"


def _inside(path: YamlPath) -> str:
    return f" in '{dotted(path)}'" if path else ""


def _present(tree: Tree, base: YamlPath, location: tuple[int | str, ...]) -> YamlPath:
    """Return the path to the fault, without what pydantic adds for its own unions."""
    path, data = base, _at(tree.data, base)
    for part in location:
        if isinstance(data, dict):
            key = next((k for k in (part, _ALSO.get(str(part))) if k in data), None)
            if key is None:
                continue
            path, data = (*path, key), data[key]
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            path, data = (*path, part), data[part]
    return path


_ALSO = {field: other for other, field in Reference.also.items()}


def _at(data: Plain, path: YamlPath) -> Plain:
    for part in path:
        data = data[part]
    return data


def _expected(kind: str, error: ErrorDetails, context: PlainMapping) -> str:
    if kind == "expected":
        return str(context["expected"])
    if kind == "literal_error":
        return " or ".join(", ".join(f"{c}" for c in _choices(error)).rsplit(", ", 1))
    if kind in ("greater_than", "greater_than_equal"):
        word = "above" if kind == "greater_than" else "of at least"
        return f"a number {word} {context['gt' if kind == 'greater_than' else 'ge']}"
    if kind == "finite_number":
        return "a finite number"
    stem = kind.partition("_")[0]
    if stem in _EXPECTED and kind != "string_too_short":
        return _EXPECTED[stem]
    message = error["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    return f"{message[:1].lower()}{message[1:]}"


def _choices(error: ErrorDetails) -> list[str]:
    text = str(error.get("ctx", {}).get("expected", ""))
    return [part.strip("'") for part in text.replace(" or ", ", ").split(", ")]
