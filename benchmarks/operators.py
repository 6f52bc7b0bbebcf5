"""Compare every operator that is described with ONNX Runtime, on random calls."""

from __future__ import annotations

import argparse
import sys
import time

import numpy as np

from onnx_passes.ops import families  # noqa: F401 (makes operators known)
from onnx_passes.ops.operator_class import operators
from onnx_passes.verify.rules.conformance import held


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
