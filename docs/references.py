"""Reference pages made from sources: the command line, pipeline files, the Python API."""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from types import ModuleType
from typing import Any

import click

import onnx_passes
from onnx_passes import ops, passes, testing
from onnx_passes.cli.main import COMMANDS, EXIT_CODES, GROUPS, program
from onnx_passes.configs import schema as pipeline
from onnx_passes.configs import sections
from onnx_passes.configs.schema import PipelineConfig
from onnx_passes.configs.sections import Reference, Section

AUTHORING = (passes, passes.base, passes.verify, ops, testing)
"""Modules that authors of passes import from."""

_MADE = "Made by `make docs` from {}."
_SHARED = {"--quiet", "--verbose", "--color", "--no-progress", "--help", "--debug"}


def command_line() -> str:
    """Return the page of the commands and their options."""
    lines = [
        "# The command line",
        "",
        _MADE.format("the commands themselves"),
        "All commands have `-q, --quiet` (results and errors only), `-v, --verbose`, `--color "
        "always|never|auto`, `--no-progress` and `-h, --help`.",
        "",
        "| | Command | |",
        "|---|---|---|",
        *(
            f"| {title} | [`{name}`](#{name}) | {told} |"
            for title, commands in GROUPS.items()
            for name, told in commands.items()
        ),
        "",
        "## Exit codes",
        "",
        "| Exit code | Means |",
        "|---|---|",
        *(f"| {code} | {told} |" for code, told in EXIT_CODES.items()),
        "",
        "The code of a verdict stays if a report cannot be written; else that is exit code 2.",
    ]
    context = click.Context(program, info_name="onnx-passes", **program.context_settings)
    for name in COMMANDS:
        command = program.get_command(context, name)
        assert command is not None
        lines += ["", *_command(command, name, context, 2)]
    return "\n".join([*lines, ""])


def _command(
    command: click.Command, name: str, parent: click.Context, level: int
) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=parent)
    yield f"{'#' * level} {name}"
    yield ""
    yield f"    {context.command_path} {' '.join(command.collect_usage_pieces(context))}"
    yield ""
    yield from _help(command.help or "")
    rows = [row for param in command.params if (row := _option(param, context)) is not None]
    if rows:
        yield from ["", "| Option | |", "|---|---|", *rows]
    for inner, sub in getattr(command, "commands", {}).items():
        yield ""
        yield from _command(sub, inner, context, level + 1)


def _help(text: str) -> Iterator[str]:
    """Yield the help of a command; blocks that keep their lines become blocks of code."""
    for part in inspect.cleandoc(text).split("\n\n"):
        if part.startswith("\b"):
            lines = part.splitlines()[1:]
            titled = lines and not lines[0].startswith(" ") and lines[0].endswith(":")
            if titled:
                yield from [f"{lines.pop(0)}", ""]
            yield from (f"    {line}" for line in lines)
        else:
            yield _prose(part.replace("\n", " "))
        yield ""


def _option(param: click.Parameter, context: click.Context) -> str | None:
    if not isinstance(param, click.Option) or param.hidden or _SHARED & {*param.opts}:
        return None
    record = param.get_help_record(context)
    if record is None:
        return None
    words, told = (_cell(part) for part in record)
    return f"| `{words}` | {_prose(told)} |"


def pipeline_files() -> str:
    """Return the page of the keys of pipeline files."""
    schema = PipelineConfig.model_json_schema()
    for key, items in {"passes": "steps", "engines": "engines"}.items():
        schema["properties"][key] = {"type": f"list of {items}"}
    for cls in (PipelineConfig, *(getattr(sections, name, None) for name in schema["$defs"])):
        if cls is not None and issubclass(cls, Section):
            own = schema if cls is PipelineConfig else schema["$defs"][cls.__name__]
            for key, told in _texts_of_keys(cls).items():
                own["properties"][key]["description"] = told
    for other, name in Reference.also.items():
        keys = schema["$defs"]["Reference"]["properties"]
        keys[other] = {**keys[name], "description": f"Another name of '{name}'."}
    lines = [
        "# Pipeline files",
        "",
        _MADE.format("the classes that check them")
        + " [Write a pipeline](write-a-pipeline.md) explains them with examples.",
        "",
        *_keys(schema["properties"]),
    ]
    for name, section in schema["$defs"].items():
        if "properties" in section and name != "Step":
            told = (section.get("description") or "").replace("``", "`")
            lines += ["", f"## {name}", "", told, "", *_keys(section["properties"])]
    return "\n".join([*lines, ""])


def _texts_of_keys(cls: type[Section]) -> dict[str, str]:
    """Return what is written below each field of a section."""
    known = _texts_of_fields(sections) | _texts_of_fields(pipeline)
    told = {
        n: text for base in cls.__mro__ for n, text in known.get(base.__name__, {}).items()
    }
    return {field.alias or name: told[name] for name, field in cls.model_fields.items()}


