"""Rows of values that parts of a change are run on, drawn like those that were recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np
import onnx_ir as ir

from onnx_passes.contracts.elements import kind_of
from onnx_passes.ops.breakpoints import around, beyond, breakpoints_of, ties_of
from onnx_passes.pipeline.drawn import reads_of
from onnx_passes.pipeline.reaching import reaching
from onnx_passes.pipeline.recorded_values import Recorded
from onnx_passes.runtime.engine_base import Array, Engine
from onnx_passes.verify.informative import DRAWS_OF_OTHERS, ValueSource, draw_like, tied
from onnx_passes.verify.obligations import ObligationPart
from onnx_passes.verify.region import boundary_of


@dataclass(frozen=True)
class DrawnRows:
    """Draws what the nodes of a part read.

    Attributes:
        before: The model before, without functions.
        recorded: The values of the model before: the types and shapes of those drawn.
        engine: What runs nodes, to find what they give wanted values on.
        renamed: For values of the model after, the names of those that they must equal.
        varying: Names of the values of the model before that depend on data.
    """

    before: ir.Model
    recorded: Recorded
    engine: Engine
    renamed: Mapping[str, str]
    varying: AbstractSet[str]

    def draw(
        self,
        part: ObligationPart,
        sources: Mapping[str, str],
        kinds: Sequence[ValueSource],
        ahead: Sequence[ir.Node] = (),
        wanted: Mapping[str, Array] | None = None,
    ) -> list[dict[str, Array]]:
        """Return rows of values by name, some for each kind.

        Args:
            part: The part.
            sources: What is drawn, with the names of the values that it is drawn like.
            kinds: What the values are drawn from.
            ahead: Nodes of the model before that the part is run behind.
            wanted: Values that these nodes should compute, by name, of any shape and type;
                None for none.
        """
        draws = [self._draw(sources, kind, k) for k, kind in enumerate(kinds)]
        if kinds is DRAWS_OF_OTHERS:
            nodes = [*ahead, *part.old]
            varying = {n for n, source in sources.items() if source in self.varying}
            edges = self._at_breakpoints(sources, (*nodes, *part.new))
            draws += [draws[0] | row for row in (*edges, tied(draws[0], varying))]
            recorded = self.recorded.samples[0]
            feeds = {name: recorded[source] for name, source in sources.items()}
            feeds |= {name: v for name, v in (wanted or {}).items() if name in feeds}
            draws += reaching(self.engine, self.before, nodes, feeds, varying, wanted or {})
        return draws

    def sources(self, part: ObligationPart, ahead: Sequence[ir.Node] = ()) -> dict[str, str]:
        """Return what has to be drawn, with the names of the values that it is drawn like.

        Args:
            part: The part.
            ahead: Nodes of the model before that it is run behind.
        """
        mine, theirs = reads_of(part, part.old, part.new)
        made = {str(v.name) for node in ahead for v in node.outputs}
        sources = {name: name for name in (*mine, *boundary_of(ahead)) if name not in made}
        for name in theirs:
            other = self.renamed.get(name, name)  # of two names of one value, that of before
            if name in made or other in made:
                continue
            unknown = not self.recorded.holds((name,))
            sources.setdefault(name, other if other in mine or unknown else name)
        return sources

    def _draw(
        self, sources: Mapping[str, str], kind: ValueSource, turn: int
    ) -> dict[str, Array]:
        recorded = self.recorded.samples[0]
        return {
            name: draw_like(recorded[source], f"{source} {turn}", kind)
            if source in self.varying  # what follows from constants is never another
            else recorded[source]
            for name, source in sources.items()
        }

    def _at_breakpoints(
        self, sources: Mapping[str, str], nodes: Sequence[ir.Node]
    ) -> list[dict[str, Array]]:
        """Return rows of floats on both sides of where pieces of operators meet, or on one.

        Of what is quantised, one row lies half way between levels.
        """
        recorded = self.recorded.samples[0]
        floats = {
            name: array
            for name, source in sources.items()
            if source in self.varying
            and isinstance(array := recorded[source], np.ndarray)
            and kind_of(array.dtype) == "float"
        }
        found = {
            name: (*around(numbers, floats[name]), *beyond(numbers, floats[name]))
            for name, numbers in breakpoints_of(nodes).items()
            if name in floats
        }
        count = max(map(len, found.values()), default=1)
        ties = {
            name: np.resize(numbers, floats[name].shape).astype(floats[name].dtype)
            for name, numbers in ties_of(nodes).items()
            if name in floats
        }
        rows = [
            {name: rows[k % len(rows)] for name, rows in found.items()} for k in range(count)
        ]
        return [*rows, ties] if ties else rows
