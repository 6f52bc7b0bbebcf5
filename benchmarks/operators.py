"""Compare every operator that is described with ONNX Runtime, on random calls."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.certifying.coverage import admits, may_be_absent, schema_of
from onnx_passes.certifying.operand_choice import Chooser, RecordedGenerator, attribute_value
from onnx_passes.certifying.replay import EngineFailure, run_once
from onnx_passes.ops import families  # noqa: F401 (makes operators known)
from onnx_passes.ops.call import Tensor, constant
from onnx_passes.ops.domains.bitvectors import IeeeSemantics
from onnx_passes.ops.domains.concrete import (
    ConcreteSemantics,
    CountingSemantics,
    ShapeSemantics,
)
from onnx_passes.ops.domains.intervals import IntervalSemantics
from onnx_passes.ops.domains.reals import RealSemantics
from onnx_passes.ops.domains.rounding_bounds import RoundingSemantics
from onnx_passes.ops.elementwise import Elementwise
from onnx_passes.ops.evaluation import evaluate_node
from onnx_passes.ops.input_hints import Shape, Use, ValueHint
from onnx_passes.ops.node_queries import admitted
from onnx_passes.ops.operator_class import Algebra, Operator, operators
from onnx_passes.ops.semantics import MALFORMED, Semantics, Unsupported, is_float
from onnx_passes.plain import PlainDict

NUMBERS = (0.5, 1.0, 2.0, 0.1, 0.25, 3.0)


OPSETS = (13, 18, 21, 23, 24, 26)

_OLD = 9
"""The opset of operators that have gone since."""


_BITS = 40
"""Bits of the largest integers that are drawn, if an operator has no smaller limit."""


_SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5)


@dataclass(frozen=True)
class RandomCall:
    """One call of an operator on numbers.

    Attributes:
        node: The node.
        opset: Its version.
        arrays: What each operand is.
    """

    node: ir.Node
    opset: int
    arrays: dict[ir.Value, Array]


def random_call(operator: Operator, rng: np.random.Generator) -> RandomCall | None:
    """Return a random call that the standard admits; None where a draw fits nothing.

    Args:
        operator: The operator.
        rng: Draws types, shapes, attributes and numbers.
    """
    opset = int(rng.choice(OPSETS))
    schema = schema_of(operator.op_type, opset)
    if schema is None:
        opset, schema = _OLD, schema_of(operator.op_type, _OLD)
    if schema is None or not schema.inputs:
        return None
    formal = max(schema.inputs, key=lambda formal: len(formal.types))
    names = sorted(t[7:-1].upper() for t in formal.types if t.startswith("tensor("))
    known = [n for n in names if n in ir.DataType.__members__]
    numbers = [
        d for n in known if (d := ir.DataType[n]).is_integer() or is_float(d) or n == "BOOL"
    ]
    if not numbers:
        return None
    choose = Chooser(RecordedGenerator(rng), numbers[int(rng.integers(len(numbers)))], NUMBERS)
    choose.prefer({operator.op_type})
    count = _arity(schema, rng)
    shapes: list[Shape | None] = [None] * count
    inputs: list[ir.Value | None] = []
    arrays: dict[ir.Value, Array] = {}
    for index in range(count):
        if may_be_absent(schema, index) and rng.random() < 0.4:
            inputs.append(None)
            continue
        operand = choose.operand(operator.op_type, index, shapes)
        shapes[index] = operand.shape
        dtype = _typed(schema, index, operand.dtype)
        made = ir.val(f"x{index}", dtype=dtype, shape=list(operand.shape))
        inputs.append(made)
        if operand.ints is not None:
            array = np.array(operand.ints, dtype.numpy()).reshape(operand.shape)
            made.const_value = ir.tensor(array)
            arrays[made] = array
    while inputs and inputs[-1] is None:
        inputs.pop()
    outputs = 2 if _is_variadic(schema.outputs[-1]) else max(1, schema.min_output)
    given = _attributes(choose, operator.op_type, schema, shapes, rng)
    node = ir.node(operator.op_type, inputs, attributes=given, num_outputs=outputs)
    dtypes = [None if v is None else v.dtype for v in inputs]
    if not admits(operator.op_type, opset, dtypes):
        return None
    for index, value in enumerate(inputs):
        if value is not None and value not in arrays:
            hint = admitted(Use(node, index, rng)) or ValueHint()
            arrays[value] = _numbers(value, hint, rng, operator.exact_bits or _BITS)
    return RandomCall(node, opset, arrays)


def _arity(schema: onnx.defs.OpSchema, rng: np.random.Generator) -> int:
    if _is_variadic(schema.inputs[-1]):
        return len(schema.inputs) + int(rng.integers(0, 3))
    return len(schema.inputs)


def _is_variadic(formal: onnx.defs.OpSchema.FormalParameter) -> bool:
    return "Variadic" in str(formal.option)


def _typed(schema: onnx.defs.OpSchema, index: int, wanted: ir.DataType) -> ir.DataType:
    """Return the type that an operand must have, if it has no choice."""
    formal = schema.inputs[min(index, len(schema.inputs) - 1)]
    types = [t[7:-1].upper() for t in formal.types if t.startswith("tensor(")]
    if wanted.name in types or not types:
        return wanted
    fitting = [t for t in ("INT64", "FLOAT", "BOOL", "INT32", "UINT8") if t in types]
    return ir.DataType[fitting[0]] if fitting else wanted


def _attributes(
    choose: Chooser,
    op_type: str,
    schema: onnx.defs.OpSchema,
    shapes: list[Shape | None],
    rng: np.random.Generator,
) -> PlainDict:
    found = {}
    for name, attribute in schema.attributes.items():
        if attribute.required or rng.random() < 0.5:
            value = attribute_value(choose, op_type, name, shapes)
            if value is not None:
                found[name] = value if value not in ([], ()) else ir.AttrInt64s(name, ())
    return found


def _numbers(value: ir.Value, hint: ValueHint, rng: np.random.Generator, bits: int) -> Array:
    shape = tuple(int(str(d)) for d in value.shape or ())
    dtype = value.dtype or ir.DataType.FLOAT
    if hint.exact is not None:
        return np.broadcast_to(hint.exact, shape).astype(dtype.numpy())
    if dtype == ir.DataType.BOOL:
        return np.asarray(rng.random(shape) < 0.5)
    if dtype.is_integer():
        low, high = (-9 if dtype.is_signed() else 0), 10
        if not hint.bounded and rng.random() < 0.2:
            low, high = max(int(dtype.min), 1 - 2**bits), min(int(dtype.max), 2**bits)
        array = rng.integers(low, high, shape)
    else:
        array = rng.standard_normal(shape) * rng.choice((0.1, 1.0, 4.0, 30.0))
        if rng.random() < 0.3:
            array = rng.choice(_SPECIAL, shape)
    if hint.low is not None or hint.high is not None:
        array = np.clip(array, hint.low, hint.high)
    if hint.nonzero:
        # The least integer divided by -1 ends the engine's process.
        array = np.where(abs(array) < 1e-2, 1, abs(array) if dtype.is_integer() else array)
    return np.asarray(array).astype(dtype.numpy())


Results: TypeAlias = tuple[Tensor | None, ...]
_TRIES = 12
_TOGETHER = 25


@dataclass
class Conformance:
    """What became of calls of one operator.

    Attributes:
        calls: How many ran on both sides.
        refused: How many the engine does not run, or the description does not cover.
        undecided: Elements whose bound is infinite.
        faults: What differs, a line each.
    """

    calls: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    undecided: int = 0
    faults: list[str] = field(default_factory=list)


def held(operator: Operator, rng: np.random.Generator, count: int) -> Conformance:
    """Hold an operator's description against ONNX Runtime on random calls.

    Args:
        operator: The operator.
        rng: Of the calls.
        count: How many are to run on both sides; fewer where most draws fit nothing.
    """
    found = Conformance()
    for _ in range(_TRIES):
        missing = count - found.calls
        if missing <= 0:
            break
        drawn = (_drawn(operator, rng, found) for _ in range(missing + missing // 2))
        told = [
            (call, *ours) for call in drawn if call and (ours := _ours(call, operator, found))
        ]
        results = _engine([call for call, _, _ in told])
        for (call, exact, bounds), expected in zip(told, results, strict=True):
            if expected is None:
                found.refused["the engine does not run it"] += 1
                continue
            found.calls += 1
            found.faults += _faults(call, expected, exact, bounds, found)
    return found


def _engine(calls: Sequence[RandomCall]) -> list[Sequence[Array] | None]:
    """Run calls in models of many nodes, and those of models that fail by themselves."""
    found: list[Sequence[Array] | None] = [None] * len(calls)
    for opset in sorted({call.opset for call in calls}):
        same = [k for k, call in enumerate(calls) if call.opset == opset]
        for start in range(0, len(same), _TOGETHER):
            part = same[start : start + _TOGETHER]
            results = _run([calls[k] for k in part])
            if results is None:
                single = [_run([calls[k]]) for k in part]
                results = [None if r is None else r[0] for r in single]
            for k, result in zip(part, results, strict=True):
                found[k] = result
    return found


def _run(calls: Sequence[RandomCall]) -> list[Sequence[Array] | None] | None:
    feeds: dict[str, Array] = {}
    inputs, initializers = [], []
    for k, call in enumerate(calls):
        if call.node.graph is not None:
            call.node.graph.remove(call.node)
        for position, (value, array) in enumerate(call.arrays.items()):
            value.name = f"c{k}x{position}"
            if value.const_value is None:
                inputs.append(value)
                feeds[value.name] = array
            else:
                initializers.append(value)
        for position, output in enumerate(call.node.outputs):
            output.name = f"c{k}y{position}"
    outputs = [output for call in calls for output in call.node.outputs]
    graph = ir.Graph(
        inputs,
        outputs,
        nodes=[call.node for call in calls],
        initializers=initializers,
        opset_imports={"": calls[0].opset},
        name="calls",
    )
    results = run_once(ir.Model(graph, ir_version=10), feeds)
    graph.inputs.clear()
    graph.outputs.clear()
    graph.initializers.clear()
    if isinstance(results, EngineFailure):
        return None
    left = iter(results)
    return [[next(left) for _ in call.node.outputs] for call in calls]


def _drawn(
    operator: Operator, rng: np.random.Generator, found: Conformance
) -> RandomCall | None:
    try:
        return random_call(operator, rng)
    except MALFORMED:
        found.refused["a draw that fits nothing"] += 1
        return None


def _ours(
    call: RandomCall, operator: Operator, found: Conformance
) -> tuple[Results, Results] | None:
    """Return our results and those with bounds; None if the call is not described."""
    made = []
    try:
        for semantics in (ConcreteSemantics(), RoundingSemantics(operator.computed_in)):
            known = {
                value: constant(array, value.dtype or ir.DataType.FLOAT, semantics)
                for value, array in call.arrays.items()
            }
            made.append(evaluate_node(call.node, known, semantics, call.opset))
    except Unsupported as unsupported:
        found.refused[str(unsupported)[:60]] += 1
        return None
    exact, bounded = made
    return exact, bounded


def _faults(
    call: RandomCall,
    expected: Sequence[Array],
    exact: Sequence[Tensor | None],
    bounds: Sequence[Tensor | None],
    found: Conformance,
) -> Iterator[str]:
    shown = f"{call.node.op_type}{ {k: a.value for k, a in call.node.attributes.items()} }"
    operands = {str(v.name): f"{a.dtype}{list(a.shape)}" for v, a in call.arrays.items()}
    for array, tensor, bound in zip(expected, exact, bounds, strict=False):
        if tensor is None or bound is None:
            continue
        if array.shape != tensor.shape or ir.DataType.from_numpy(array.dtype) != tensor.dtype:
            yield f"{shown} {operands}: {array.dtype}{array.shape} is not {tensor.shape}"
            continue
        for name, ours in (("concrete", tensor.data), ("bounded", bound.data["value"])):
            wide = np.float64 if is_float(tensor.dtype) else array.dtype
            a, b, error = array.astype(wide), ours.astype(wide), bound.data["error"]
            with np.errstate(all="ignore"):
                same = (a == b) | ((a != a) & (b != b))
                if is_float(tensor.dtype):
                    same |= np.abs(a - b) <= error
            wrong = ~same & ~np.isinf(error)
            if wrong.any():
                at = tuple(int(i) for i in np.argwhere(wrong)[0])
                yield (
                    f"{shown} {operands} {name} at {at}: engine {a[at]}, ours {b[at]}, "
                    f"bound {error[at]:.3g}; opset {call.opset}"
                )
        found.undecided += int(np.isinf(bound.data["error"]).sum())


DOMAINS: Mapping[str, Callable[[], Semantics]] = {
    "numbers": ConcreteSemantics,
    "rounding": RoundingSemantics,
    "reals": RealSemantics,
    "IEEE": IeeeSemantics,
    "shapes": ShapeSemantics,
    "intervals": IntervalSemantics,
    "counts": CountingSemantics,
}
"""Arithmetics by the name that the documentation gives them."""

_DRAWS = 90


def domains_of(operator: Operator) -> dict[str, bool]:
    """Return in which arithmetics an operator is evaluated, on some random call at least."""
    found = dict.fromkeys(DOMAINS, False)
    rng = np.random.default_rng(0)
    for _ in range(_DRAWS if operator.evaluates else 0):
        try:
            call = random_call(operator, rng)
        except MALFORMED:
            continue
        for name, make in DOMAINS.items():
            if call is not None and not found[name]:
                found[name] = _evaluated(call, make())
    return found


def _evaluated(call: RandomCall, semantics: Semantics) -> bool:
    known: dict[ir.Value, Tensor] = {}
    try:
        for value, array in call.arrays.items():
            known[value] = constant(array, value.dtype or ir.DataType.FLOAT, semantics)
        evaluate_node(call.node, known, semantics, call.opset)
    except (Unsupported, *MALFORMED):
        return False
    return True


def data_of(operator: Operator) -> dict[str, bool]:
    """Return what describes an operator besides what it computes."""
    cls = type(operator)
    return {
        "laws": operator.algebra != Algebra(),
        "inputs": bool(operator.steers or getattr(operator, "domain_of", ()))
        or any("admits" in vars(c) for c in cls.__mro__ if c not in (Operator, Elementwise)),
        "breakpoints": "breakpoints" in vars(cls)
        or bool(getattr(operator, "kinks", ()) or getattr(operator, "ties", False)),
        "cost": cls.cost is not Operator.cost or operator.free or bool(operator.moves),
    }


def main() -> int:
    """Print a line for each operator; return 1 if one disagrees, or none was called."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("each", nargs="?", type=int, default=100, help="calls an operator")
    parser.add_argument("operators", nargs="*", help="all that are told of unless named")
    parser.add_argument("--seed", type=int, default=0, help="of all calls")
    given = parser.parse_args()
    each, chosen = given.each, set(given.operators)
    start, calls, faults, none = time.perf_counter(), 0, 0, []
    for k, operator in enumerate(operators()):
        if (
            operator.domain
            or not operator.evaluates
            or (chosen and operator.op_type not in chosen)
        ):
            continue
        found = held(operator, np.random.default_rng([given.seed, k]), each)
        calls, faults = calls + found.calls, faults + len(found.faults)
        if not found.calls:
            none.append(operator.op_type)
        refused = ", ".join(f"{n} {why}" for why, n in found.refused.most_common(2))
        print(
            f"{operator.op_type}: {found.calls} calls, {len(found.faults)} faults; {refused}"
        )
        for fault in found.faults[:3]:
            print(f"  {fault}")
    print(f"{calls} calls, {faults} faults, {time.perf_counter() - start:.0f} s")
    print(f"never called: {', '.join(none) or 'none'}")
    return 1 if faults or not calls else 0


if __name__ == "__main__":
    sys.exit(main())