@cache
def _texts_of_fields(module: ModuleType) -> dict[str, dict[str, str]]:
    """Return the text below each field by class."""
    return {
        cls.name: {
            field.target.id: " ".join(said.value.value.split())
            for field, said in pairwise(cls.body)
            if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
            if isinstance(said, ast.Expr) and isinstance(said.value, ast.Constant)
        }
        for cls in ast.parse(inspect.getsource(module)).body
        if isinstance(cls, ast.ClassDef)
    }


def _keys(properties: Mapping[str, Any]) -> Iterator[str]:
    yield "| Key | Type | Default | |"
    yield "|---|---|---|---|"
    for key, value in properties.items():
        default = f"`{_yaml(value['default'])}`" if "default" in value else ""
        told = _prose(_cell((value.get("description") or "").replace("``", "`")))
        yield f"| `{key}` | {_cell(_type(value))} | {_cell(default)} | {told} |"


def _yaml(value: Any) -> str:
    """Return a value as a pipeline file holds it, on one line."""
    return json.dumps(value, ensure_ascii=False)


def _type(value: Mapping[str, Any]) -> str:
    if "$ref" in value:
        name = value["$ref"].rpartition("/")[2]
        return "a step" if name == "Step" else f"[{name}](#{name.lower()})"
    if "enum" in value:
        return ", ".join(f"`{each}`" for each in value["enum"])
    if "const" in value:
        return f"`{value['const']}`"
    for key in ("anyOf", "oneOf"):
        if key in value:
            return " or ".join(dict.fromkeys(_type(each) for each in value[key]))
    if value.get("type") == "array":
        return f"list of {_type(value.get('items', {}))}"
    if value.get("type") == "object":
        return "mapping"
    kinds = value.get("type", "any")
    names = {"null": "nothing", "integer": "whole number"}
    listed = [kinds] if isinstance(kinds, str) else kinds
    return " or ".join(names.get(kind, kind) for kind in listed)


def python_api() -> str:
    """Return the page of the names of ``onnx_passes``."""
    lines = [
        "# The Python API",
        "",
        _MADE.format("docstrings"),
        "[Use it from Python](python.md) explains it with examples.",
    ]
    for name in onnx_passes.__all__:
        found = getattr(onnx_passes, name)
        if name.startswith("__"):
            continue
        lines += ["", f"## {name}", "", *_signature(name, found), *_docstring(found)]
        if isinstance(found, type):
            for key, member in vars(found).items():
                if not key.startswith("_") and (
                    callable(member) or isinstance(member, property)
                ):
                    lines += ["", f"### {name}.{key}", ""]
                    if callable(member):
                        lines += _signature(key, member)
                    lines += _docstring(member)
    for module in AUTHORING:
        lines += ["", f"## {module.__name__}", ""]
        for name in sorted(module.__all__):
            found = getattr(module, name)
            own = getattr(found, "__module__", "").startswith("onnx_passes")
            summary = (inspect.getdoc(found) or "").partition("\n\n")[0] if own else ""
            told = " ".join(summary.replace("``", "`").split())
            lines.append(f"- `{name}`" + (f": {told}" if told else ""))
    return "\n".join([*lines, ""])


def _signature(name: str, found: Any) -> list[str]:
    try:
        told = re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(inspect.signature(found)))
    except (TypeError, ValueError):
        return []
    wrapped = f"{name}{told}"
    if len(wrapped) > 90:
        wrapped = wrapped.replace("(", "(\n    ", 1).replace(", *, ", ",\n    *,\n    ")
        wrapped = re.sub(r", (\w+: )", r",\n    \1", wrapped)
        wrapped = re.sub(r"\) -> ([^()]*)$", r",\n) -> \1", wrapped)
    return ["```python", wrapped, "```", ""]


def _docstring(found: Any) -> Iterator[str]:
    """Yield a docstring of Google's form; its sections become lists."""
    text = (inspect.getdoc(found) or "").replace("``", "`")
    text = re.sub(r":\w+:`~?([\w.]+)`", r"`\1`", text)
    for part in text.split("\n\n"):
        head, _, rest = part.partition("\n")
        if head not in ("Args:", "Returns:", "Raises:", "Attributes:"):
            yield part
        else:
            yield f"**{head.rstrip(':')}**\n"
            body = inspect.cleandoc(rest)
            if head == "Returns:":
                yield body.replace("\n", " ")
            else:
                for entry in re.split(r"\n(?=\S)", body):
                    name, _, told = entry.partition(":")
                    yield f"- `{name}`: {' '.join(told.split())}"
        yield ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _prose(text: str) -> str:
    # Brackets and angle brackets of help texts are neither links nor tags.
    return re.sub(r"(?<!\\)([<>\[\]])", r"\\\1", text)
