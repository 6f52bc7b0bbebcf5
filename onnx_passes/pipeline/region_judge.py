"""Both sides of one part of a change, as an engine ran them, held against a promise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir

from onnx_passes.errors import EngineError
from onnx_passes.pipeline.fused import FUSED
from onnx_passes.pipeline.region_pairs import Batch, RegionPair
from onnx_passes.pipeline.region_parts import Part
from onnx_passes.runtime.engine_base import Array, Data, Outputs
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify.double_precision import weigh_rounding
from onnx_passes.verify.evidence import Evidence, Kind
from onnx_passes.verify.informative import is_informative
from onnx_passes.verify.judge import describe_mismatch, judge
from onnx_passes.verify.obligations import Obligation
from onnx_passes.verify.result import Check, OutputCheck

_NAMED = 4
"""Names of values that evidence lists at most."""


@dataclass(frozen=True)
class Ran:
    """What became of one side of a part.

    Attributes:
        outputs: What it gave, by sample; None where it was not executed.
        reason: Why not.
        refused: Whether it was not tried: the budget is used up, or one like it was not taken.
    """

    outputs: tuple[Outputs, ...] | None
    reason: str = ""
    refused: bool = False

    @property
    def nbytes(self) -> int:
        """Bytes of what it gave."""
        rows = self.outputs or ()
        return sum(a.nbytes for row in rows for a in row.values() if isinstance(a, np.ndarray))


@dataclass(frozen=True)
class Judged:
    """What is known of a part.

    Attributes:
        evidence: What vouches for it.
        checks: The comparison of each value.
        fault: What is wrong with it; empty for nothing.
        sample: The first sample that shows it.
    """

    evidence: Evidence
    checks: tuple[OutputCheck, ...] = ()
    fault: str = ""
    sample: int = 0


def judge_pair(pair: RegionPair, batch: Batch, old: Ran, new: Ran | None) -> Judged:
    """Hold the sides of a part against each other.

    A value that differs is held against the running error of its operators. Where they have
    no bound, ONNX Runtime runs both sides, and decides: a fault of the part shows there, too.

    Args:
        pair: The part.
        batch: The change that it is of.
        old: What the nodes gave that were removed.
        new: What those gave that are in their place; None where these are constants.
    """
    for side, ran in (("what was replaced", old), ("what is in its place", new)):
        if ran is not None and ran.outputs is None:
            why = ran.reason if ran.refused else f"{side} is {ran.reason}"
            return Judged(_weak(pair, why))
    assert old.outputs is not None
    fresh = (new.outputs if new is not None else None) or ({},) * len(old.outputs)
    expected, actual = _aligned(pair, old.outputs, fresh)
    verdicts = [judge(expected, actual, promise) for promise in batch.promises]
    doubtful: list[str] = []
    excused: set[str] = set()
    for one in pair.ends:
        broken = [v for v in verdicts if _breaks(v, one.old)]
        if not broken:
            continue
        rounds = _is_rounding(pair, one, expected, actual)
        if rounds is None and not _confirmed(pair, batch, one):
            doubtful.append(one.old)
        if rounds is True or one.old in doubtful:
            excused.add(one.old)
            continue
        return _wrong(pair, broken[0], one.old)
    checks = tuple(_excuse(o, excused) for v in verdicts for o in v.outputs)
    if doubtful:
        told = f"{', '.join(doubtful)} differs there, where rounding has no bound"
        return Judged(_weak(pair, told), checks)
    return Judged(_evidence(pair, batch, expected), checks)


def _weak(pair: RegionPair, why: str) -> Evidence:
    return Evidence(pair.what, Kind.OUTPUTS_ONLY, pair.numbers, reason=why)


def _evidence(pair: RegionPair, batch: Batch, expected: Sequence[Outputs]) -> Evidence:
    names = tuple(one.old for one in pair.ends)
    arrays = {n: [a for row in expected if isinstance(a := row[n], np.ndarray)] for n in names}
    size = sum(array.size for found in arrays.values() for array in found)
    shown = names[:_NAMED]
    for name in names:
        if is_informative(arrays[name], lambda name=name: name in batch.varying):  # type: ignore[misc]
            return Evidence(pair.what, Kind.EXECUTED, pair.numbers, size, shown)
    reason = f"{', '.join(names[:3])} is empty, constant or not finite on each sample"
    return Evidence(pair.what, Kind.NOTHING, pair.numbers, size, shown, reason)


def _wrong(pair: RegionPair, verdict: Check, name: str) -> Judged:
    sample = verdict.sample or 0
    mine = [output for output in verdict.outputs if output.output == name]
    numbers = ", ".join(map(str, pair.numbers))
    whose = f"rewrite {numbers} ({pair.what})" if numbers else pair.what
    fault = f"{whose}: {describe_mismatch(verdict.kind, mine, sample)}"
    evidence = Evidence(pair.what, Kind.NOTHING, pair.numbers, reason=f"{name} differs")
    return Judged(evidence, verdict.outputs, fault, sample)


def _aligned(
    pair: RegionPair, old: Sequence[Outputs], new: Sequence[Mapping[str, Data]]
) -> tuple[list[Outputs], list[Outputs]]:
    """Return both sides by sample, under the names of the values before."""
    expected = [{one.old: row[one.old] for one in pair.ends} for row in old]
    actual: list[Outputs] = [
        {
            one.old: row[one.new] if one.tensor is None else one.tensor.numpy()
            for one in pair.ends
        }
        for row in new
    ]
    return expected, actual


def _breaks(verdict: Check, name: str) -> bool:
    return any(o.output == name and not o.passed for o in verdict.outputs)


def _excuse(check: OutputCheck, excused: set[str]) -> OutputCheck:
    if check.passed or check.output not in excused:
        return check
    return replace(check, passed=True, reason=FUSED)


def _is_rounding(
    pair: RegionPair, one: Obligation, expected: Sequence[Outputs], actual: Sequence[Outputs]
) -> bool | None:
    """Return whether rounding explains how a value differs; None where that is not known."""
    assert pair.old is not None
    old = _leading_to(pair.old, one.old)
    # A constant is held to the bounds of what it replaces.
    new = old if one.tensor is not None or pair.new is None else _leading_to(pair.new, one.new)
    found: list[bool | None] = []
    for index, (left, right) in enumerate(zip(expected, actual, strict=True)):
        before, after = left[one.old], right[one.old]
        if not isinstance(before, np.ndarray) or not isinstance(after, np.ndarray):
            return None
        feeds: dict[str, Array] = dict(pair.old.rows[index])
        feeds |= pair.new.rows[index] if pair.new is not None else {}
        found.append(weigh_rounding(old, new, feeds, before, after, one.old))
    if False in found:
        return False
    return None if None in found else True


def _leading_to(part: Part, name: str) -> ir.Model:
    """Return a part with one of its outputs alone."""
    model = part.model.clone()
    model.graph.outputs[:] = [v for v in model.graph.outputs if v.name == name]
    return model


def _confirmed(pair: RegionPair, batch: Batch, one: Obligation) -> bool:
    """Whether ONNX Runtime, node by node, finds the value to break a promise as well."""
    engine = OnnxRuntimeEngine()
    sides: list[list[Outputs]] = []
    for part in (pair.old, pair.new):
        if part is None:
            sides.append([{} for _ in sides[0]])
            continue
        try:
            with engine.prepare(part.model) as session:
                sides.append([session.run(dict(row)) for row in part.rows])
        except EngineError:
            return False
    expected, actual = _aligned(pair, *sides)
    return any(_breaks(judge(expected, actual, p), one.old) for p in batch.promises)
