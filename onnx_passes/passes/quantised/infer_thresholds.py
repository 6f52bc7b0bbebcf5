"""Replace a chain that ends in a quantiser by thresholds."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import onnx_ir as ir

from onnx_passes import passes
from onnx_passes.ops.bodies.domains import CUSTOM, QONNX_ALIASES
from onnx_passes.passes._support.matches import node_of, opset_at
from onnx_passes.passes.base import Op, RewriteRuleSetPass, Transformation, Value, Var
from onnx_passes.passes.quantised._attributes import CALLS, Quantiser
from onnx_passes.passes.quantised._bisect import Table, find_table
from onnx_passes.passes.quantised._chains import Chain, Steps, chain_to

Array = np.ndarray[Any, np.dtype[Any]]


@passes.verify.tolerance
@passes.register()
class InferThresholds(Transformation, RewriteRuleSetPass):
    """Replace a chain that ends in a quantiser by thresholds.

    Before: ``Quant(Relu(Add(BatchNormalization(x, ...), b)), scale, zero, bits)``; also
            ``Round``, ``Ceil``, ``Floor``, ``Sign``, ``BipolarQuant``, ``Trunc`` (version 2)
            or ``MultiThreshold`` at the end, ``Where(x >= c, a, b)`` of integers, and
            ``DequantizeLinear(QuantizeLinear(x, s, z), s, z)`` with a Clip between or not
    After:  ``(MultiThreshold(x, thresholds, weights) + least) * scale``

    The chain goes up as far as operators are monotone in one operand and have constants for
    the others, which may differ along the channels: sums, products of any sign, divisions,
    BatchNormalization, Relu, Sigmoid, Tanh, Clip, Min, Max and their like. Where it falls, the
    weights are -1. One place may fall and then rise: Gelu, SiLU, Swish, HardSwish and Mish, as
    operators or as ``x * Sigmoid(x)`` and ``x * (1 + Erf(x / sqrt(2)))``, or thresholds of
    both signs. The floats are then searched piece by piece between the turns.

    Sound because each operator is monotone as it is computed, rounding included, so that each
    level is reached at one float32 and kept beyond it. That float is found by bisection over
    all floats on the chain itself, and the floats beside it are looked at as well. Kernels of
    Sigmoid, Tanh, Exp and their like waver by some floats: a number within 64 floats of a
    threshold of theirs may come out one level off, and within 1,024 floats where Gelu and its
    kin hardly change. If more waver, the quantiser stays. The contract is a tolerance, which a
    level exceeds, because of these and of NaN, which a quantiser returns and no threshold
    notices.

    Leaves alone: constants that are computed; what something else reads on the way stays for
    that; chains with more than ``max`` steps in a row; unknown ranks and types other than
    float32; opsets before 13.

    Attributes:
        max: Number of thresholds that a chain may have; one that turns may have as many on
            each side.
    """

    requires: ClassVar[Any] = ("shape-inference",)

    max: int = 255

    def pattern(self) -> list[Any]:
        return _ENDS

    def check(self) -> list[Any]:
        return [self._is_chain for _ in _ENDS]

    def rewrite(self) -> list[Any]:
        return [self._replaced for _ in _ENDS]

    def _is_chain(self, context: Any, y: Value, **_: Any) -> bool:
        opset = opset_at(context)
        if opset < 13:
            return False
        self._found = self._table(node_of(y), opset)
        return self._found is not None

    def _table(self, node: ir.Node, opset: int) -> tuple[Chain, Table] | None:
        chain = chain_to(node, opset)
        if chain is None or (len(chain.nodes) == 1 and node.op_type == "MultiThreshold"):
            return None
        quantiser = chain.quantiser
        if quantiser is not None and not quantiser.levels <= self.max + 1:
            return None
        try:
            table = find_table(Steps(chain), _levels_of(quantiser), self.max)
        except Exception:
            return None  # the engine has no kernel for the chain as it is
        return None if table is None else (chain, table)

    def _replaced(self, op: Op, y: Value, **_: Any) -> Value:
        # The driver asks `check` about the same node right before.
        assert self._found is not None, "check has seen to it"
        chain, table = self._found
        thresholds, weights = _merged(table.thresholds, table.weights)
        result: Value = op.MultiThreshold(
            chain.source,
            _constant(op, _narrow(thresholds, keep_last=True)),
            _constant(op, _narrow(weights, keep_last=False)),
            _domain=CUSTOM,
        )
        quantiser = chain.quantiser
        start = table.start.astype(np.float64)
        if quantiser is None:
            return _shifted(op, result, start)
        if not np.array_equal(quantiser.zero, np.rint(quantiser.zero)):
            result = _shifted(op, result, start)
            result = op.Sub(result, _constant(op, quantiser.zero))
        else:
            result = _shifted(op, result, start - quantiser.zero)
        if (quantiser.scale != 1).any():
            result = op.Mul(result, _constant(op, quantiser.scale))
        return result


_PLACES = [
    *[("", kind) for kind in ("Round", "Ceil", "Floor", "Sign")],
    *[(domain, kind) for kind, domain in CALLS],
    (CUSTOM, "MultiThreshold"),
    ("", "Where"),
    *[(domain, "Trunc") for domain in QONNX_ALIASES],
]

_OPERANDS = {
    "Trunc": 6,
    "Where": 3,
    "Quant": 4,
    "IntQuant": 4,
    "BipolarQuant": 2,
    "MultiThreshold": 3,
}


class _End:
    def __init__(self, domain: str, kind: str) -> None:
        self.domain, self.kind = domain, kind
        self.operands = _OPERANDS.get(kind, 1)

    def __call__(self, op: Op, x: Var, a: Var, b: Var, c: Var, d: Var, e: Var) -> Var:
        inputs = (x, a, b, c, d, e)[: self.operands]
        domain = {"_domain": self.domain} if self.domain else {}
        return getattr(op, self.kind)(*inputs, **domain, _outputs=["y"])


def _pair(op: Op, x: Var, s: Var, z: Var, t: Var, w: Var) -> Var:
    return op.DequantizeLinear(op.QuantizeLinear(x, s, z), t, w, _outputs=["y"])


def _clipped_pair(op: Op, x: Var, s: Var, z: Var, a: Var, b: Var, t: Var, w: Var) -> Var:
    clipped = op.Clip(op.QuantizeLinear(x, s, z), a, b)
    return op.DequantizeLinear(clipped, t, w, _outputs=["y"])


def _pair_from_zero(op: Op, x: Var, s: Var, t: Var) -> Var:
    return op.DequantizeLinear(op.QuantizeLinear(x, s), t, _outputs=["y"])


_ENDS = [*(_End(*place) for place in _PLACES), _pair, _clipped_pair, _pair_from_zero]


def _levels_of(quantiser: Quantiser | None) -> Any:
    """Return what makes levels of the results of a quantiser: integers, as float64."""
    if quantiser is None:
        return lambda results: results.astype(np.float64)
    scale, zero = quantiser.scale.astype(np.float64), quantiser.zero.astype(np.float64)

    def levels(results: Array) -> Array:
        found: Array = np.rint(results.astype(np.float64) / scale + zero)
        return found

    return levels


def _shifted(op: Op, x: Value, offset: Array) -> Value:
    offset = np.asarray(offset, np.float32)
    if not offset.any():
        return x
    made: Value = op.Add(x, _constant(op, _narrow(offset, keep_last=False)))
    return made


def _merged(thresholds: Array, weights: Array) -> tuple[Array, Array]:
    """Let one threshold of more weight stand for several that are at one place everywhere."""
    differ = thresholds[..., 1:] != thresholds[..., :-1]
    first = np.flatnonzero([True, *differ.any(tuple(range(differ.ndim - 1)))])
    return thresholds[..., first], np.add.reduceat(weights, first, axis=-1)


def _narrow(array: Array, *, keep_last: bool) -> Array:
    """Drop repeated elements along axes, and axes of size 1 in front."""
    for axis in range(array.ndim - keep_last):
        first = np.take(array, [0], axis=axis)
        if (array == first).all():
            array = first
    while array.ndim > keep_last and array.shape[0] == 1 and array.ndim > 1:
        array = array[0]
    return array.reshape(()) if not keep_last and array.size == 1 else array


def _constant(op: Op, array: Array) -> Value:
    made: Value = op.Constant(value=ir.tensor(np.array(array, np.float32)))
    return made
