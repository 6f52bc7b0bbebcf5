"""Hints for the certificate of fuse-shape-slice: operands that its guards admit."""

from __future__ import annotations

from onnx_passes.passes.hints import Hint, Spec, data, ints

HINTS: dict[str, Hint] = {
    "fuse-shape-slice[3]": Hint(
        {
            "x": data("a b c", "a b c d"),
            **{
                f"y.{place}": tuple(
                    Spec(node="Shape", of=("x",), attributes={"start": start, "end": end})
                    for start, end in ((0, 1), (1, 2), (1, 3))[place : place + 2]
                )
                for place in range(2)
            },
            "y.2": ints("1", "2 3"),
        },
        {"Concat.axis": (0,)},
    ),
}
