"""What the comparisons of a run with the reference add up to, sample by sample."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import onnx_ir as ir

from onnx_passes.runtime.engine_base import Outputs
from onnx_passes.verify.float64 import evaluate
from onnx_passes.verify.recording import exposed, inlined
from onnx_passes.verify.result import OutputCheck
from onnx_passes.verify.runs.body_values import expose, typed
from onnx_passes.verify.runs.found import FirstDifference, Pair, Run
from onnx_passes.verify.runs.judging import Measured, ResultJudge, SampleValues
from onnx_passes.verify.runs.postprocess import LargestIndices
from onnx_passes.verify.runs.spool import Spool


class WideValues:
    """Values of a model in double precision, computed when they are asked for.

    Args:
        model: Gives the model.
        samples: Its inputs.
    """

    def __init__(self, model: Callable[[], ir.Model], samples: Spool) -> None:
        self._model, self._samples = model, samples
        self._known: tuple[tuple[int, tuple[str, ...]], Outputs] | None = None

    def of(self, sample: int, names: Sequence[str]) -> Outputs:
        """Return values of a sample.

        Args:
            sample: Number of the sample.
            names: Names of the values.

        Raises:
            EngineError: A node cannot be computed.
        """
        key = (sample, tuple(names))
        if self._known is None or self._known[0] != key:
            model = self._model()
            if set(names) - {str(value.name) for value in model.graph.outputs}:
                model = exposed(expose(typed(inlined(model))))
                known = {str(value.name): value for value in model.graph.outputs}
                model.graph.outputs.clear()
                model.graph.outputs.extend(known[n] for n in names if n in known)
            outputs = evaluate(model, [self._samples.sample(sample)]).outputs[0]
            self._known = (key, outputs)
        return self._known[1]


class Tally:
    """Holds a run against the reference.

    Args:
        pair: What is filled in.
        reference: The run that is held to be right; its values are kept.
        judge: By what they are compared.
        truth: Values in double precision; None without a model.
        postprocess: What is done to both sides first.
        loose: Whether values inside need not be in both.
    """

    def __init__(
        self,
        pair: Pair,
        reference: Run,
        judge: ResultJudge,
        truth: WideValues | None,
        *,
        postprocess: LargestIndices | None = None,
        loose: bool = False,
    ) -> None:
        self._pair, self._reference, self._judge = pair, reference, judge
        self._truth, self._loose, self._postprocess = truth, loose, postprocess
        self._worst: dict[str, OutputCheck] = {}
        self._order: dict[str, int] = {}
        self._makers: Mapping[str, str] = {}
        self._first: tuple[int, int, OutputCheck] | None = None
        self._seen: set[int] = set()
        self._stopped = False

    @property
    def failed(self) -> bool:
        """Whether a value differs."""
        return self._first is not None

    def begin(
        self, theirs: Sequence[str], names: Sequence[str], makers: Mapping[str, str]
    ) -> None:
        """Say which values both have, in topological order, and the nodes that make them.

        Args:
            theirs: Names of the reference's values, in topological order.
            names: Names of the candidate's values, in topological order.
            makers: The node that computes each value, by name.
        """
        ours = set(names)
        self._order = {n: i for i, n in enumerate(dict.fromkeys((*theirs, *names)))}
        self._makers = makers
        self._missing = [name for name in theirs if name not in ours]
        self._extra = {name for name in ours if name not in set(theirs)}

    def add(self, sample: int, outputs: Outputs, own: frozenset[str]) -> None:
        """Compare values of a sample.

        Args:
            sample: Its number.
            outputs: Values of the candidate.
            own: Those of them that are outputs of its model.
        """
        self._seen.add(sample)
        values = self._reference.values
        assert values is not None
        known = set(values.names(sample)) if sample < len(values) else set()
        if self._loose:
            outputs = {n: v for n, v in outputs.items() if n not in self._extra or n in own}
        expected = {
            n: values.get(sample, n) for n in self._order if n in outputs and n in known
        }
        if not outputs:
            return
        inner = frozenset(outputs) - own if own else frozenset()

        def truth() -> Outputs:
            assert self._truth is not None
            return self._truth.of(sample, list(outputs))

        if self._postprocess is not None:
            expected = self._postprocess(expected, own | self._reference.types.keys())
            outputs = self._postprocess(outputs, own)
        side = SampleValues(
            expected, outputs, inner, truth if self._truth is not None else None
        )
        for check in self._judge(side):
            self._merge(sample, check)

    def end(self, *, stopped: bool) -> None:
        """Say that all is compared, or the rest left out; what is missing counts now."""
        self._stopped = stopped
        if stopped:
            return
        required = set(self._missing)
        if self._loose:
            required &= set(self._reference.types)
        for name in self._missing:
            if name in required:
                self._merge(0, OutputCheck(name, passed=False, reason="is missing"))
            else:
                self._pair.only_reference.append(name)
        if self._loose:
            known = self._worst.keys()
            self._pair.only_candidate = sorted(
                self._extra - known, key=lambda name: self._order[name]
            )

    def pair(self) -> Pair:
        """Return what was found, values in topological order."""
        pair = self._pair
        pair.outputs = sorted(self._worst.values(), key=lambda c: self._place(c.output))
        pair.samples, pair.stopped = len(self._seen), self._stopped
        if self._first is not None:
            _, sample, check = self._first
            name = check.output if check.output in self._order else _base(check.output)
            pair.first = FirstDifference(check, sample, self._makers.get(name))
        return pair

    def _place(self, output: str) -> int:
        known = self._order.get(output, self._order.get(_base(output)))
        return len(self._order) if known is None else known

    def _merge(self, sample: int, check: OutputCheck) -> None:
        old = self._worst.get(check.output)
        self._worst[check.output] = check if old is None else _worse(old, check)
        if not check.passed:
            place = self._place(check.output)
            if self._first is None or place < self._first[0]:
                self._first = (place, sample, check)


def _base(output: str) -> str:
    return output.partition("[")[0]


def _worse(old: OutputCheck, new: OutputCheck) -> OutputCheck:
    """Return the worse of two samples' comparisons, with the largest errors of both."""
    worst = new if _rank(new) > _rank(old) else old
    return replace(
        worst,
        max_abs=_most(old.max_abs, new.max_abs),
        max_rel=_most(old.max_rel, new.max_rel),
        share=_most(old.share, new.share),
    )


def _most(one: float | None, other: float | None) -> float | None:
    return max((v for v in (one, other) if v is not None), default=None)


def _rank(check: OutputCheck) -> tuple[bool, float]:
    if isinstance(check, Measured):
        return not check.passed, check.badness
    if check.rmse_new is not None and check.share is not None:
        return not check.passed, check.share  # the two errors reported are those of one sample
    return not check.passed, check.max_abs or 0.0
