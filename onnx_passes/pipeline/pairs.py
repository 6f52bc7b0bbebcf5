"""Pairs of models between which a fault lies, those that differ least first."""

from __future__ import annotations

from dataclasses import dataclass, replace

import onnx_ir as ir

from onnx_passes.pipeline.attempt import Attempt, Attempts
from onnx_passes.pipeline.culprit import Search
from onnx_passes.verify.snapshot import Change


@dataclass(frozen=True)
class Pair:
    """Two models between which a fault may lie.

    Attributes:
        before: The one that is right.
        after: The one that is not.
        what: What is between them, in a few words.
        steps: The passes between them; empty for those of the failure.
    """

    before: ir.Model
    after: ir.Model
    what: str
    steps: tuple[str, ...] = ()


def pairs_of_pass(
    attempts: Attempts, failed: Attempt, search: Search, name: str, steps: tuple[str, ...] = ()
) -> list[Pair]:
    """Return the pairs of models around what is wrong in a pass.

    Args:
        attempts: Runs the pass.
        failed: What it made with all its rewrites.
        search: What was found in it.
        name: What to call the pass.
        steps: The pass, as the pipeline writes it.
    """
    pairs: list[Pair] = []
    before = attempts.before.model
    if search.culprits:
        pairs += _around(attempts, failed, search, name)
        rest = search.rest
        if rest is not None and rest.change is not Change.NONE:
            numbers = ", ".join(str(c.application.number) for c in search.culprits)
            what = f"what rewrite {numbers} of {name} changed"
            pairs.append(Pair(rest.model, failed.model, what))
    pairs.append(Pair(before, failed.model, f"what {name} changed"))
    return [replace(pair, steps=steps) for pair in pairs]


def _around(attempts: Attempts, failed: Attempt, search: Search, name: str) -> list[Pair]:
    one = search.culprits[0].application
    if one.key not in failed.keys:
        return []  # it only applies once others are left out
    count = failed.keys.index(one.key) + 1
    try:
        good, bad = (
            attempts.apply(count=n, expected=failed.keys[:n])[0] for n in (count - 1, count)
        )
    except Exception:
        # A pass that does not repeat what it did is shown as a whole.
        return []
    return [
        Pair(good, bad, f"what rewrite {one.number} of {name} changed"),
        Pair(attempts.before.model, bad, f"what {name} changed up to rewrite {one.number}"),
    ]
