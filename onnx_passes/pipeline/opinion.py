"""A second opinion on what an engine that rewrites graphs found, node by node."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property

from onnx_passes.errors import EngineError
from onnx_passes.pipeline.arbitration import Arbiter, is_foreign
from onnx_passes.pipeline.baseline import Baseline
from onnx_passes.pipeline.engine_check import EngineCheck
from onnx_passes.pipeline.engine_side import Bench
from onnx_passes.pipeline.recorder import Recorder
from onnx_passes.pipeline.region_conclusion import Regional
from onnx_passes.pipeline.regional import RegionCheck
from onnx_passes.pipeline.state import State
from onnx_passes.pipeline.step import Step
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify.result import Check, Verdict


@dataclass
class Opinion:
    """What an engine that runs node by node says of a pass; it is asked at most once.

    Attributes:
        ask: Asks it.
    """

    ask: Callable[[], tuple[Bench, Regional | None]]

    @cached_property
    def _found(self) -> tuple[Bench, Regional | None]:
        return self.ask()

    @property
    def confirms(self) -> bool:
        """Whether it finds values inside that differ, too."""
        found = self._found[1]
        return found is not None and found.failed

    @property
    def contradicts(self) -> Bench | None:
        """The engine, where it runs what changed before and after, and finds it right."""
        bench, found = self._found
        agrees = found is not None and not found.failed and found.differs is None
        return bench if agrees else None


def arbitrated(
    engines: EngineCheck,
    state: State,
    step: Step,
    checks: list[Check],
    certain: Collection[str],
) -> list[Check]:
    """Separate what an engine that rewrites graphs does from what the pass did.

    Args:
        engines: Checks the whole model where a value inside says nothing.
        state: What is known of the model before.
        step: The pass.
        checks: Its checks.
        certain: Engines on which a value inside differs by more than rounding can do.
    """
    asked = [b for b in state.baseline.benches if b.when == "each"]
    opinion = Opinion(lambda: _ask_node_by_node(engines, state, step))
    for index, bench in enumerate(state.baseline.benches):
        # Values inside a model do not show how an engine rounds the whole.
        inside = [c for c in checks if c.engine == bench.engine.name and c.scope == "region"]
        failed = any(c.verdict is Verdict.FAILED for c in inside)
        failed &= bench in asked and not bench.node_by_node
        failed &= bench.engine.name not in certain
        if failed and not (is_foreign(bench.engine) and opinion.confirms):
            whole = engines.whole(index, bench, state, step).checks
            checks = [c for c in checks if c not in inside] + whole
    arbiter = Arbiter(state, step.before, step.model, asked, lambda: opinion.contradicts)
    return arbiter.after_pass(checks, step.pass_.contracts(), step.override)


def _ask_node_by_node(
    engines: EngineCheck, state: State, step: Step
) -> tuple[Bench, Regional | None]:
    """Ask an engine that runs node by node about what changed, with all its values inside.

    Returns:
        The engine, and what it found; None where it does not run the region.
    """
    comparing, bench = state.comparing, Bench(OnnxRuntimeEngine(), "never")
    check = RegionCheck(
        Recorder(bench, engines.settings.memory_limit),
        Baseline(step.before, [bench], list(state.baseline.samples), ahead=False),
        step.before,
        step.model,
        step.applied,
        [comparing.inside(c, step.override) for c in step.promises],
        untouched=True,
    )
    try:
        return bench, check.run(None) if step.promises else None
    except EngineError:
        return bench, None
