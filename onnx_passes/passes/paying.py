"""Which passes make rewrites that do not always pay.

A rewrite pays if the part of the model that it changes then costs less: nodes, bytes of the
file, or time on an engine. Most passes only make rewrites that pay. Those named here are
measured where a run has an objective (``onnx_passes.pipeline.paying``).
"""

from __future__ import annotations

from onnx_passes.passes.base import Pass

# A name here and no attribute of the class: a certificate holds the source of its pass.
MAY_NOT_PAY = frozenset(
    (
        "fuse-attention",
        "fuse-attention-heads",
        "fuse-matmul-add",
        "fuse-reshaped-gemm",
        "fuse-rotary-embedding",
        "move-scale-to-matmul",
        "sum-before-normalization",
    )
)
"""Names of passes of the library."""


def may_not_pay(pass_: Pass, rule: str) -> bool:
    """Whether the rewrites of a rule do not always pay.

    Args:
        pass_: The pass that applied the rule. It may apply rules of other passes.
        rule: Name of the rule: that of its pass, with a number where it has several.
    """
    return not pass_.always_pays or rule.partition("[")[0] in MAY_NOT_PAY
