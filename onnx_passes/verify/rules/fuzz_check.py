"""Apply a rule to one model, and look for something that it broke."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import onnx_ir as ir
from onnxscript.rewriter import RewriteRule

from onnx_passes.contracts import Tolerance
from onnx_passes.errors import PassError
from onnx_passes.ops.bodies import attach_bodies
from onnx_passes.passes.context import Rewrites
from onnx_passes.passes.rewriting import rewrite
from onnx_passes.verify.interface_check import compare_interfaces, interface_of
from onnx_passes.verify.low_precision import low_tolerances
from onnx_passes.verify.rules.applying import apply_rule
from onnx_passes.verify.rules.fault import Fault
from onnx_passes.verify.rules.fuzz_error import Error, errors_of, exceeds
from onnx_passes.verify.rules.generate_variants import AMPLIFIED
from onnx_passes.verify.rules.pattern import pattern_of
from onnx_passes.verify.rules.proof import Counterexample
from onnx_passes.verify.rules.replay import Replayer
from onnx_passes.verify.rules.running import Feeds
from onnx_passes.verify.well_formed import check_structure


@dataclass
class RuleTrial:
    """What one model showed.

    Attributes:
        fired: How often the rule was applied.
        runs: How many inputs both models were run on.
        fault: What breaks every contract.
        inexact: What breaks equality, and no tolerance.
        sound: Whether the model could be judged at all.
        not_run: Whether the engine does not run the original, ends its process on it, or
            lacks a kernel for the result.
        errors: Largest differences by element type, on ordinary inputs.
        loose: What breaks the tolerance that is declared.
        operators: The operators of both models, each as domain and name.
    """

    operators: set[tuple[str, str]] = field(default_factory=set)
    fired: int = 0
    runs: int = 0
    fault: Fault | None = None
    inexact: Fault | None = None
    sound: bool = True
    not_run: bool = False
    errors: dict[str, Error] = field(default_factory=dict)
    loose: Fault | None = None


@dataclass
class Examiner:
    """Applies one rule to models.

    Attributes:
        rule: The rule.
        allowed: The parts of the interface that its pass declares to change.
        declared: The tolerance that its pass declares, which errors are measured against.
    """

    rule: RewriteRule
    allowed: frozenset[str] = field(default=frozenset())
    declared: Tolerance | None = None

    def fires(self, model: ir.Model) -> bool:
        """Whether the rule changes the model, or raises on it."""
        try:
            return apply_rule(self.rule, model) is not None
        except Exception:
            return True  # judged by ``examine``, which says what was raised

    def examine(self, model: ir.Model, kind: str, feeds: Sequence[Feeds]) -> RuleTrial:
        """Apply the rule until it rests; check structure, interface and values.

        Args:
            model: The model; it stays as it is.
            kind: What was varied in it, for reports.
            feeds: Inputs by name, one mapping a sample.
        """
        trial = RuleTrial()
        if check_structure(model, full=True):
            trial.sound = False
            return trial
        try:
            after = self._applied(model, trial)
        except PassError as error:
            return self._failed(trial, Fault(error.message, kind, model, breaks="rule"), feeds)
        except Exception as error:
            reason = f"the rule raised {type(error).__name__}: {error}"
            return self._failed(trial, Fault(reason, kind, model, breaks="rule"), feeds)
        if after is None:
            return trial
        for graph in (model, after):
            trial.operators |= {(n.domain, n.op_type) for n in graph.graph.all_nodes()}
        faults = check_structure(after) or compare_interfaces(
            interface_of(model), interface_of(after), self.allowed
        )
        replayer = Replayer(model, after)
        old, new = replayer.failures(feeds[0])
        if old is not None or (new is not None and new.missing and not faults):
            trial.sound, trial.not_run = False, True
            return trial
        # An engine may have operators in the main domain that onnx does not know.
        unknown = bool(faults) and "No Op registered" in faults[0]
        if faults and not (unknown and new is None):
            reason = f"{faults[0]} (opset {model.opset_imports.get('')})"
            trial.fault = self._sorted(Fault(reason, kind, model, after, breaks="model"))
            return trial
        for sample in feeds:
            trial.runs += 1
            found = replayer.compare(sample, real=False)
            if found is None or (kind == AMPLIFIED and not beyond_rounding(found)):
                continue
            if _contradicts_inference(model, found):
                trial.sound = False
                return trial
            clear = replayer.compare(sample, real=True)
            if clear is not None and not _repeats(model, clear.feeds):
                trial.sound = False
                return trial
            if clear is not None:
                breaks = "values" if clear.actual else "engine"
                fault = Fault(clear.reason, kind, model, after, clear, breaks)
                trial.fault = self._sorted(fault)
                return trial
            if kind != AMPLIFIED:
                self._measure(trial, model, after, found, replayer)
            trial.inexact = trial.inexact or Fault(
                found.reason, kind, model, after, found, breaks="bits"
            )
        return trial

    def _measure(
        self,
        trial: RuleTrial,
        model: ir.Model,
        after: ir.Model,
        found: Counterexample,
        replayer: Replayer,
    ) -> None:
        errors = errors_of(found)
        for kind, error in errors.items():
            trial.errors[kind] = trial.errors.get(kind, Error()).joined(error)
        if self.declared is not None and trial.loose is None:
            reason = exceeds(found, self.declared, low_tolerances(model)) if errors else None
            if reason is not None and not replayer.is_rounding(
                found.feeds, found.expected, found.actual
            ):
                trial.loose = Fault(reason, "plain", model, after, found, breaks="tolerance")

    def _failed(self, trial: RuleTrial, fault: Fault, feeds: Sequence[Feeds]) -> RuleTrial:
        """Note that the rule failed, if the model that it failed on is one that runs."""
        trial.fired = 1
        trial.sound = _before_runs(fault.before, feeds[0])
        trial.not_run = not trial.sound
        trial.fault = self._sorted(fault) if trial.sound else None
        return trial

    def _sorted(self, fault: Fault) -> Fault:
        words = _NAMES.sub("", fault.reason.partition(": element")[0].partition("Name:")[0])
        if fault.breaks in ("rule", "engine", "model"):
            return replace(fault, sort=f"{fault.breaks}; {words}")
        # The attributes distinguish one wrong value from another; the surroundings do not.
        matched = {node.op_type for node in pattern_of(self.rule)}
        graphs = fault.before.graph.all_nodes()
        nodes = {f"{n.op_type}{sorted(n.attributes)}" for n in graphs if n.op_type in matched}
        return replace(fault, sort=f"{words} {' '.join(sorted(nodes))}")

    def _applied(self, model: ir.Model, trial: RuleTrial) -> ir.Model | None:
        if self.rule.as_function:
            after = apply_rule(self.rule, model)
            trial.fired = int(after is not None)
            return after
        copy = model.clone()
        trial.fired = len(rewrite(copy, [self.rule], Rewrites()))
        return copy if trial.fired else None


_NAMES = re.compile(r"output \S+: |[\d.+-]+|'[^']*'")
_ROUNDING = 64.0
"""Units in the last place of the largest element that rounding may cost."""


def beyond_rounding(found: Counterexample) -> bool:
    """Whether the values in front of the amplifiers already differ by more than rounding.

    An amplifier turns any rounding near its pole, and the sign of a zero, into a large
    difference. The one says nothing; of the other the gate knows that it gives no induction.
    """
    for name, expected in found.expected.items():
        actual = found.actual.get(name)
        if actual is None or actual.shape != expected.shape or actual.dtype != expected.dtype:
            return True
        if name.endswith(("_reciprocal", "_sqrt", "_log")) or expected.dtype.kind != "f":
            continue
        step = 2.0**-52 if expected.dtype == np.float64 else 2.0**-23
        wide, other = expected.astype(np.float64), actual.astype(np.float64)
        finite = np.isfinite(wide) & np.isfinite(other)
        largest = float(np.max(np.abs(wide[finite]), initial=0.0))
        far = np.abs(wide[finite] - other[finite]) > _ROUNDING * step * largest
        if np.any(far) or np.any(np.isfinite(wide) & ~finite):
            return True
    return False


def _repeats(model: ir.Model, feeds: Feeds) -> bool:
    """Whether the engine gives the same twice: a kernel that reads stray memory does not."""
    return Replayer(model, model).compare(feeds, real=False) is None


def _contradicts_inference(model: ir.Model, found: Counterexample) -> bool:
    """Whether sides differ in shape, and the original's is not the one that onnx infers.

    ONNX Runtime 1.31.1 reduces an empty tensor over a negative axis to one of another rank.
    """
    import onnx

    if all(found.expected[k].shape == a.shape for k, a in found.actual.items()):
        return False
    proto = ir.to_proto(model)
    attach_bodies(proto)
    inferred = onnx.shape_inference.infer_shapes(proto)
    for output in inferred.graph.output:
        kind, got = output.type.tensor_type, found.expected.get(output.name)
        if got is None or not kind.HasField("shape"):
            continue
        sizes = [d.dim_value if d.HasField("dim_value") else None for d in kind.shape.dim]
        same = len(sizes) == got.ndim and all(
            size in (None, actual) for size, actual in zip(sizes, got.shape, strict=True)
        )
        if not same:
            return True
    return False


def _before_runs(model: ir.Model, feeds: Feeds) -> bool:
    return Replayer(model, model).runs(feeds) is None
