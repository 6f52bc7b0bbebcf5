"""Hints for the certificate of fuse-instance-normalization: operands that its guards admit."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.passes.hints import Hint, Spec, data, filled, ints


def _over(dims: str, *axes: int) -> Hint:
    """Return what means over some axes of one tensor have in common."""
    operands = ints(" ".join(map(str, axes)))
    return Hint(
        {"x": data(dims), "mean.1": operands, "variance.1": operands},
        {"ReduceMean.axes": (list(axes),)},
    )


HINTS: dict[str, Hint] = {
    "fuse-instance-normalization": Hint(
        {
            "epsilon": filled("", 1e-5, 1e-3, 0.1),
            **{
                name: tuple(
                    Spec(dims, mixed=(0.5, 1.0, 2.0, -1.5))
                    for dims in ("c 1", "1 c 1", "c 1 1")
                )
                for name in "wb"
            },
        },
        {"ReduceMean.keepdims": (1, None), "ReduceMean.noop_with_empty_axes": (None,)},
        (ir.DataType.FLOAT,),
        cases=(_over("n c l", 2), _over("n c h w", 2, 3), _over("n c h w", 3, 2)),
    ),
}
