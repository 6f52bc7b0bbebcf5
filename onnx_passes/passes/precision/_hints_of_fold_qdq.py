"""Hints for the certificate of fold-qdq: operands that its guards admit."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.passes.hints import Hint, Spec, filled


def _grids(points: str, *zeros: float) -> Hint:
    """Return integers of both kinds, with scales and zero points that agree."""
    cases = (
        Hint(
            {
                "q": (Spec("a b", dtype=kind), Spec("b", dtype=kind)),
                **{name: filled("", scale) for name in "st"},
                **{name: filled("", zero, dtype=kind) for name in points},
            }
        )
        for kind in (ir.DataType.UINT8, ir.DataType.INT8)
        for scale in (0.5, 0.013, 3.0)
        for zero in zeros
    )
    return Hint({}, cases=tuple(cases), types=(ir.DataType.FLOAT,), since=13)


HINTS: dict[str, Hint] = {
    "fold-qdq[0]": _grids("zu", 0.0, 7.0),
    "fold-qdq[1]": _grids("u", 0.0),
}
