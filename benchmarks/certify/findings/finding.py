"""A fault of a public rule, and its replay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx.parser
import onnx.shape_inference
import onnx_ir as ir

from benchmarks.certify.public_rules import public_rules
from onnx_passes.verify.rules.proof import Fault
from onnx_passes.verify.rules.rule_fuzzing import Examiner


@dataclass(frozen=True)
class Finding:
    """One fault.

    Attributes:
        rule: Label of the rule, as in ``public_rules``.
        fault: What is wrong, in one sentence.
        graph: The model before, as ONNX text without its header: inputs, outputs, nodes, and
            initializers where there are any.
        feeds: A value for every input.
        opset: Of the main domain.
        also: Other rules with the same fault.
        inferred: Whether types and shapes of inner values are in the model.
    """

    rule: str
    fault: str
    graph: tuple[str, ...]
    feeds: Mapping[str, Any] = field(default_factory=dict)
    opset: int = 18
    also: Sequence[str] = ()
    inferred: bool = True

    def model(self) -> ir.Model:
        """Return the model before the rule is applied."""
        inputs, outputs, nodes, *initializers = self.graph
        header = f'<ir_version: 10, opset_import: ["" : {self.opset}, "com.microsoft" : 1]>'
        held = f"<{', '.join(initializers)}>" if initializers else ""
        proto = onnx.parser.parse_model(
            f"{header}\nfound ({inputs}) => ({outputs}) {held} {{ {nodes} }}"
        )
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
