"""Move the sign of thresholds that fall into the weights of the product before them."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.ops.bodies.operator_bodies import CUSTOM
from onnx_passes.passes.base import Op, Value
from onnx_passes.passes.common.matches import node_of
from onnx_passes.passes.common.rules import RulePass, TermRule, Values, call
from onnx_passes.passes.common.shapes import dims_of
from onnx_passes.passes.hints import Hint, Hints, Spec, data, filled
from onnx_passes.passes.quantised._quantisers import multi_threshold, table_of
from onnx_passes.passes.quantised.sort_thresholds import adds_exactly
from onnx_passes.passes.streamline._rule_constants import (
    along,
    at_axis,
    constant,
    floats,
    rank_of,
)

_FALLING = {"t": (Spec("3", mixed=(-1.0, 0.5, 2.0)),), "v": filled("", -1.0, 1.0)}
_FLOAT = (ir.DataType.FLOAT,)


@dataclass(frozen=True)
class _Turned:
    """A product with some channels of weights negated, and the thresholds that reads.

    ``signs`` has -1 for these channels, along ``axis`` of the weights. ``rows`` are thresholds
    and ``weights`` theirs, with the steps last; ``term`` is added to each channel.
    """

    signs: Array
    axis: int
    rows: Array
    weights: Array
    term: Array


@passes.verify.tolerance
@passes.register()
class MoveSignsToWeights(RulePass):
    """Move the sign of thresholds that fall into the weights of the product before them.

    Before: ``MultiThreshold(Conv(x, w), t, v)``, where the weights ``v`` of some channels are
            negative, as behind a BatchNormalization with negative factors
    After:  ``Add(MultiThreshold(Conv(x, w'), t', -v), a)``, where these channels of ``w`` are
            negated

    So hardware counts thresholds upwards in each channel. The same for ConvTranspose and for a
    MatMul by a matrix, and for weights behind a factor or a Transpose.

    Sound because a sum of negated products is the negated sum. It is at or above the float32
    next to the negated threshold exactly if the sum was below the threshold. NaN,
    which reaches no threshold, comes out otherwise: the pass speaks of finite numbers.
    The contract is a tolerance, which a level exceeds, because of NaN.

    Leaves alone: channels with weights of both signs; what something else reads before the
    thresholds; weights and thresholds that are computed; weights whose negation needs more
    bits, such as -8 in 4 bits; thresholds that differ along another axis; what is empty.
    """

    finite_only = True
    needs = ("shape-inference",)
    exclusive = True
    hints: ClassVar[Hints] = {
        "MatMul": Hint(
            {"x": data("a b"), "w": (Spec("b 3", mixed=(-1.0, 1.0, 2.0)),), **_FALLING},
            {},
            _FLOAT,
            13,
        ),
        "*": Hint(
            {
                "x": data("a b 6"),
                "w": (Spec("b b 2", mixed=(-1.0, 1.0, 2.0)),),
                "b": filled("b", 0.5),
                **_FALLING,
            },
            {"Conv.group": (1,), "ConvTranspose.group": (1,)},
            _FLOAT,
            13,
        ),
    }

    def table(self) -> list[TermRule]:
        return _RULES


def _find(v: Values) -> _Turned | None:
    table, rank, product = table_of(v["t"], v["v"]), rank_of(v["p"]), node_of(v["p"])
    is_matrix = product.op_type == "MatMul"
    if table is None or rank is None or rank < 2 or not adds_exactly(table[1]):
        return None
    if 0 in (dims_of(v["x"]) or ()) or 0 in (dims_of(v["p"]) or ()):
        return None  # engines disagree on the shape of a sum of nothing
    place, axis = (rank - 1, 1) if is_matrix else (1, int(product.op_type == "ConvTranspose"))
    shape = v["w"].shape
    if shape is None or not shape.is_static() or (is_matrix and len(shape) != 2):
        return None
    if axis == 1 and not is_matrix and (product.attributes.get_int("group", 1) or 1) != 1:
        return None
    channels, root = shape.numpy()[axis], _root(v["w"], axis)
    thresholds, weights = (_rows(part, place, rank, channels) for part in table)
    if thresholds is None or weights is None or root is None:
        return None
    falls: Array = np.all(weights <= 0, axis=-1) & np.any(weights, axis=-1)
    signs = np.where(falls, -1, 1).astype(np.float32)
    if not falls.any() or ("b" in v and floats(v["b"]) is None):
        return None
    if _bits(root[0] * at_axis(signs, root[1], root[0].ndim)) > _bits(root[0]):
        return None
    # From the largest to the smallest: negated thresholds are in order again.
    above = np.nextafter(-thresholds[:, ::-1], np.float32(np.inf))
    above[np.isnan(above)] = -np.inf  # what nothing reaches everything is below
    rows = np.where(falls[:, None], above, thresholds)
    new = np.where(falls[:, None], -weights[:, ::-1], weights)
    term = np.where(falls, weights.sum(-1), 0)
    term = at_axis(term, place, rank)
    shape_of_rows = (*term.shape, rows.shape[-1])
    return _Turned(signs, axis, rows.reshape(shape_of_rows), new.reshape(shape_of_rows), term)


def _rows(array: Array, place: int, rank: int, channels: int) -> Array | None:
    """Return thresholds or weights as [channels, steps]; None if they differ elsewhere."""
    steps = array.shape[-1]
    found = along(np.arange(array.size // steps).reshape(array.shape[:-1]), place, rank)
    if found is None or found.size not in (1, channels):
        return None
    return np.broadcast_to(array.reshape(-1, steps), (channels, steps)).astype(np.float32)


def _root(w: Value, axis: int) -> tuple[Array, int] | None:
    """Return the constant behind factors and Transposes of weights, and the axis there."""
    array, node = floats(w), w.producer()
    if array is not None:
        return array, axis
    source = None if node is None or node.domain or not node.inputs else node.inputs[0]
    if source is None or node is None or rank_of(source) != rank_of(w):
        return None
    if node.op_type == "Transpose":
        return _root(source, _perm(node)[axis])
    if node.op_type == "Mul" and floats(node.inputs[1]) is not None:
        return _root(source, axis)
    return None


def _perm(node: ir.Node) -> list[int]:
    rank = rank_of(node.inputs[0]) or 0
    return list(node.attributes.get_ints("perm") or reversed(range(rank)))


def _turn(op: Op, w: Value, signs: Array, axis: int) -> Value:
    """Return weights whose channels have other signs; see ``_root``."""
    array, node = floats(w), w.producer()
    if array is not None:
        return constant(op, array * at_axis(signs, axis, array.ndim) + np.float32(0))
    assert node is not None, "_find has seen to it"
    source = node.inputs[0]
    assert source is not None, "_find has seen to it"
    if node.op_type == "Transpose":
        perm = _perm(node)
        return op.Transpose(_turn(op, source, signs, perm[axis]), perm=perm)
    return op.Mul(_turn(op, source, signs, axis), node.inputs[1])


def _bits(array: Array) -> int:
    """Return the bits of the smallest type of signed integers that holds an array.

    That is 0 if an element is not an integer.
    """
    if not array.size or (array != np.rint(array)).any():
        return 0
    return max(
        (int(n) if n >= 0 else -int(n) - 1).bit_length() for n in (array.min(), array.max())
    )


def _make(op: Op, v: Values, found: _Turned) -> Value:
    product = node_of(v["p"])
    operands = [v["x"], _turn(op, v["w"], found.signs, found.axis)]
    if "b" in v:
        bias = floats(v["b"])
        assert bias is not None, "_find has seen to it"
        operands.append(constant(op, bias * found.signs))
    turned = getattr(op, product.op_type)(*operands, **product.attributes)
    counted = multi_threshold(op, turned, found.rows, found.weights)
    return op.Add(counted, constant(op, found.term))


_RULES = [
    TermRule(
        call("MultiThreshold", call(kind, *operands, result="p"), "t", "v", domain=CUSTOM),
        _find,
        _make,
        name=kind if len(operands) == 2 else f"{kind}-with-bias",
    )
    for kind in ("Conv", "ConvTranspose", "MatMul")
    for operands in (("x", "w"), ("x", "w", "b"))
    if kind != "MatMul" or len(operands) == 2
]
