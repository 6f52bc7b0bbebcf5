"""Make a fault small: fewer elements, then plainer numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.verify.rules.fault import Fault
from onnx_passes.verify.rules.fuzz_check import Examiner
from onnx_passes.verify.rules.generate_variants import cut_array, resized
from onnx_passes.verify.rules.running import Feeds

_TRIALS, _CRASHING = 200, 20
_PLAIN = (0, 1, 2, -1)


def shrunk(examiner: Examiner, fault: Fault, feeds: Sequence[Feeds]) -> Fault:
    """Return the same sort of fault on smaller tensors and plainer numbers.

    Args:
        examiner: Applies the rule.
        fault: What was found.
        feeds: The inputs it was found with.
    """
    if fault.found is not None:
        feeds = [fault.found.feeds]
    # Each crash of the engine costs a new process.
    budget = [_CRASHING if fault.breaks == "engine" else _TRIALS]
    fault, feeds = _smaller(examiner, fault, list(feeds), budget)
    return fault if fault.found is None else _plainer(examiner, fault, budget)


def _smaller(
    examiner: Examiner, fault: Fault, feeds: list[Feeds], budget: list[int]
) -> tuple[Fault, list[Feeds]]:
    tried: set[tuple[int, int, bool]] = set()
    while budget[0] > 0:
        sizes = sorted({d for a in feeds[0].values() for d in a.shape if d > 1}, reverse=True)
        steps = [
            (d, n, last)
            for d in sizes
            for n in (1, 2)
            for last in (False, True)
            if n < d and (d, n, last) not in tried
        ]
        if not steps:
            break
        old, new, last = steps[0]
        tried.add((old, new, last))
        cut: list[Feeds] = [
            {k: cut_array(a, old, new, last=last) for k, a in f.items()} for f in feeds
        ]
        try:
            model = resized(fault.before, old, new, last=last)
        except Exception:
            continue  # shape inference refuses sizes that do not fit one another
        found = _again(examiner, fault, model, cut, budget)
        if found is not None:
            fault, feeds = found, cut
            tried.clear()
    return fault, feeds


def _plainer(examiner: Examiner, fault: Fault, budget: list[int]) -> Fault:
    assert fault.found is not None
    feeds = {k: np.array(a) for k, a in fault.found.feeds.items()}
    for name in feeds:
        for index in np.ndindex(feeds[name].shape):
            for number in _PLAIN:
                if feeds[name][index] == number:
                    break
                if number < 0 and feeds[name].dtype.kind in "ub":
                    continue
                changed = {k: a.copy() for k, a in feeds.items()}
                changed[name][index] = number
                found = _again(examiner, fault, fault.before, [changed], budget)
                if found is not None:
                    fault, feeds = found, changed
                    break
    return fault


def _again(
    examiner: Examiner, fault: Fault, model: ir.Model, feeds: list[Feeds], budget: list[int]
) -> Fault | None:
    if budget[0] <= 0:
        return None
    budget[0] -= 1
    trial = examiner.examine(model, fault.kind, feeds)
    kinds = {"bits": trial.inexact, "tolerance": trial.loose}
    found = kinds.get(fault.breaks, trial.fault)
    return found if found is not None and found.breaks == fault.breaks else None
