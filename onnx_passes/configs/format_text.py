"""Steps and values to the text that :mod:`onnx_passes.configs.pipeline_text` reads."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping

from onnx_passes.configs.steps import DEFAULT_LIMIT, Checkpoint, Group, Step
from onnx_passes.plain import Plain, PlainDict, PlainMapping

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./-]*")
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")  # keys are always text
_SHORT = 60
_LONGEST_KEY = 1000  # YAML ends its search for the ':' after 1024 characters


def format_steps(steps: Iterable[Step]) -> str:
    """Return the text that ``parse_pipeline`` reads back to ``steps``."""
    return ",".join(_format(step) for step in steps)


def format_value(value: Plain) -> str:
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


def format_file(value: Plain, indent: str = "") -> list[str]:
    """Return plain data as lines of YAML; parts that are short take one line each.

    Args:
        value: A mapping or list, as a pipeline file holds it.
        indent: What each line begins with.

    Raises:
        TypeError: Something in it is not plain data.
    """
    lines: list[str] = []
    deeper = f"{indent}  "
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if _is_short(inner):
                lines.append(f"{indent}{_pair(key, inner)}")
            else:
                lines += [f"{indent}{_key(key)}:", *format_file(inner, deeper)]
        return lines
    assert isinstance(value, list | tuple), "all else is short"
    for item in value:
        inner = [f"{deeper}{format_value(item)}"]
        if not _is_short(item):
            inner = format_file(item, deeper)
        lines += [f"{indent}- {inner[0].removeprefix(deeper)}", *inner[1:]]
    return lines


def _is_short(value: Plain) -> bool:
    nested = isinstance(value, Mapping | list | tuple) and len(value) > 0
    return not nested or len(format_value(value)) <= _SHORT


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
        given: PlainDict = {} if step.name == word else {"name": step.name}
        if step.repeat == "fixpoint" or step.limit != DEFAULT_LIMIT:
            given["limit"] = step.limit
        return f"{word}{_settings(given)}({format_steps(step.steps)})"
    settings: PlainDict = {}
    if step.on_failure is not None:
        settings["on_failure"] = step.on_failure
    if step.tolerance is not None:
        settings["tolerance"] = step.tolerance.model_dump(exclude_defaults=True)
    options = f"{{{_pairs(step.options)}}}" if step.options else ""
    return f"{step.name}{_settings(settings)}{options}"


def _settings(settings: PlainMapping) -> str:
    return f"<{_pairs(settings)}>" if settings else ""


def _pairs(values: PlainMapping) -> str:
    return ",".join(f"{key}={format_value(value)}" for key, value in values.items())
