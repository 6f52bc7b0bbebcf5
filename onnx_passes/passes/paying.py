"""Which passes make rewrites that do not always pay.

A rewrite pays if the part of the model that it changes then costs less: nodes, bytes of the
file, or time on an engine. Most passes only make rewrites that pay. Those whose class sets
``always_pays = False`` are measured where a run has an objective
(``onnx_passes.pipeline.objective``).
"""

from __future__ import annotations

from onnx_passes.passes.base import Pass
from onnx_passes.passes.registry import imported_pass


def may_not_pay(pass_: Pass, rule: str) -> bool:
    """Whether the rewrites of a rule do not always pay.

    Args:
        pass_: The pass that applied the rule. It may apply rules of other passes.
        rule: Name of the rule: that of its pass, with a number where it has several.
    """
    owner = imported_pass(rule.partition("[")[0])
    return not pass_.always_pays or (owner is not None and not owner.always_pays)
