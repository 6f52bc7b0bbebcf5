"""Merge Clip and Relu in a row into one Clip."""

from collections.abc import Iterator
from functools import partial

from onnx_passes import passes
from onnx_passes.passes.base import MatchContext, Op, Rule, Value, Var
from onnx_passes.passes.common.bounds import ClipBounds, clip_bounds_of, gives_attributes
from onnx_passes.passes.common.matches import node_of, opset_at

PAIRS = (("Clip", "Clip"), ("Relu", "Clip"), ("Clip", "Relu"))
"""Inner and outer operator."""


@passes.verify.equality
@passes.register("fuse")
class MergeClips(passes.Transformation, passes.RewriteRuleSetPass):
    """Merge Clip and Relu in a row into one Clip.

    Before: ``Clip(Clip(x, 0, 1), 2, 3)``, ``Clip(Relu(x), -1, 6)``, ``Relu(Clip(x, -1, 1))``
    After:  ``Clip(x, 2, 2)``, ``Clip(x, 0, 6)``, ``Clip(x, 0, 1)``

    Sound because ``Clip(x, a, b)`` is ``min(max(x, a), b)``, also where ``a`` is above ``b``:
    it keeps order, and the bounds of two in a row are what the second makes of the first's.
    Both let NaN through. A bound that is left out is the lowest or highest finite number, so
    that a Clip without bounds is not nothing: it makes infinities finite.

    Leaves alone: bounds that are computed, that callers may override, or that are NaN; two
    Relu, which `eliminate-repeated-unary` merges; Clip without bounds only, or of
    tensors whose type is not known; a Clip that something else reads.
    """

    exclusive = True

    def rules(self) -> Iterator[Rule]:
        for pair in PAIRS:
            yield Rule(partial(_pair, *pair), _merged, _have_bounds)


def _pair(inner: str, outer: str, op: Op, x: Var) -> Var:
    t = getattr(op, inner)(x, _allow_other_inputs=True, _outputs=["t"])
    return getattr(op, outer)(t, _allow_other_inputs=True, _outputs=["y"])


def _have_bounds(context: MatchContext, x: Value, t: Value, y: Value, **_: object) -> bool:
    # The first Clip of all had no bound where none was given.
    return opset_at(context) >= 6 and _bounds(x, t, y) is not None


def _merged(op: Op, x: Value, t: Value, y: Value, **_: object) -> Value:
    bounds, attributes = _bounds(x, t, y), gives_attributes(node_of(t), node_of(y))
    assert bounds is not None, "check has seen to it"
    assert attributes is not None, "there are no bounds otherwise"
    return bounds.build(op, x, attributes=attributes)


def _bounds(x: Value, t: Value, y: Value) -> ClipBounds | None:
    if gives_attributes(node_of(t), node_of(y)) is None:
        return None
    known = next((v.dtype for v in (x, t, y) if v.dtype is not None), None)
    told = [clip_bounds_of(node_of(v), known) for v in (t, y)]
    known = next((bounds.dtype for bounds in told if bounds is not None), known)
    inner, outer = clip_bounds_of(node_of(t), known), clip_bounds_of(node_of(y), known)
    if inner is None or outer is None or inner.dtype != outer.dtype:
        return None
    return inner.then(outer)
