"""Replace a chain that ends in a quantiser by thresholds."""

from typing import ClassVar

import numpy as np

from onnx_passes import passes
from onnx_passes.arrays import Array
from onnx_passes.ops.bodies.operator_bodies import CUSTOM, QONNX_ALIASES
from onnx_passes.ops.node_queries import expects_nan
from onnx_passes.passes.base import Op, Value
from onnx_passes.passes.common.matches import node_of
from onnx_passes.passes.common.rules import RulePass, TermCall, TermRule, Values, call
from onnx_passes.passes.hints import Hints
from onnx_passes.passes.quantised import _chains as chains
from onnx_passes.passes.quantised._quantised_hints import INFERRED_THRESHOLDS
from onnx_passes.passes.quantised._quantisers import Quantiser, quantisers
from onnx_passes.passes.streamline._rule_constants import constant, narrow


@passes.verify.tolerance
@passes.register()
class InferThresholds(RulePass):
    """Replace a chain that ends in a quantiser by thresholds.

    Before: ``Quant(Relu(Add(BatchNormalization(x, ...), b)), scale, zero, bits)``; also
            ``Round``, ``Ceil``, ``Floor``, ``Sign``, ``BipolarQuant``, ``Trunc`` (version 2)
            or ``MultiThreshold`` at the end, ``Where(x >= c, a, b)`` of integers, and
            ``DequantizeLinear(QuantizeLinear(x, s, z), s, z)`` with a Clip between or not
    After:  ``(MultiThreshold(x, thresholds, weights) + least) * scale``

    The chain goes up as far as operators are monotone in one operand and have constants for
    the others, which may differ along the channels. Such are sums, products of any sign,
    divisions, BatchNormalization, Relu, Sigmoid, Tanh, Clip, Min, Max and their like. Where it
    falls, the weights are -1. One place may fall and then rise: Abs, Gelu, SiLU, Swish,
    HardSwish and Mish, as operators, as ``x * Sigmoid(x)`` or ``x * (1 + Erf(x / sqrt(2)))``,
    or thresholds of both signs. The floats are then searched piece by piece between the turns.
    Softsign may be ``x / (1 + Abs(x))``.

    Sound because each operator is monotone as it is computed, rounding included, so that each
    level is reached at one float32 and kept beyond it. That float is found by bisection over
    all floats on the chain itself, and the floats beside it are looked at as well. Kernels of
    Sigmoid, Tanh, Exp and their like waver by some floats. A number within 64 floats of a
    threshold of theirs may come out one level off, and within 1,024 floats where Gelu and its
    kin hardly change. If more waver, the quantiser stays. The contract is a tolerance, which a
    level exceeds, because of these. Of NaN, which a quantiser returns and no threshold
    notices, some level is made: the pass speaks of finite numbers.

    Leaves alone: constants that are computed; what something else reads on the way stays for
    that; chains with more than ``max`` steps in a row; what may be NaN because IsNaN asks for
    that; unknown ranks and types other than float32; opsets before 13.

    Attributes:
        max: Number of thresholds that a chain may have; one that turns may have as many on
            each side.
    """

    finite_only = True
    needs = ("shape-inference",)
    hints: ClassVar[Hints] = INFERRED_THRESHOLDS

    max: int = 255

    def table(self) -> list[TermRule]:
        return [
            TermRule(end, self._table, _replace, since=13, name=name) for name, end in _ENDS
        ]

    def _table(self, v: Values) -> tuple[chains.Chain, chains.Table] | None:
        node = node_of(v["y"])
        chain = chains.chain_to(node, v.opset)
        if chain is None or (len(chain.nodes) == 1 and node.op_type == "MultiThreshold"):
            return None
        quantiser = chain.quantiser
        if _may_be_missing(chain.result):
            return None
        if quantiser is not None and not quantiser.levels <= self.max + 1:
            return None
        try:
            table = chains.find_table(chains.Steps(chain), _levels_of(quantiser), self.max)
        except Exception:
            return None  # the engine has no kernel for the chain as it is
        return None if table is None else (chain, table)


def _replace(op: Op, v: Values, found: tuple[chains.Chain, chains.Table]) -> Value:
    chain, table = found
    thresholds, weights = _merge(table.thresholds, table.weights)
    result: Value = op.MultiThreshold(
        chain.source,
        constant(op, narrow(thresholds, kept=1)),
        constant(op, narrow(weights)),
        _domain=CUSTOM,
    )
    quantiser = chain.quantiser
    start = table.start.astype(np.float64)
    if quantiser is None:
        return _shift(op, result, start)
    if not np.array_equal(quantiser.zero, np.rint(quantiser.zero)):
        result = _shift(op, result, start)
        result = op.Sub(result, constant(op, quantiser.zero))
    else:
        result = _shift(op, result, start - quantiser.zero)
    if (quantiser.scale != 1).any():
        result = op.Mul(result, constant(op, quantiser.scale))
    return result


def _may_be_missing(result: Value) -> bool:
    """Whether a model asks of a value, or what it is computed from, if that is NaN."""
    pending, seen = [result], {result}
    for value in pending:
        if any(map(expects_nan, value.consumers())):
            return True
        node = value.producer()
        if node is not None and node.op_type != "Where":  # it may put a number there
            new = {v: None for v in node.inputs if v is not None and v not in seen}
            seen.update(new)
            pending += new
    return False


def _pair(*between: str) -> TermCall:
    """Return a quantiser of the standard, with zero points, and operands of a Clip between."""
    inner = call("QuantizeLinear", "x", "s", "z")
    inner = call("Clip", inner, *between) if between else inner
    return call("DequantizeLinear", inner, "t", "w", result="y")


_OPERATORS = [
    *(call(kind, "x", result="y") for kind in ("Round", "Ceil", "Floor", "Sign")),
    *quantisers(*"xabc"),
    call("MultiThreshold", "x", "a", "b", result="y", domain=CUSTOM),
    call("Where", "x", "a", "b", result="y"),
    *(call("Trunc", *"xabcde", result="y", domain=domain) for domain in QONNX_ALIASES),
]
_PLAIN_PAIR = call("DequantizeLinear", call("QuantizeLinear", "x", "s"), "t", result="y")
_ENDS = [
    *((end.kind, end) for end in _OPERATORS),
    ("pair", _pair()),
    ("pair-with-clip", _pair("a", "b")),
    ("pair-without-zero-point", _PLAIN_PAIR),
]


def _levels_of(quantiser: Quantiser | None) -> chains.Level:
    """Return what makes levels of the results of a quantiser: integers, as float64."""
    if quantiser is None:
        return lambda results: results.astype(np.float64)
    scale, zero = quantiser.scale.astype(np.float64), quantiser.zero.astype(np.float64)

    def levels(results: Array) -> Array:
        found: Array = np.rint(results.astype(np.float64) / scale + zero)
        return found

    return levels


def _shift(op: Op, x: Value, offset: Array) -> Value:
    offset = np.asarray(offset, np.float32)
    if not offset.any():
        return x
    return op.Add(x, constant(op, narrow(offset)))


def _merge(thresholds: Array, weights: Array) -> tuple[Array, Array]:
    """Let one threshold of more weight replace several that are at one place everywhere."""
    differ = thresholds[..., 1:] != thresholds[..., :-1]
    first = np.flatnonzero([True, *differ.any(tuple(range(differ.ndim - 1)))])
    return thresholds[..., first], np.add.reduceat(weights, first, axis=-1)
