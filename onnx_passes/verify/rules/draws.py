"""Random draws that are remembered, so that what fired once is varied, not sought anew."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import onnx_ir as ir

_AHEAD = 8
"""How far a remembered draw may lie beyond its place, where a choice before it has changed."""


@dataclass(frozen=True, slots=True)
class Draw:
    """One draw: what was asked for, and what came."""

    kind: str
    asked: tuple[object, ...]
    value: Any


class Draws:
    """Draws from a generator, or from what was drawn before, with some of it drawn anew.

    A pattern of many nodes fires on one random model in hundreds. Most of the choices behind
    such a model are what makes it fire. With one or two of them changed it often still does,
    and where it does not, it is a near miss.

    Attributes:
        trace: What has been drawn so far.
    """

    def __init__(
        self, rng: np.random.Generator, old: tuple[Draw, ...] = (), changes: int = 1
    ) -> None:
        """Draw from ``rng``, or repeat ``old`` but for ``changes`` places."""
        self._rng, self._old, self._place = rng, old, 0
        self._anew = {int(rng.integers(len(old))) for _ in range(changes)} if old else set()
        self.trace: list[Draw] = []

    def random(self) -> float:
        """Return a number from 0 to below 1."""
        return float(self._drawn("random"))

    def integers(self, *asked: object) -> Any:
        """Return integers, as ``numpy.random.Generator.integers`` does."""
        return self._drawn("integers", *asked)

    def permutation(self, count: int) -> Any:
        """Return the numbers below ``count`` in some order."""
        return self._drawn("permutation", count)

    def _drawn(self, kind: str, *asked: object) -> Any:
        value = self._remembered(kind, asked)
        if value is None:
            value = getattr(self._rng, kind)(*asked)
        self.trace.append(Draw(kind, asked, value))
        return value

    def _remembered(self, kind: str, asked: tuple[object, ...]) -> Any:
        for place in range(self._place, min(self._place + _AHEAD, len(self._old))):
            draw = self._old[place]
            if draw.kind == kind and draw.asked == asked:
                self._place = place + 1
                return None if place in self._anew else draw.value
        return None


Kind: TypeAlias = "tuple[str, int, str]"
"""Element type and opset of a model, and the operators it is made of."""


class Hits:
    """What was drawn for models on which a rule fired, by kind of model."""

    def __init__(self, rng: np.random.Generator) -> None:
        """Choose among them by ``rng``."""
        self._rng = rng
        self._traces: dict[Kind, list[tuple[Draw, ...]]] = {}
        self.count = 0

    def __bool__(self) -> bool:
        return bool(self._traces)

    @staticmethod
    def kind(dtype: str, model: ir.Model) -> Kind:
        """Return the kind of a model.

        Args:
            dtype: Name of the element type.
            model: The model.
        """
        graph = model.graph
        operators = " ".join(sorted(node.op_type for node in graph))
        return dtype, graph.opset_imports[""], operators

    def add(self, kind: Kind, trace: tuple[Draw, ...]) -> None:
        """Keep what was drawn for a model that fired; the latest of many are kept.

        Args:
            kind: The kind of the model.
            trace: What was drawn.
        """
        self.count += 1
        traces = self._traces.setdefault(kind, [])
        traces.append(trace)
        del traces[:-40]

    def pick(self) -> tuple[Kind, Draws]:
        """Return a kind of model, and draws that vary one of it: rare kinds as often."""
        kinds = sorted(self._traces)
        kind = kinds[int(self._rng.integers(len(kinds)))]
        traces = self._traces[kind]
        old = traces[int(self._rng.integers(len(traces)))]
        return kind, Draws(self._rng, old, int(self._rng.geometric(0.5)))
