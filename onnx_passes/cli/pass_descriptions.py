"""What the command line and the documentation say of a pass."""

from __future__ import annotations

import inspect
import os
import re
import textwrap
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from onnx_passes.library_index import group_of, summary_of
from onnx_passes.passes.base import Pass
from onnx_passes.passes.registry import LIBRARY, Scope, all_passes, groups, imported_pass

if TYPE_CHECKING:
    from onnx_passes.passes.patterns import WhyNot


def import_from(config: str | None) -> Scope:
    """Import what a pipeline file names; return whose passes win over the library's."""
    if config is None:
        return LIBRARY
    from onnx_passes.configs.imports import import_modules
    from onnx_passes.configs.pipeline_files import load_config

    return import_modules(load_config(config))


def passes_of(config: str) -> list[type[Pass]]:
    """Return the passes that a pipeline file uses, each once, with its imports made."""
    from onnx_passes.configs.pipeline_files import load_config
    from onnx_passes.configs.resolve import resolve

    return list(dict.fromkeys(step.cls for step in resolve(load_config(config)).passes))


def importable_by_children(config: str | None) -> None:
    """Let processes that this one starts find the modules beside a pipeline file."""
    if config is not None:
        from onnx_passes.configs.pipeline_files import load_config

        places = [str(load_config(config).folder), os.environ.get("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, places))


def describe_passes(scope: Scope) -> list[dict[str, str]]:
    """Return name, group, contract and summary of every pass, by group."""
    rows = [
        {
            "name": cls.name,
            "group": home(cls),
            "contract": cls.promise(),
            "summary": summary_of(cls),
        }
        for cls in all_passes(scope)
    ]
    return sorted(rows, key=lambda row: (row["group"], row["name"]))


def home(cls: type[Pass]) -> str:
    """Return the folder that a pass lives in; the module of a user's pass."""
    package, _, rest = cls.__module__.partition("onnx_passes.passes.")
    return group_of(rest) if not package else cls.__module__


def groups_of(cls: type[Pass]) -> list[str]:
    """Return the groups that a pass is registered in."""
    return [name for name, members in groups().items() if cls in members]


def option_rows(cls: type[Pass]) -> list[tuple[str, str, str]]:
    """Return name, type and default of every option."""
    from onnx_passes.passes.options import option_fields

    rows = []
    for name, field in option_fields(cls).items():
        kind = getattr(field.annotation, "__name__", None) or str(field.annotation)
        if "[" in str(field.annotation) or "|" in str(field.annotation):
            # Validators are not part of the type, and their text holds an address.
            kind = re.sub(
                r"Annotated\[(\w+(?:\[[^\[\]]*\])?), (?:[^\[\]]|\[[^\[\]]*\])*\]",
                r"\1",
                str(field.annotation),
            )
            kind = kind.replace("typing.", "")
        default = field.get_default(call_default_factory=True)
        rows.append((name, kind, "required" if field.is_required() else repr(default)))
    return rows


def option_docs(cls: type[Pass]) -> dict[str, str]:
    """Return what docstrings say of options: the class's own, or that of its nearest base."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        text = inspect.cleandoc(base.__doc__ or "").partition("Attributes:\n")[2]
        section = re.match(r"(?:(?: .*)?(?:\n|$))*", text)
        assert section is not None, "the pattern matches nothing as well"
        for name, said in re.findall(r"^ {4}(\w+): (.*(?:\n {5}.*)*)", section[0], re.M):
            found[name] = " ".join(said.split())
    return found


def with_members(names: Iterable[str]) -> set[str]:
    """Return names of passes, and those of the passes that one of them applies."""
    found = {*names}
    for cls in filter(None, map(imported_pass, tuple(found))):
        if hasattr(cls, "members"):
            members: Iterable[type[Pass]] = getattr(cls(), "members")()  # noqa: B009
            found |= {member.name for member in members}
    return found


def answers(question: WhyNot, ran: Collection[str]) -> Iterator[str]:
    """Yield why a rule did not match, line by line, and what its pass says of itself."""
    from onnx_passes.passes.patterns import MISMATCH, NO_REASON
    from onnx_passes.passes.rewriting import Rewriting

    lines = list(question.lines())
    yield from lines
    cls = imported_pass(question.rule.partition("[")[0])
    if not lines and (cls is None or cls.name not in ran):
        yield f"{question.rule}: the pipeline runs no pass or rule of this name"
        return
    if not lines:
        where = "" if question.node is None else f" at {question.node!r}"
        told = "no node is left that one of its rules may begin at"
        if cls is not None and not issubclass(cls, Rewriting):
            told = "this pass gives no reasons, because it does not match by rules"
        yield f"{question.rule}{where}: {told}"
    if not lines or any(
        f": {text}, at " in line for line in lines for text in (MISMATCH, NO_REASON)
    ):
        for part in (inspect.getdoc(cls) or "").split("\n\n"):
            if part.startswith(("Before:", "Leaves alone:")):
                yield " ".join(part.split())


def explanation(cls: type[Pass]) -> str:
    """Return all there is to know of a pass, as text."""
    lines = [f"{cls.name}  ({cls.promise()})", ""]
    text = inspect.getdoc(cls) or "It has no docstring."
    lines += [text.partition("Attributes:\n")[0].rstrip(), ""]
    if rows := option_rows(cls):
        lines.append("Options:")
        said = option_docs(cls)
        for name, kind, default in rows:
            lines.append(f"  {name}: {kind} = {default}")
            if name in said:
                lines.append(textwrap.indent(textwrap.fill(said[name], 89), " " * 6))
        lines.append("")
    relations = {
        "Requires": ", ".join(cls.required_passes),
        "Preserves": cls.preserves
        if isinstance(cls.preserves, str)
        else ", ".join(cls.preserves),
        "Followed by": ", ".join(cls.followed_by),
        "May change of the interface": ", ".join(sorted(cls.interface_changes)),
        "Groups": ", ".join(groups_of(cls)),
        "Class": f"{cls.__module__}.{cls.__qualname__}",
    }
    lines += [f"{label}: {value}" for label, value in relations.items() if value]
    return "\n".join(lines)
