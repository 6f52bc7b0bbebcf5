"""Hints for those passes of this project whose guards random shapes do not meet."""

from __future__ import annotations

import math
from typing import Any

import onnx_ir as ir

from onnx_passes.verify.rules.hints import Hint, Spec, data, filled, ints
from onnx_passes.verify.rules.hints_of_quantised import HINTS as QUANTISED

_LAST = ints("-1", "-1", "-1", "-2 -1")
_WIDTH = ir.DataType.FLOAT

_SQUARES = {
    "x": data("b s d", "s d", "b h s d"),
    "variance.1": _LAST,
    "epsilon": filled("", 1e-5, 1e-6, 1e-12, 0.1),
}
_MEAN = {
    "ReduceMean.axes": ([-1],),
    "ReduceMean.keepdims": (1, None),
    "ReduceMean.noop_with_empty_axes": (None,),
}
_PRECISE = (ir.DataType.FLOAT, ir.DataType.DOUBLE)
_OF_SQUARES = Hint(_SQUARES, _MEAN, _PRECISE, 23)
_OF_DEVIATIONS = Hint({**_SQUARES, "mean.1": _LAST}, _MEAN, _PRECISE, 17)
_CAST_NORMALIZATION = Hint(
    {"x": data("b s d", "s d"), "s": filled("d", 1.0, dtype=_WIDTH)},
    {"Cast.to": (int(ir.DataType.FLOAT16),)},
    (ir.DataType.FLOAT16,),
)
_HEADS = {
    "Attention.scale": (0.5, 0.25, None),
    "Attention.q_num_heads": (None,),
    "Attention.kv_num_heads": (None,),
}
_FACTOR = Hint(
    {
        "q": data("b h s d"),
        "k": data("b h t d"),
        "v": data("b h t e"),
        "c": filled("", 0.5, 2.0, 8.0, 0.125),
        "Attention.3": data("s t"),
    },
    _HEADS,
    (_WIDTH,),
    23,
)
_SIDE_BY_SIDE = {
    "q": data("b s h*r 2*d"),
    "k": data("b t h 2*d"),
    "v": data("b t h e"),
    "Attention.3": data("s t"),
}
_MOVED: tuple[dict[str, tuple[Spec, ...]], ...] = (
    {},
    {"moved.1": ints("a 2 e", "-1", "0 e 2")},
    {"moved.1": (Spec("a 3", along=1),)},
    {"moved.1": ints("0"), "moved.2": ints("e"), "moved.3": ints("1")},
    {"moved.1": data("2*e b")},
)
_TABLE = tuple(
    Spec(dims, doubled=True) for dims in ("s 2*e", "1 1 s 2*e", "1 s 2*e", "b 1 s 2*e")
)
_JOINED = Spec(node="Concat", of=("half", "half"), attributes={"axis": -1})


def _bounded(operator: str, end: float) -> Hint:
    """Return operands that bound a tensor by nothing: the end of its type, or itself."""
    bounds = (*filled("", end), *filled("", end), Spec("1", fill=(end,)), Spec(of=("x",)))
    inputs = {f"{operator}.{index}": bounds for index in (1, 2)}
    return Hint({"x": data("a b", "a", "a b c"), **inputs})


def _scattered(dims: str, indices: Spec, updates: str, **axis: Any) -> Hint:
    """Return a tensor with indices that fit it, and with what they put there."""
    return Hint(
        {"x": data(dims), "i": (indices,), "u": data(updates)},
        {f"{name}.axis": (axis.get("axis"),) for name in ("ScatterElements", "Scatter")},
    )


_ALL_ELEMENTS = tuple(
    _scattered(dims, Spec(dims, along=along), dims, axis=axis)
    for dims, along, axis in (
        *(("a b", 0, None), ("a b", 0, 0), ("a b", 1, 1), ("a b c", -1, -1), ("a", 0, 0)),
    )
)
_NO_ELEMENT = tuple(
    _scattered(dims, Spec(none, along=0), none, axis=axis)
    for dims, none, axis in (("a b", "0 b", None), ("a b", "0 b", 0), ("a b c", "a 0 c", 1))
)


def _over(dims: str, *axes: int) -> Hint:
    """Return what means over some axes of one tensor have in common."""
    operands = ints(" ".join(map(str, axes)))
    return Hint(
        {"x": data(dims), "mean.1": operands, "variance.1": operands},
        {"ReduceMean.axes": (list(axes),)},
    )


