"""Hints of fusions: the operands of attention, of rotary embeddings and of normalizations."""

import math

import onnx_ir as ir

from onnx_passes.passes.hints import Hint, Hints, Spec, data, filled, ints

_FLOAT = (ir.DataType.FLOAT,)

HEADS = {
    "Attention.scale": (0.5, 0.25, None),
    "Attention.q_num_heads": (None,),
    "Attention.kv_num_heads": (None,),
}
"""Attributes of an Attention."""

_SCALES = filled("", 0.5, 2.0, 8.0, 0.125)
_SCALED = Hint(
    {
        "q": data("b h s d"),
        "k": data("b h t d"),
        "v": data("b h t e"),
        "c": _SCALES,
        "Attention.3": data("s t"),
    },
    HEADS,
    _FLOAT,
    23,
)
ATTENTION: Hints = {
    "formula": Hint(
        {
            "q": data("b h s d"),
            "k": data("b h t d", "b h t d", "b t h d"),
            "v": data("b h t e"),
            "c": _SCALES,
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
        _FLOAT,
        23,
    ),
    "factor-on-query": _SCALED,
    "factor-on-key": _SCALED,
    "repeated-heads": Hint(
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
        HEADS,
        _FLOAT,
        23,
    ),
}

_SIDE_BY_SIDE = {
    "q": data("b s h*r 2*d"),
    "k": data("b t h 2*d"),
    "v": data("b t h e"),
    "Attention.3": data("s t"),
}
_TABLES = {
    **dict.fromkeys(("q_rotated.1", "q_rotated.2"), data("b s d")),
    **dict.fromkeys(("k_rotated.1", "k_rotated.2"), data("b t d")),
}
_ROTARY = {
    "RotaryEmbedding.num_heads": (None,),
    "RotaryEmbedding.rotary_embedding_dim": (None,),
}
_CACHE = {
    "Attention.3": data("1", "1 1"),
    "Attention.4": data("b h p 2*d"),
    "Attention.5": data("b h p e"),
}
_CACHED = {**HEADS, "Attention.is_causal": (None, 0)}
ATTENTION_HEADS: Hints = {
    "plain": Hint(_SIDE_BY_SIDE, HEADS, _FLOAT, 23),
    "rotated": Hint({**_SIDE_BY_SIDE, **_TABLES}, {**HEADS, **_ROTARY}, _FLOAT, 23),
    "cached": Hint({**_SIDE_BY_SIDE, **_CACHE}, _CACHED, _FLOAT, 23),
    "rotated-cached": Hint(
        {**_SIDE_BY_SIDE, **_TABLES, **_CACHE}, {**_CACHED, **_ROTARY}, _FLOAT, 23
    ),
}

_TURNED = (ir.DataType.FLOAT, ir.DataType.FLOAT16)
_HALVES = (
    *(Spec(dims, doubled=True) for dims in ("s 2*e", "1 1 s 2*e", "1 s 2*e", "b 1 s 2*e")),
    Spec(node="Concat", of=("half", "half"), attributes={"axis": -1}),
)
ROTARY_EMBEDDING: Hints = {
    "*": Hint(
        {
            "x": data("b h s 2*e"),
            "half": data("s e", "1 1 s e", "b 1 s e"),
            "cos": _HALVES,
            "sin": _HALVES,
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
        _TURNED,
        23,
    )
}

_PARTIAL = {"x": data("b h s 6"), **dict.fromkeys(("turned.1", "turned.2"), data("b s 2"))}
_AXES = {
    "Concat.axis": (-1, 3),
    "Split.axis": (-1, 3),
    "Split.num_outputs": (None,),
    "RotaryEmbedding.num_heads": (None, 0),
    "RotaryEmbedding.rotary_embedding_dim": (None, 0),
    "RotaryEmbedding.interleaved": (None, 0, 1),
}
WIDE_ROTARY_EMBEDDING: Hints = {
    "slices": Hint(
        {
            **_PARTIAL,
            "low.1": ints("0"),
            "low.2": ints("4"),
            "low.3": ints("3", "-1"),
            "low.4": ints("1"),
            "high.1": ints("4"),
            "high.2": ints("6", "5", str(2**63 - 1)),
            "high.3": ints("3", "-1"),
            "high.4": ints("1"),
        },
        _AXES,
        _TURNED,
        23,
    ),
    "split": Hint({**_PARTIAL, "low.1": ints("4 2")}, _AXES, _TURNED, 23),
}

LAST = ints("-1", "-1", "-1", "-2 -1")
"""Axes of a mean."""
SQUARES = {
    "x": data("b s d", "s d", "b h s d"),
    "variance.1": LAST,
    "epsilon": filled("", 1e-5, 1e-6, 1e-12, 0.1),
}
"""Operands of the formula of a normalization by a mean of squares."""
MEAN = {
    "ReduceMean.axes": ([-1],),
    "ReduceMean.keepdims": (1, None),
    "ReduceMean.noop_with_empty_axes": (None,),
}
"""Attributes of the mean."""
CAST_NORMALIZATION = Hint(
    {"x": data("b s d", "s d"), "s": filled("d", 1.0, dtype=ir.DataType.FLOAT)},
    {"Cast.to": (int(ir.DataType.FLOAT16),)},
    (ir.DataType.FLOAT16,),
)
"""A normalization between casts."""
