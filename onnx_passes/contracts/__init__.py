"""What a pass promises about the numbers, and the metrics promises are measured in.

A contract is *declared* on a pass class by a decorator, and enforced by the pipeline::

    @verify.equality
    @register()
    class MergeRelus(Transformation, RewriteRulePass): ...
"""

from onnx_passes.contracts import metrics
from onnx_passes.contracts.contract import (
    READS_ONLY,
    Contract,
    Equality,
    Metric,
    Tolerance,
    contracts_of,
    equality,
    metric,
    tolerance,
    weakest,
)

__all__ = [
    "READS_ONLY",
    "Contract",
    "Equality",
    "Metric",
    "Tolerance",
    "contracts_of",
    "equality",
    "metric",
    "metrics",
    "tolerance",
    "weakest",
]
