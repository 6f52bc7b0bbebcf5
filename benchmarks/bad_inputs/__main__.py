"""Run all bad inputs: ``python -m benchmarks.bad_inputs`` writes the page of maintainers.

With ``--check N`` each N-th is run, and held against the page.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path

from benchmarks.bad_inputs import commands, hostile, mixed
from benchmarks.bad_inputs.case import Case, End, run

PAGE = Path(__file__).parents[2] / "docs" / "maintainers" / "bad-inputs.md"
SOURCES: tuple[Callable[[Path], Iterable[Case]], ...] = (
    hostile.cases,
    commands.hostile,
    mixed.hostile,
)
INTRODUCTION = """\
# Bad inputs

What the program says of inputs that someone made to do harm. Words that someone mixed up are
in `tests/cli/test_bad_words.py`. `python -m benchmarks.bad_inputs` writes this page. It fails
if a command prints a traceback or a control character, has an internal error (exit code 70),
or is ended by a signal. Inputs that several commands are given are listed once. The folder
`benchmarks/bad_inputs` has the commands.
"""
HEAD = "| Exit code | Error | The first message | Inputs |\n|---|---|---|---|"


def table(ends: list[End]) -> list[str]:
    """Return the rows of a page: what ended alike is in one."""
    rows = []
    for code, error in sorted({(end.code, end.error) for end in ends}):
        alike = [end for end in ends if (end.code, end.error) == (code, error)]
        inputs = "; ".join(dict.fromkeys(end.case.told for end in alike))
        rows.append(f"| {code} | {error} | {alike[0].message} | {inputs} |")
    return rows


def listed(end: End, page: str) -> bool:
    """Return whether a page has an input in the row of its exit code and error."""
    rows = [r for r in page.splitlines() if r.startswith(f"| {end.code} | {end.error} | ")]
    return any(end.case.told in row[:-2].split(" | ")[-1].split("; ") for row in rows)


def main(every: int, page: str | None) -> int:
    """Run the inputs; return 1 if a command did what it must never do, or the page differs.

    Args:
        every: Each such input is run.
        page: What the ends are held against; None to write the page.
    """
    with tempfile.TemporaryDirectory() as folder:
        chosen = [case for cases in SOURCES for case in cases(Path(folder))][::every]
        ends = [run(case, Path(folder)) for case in chosen]
    faults = 0
    for end in ends:
        missing = page is not None and not listed(end, page)
        if end.faults or missing:
            faults += 1
            why = [*end.faults, *["is not on the page"] * missing]
            print(end.case.told, why, end.case.words, end.text[-2000:], sep="\n")
    if page is None:
        rows = "\n".join(table(ends))
        PAGE.write_text(f"{INTRODUCTION}\n{len(ends)} commands.\n\n{HEAD}\n{rows}\n")
    return 1 if faults else 0


if __name__ == "__main__":
    # Imported here once: each command is a child that shares them.
    import onnxruntime  # noqa: F401

    import onnx_passes.pipeline.run  # noqa: F401
    from onnx_passes.passes import registry

    registry.discover()
    checked = sys.argv[1:2] == ["--check"]
    step = int(sys.argv[2]) if checked else 1
    sys.exit(main(step, PAGE.read_text() if checked else None))
