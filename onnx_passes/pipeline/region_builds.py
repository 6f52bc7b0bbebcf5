"""Evidence for each application on an engine that compiles, within a budget of builds.

All old sides of a pass are one build and all new ones another, because building a small model
takes about as long as building many. A part that the compiler does not take is found by its
name or by halves, and is reported as not run. What was built once is not built again.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.errors import ConfigError, EngineError
from onnx_passes.model.digest import digest
from onnx_passes.pipeline.fused import FUSED
from onnx_passes.pipeline.region_pairs import Batch, RegionPair
from onnx_passes.pipeline.region_parts import (
    Part,
    names_part,
    side_by_side,
    told,
    with_prefix,
)
from onnx_passes.report.text import plural
from onnx_passes.runtime.engine_base import Data, Engine, Finding, Level, Outputs, examine
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.runtime.tensorrt.engine import (
    content_digest,
    with_profiles_of,
    without_profiles,
)
from onnx_passes.verify.double_precision import weigh_rounding
from onnx_passes.verify.evidence import Evidence, Kind, weakest
from onnx_passes.verify.informative import is_informative
from onnx_passes.verify.judge import describe_mismatch, judge
from onnx_passes.verify.obligations import Obligation
from onnx_passes.verify.result import EXECUTED, LEVEL, Check, OutputCheck, Verdict

_SHOWN = 3
"""Reasons that a check gives at most."""

_BATCH_BYTES = 256 << 20
"""Recorded values that the parts of one build are fed with at most, and results kept."""


@dataclass
class RegionBuilds:
    """Builds both sides of what passes change, and runs them.

    Attributes:
        engine: The engine, as models are built on it.
        most: Number of builds that a run may make.
        share: Time that they may take, as a share of that of whole models; None for any.
        whole_seconds: Time that whole models took.
        seconds: Time that builds of regions took.
        builds: Number of builds made.
    """

    engine: Engine
    most: int
    share: float | None = None
    whole_seconds: float = 0.0
    seconds: float = 0.0
    builds: int = 0
    _known: dict[bytes, Ran] = field(default_factory=dict)
    _refused: dict[Hashable, str] = field(default_factory=dict)
    _judged: list[Batch] = field(default_factory=list)

    def open(self, batches: Sequence[Batch]) -> Iterator[Batch]:
        """Yield those that were not judged before, and count them as judged."""
        for batch in batches:
            if not any(batch is other for other in self._judged):
                self._judged.append(batch)
                yield batch

    def judge(self, batch: Batch) -> tuple[list[Check], list[Evidence]]:
        """Run what a pass changed, and hold each part to the promise of the pass.

        Returns:
            A check of scope "region", none where nothing is computed otherwise, and what
            vouches for each part on this engine.
        """
        start, first = time.perf_counter(), self.builds
        asked = [pair for pair in batch.pairs if pair.known is None]
        new_sides = any(pair.new is not None for pair in asked)
        olds = self._run([pair.old for pair in asked if pair.old], reserve=new_sides)
        ran = {key for key, one in olds.items() if one.outputs is not None}
        news = self._run([p.new for p in asked if p.new and p.old and _key(p.old) in ran])
        found: list[Judged] = []
        for pair in batch.pairs:
            if pair.known is not None:
                found.append(Judged(pair.known))
                continue
            assert pair.old is not None
            fresh = None if pair.new is None else news.get(_key(pair.new))
            found.append(judge_pair(pair, batch, olds[_key(pair.old)], fresh))
        evidence = [one.evidence for one in found]
        if batch.bodies:
            rules = ", ".join(dict.fromkeys(batch.bodies.values()))
            kind = weakest(one.kind for one in evidence)
            reason = "compared at the node that holds it"
            evidence.append(Evidence(rules, kind, tuple(batch.bodies), reason=reason))
        if all(one.kind is Kind.PROVED for one in evidence):
            return [], evidence
        check = self._check(batch.name, evidence, found, self.builds - first)
        return [replace(check, seconds=time.perf_counter() - start)], evidence

    def _check(
        self, name: str, evidence: Sequence[Evidence], found: Sequence[Judged], made: int
    ) -> Check:
        engine = self.engine.name
        outputs = tuple(output for one in found for output in one.checks)
        wrong = next((one for one in found if one.fault), None)
        if wrong is not None:
            reason = f"{name}: {wrong.fault}"
            failed, sample = Verdict.FAILED, wrong.sample
            return Check(
                LEVEL, failed, engine, "region", reason, sample, outputs, level=EXECUTED
            )
        asked = [one for one in evidence if one.kind is not Kind.PROVED]
        ran = sum(one.count for one in asked if one.kind is Kind.EXECUTED)
        total = sum(one.count for one in asked)
        told = f"{ran} of {plural(total, 'rewrite')} executed by region"
        reason = f"{name}: {told}, in {plural(made, 'build')}"
        reasons = list(
            dict.fromkeys(
                f"{one.what}: {one.reason}" for one in asked if one.kind is not Kind.EXECUTED
            )
        )
        if reasons:
            more = f"; and {len(reasons) - _SHOWN} more" if len(reasons) > _SHOWN else ""
            reason += f"; not run: {'; '.join(reasons[:_SHOWN])}{more}"
        verdict = Verdict.PASSED if ran else Verdict.NOT_VERIFIED
        level = EXECUTED if ran else str(Level.BUILT)
        return Check(LEVEL, verdict, engine, "region", reason, None, outputs, level=level)

    def _run(self, parts: Sequence[Part], *, reserve: bool = False) -> dict[bytes, Ran]:
        """Return what each part gave; those that are not known are built side by side.

        Args:
            parts: The parts.
            reserve: Whether a build is left for the other sides, without which these show
                nothing.
        """
        missing: dict[bytes, Part] = {}
        keys = list(map(_key, parts))
        for key, part in zip(keys, parts, strict=True):
            if key not in self._known:
                missing.setdefault(key, with_prefix(part, f"r{key.hex()[:12]}"))
        found: dict[bytes, Ran] = {}
        for some in _batches(missing):
            found |= self._build(some, reserve)
        known = {key: self._known[key] for key in keys if key in self._known}
        self._remember({key: ran for key, ran in found.items() if not ran.refused})
        return known | found

    def _remember(self, found: dict[bytes, Ran]) -> None:
        """Keep what parts gave, the newest ones: searches ask for the same parts again."""
        kept, size = dict[bytes, Ran](), 0
        for key, ran in reversed([*self._known.items(), *found.items()]):
            size += ran.nbytes
            if size <= _BATCH_BYTES:
                kept[key] = ran
        self._known = dict(reversed(kept.items()))

    def _build(self, parts: dict[bytes, Part], reserve: bool) -> dict[bytes, Ran]:
        """Build parts as one model; those that are not built, alone or by halves."""
        if not parts:
            return {}
        if why := self._spent(reserve):
            return dict.fromkeys(parts, Ran(None, why, refused=True))
        finding = self._examine([*parts.values()])
        if finding.level is Level.EXECUTED:
            return {key: Ran(_outputs(finding, part)) for key, part in parts.items()}
        if len(parts) == 1:
            ((key, part),) = parts.items()
            ran = Ran(None, told(finding, part))
            self._refused[part.kind] = (
                f"not built: a part of the same operators is {ran.reason}"
            )
            return {key: ran}
        named = [k for k, part in parts.items() if names_part(finding.reason, part)]
        if named and len(named) < len(parts):
            groups = [[key] for key in named] + [[k for k in parts if k not in named]]
        else:
            keys = list(parts)
            groups = [keys[: len(keys) // 2], keys[len(keys) // 2 :]]
        found: dict[bytes, Ran] = {}
        for group in groups:
            # One that is refused represents all like it, which would cost a build each.
            like = {
                k: self._refused[parts[k].kind]
                for k in group
                if parts[k].kind in self._refused
            }
            found |= {key: Ran(None, why, refused=True) for key, why in like.items()}
            left = {key: parts[key] for key in group if key not in like}
            found |= self._build(left, reserve)
        return found

    def _spent(self, reserve: bool) -> str:
        """Say that the budget is used up; nothing while it is not."""
        if self.builds + reserve >= self.most:
            return f"the budget of {plural(self.most, 'build')} of regions is used up"
        if self.share is not None and self.seconds >= self.share * self.whole_seconds:
            return (
                f"the budget of {self.share:g} times the time of whole models is used up "
                "by builds of regions"
            )
        return ""

    def _examine(self, parts: Sequence[Part]) -> Finding:
        model = side_by_side(parts)
        rows = [
            {name: array for part in parts for name, array in part.rows[i].items()}
            for i in range(len(parts[0].rows))
        ]
        engine = with_profiles_of(without_profiles(self.engine), model, rows)
        start = time.perf_counter()
        self.builds += 1
        try:
            return examine(engine, model, rows)
        except ConfigError as error:
            return Finding(Level.PARSED, error.message, error.help)
        finally:
            self.seconds += time.perf_counter() - start


def _key(part: Part) -> bytes:
    """Return a digest of a part and of what it is fed with."""
    rows = [
        tuple((n, str(a.dtype), a.shape, digest(a.tobytes())) for n, a in sorted(row.items()))
        for row in part.rows
    ]
    return digest(content_digest(part.model), tuple(rows))


def _batches(parts: dict[bytes, Part]) -> Iterator[dict[bytes, Part]]:
    """Yield parts that are built together."""
    batch: dict[bytes, Part] = {}
    size = 0
    for key, part in parts.items():
        nbytes = sum(a.nbytes for row in part.rows for a in row.values())
        if batch and size + nbytes > _BATCH_BYTES:
            yield batch
            batch, size = {}, 0
        batch[key] = part
        size += nbytes
    yield batch


def _outputs(finding: Finding, part: Part) -> tuple[Outputs, ...]:
    """Return what one of the parts of a model gave, by its own names, by sample."""
    skip = len(part.prefix) + 1
    names = [str(value.name) for value in part.model.graph.outputs]
    return tuple({n[skip:]: row[n] for n in names} for row in finding.outputs)


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
