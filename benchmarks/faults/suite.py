"""All planted faults."""

from __future__ import annotations

from benchmarks.faults import blind, edges, form, hidden, kinds, plain, unseen

FAULTS, INNOCENTS = form.read(plain.TEXT, hidden.TEXT, edges.TEXT, blind.TEXT, unseen.TEXT)
KINDS = form.read(kinds.TEXT, at="*", needs="adversarial", opset="21")
"""Passes that are wrong everywhere, and right ones."""

NOT_YET = {
    # No sample is so large that the Loop stops early.
    "iterations-assumed",
    # Near the greatest number of a type a tolerance holds nothing.
    "overflow-cancelled",
    "power-by-root",
    # At size 1 right rewrites fail as well, and one of them is named.
    "odd-one-kept",
}
"""Faults that the gate does not catch, or not trace, under the setting that they name."""

NOT_YET_SPARED = frozenset(
    {
        # ONNX Runtime's pool of size 2 makes one element of one, and the definition none.
        "odd-one-kept",
    }
)
"""Right passes, on one model or on each, or without their fault, that the gate refuses."""
