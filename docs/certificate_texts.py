"""What the pages of passes say of their certificates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from onnx_passes.plain import PlainMapping

VERDICTS = ("proved", "tested", "never fired", "undecided", "refuted")
"""From the strongest to the weakest."""


def level(lines: Sequence[PlainMapping]) -> str:
    """Return the verdicts on the rules of a pass: ``proved``, or ``proved 3, tested 1``."""
    counts = Counter(str(line["verdict"]) for line in lines)
    found = [verdict for verdict in VERDICTS if counts[verdict]]
    if len(found) == 1:
        return found[0]
    return ", ".join(f"{verdict} {counts[verdict]}" for verdict in found)


def summary(lines: Sequence[PlainMapping]) -> str:
    """Return what the verdicts of a certificate rest on, in one line."""
    models, firings, templates = (
        sum(line.get(key, 0) for line in lines) for key in ("models", "firings", "templates")
    )
    if any("changed" in line for line in lines):
        changed = sum(line.get("changed", 0) for line in lines)
        kind = _count(models, "random model")
        return f"**{level(lines)}** on {kind}; it changed {changed:,}"
    parts = [f"**{level(lines)}** ({_count(len(lines), 'rule')})"]
    if any(line["verdict"] == "proved" for line in lines):
        claims = [line.get("claim", "") for line in lines if line["verdict"] == "proved"]
        parts.append(f"proofs on {_count(templates, 'template')} {_covered(claims)}")
    if models:
        opsets = [opset for line in lines for opset in line.get("opsets", ())]
        types = {name for line in lines for name in line.get("types", ())}
        parts.append(
            f"property test with {_count(firings, 'firing')} on {_count(models, 'model')} of "
            f"opsets {min(opsets)} to {max(opsets)} and {_count(len(types), 'element type')}"
        )
    error = max(line.get("error", 0) for line in lines)
    if error:
        parts.append(f"largest error {error:.1g} of the largest element")
    if any(line.get("finite") for line in lines):
        parts.append("finite inputs only")
    return "; ".join(parts)


def _covered(claims: Sequence[str]) -> str:
    """Say whether proofs hold for every size, or for the shapes of the templates alone."""
    parts = [p for c in claims for p in c.split("; ") if p and not p.startswith("ieee")]
    everywhere = ["all sizes" in part for part in parts]
    if everywhere and all(everywhere):
        cut = any("and cuts" in part for part in parts)
        return f"for all sizes{' where Split and Slice cut as in these' if cut else ''}"
    return "some for all sizes, some for their own" if any(everywhere) else "of given sizes"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
