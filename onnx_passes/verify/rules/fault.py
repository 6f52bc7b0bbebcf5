"""What a rule broke, with both models and the tensors that show it."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.model.diff import canonical_lines
from onnx_passes.verify.rules.proof import Counterexample

_SHOWN = 64
"""Elements of an array that a report shows."""


@dataclass(frozen=True, eq=False)
class Fault:
    """What a rule broke, with all it takes to see it.

    Attributes:
        reason: What is wrong, in one sentence.
        kind: The surrounding that the model was built with.
        before: The model that the rule was applied to.
        after: What the rule made of it; None where it made nothing.
        found: Inputs and outputs, where the values differ.
        breaks: "values" for any contract, "bits" for equality alone, "model" if the result is
            not a valid model, "rule" if the rule itself fails. "engine" if the engine runs the
            original and not the result.
        sort: What it has in common with faults of the same cause, as far as a text can say.
    """

    reason: str
    kind: str
    before: ir.Model
    after: ir.Model | None = None
    found: Counterexample | None = None
    breaks: str = "values"
    sort: str = ""

    def text(self) -> str:
        """Return both models as text, with the tensors that show the difference."""
        lines = [f"{self.reason} ({self.kind})", "before:", *_indented(self.before)]
        if self.after is not None:
            lines += ["after:", *_indented(self.after)]
        if self.found is not None:
            sides = {
                "input": self.found.feeds,
                "expected": self.found.expected,
                "actual": self.found.actual,
            }
            lines += [
                f"{word} {name} = {array.dtype}{list(array.shape)} {_numbers(array)}"
                for word, side in sides.items()
                for name, array in side.items()
            ]
        return "\n".join(lines)


def _numbers(array: Array) -> str:
    """Return the numbers of an array; of many, the first few."""
    if array.size <= _SHOWN:
        return str(array.tolist())
    return f"[{', '.join(map(str, array.reshape(-1)[:_SHOWN].tolist()))}, ...]"


def _indented(model: ir.Model) -> list[str]:
    return [f"  {line}" for line in canonical_lines(model)]
