"""Hints for the certificate of eliminate-noop-scatter: operands that its guards admit."""

from __future__ import annotations

from onnx_passes.passes.hints import Hint, Spec, data


def _scattered(dims: str, indices: Spec, updates: str, **axis: object) -> Hint:
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
HINTS: dict[str, Hint] = {
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
}
