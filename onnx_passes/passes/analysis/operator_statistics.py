"""Count operators and parameters."""

from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.model.walk import all_tensors, node_count, operator_histogram, weight_bytes


@dataclass(frozen=True)
class Statistics:
    """What a model consists of, subgraphs and functions included.

    ``operators`` has the most frequent first. ``parameters`` counts elements of weights.
    """

    nodes: int
    operators: dict[str, int]
    parameters: int
    weight_bytes: int


@passes.register("analysis")
class OperatorStatistics(passes.Analysis):
    """Count operators and parameters.

    Finds: the number of nodes, in all and by operator, and the number and bytes of the
    weights; subgraphs and functions are included, a tensor that is used twice counts once.
    """

    def analyse(self, model: ir.Model) -> Statistics:
        """Return the counts, and note them for the report."""
        found = Statistics(
            nodes=node_count(model),
            operators=operator_histogram(model),
            parameters=sum(t.size for t in all_tensors(model)),
            weight_bytes=weight_bytes(model),
        )
        operators = ", ".join(f"{count} {name}" for name, count in found.operators.items())
        self.context.notes.append(
            f"{found.nodes} nodes ({operators}), {found.parameters:,} parameters, "
            f"{found.weight_bytes:,} bytes"
        )
        return found
