"""One engine that compiles, and how far models get on it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from onnx_passes.errors import ConfigError
from onnx_passes.model.digest import Key
from onnx_passes.pipeline.region_builds import RegionBuilds
from onnx_passes.runtime.engine_base import Engine, Feeds, Finding, Level, examine
from onnx_passes.runtime.tensorrt.cuda import device
from onnx_passes.runtime.tensorrt.engine import TensorRtEngine, without_cache
from onnx_passes.verify.content_key import exact_key
from onnx_passes.verify.interface_check import Interface, interface_of
from onnx_passes.verify.noise import OriginalRuns

KEPT = 4
"""Models whose progress is remembered."""


@dataclass
class Compiler:
    """One engine that compiles.

    Attributes:
        engine: The engine, with profiles for the samples.
        inner: The same, as it is in its child process.
        when: "each", "checkpoint" or "end".
        where: Excerpt of the place it was written at.
        samples: What models are executed on; none where there is no GPU.
        called: How the original is called; a model that is called otherwise is not executed.
        original: How far the original got.
        regions: Builds what passes change; None where nothing is executed, or with no budget.
    """

    engine: Engine
    inner: TensorRtEngine
    when: str
    where: str | None
    samples: Sequence[Feeds] = ()
    called: Interface | None = None
    original: Finding = field(default_factory=lambda: Finding(Level.ABSENT))
    regions: RegionBuilds | None = None
    _known: list[tuple[Key, Finding]] = field(default_factory=list)
    _again: Finding | None = None

    def finding(self, model: ir.Model) -> Finding:
        """Return how far a model gets; one that was asked for just before is not built again.

        Raises:
            ConfigError: An option does not fit the engine or the model.
        """
        key = exact_key(model)
        known = self.known(key)
        if known is None:
            samples = self.samples if interface_of(model) == self.called else ()
            start = time.perf_counter()
            known = examine(self.engine, model, samples)
            if self.regions is not None:
                self.regions.whole_seconds += time.perf_counter() - start
            self._known = [*self._known[1 - KEPT :], (key, known)]
        return known

    def reach(self, model: ir.Model) -> Finding:
        """Return how far a model gets, or the original where that says it all.

        Args:
            model: The model.
        """
        if self.original.level is Level.ABSENT:
            return self.original  # nothing will appear in the course of a run
        try:
            return self.finding(model)
        except ConfigError as error:
            # The options fitted the original: what a pass made of its interface does not.
            return Finding(Level.PARSED, error.message, error.help)

    def noise(self, model: ir.Model) -> list[OriginalRuns]:
        """Return how far two builds of the original are apart: each chooses its kernels.

        Raises:
            ConfigError: An option does not fit the engine or the model.
        """
        if self._again is None:
            self._again = examine(without_cache(self.engine), model, self.samples)
        if self._again.level is not Level.EXECUTED:
            return []
        first, second = list(self.original.outputs), list(self._again.outputs)
        return [OriginalRuns(self.engine.name, "two builds of it", first, second)]

    def known(self, key: Key) -> Finding | None:
        """Return how far a model got that was asked for."""
        return next((finding for other, finding in self._known if other == key), None)

    def told(self, found: Finding) -> str:
        """Return a finding as one sentence."""
        match found.level:
            case Level.EXECUTED:
                here = device()
                return f"executed on {'a GPU' if here is None else here.name}"
            case Level.BUILT:
                why = found.reason or self.inner.not_executed or "it was called otherwise"
                return f"built for {self.inner.target}, not executed: {why}"
            case Level.PARSED:
                return f"parsed, not built for {self.inner.target}: {found.reason}"
            case _:
                aside = f" ({found.help})" if found.help else ""
                return f"{found.level}: {found.reason}{aside}"
