"""Run parts of two models on values that were recorded of the model before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from onnx_passes.errors import EngineError
from onnx_passes.pipeline.baseline import Baseline
from onnx_passes.pipeline.recorded_values import Recorded
from onnx_passes.pipeline.recorder import Recorder
from onnx_passes.pipeline.region_finding import FoundRegion
from onnx_passes.runtime.engine_base import Data
from onnx_passes.runtime.parallel import run_each
from onnx_passes.verify.recording import value_names
from onnx_passes.verify.region import Region, boundary_of
from onnx_passes.verify.region_models import region_model


@dataclass
class RegionRuns:
    """Runs nodes of both models on recorded values.

    Attributes:
        recorder: Records values on the engine.
        baseline: The samples, and the original.
        models: The model before and after.
        found: What changed.
        recorded: The values of the model before.
        untouched: Whether the model before computes what the original does.
    """

    recorder: Recorder
    baseline: Baseline
    models: tuple[ir.Model, ir.Model]
    found: FoundRegion
    recorded: Recorded
    untouched: bool

    def produce(self, nodes: Sequence[ir.Node]) -> list[Mapping[str, Data]] | None:
        """Run nodes of the model after.

        Args:
            nodes: The nodes, in order.

        Returns:
            Their values by sample; None if a value that they need is not a tensor.
        """
        if not nodes:
            return [{} for _ in self.recorded.samples]
        region = Region(tuple(nodes), boundary_of(nodes), self.found.region.frontier)
        needed = frozenset(region.boundary)
        if not self.recorder.obtain(
            self.recorded,
            self.models[0],
            self.baseline,
            needed | self.found.needed,  # what is asked for no more is dropped
            untouched=self.untouched,
        ):
            return None
        if not self.recorded.holds(needed):
            return None
        wanted = {o.new for o in self.found.required} | set(region.frontier)
        hidden = self.recorder.hidden(self.models[1], self.baseline.samples, wanted)
        return self._session(self.models[1], region, hidden)

    def fill(self, names: frozenset[str], compared: set[str]) -> bool:
        """Record further values of the model before.

        Args:
            names: Their names.
            compared: Names of values that stay recorded for a comparison.

        Returns:
            Whether that can be done.
        """
        obtained = self.recorder.obtain(
            self.recorded,
            self.models[0],
            self.baseline,
            names | compared | self.found.needed,
            untouched=self.untouched,
        )
        return obtained is self.recorded and self.recorded.holds(names)

    def old_side(self) -> Recorded | None:
        """Run what was removed, in the form in which the new nodes are run."""
        nodes = self.found.region.removed
        region = Region(nodes, boundary_of(nodes), ())
        if not nodes or not self.recorded.holds(region.boundary):
            return None
        wanted = {o.old for o in self.found.required}
        hidden = self.recorder.hidden(self.models[0], self.baseline.samples, wanted)
        found = self._session(self.models[0], region, hidden)
        names = set(value_names(self.models[0]))
        return None if found is None else self.recorded.following(found, names)

    def _session(
        self, model: ir.Model, region: Region, hidden: set[str]
    ) -> list[Mapping[str, Data]] | None:
        try:
            part = region_model(model, region, self.recorded.samples, hidden)
            feeds = [values.row(region.boundary) for values in self.recorded.samples]
            with self.recorder.bench.engine.prepare(part) as session:
                return list(run_each(self.recorder.bench.engine, session, feeds))
        except EngineError:
            return None
