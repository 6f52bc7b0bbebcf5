"""A fault of a public rule, and its replay."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx.parser
import onnx.shape_inference
import onnx_ir as ir

from benchmarks.certify.public_rules import public_rules
from benchmarks.faults.form import entries
from onnx_passes.verify.rules.proof import Fault
from onnx_passes.verify.rules.rule_fuzzing import Examiner


@dataclass(frozen=True)
class Finding:
    """One fault.

    Attributes:
        rule: Label of the rule, as in ``public_rules``.
        fault: What is wrong, in one sentence.
        text: The model before, as ONNX text without its header.
        feeds: A value for every input.
        opset: Of the main domain.
        also: Other rules with the same fault.
        inferred: Whether types and shapes of inner values are in the model.
    """

    rule: str
    fault: str
    text: str
    feeds: Mapping[str, Any]
    opset: int
    also: Sequence[str]
    inferred: bool

    def model(self) -> ir.Model:
        """Return the model before the rule is applied."""
        header = f'<ir_version: 10, opset_import: ["" : {self.opset}, "com.microsoft" : 1]>'
        proto = onnx.parser.parse_model(f"{header} found {self.text}")
        if self.inferred:
            proto = onnx.shape_inference.infer_shapes(proto)
        return ir.from_proto(proto)

    def samples(self, model: ir.Model) -> list[dict[str, Any]]:
        """Return the inputs in the types of the model; ones where none are given."""
        sample = {}
        for value in model.graph.inputs:
            assert value.dtype is not None
            assert value.shape is not None
            shape = [int(str(d)) for d in value.shape]
            given = self.feeds.get(str(value.name), 1)
            sample[str(value.name)] = np.broadcast_to(
                np.array(given, value.dtype.numpy()), shape
            ).copy()
        return [sample]


def findings(text: str) -> Iterator[Finding]:
    """Read a table of faults: ``RULE: FAULT``, and a line each for what the model is."""
    for row in entries(text):
        rule, _, fault = row[""][0].partition(": ")
        (also,), (opset,) = row.get("also", [""]), row.get("opset", ["18"])
        feeds = eval(f"dict({''.join(row.get('feed', ()))})")
        given = (int(opset), also.split(", ") if also else [], "inferred" not in row)
        yield Finding(rule, fault, row["model"][0], feeds, *given)


def replay(finding: Finding) -> Fault | None:
    """Apply the rule as it stands, and return what it breaks; None where it breaks nothing.

    Raises:
        LookupError: The installed onnxscript has no such rule.
    """
    rules = {public.label: public.rule for public in public_rules()}
    if finding.rule not in rules:
        raise LookupError(f"this onnxscript has no rule {finding.rule}")
    model = finding.model()
    examiner = Examiner(rules[finding.rule])
    return examiner.examine(model, "as found", finding.samples(model)).fault
