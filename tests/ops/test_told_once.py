"""Operators are named in ``ops``, in patterns and in tests; elsewhere ever less.

There were 1,808 names before operators were described in one place.
"""

import ast
from pathlib import Path

import onnx

import onnx_passes

ROOT = Path(onnx_passes.__file__).parent
NAMES = {s.name for s in onnx.defs.get_all_schemas_with_history() if s.domain == ""}
AMBIGUOUS = {
    *("Constant", "If", "Loop", "Scan", "Identity", "Optional", "Range", "Shape", "Size")
}
"""Names that also mean something else to a reader of code."""
TOLD = {"ops", "configs"}
PATTERNS = {
    *("precision", "eliminate", "fusion", "lowering"),
    *("inline", "streamline", "quantised"),
}
FORMS = ("certifying", "models", "planted")
"""Where random models get the forms from that passes look for: patterns, of 552 names."""
MOST = 385


def mentions():
    """Return how often a string is the name of an operator, by file outside of ``ops``."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).parts
        if parts[0] in TOLD or (parts[0] == "passes" and parts[1] in PATTERNS):
            continue
        if parts[: len(FORMS)] == FORMS:
            continue
        tree = ast.parse(path.read_text("utf-8"))
        docs = {n.value for n in ast.walk(tree) if isinstance(n, ast.Expr)}
        words = [
            node.value.split()
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and node not in docs
        ]
        # A text of several words counts if it is a table of names.
        count = sum(
            len(w) for w in words if w and NAMES.issuperset(w) and w[0] not in AMBIGUOUS
        )
        if count:
            found["/".join(parts)] = count
    return found


def test_operators_are_named_outside_of_ops_ever_less():
    found = mentions()
    total = sum(found.values())
    worst = sorted(found.items(), key=lambda pair: -pair[1])[:10]
    assert total <= MOST, f"{total} names of operators, most of them in {worst}"
    assert total >= MOST - 20, f"only {total} are left: lower MOST"