_ZERO, _ONE, _ALL_BITS = (
    Hint(
        {
            "x": data("a b", "b", "a b c"),
            "c": tuple(Spec(dims, fill=numbers) for dims in ("", "", "1", "b")),
        }
    )
    for numbers in ((0.0, -0.0), (1.0,), (-1.0,))
)

HINTS: dict[str, Hint] = {
    **{
        f"eliminate-noop-arithmetic[{index}]": hint
        for hint, indices in (
            (_ZERO, (0, 1, 6, 7, 9, 10, 11, 12, 15, 16, 18, 19)),
            (_ONE, (2, 3, 4, 5, 13, 14)),
            (_ALL_BITS, (8, 17)),
        )
        for index in indices
    },
    "eliminate-noop-clip[1]": _bounded("Max", -math.inf),
    "eliminate-noop-clip[2]": _bounded("Min", math.inf),
    "eliminate-noop-expand[1]": Hint(
        {},
        cases=tuple(
            Hint({"x": data(dims), "Tile.1": ints(ones, ones, twos)})
            for dims, ones, twos in (("a b", "1 1", "1 2"), ("a b c", "1 1 1", "2 1 1"))
        ),
    ),
    "eliminate-noop-scatter[0]": Hint(
        {},
        cases=(
            _scattered("a b", Spec("a 1", along=0), "a b"),
            _scattered("a b c", Spec("a 1", along=0), "a b c"),
            _scattered("a", Spec("a 1", along=0), "a"),
        ),
    ),
    "eliminate-noop-scatter[3]": Hint(
        {},
        cases=(
            _scattered("a b", Spec("0 1", along=0), "0 b"),
            _scattered("a b c", Spec("0 2", along=0), "0 c"),
        ),
    ),
    **{
        f"eliminate-noop-scatter[{index}]": Hint({}, cases=cases)
        for first, cases in ((1, _ALL_ELEMENTS), (4, _NO_ELEMENT))
        for index in (first, first + 1)
    },
    "fuse-attention-heads[0]": Hint(_SIDE_BY_SIDE, _HEADS, (_WIDTH,), 23),
    "fuse-attention-heads[1]": Hint(
        {
            **_SIDE_BY_SIDE,
            **dict.fromkeys(("q_rotated.1", "q_rotated.2"), data("b s d")),
            **dict.fromkeys(("k_rotated.1", "k_rotated.2"), data("b t d")),
        },
        {
            **_HEADS,
            "RotaryEmbedding.num_heads": (None,),
            "RotaryEmbedding.rotary_embedding_dim": (None,),
        },
        (_WIDTH,),
        23,
    ),
    "fuse-attention[0]": Hint(
        {
            "q": data("b h s d"),
            "k": data("b h t d", "b h t d", "b t h d"),
            "v": data("b h t e"),
            "c": filled("", 0.5, 2.0, 8.0, 0.125),
            "f": filled("", 0.5, 2.0),
            "zero": filled("", 0.0),
            "mask": tuple(
                Spec(dims, mixed=(0.0, -1.0, 2.5, *low))
                for dims in ("s t", "1 1 s t", "b h s t", "1 t")
                for low in ((), (-1e9,), (-math.inf,))
            ),
        },
        {
            "Transpose.perm": ([0, 1, 3, 2], [0, 1, 3, 2], [0, 2, 3, 1]),
            "Softmax.axis": (-1, 3, None),
        },
        (_WIDTH,),
        23,
    ),
    "fuse-attention[1]": _FACTOR,
    "fuse-attention[2]": _FACTOR,
    "fuse-attention[3]": Hint(
        {
            "q": data("b h*r s d"),
            "k": data("b h t d"),
            "v": data("b h t e"),
            "k_axes": ints("2"),
            "v_axes": ints("2"),
            "k_sizes": ints("b h r t d"),
            "v_sizes": ints("b h r t e"),
            "k_shape": ints("b h*r t d"),
            "v_shape": ints("b h*r t e"),
            "Attention.3": data("s t"),
        },
        _HEADS,
        (_WIDTH,),
        23,
    ),
    "fuse-group-normalization[0]": Hint(
        {
            "x": data("n g*p h w", "n g*p h"),
            "groups.1": ints("0 g -1", "n g -1"),
            "s": filled("g", 1.0),
            "b": filled("g", 0.0),
            "y.1": (Spec(node="Shape", of=("x",)),),
        },
        {"Reshape.allowzero": (None,)},
        (_WIDTH,),
        21,
    ),
    "fuse-group-normalization": Hint(
        {
            "x": data("n 2*p h w", "n 2*p h"),
            "s": filled("2*p", 1.0),
            "b": filled("2*p", 0.0),
            "w": data("2*p 1 1", "2*p 1", "1 2*p 1 1", ""),
        },
        {"GroupNormalization.num_groups": (1, 2)},
        (_WIDTH,),
    ),
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
        (_WIDTH,),
        cases=(_over("n c l", 2), _over("n c h w", 2, 3), _over("n c h w", 3, 2)),
    ),
    "fuse-layer-normalization[0]": _OF_DEVIATIONS,
    "fuse-layer-normalization[1]": _OF_DEVIATIONS,
    "fuse-layer-normalization[2]": _OF_DEVIATIONS,
    "fuse-layer-normalization[7]": _CAST_NORMALIZATION,
    "fuse-leaky-relu": Hint({"a": filled("", 0.1, 0.01, 0.25, 1.0)}, {}, (_WIDTH,)),
    "fuse-reshaped-gemm": Hint(
        {
            "x": data("a b d"),
            "rows.1": ints("a*b d", "-1 d"),
            "w": data("d e"),
            "t.2": data("e", "1 e", "1"),
            "y.1": ints("a b e", "-1 b e", "a b -1"),
        },
        {
            "Flatten.axis": (2, -1),
            "Gemm.transA": (None,),
            "Gemm.transB": (None, 0),
            "Gemm.alpha": (None, 1.0),
            "Gemm.beta": (None, 1.0),
            "Reshape.allowzero": (None,),
        },
        (_WIDTH, ir.DataType.DOUBLE),
    ),
    "fuse-reshaped-transpose": Hint(
        {
            "x": data("a b c d"),
            "merged": ints("a*b c d", "-1 c d", "a*b c -1"),
            "parted": ints("a b d c", "a b d -1", "-1 b d c"),
        },
        {"Reshape.allowzero": (None, 1)},
    ),
    "fuse-rms-normalization[0]": _OF_SQUARES,
    "fuse-rms-normalization[1]": _OF_SQUARES,
    "fuse-rms-normalization[2]": _OF_SQUARES,
    "fuse-rms-normalization[5]": _CAST_NORMALIZATION,
    "fuse-rotary-embedding": Hint(
        {
            "x": data("b h s 2*e"),
            "half": data("s e", "1 1 s e", "b 1 s e"),
            "cos": (*_TABLE, _JOINED),
            "sin": (*_TABLE, _JOINED),
            "low.1": ints("0"),
            "low.2": ints("e"),
            "low.3": ints("3", "-1"),
            "high.1": ints("e"),
            "high.2": ints("2*e", str(2**63 - 1)),
            "high.3": ints("3", "-1"),
            "low.4": ints("1"),
            "high.4": ints("1"),
            "first.1": ints("e e"),
        },
        {"Concat.axis": (-1, 3), "Split.axis": (-1, 3), "Split.num_outputs": (2, None)},
        (_WIDTH, ir.DataType.FLOAT16),
        23,
    ),
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
            (_WIDTH, ir.DataType.DOUBLE),
        )
        for first in (0, 5)
        for index, moved in enumerate(_MOVED)
    },
    "sum-before-normalization": Hint(
        {
            "x": data("b s d", "b s d", "1 s d"),
            "y": data("b s d"),
            "normal.1": data("d"),
            "normal.2": data("d"),
        },
        {
            **dict.fromkeys(("LayerNormalization.axis", "RMSNormalization.axis"), (-1, 2)),
            **dict.fromkeys(
                ("LayerNormalization.stash_type", "RMSNormalization.stash_type"), (None,)
            ),
        },
        (_WIDTH,),
        23,
    ),
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
    "fuse-silu": Hint({"a": filled("", 1.702, 0.5, 2.0, 0.1)}, {}, (_WIDTH,), 24),
}
"""By name of a rule, or of the pass for all of its rules."""


def hint_of(name: str | None) -> Hint | None:
    """Return the hint of a rule, by its own name or by that of its pass."""
    own = name or ""
    known = {**HINTS, **QUANTISED}
    return known.get(own, known.get(own.partition("[")[0]))
