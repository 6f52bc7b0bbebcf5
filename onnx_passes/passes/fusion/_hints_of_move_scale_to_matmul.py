"""Hints for the certificate of move-scale-to-matmul: operands that its guards admit."""

from __future__ import annotations

import onnx_ir as ir

from onnx_passes.passes.hints import Hint, Spec, data, filled, ints

_MOVED: tuple[dict[str, tuple[Spec, ...]], ...] = (
    {},
    {"moved.1": ints("a 2 e", "-1", "0 e 2")},
    {"moved.1": (Spec("a 3", along=1),)},
    {"moved.1": ints("0"), "moved.2": ints("e"), "moved.3": ints("1")},
    {"moved.1": data("2*e b")},
)
HINTS: dict[str, Hint] = {
    **{
        f"move-scale-to-matmul[{first + index}]": Hint(
            {
                "x": (Spec(node="MatMul", of=("left", "weights")),),
                "left": data("a d"),
                "weights": filled("d 2*e", 0.5, 2.0, -1.5),
                "c": filled("", 0.5, 8.0, -2.0),
                **moved,
            },
            {"Reshape.allowzero": (None,), "GatherElements.axis": (1, -1)},
            (ir.DataType.FLOAT, ir.DataType.DOUBLE),
        )
        for first in (0, 5)
        for index, moved in enumerate(_MOVED)
    },
}
