"""Write a page for every pass of the library, and the index of the library.

``make docs`` runs it, and a test does with ``--check``.
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

from certificate_texts import level
from certificate_texts import summary as certificate_summary
from drawings import drawing
from references import command_line, pipeline_files, python_api

from benchmarks.operators import data_of, domains_of
from onnx_passes.certifying.certificates import read_certificates
from onnx_passes.cli.pass_descriptions import groups_of, home, option_docs, option_rows
from onnx_passes.library_index import FILE, index_text
from onnx_passes.library_index import summary_of as summary
from onnx_passes.ops import families  # noqa: F401 (makes operators known)
from onnx_passes.ops.operator_class import operators
from onnx_passes.passes.base import Pass
from onnx_passes.passes.registry import all_passes, registered_groups

FOLDER = Path(__file__).parent / "passes"
OPERATORS = Path(__file__).parent / "operators.md"
CERTIFICATES = read_certificates(Path(__file__).parents[1] / "certificates")

INTRODUCTION = (
    "Made by `make docs` from the passes' docstrings, and from their [certificates]"
    "(../certify.md#certificates),",
    "which say of rewrite rules whether they are *proved* or only *tested*, on their own,",
    "and of other passes that they were *tested* on random models.",
)


def library() -> list[type[Pass]]:
    """Return the passes that come with the package."""
    return [cls for cls in all_passes() if cls.__module__.startswith("onnx_passes.")]


def page(cls: type[Pass]) -> str:
    """Return the page of one pass."""
    body = (inspect.getdoc(cls) or "").partition("Attributes:\n")[0].rstrip()
    for heading in ("Before:", "After:", "Sound because", "Leaves alone:", "Finds:", "Adds:"):
        body = body.replace(f"\n{heading}", f"\n**{heading}**")
    body = body.replace("\n**After:**", "  \n**After:**").replace("``", "`")
    lines = [f"# {cls.name}", "", body, ""]
    if picture(cls) is not None:
        lines += [f"![Before and after {cls.name}](pictures/{cls.name}.svg)", ""]
    lines += [f"Contract: **{cls.promise()}**", ""]
    rows = option_rows(cls)
    if rows:
        described = option_docs(cls)
        lines += ["| option | type | default | |", "|---|---|---|---|"]
        lines += [
            f"| `{n}` | `{kind}` | `{default}` | {described.get(n, '')} |"
            for n, kind, default in rows
        ]
        lines.append("")
    facts = {
        "Requires": [f"[{n}]({n}.md)" for n in cls.required_passes],
        "Groups": [f"`{n}`" for n in groups_of(cls)],
        "May change of the interface": sorted(cls.interface_changes),
    }
    lines += [f"{label}: {', '.join(values)}\n" for label, values in facts.items() if values]
    if cls.name in CERTIFICATES:
        lines.append(f"Certificate: {certificate_summary(CERTIFICATES[cls.name])}\n")
    source = cls.__module__.replace(".", "/") + ".py"
    return "\n".join([*lines, f"Source: [`{source}`](../../{source})", ""])


def picture(cls: type[Pass]) -> str | None:
    """Return the drawing of one pass; None if its docstring shows no expressions."""
    return drawing(inspect.getdoc(cls) or "")


def pictures() -> dict[Path, str]:
    """Return every drawing by its path."""
    found = {FOLDER / "pictures" / f"{cls.name}.svg": picture(cls) for cls in library()}
    return {path: text for path, text in found.items() if text is not None}


def index() -> str:
    """Return the page that lists them all."""
    lines = ["# Passes", "", *INTRODUCTION, ""]
    passes = sorted(library(), key=lambda cls: (home(cls), cls.name))
    for group in dict.fromkeys(map(home, passes)):
        lines += [f"## {group}", "", "| pass | contract | certified | |", "|---|---|---|---|"]
        lines += [_row(cls) for cls in passes if home(cls) == group]
        lines.append("")
    return "\n".join(lines)


def _row(cls: type[Pass]) -> str:
    found = CERTIFICATES.get(cls.name)
    verdicts = "" if found is None else level(found)
    return f"| [{cls.name}]({cls.name}.md) | {cls.promise()} | {verdicts} | {summary(cls)} |"


def pages() -> dict[Path, str]:
    """Return every page by its path."""
    # First of all: groups are in the order in which their passes were imported.
    passes, docs = library(), FOLDER.parent
    references = {
        docs / "command-line.md": command_line(),
        docs / "pipeline-files.md": pipeline_files(),
        docs / "python-api.md": python_api(),
    }
    return (
        {FOLDER / "README.md": index(), OPERATORS: table()}
        | {FILE: index_text(passes, registered_groups())}
        | references
        | pictures()
        | {FOLDER / f"{cls.name}.md": page(cls) for cls in passes}
    )


def table() -> str:
    """Return the table of operators by arithmetics."""
    rows = {str(o): {**domains_of(o), **data_of(o)} for o in operators()}
    columns = list(next(iter(rows.values())))
    lines = [
        "# Operators",
        "",
        "Made by `make docs` from `onnx_passes/ops`, where each operator is described once.",
        "An arithmetic is marked if some of 90 random calls are evaluated in it. *Counts* is",
        "how many scalar operations the formula takes. Numbers and roundings are held",
        "against ONNX Runtime: `python benchmarks/operators.py 800`.",
        "",
        "ONNX Runtime 1.31 computes these in another type, and errs for larger integers.",
        "No larger ones are drawn:",
        "",
        *(
            f"- {o}: over {o.exact_bits} bits"
            for o in sorted(operators(), key=str)
            if o.exact_bits
        ),
        "",
        f"| operator | {' | '.join(columns)} |",
        "|---" * (len(columns) + 1) + "|",
    ]
    for name, told in sorted(rows.items()):
        lines.append(f"| {name} | {' | '.join('x' if told[c] else '' for c in columns)} |")
    return "\n".join([*lines, ""])


def main() -> int:
    """Write the pages, or with ``--check`` say which are out of date."""
    wanted = pages()
    stale = [p for p, text in wanted.items() if not p.exists() or p.read_text("utf-8") != text]
    made = (*FOLDER.glob("*.md"), *FOLDER.glob("pictures/*.svg"))
    stale += [p for p in made if p not in wanted]
    if "--check" in sys.argv:
        for path in stale:
            print(f"out of date: {path.relative_to(FOLDER.parents[1])} (run `make docs`)")
        return int(bool(stale))
    (FOLDER / "pictures").mkdir(parents=True, exist_ok=True)
    for path in stale:
        path.unlink(missing_ok=True)
        if path in wanted:
            path.write_text(wanted[path], "utf-8")
    print(f"{len(wanted)} pages, {len(stale)} written")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
