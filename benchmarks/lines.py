"""Count what the lines of the package are: ``python benchmarks/lines.py``."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1] / "onnx_passes"
LATER = (
    *("passes/streamline", "passes/precision", "passes/quantised"),
    *("tuning", "data", "ops/bodies"),
)
"""What streamlining, precision and data sets added."""
KINDS = ("lines", "code", "signatures", "imports", "docstrings", "comments", "blank")


def kinds_of(path: Path) -> Counter[str]:
    """Return how many lines of a file are of each kind; a line is of the first that fits."""
    text = path.read_text("utf-8")
    lines = dict(enumerate(text.splitlines(), 1))
    kinds: dict[int, str] = {}
    for node in ast.walk(ast.parse(text)):
        kind, first, last = "code", 1, 0
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            kind, first, last = "docstrings", node.lineno, node.end_lineno or 0
        elif isinstance(node, ast.Import | ast.ImportFrom):
            kind, first, last = "imports", node.lineno, node.end_lineno or 0
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            starts = [node.lineno, *(each.lineno for each in node.decorator_list)]
            kind, first, last = "signatures", min(starts), node.lineno
            if isinstance(node, ast.FunctionDef):
                last = max(last, node.body[0].lineno - 1)
        for number in range(first, last + 1):
            if kinds.get(number) != "docstrings":
                kinds[number] = kind
    for number, line in lines.items():
        if kinds.get(number) != "docstrings" and not line.strip():
            kinds[number] = "blank"
        elif line.strip().startswith("#"):
            kinds.setdefault(number, "comments")
    return Counter(lines=len(lines), **Counter(kinds.get(n, "code") for n in lines))


def main() -> None:
    """Print a table of rooms."""
    rooms: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for path in sorted(ROOT.rglob("*.py")):
        place, found = path.relative_to(ROOT), kinds_of(path)
        later = place.as_posix().startswith(LATER)
        names = (place.parts[0] if len(place.parts) > 1 else "top", "all")
        for name in (*names, "all but these" if not later else "of these"):
            rooms[name] += found
    print("| room |", " | ".join(KINDS), "|\n|---|", "---|" * len(KINDS), sep="")
    for name, counts in sorted(rooms.items(), key=lambda item: -item[1]["lines"]):
        print(f"| {name} |", " | ".join(f"{counts[kind]:,}" for kind in KINDS), "|")


if __name__ == "__main__":
    main()
