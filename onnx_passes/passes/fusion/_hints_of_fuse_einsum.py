"""Hints for the certificate of fuse-einsum: equations, and operands that fit them."""

from __future__ import annotations

from onnx_passes.passes.hints import Hint, data

_PERMUTED = {"ij->ji": "a b", "ijk->jki": "a b c", "abc->cab": "a b c", "ab->ab": "a b"}
_PRODUCTS = {
    "ij,jk->ik": ("a b", "b c"),
    "bij,bjk->bik": ("n a b", "n b c"),
    "bij,jk->bik": ("n a b", "b c"),
    "jk,ij->ik": ("b c", "a b"),
}
HINTS: dict[str, Hint] = {
    "fuse-einsum[0]": Hint(
        {},
        cases=tuple(
            Hint({"x": data(dims)}, {"Einsum.equation": (equation,)})
            for equation, dims in _PERMUTED.items()
        ),
    ),
    "fuse-einsum[1]": Hint(
        {},
        cases=tuple(
            Hint({"x": data(left), "w": data(right)}, {"Einsum.equation": (equation,)})
            for equation, (left, right) in _PRODUCTS.items()
        ),
    ),
}
