"""Compare every operator that is described with ONNX Runtime, on random calls."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.ops import families  # noqa: F401 (makes operators known)
from onnx_passes.ops.call import Tensor, constant
from onnx_passes.ops.domains.concrete import ConcreteSemantics
from onnx_passes.ops.domains.rounding_bounds import RoundingSemantics
from onnx_passes.ops.evaluation import evaluate_node
from onnx_passes.ops.operator_class import Operator, operators
from onnx_passes.ops.semantics import MALFORMED, Unsupported, is_float
from onnx_passes.verify.rules.random_calls import RandomCall, random_call
from onnx_passes.verify.rules.running import EngineFailure, run_once

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


def main() -> int:
    """Print a line for each operator; return 1 if one disagrees with the engine."""
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
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
