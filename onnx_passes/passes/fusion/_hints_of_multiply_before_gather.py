"""Hints for the certificate of multiply-before-gather: a table of matrices, and its rows."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.passes.hints import Hint, Spec, data

_WEIGHTS = {"w": (Spec("3 b c", mixed=(-1.0, -0.5, 0.25, 1.0, 2.0)),), "x": data("2*a c 1")}
_KINDS = {"multiply-before-gather[0]": "2*a", "multiply-before-gather[1]": "2*a 1"}

HINTS: dict[str, Hint] = {
    name: Hint(
        {
            **_WEIGHTS,
            "i": (Spec(rows, mixed=(-3.0, -1.0, 0.0, 1.0, 2.0), dtype=ir.DataType.INT64),),
        },
        {"Gather.axis": (None, 0), "GatherND.batch_dims": (None, 0)},
        since=13,
    )
    for name, rows in _KINDS.items()
}
