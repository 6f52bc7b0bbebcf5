"""Which rewrites a compiler does not take, by the region of each, built without the others.

The nodes that rewrites put in place become parts of one model, side by side, so that one build
answers for all. A part that the compiler names, or that a search by halves finds, is built
alone, and so is what it replaced. A rewrite has lost support if only the latter is built.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.errors import ConfigError
from onnx_passes.pipeline.compilers import Compiler
from onnx_passes.pipeline.fused import FUSED
from onnx_passes.pipeline.region_parts import (
    Part,
    is_left,
    names_part,
    own_name,
    record,
    side_by_side,
    side_part,
    told,
)
from onnx_passes.runtime.engine_base import Engine, Feeds, Finding, Level, Outputs, examine
from onnx_passes.runtime.tensorrt.engine import (
    built_layers,
    with_profiles_of,
    without_profiles,
)
from onnx_passes.verify.cut import makers_of
from onnx_passes.verify.double_precision import weigh_rounding
from onnx_passes.verify.judge import Promise
from onnx_passes.verify.local import LocalScore
from onnx_passes.verify.result import OutputCheck
from onnx_passes.verify.score import score
from onnx_passes.verify.witness import ApplicationPieces, Side

BY_REGION = "by its region alone"
"""How a rewrite was found: the compiler takes what it replaced, and not what it put there."""

_MOST_NAMED = 3
"""Rewrites that a compiler names at most, for each to be built by itself."""

ON_ENGINE = "by its own error on that engine"
"""How a rewrite was found whose values differ where both sides are run on the compiler."""


@dataclass(frozen=True)
class Regions:
    """The regions of the rewrites of one pass.

    Attributes:
        compiler: The engine that compiles.
        before: The model before the pass.
        after: The model after it.
        feeds: A sample.
        engine: What runs both, for the types and shapes at the borders of regions.
        said: What the compiler said of the whole model that it does not take.
    """

    compiler: Compiler
    before: ir.Model
    after: ir.Model
    feeds: Feeds
    engine: Engine
    said: str = ""

    def scores(
        self, pieces: Sequence[ApplicationPieces], *, left_in: ir.Model | None = None
    ) -> list[LocalScore | None]:
        """Return for each rewrite what its region shows; None where it lost nothing by itself.

        Those that the compiler named in the whole model are built first. Where they are taken
        alone, all are. A rewrite inside a body, or one that a later one replaced, is not
        looked at.

        Args:
            pieces: The rewrites.
            left_in: The model that must still hold them; by default that after the pass.
        """
        named = self._named(pieces)
        found = self._scores(named, left_in) if named else {}
        found = found or self._scores(pieces, left_in)
        return [found.get(piece.application.key) for piece in pieces]

    def _named(self, pieces: Sequence[ApplicationPieces]) -> list[ApplicationPieces]:
        """Return the rewrites whose new nodes the compiler named, if they are few."""
        makers = makers_of(self.after)
        found = [piece for piece in pieces if _is_named(self.said, piece.new, makers)]
        return found if len(found) <= _MOST_NAMED else []

    def _scores(
        self, pieces: Sequence[ApplicationPieces], left_in: ir.Model | None
    ) -> dict[str, LocalScore]:
        """Return what the regions of rewrites show that lost support, by their keys."""
        looked, arrays = self._looked(pieces, left_in or self.after)
        parts: dict[int, Part] = {}
        for number, piece in enumerate(looked):
            part = self._part(f"p{number}", self.after, piece.new, arrays)
            if part is not None:
                parts[number] = part
        found: dict[str, LocalScore] = {}
        for number, finding in self._failing(parts).items():
            piece = looked[number]
            old = self._part("old", self.before, piece.old, arrays)
            if old is not None and self._reaches(self._examine([old])):
                reason = told(finding, parts[number])
                application = piece.application
                check = OutputCheck(application.replaced[0][0], False, reason)
                how = f"{BY_REGION}: {reason}"
                found[application.key] = LocalScore(application, np.inf, (check,), how, False)
        return found

    def measured(
        self, pieces: Sequence[ApplicationPieces], promise: Promise
    ) -> list[LocalScore | None]:
        """Run both sides of each rewrite on the engine, in one build for each side.

        What differs is held against the running error of its operators, since an engine that
        fuses nodes rounds elsewhere on each side.

        Args:
            pieces: The rewrites.
            promise: What each must keep.

        Returns:
            For each rewrite its score; None where one of its sides is not executed.
        """
        looked, arrays = self._looked(pieces, self.after)
        sides: list[tuple[ApplicationPieces, Part, Part]] = []
        for number, piece in enumerate(looked):
            old = self._part(f"o{number}", self.before, piece.old, arrays)
            new = self._part(f"p{number}", self.after, piece.new, arrays)
            if old is not None and new is not None:
                sides.append((piece, old, new))
        if not sides:
            return [None] * len(pieces)
        found: dict[str, LocalScore] = {}
        told_of: set[str] = set()
        olds = self._executed([old for _, old, _ in sides])
        news = self._executed([new for _, _, new in sides])
        for piece, old, new in sides if olds and news else ():
            names = [str(value.name) for value in piece.old.outputs]
            ends = [str(value.name) for value in piece.new.outputs]
            expected = {n: olds.get(f"{old.prefix}.{n}") for n in names}
            actual = {
                n: news.get(f"{new.prefix}.{e}") for n, e in zip(names, ends, strict=True)
            }
            if any(value is None for value in (*expected.values(), *actual.values())):
                continue  # a constant, or a value that both sides read
            checks = promise.check(expected, actual)
            if not all(check.passed for check in checks) and _rounds(old, new, olds, news):
                checks = tuple(replace(check, passed=True, reason=FUSED) for check in checks)
            error = score([expected], [actual], frozenset())
            key = piece.application.key
            how = ON_ENGINE
            if not all(check.passed for check in checks) and len(told_of) < _MOST_NAMED:
                told_of.add(key)
                how += self._layers(new)
            found[key] = LocalScore(piece.application, error, checks, how)
        return [found.get(piece.application.key) for piece in pieces]

    def _layers(self, part: Part) -> str:
        """Say what layers the engine makes of a part, by its own names; nothing if untold."""
        engine = with_profiles_of(
            without_profiles(self.compiler.engine), part.model, [part.rows[0]]
        )
        names = [own_name(layer.name, part) for layer in built_layers(engine, part.model)]
        return f", in its layers {', '.join(map(repr, names))}" if names else ""

    def _executed(self, parts: Sequence[Part]) -> Outputs:
        finding = self._examine(parts, execute=True)
        return finding.outputs[0] if finding.level is Level.EXECUTED else {}

    def _looked(
        self, pieces: Sequence[ApplicationPieces], left_in: ir.Model
    ) -> tuple[list[ApplicationPieces], dict[str, Array]]:
        """Return the rewrites that can be looked at, and the values at their borders."""
        made = {str(v.name) for node in left_in.graph for v in node.outputs}
        looked = [
            piece for piece in pieces if piece.application.outermost and is_left(piece, made)
        ]
        if not looked:
            return [], {}
        return looked, record(self.before, self.after, looked, self.feeds, self.engine)

    def _part(
        self, prefix: str, model: ir.Model, side: Side, arrays: Mapping[str, Array]
    ) -> Part | None:
        shapes = [value.shape for value in self.before.graph.inputs]
        static = all(shape is not None and shape.is_static() for shape in shapes)
        return side_part(prefix, model, side, arrays, static=static)

    def _failing(self, parts: Mapping[int, Part]) -> dict[int, Finding]:
        """Return the parts that are not built, each with what is said of it alone."""
        if not parts:
            return {}
        together = self._examine([*parts.values()])
        if self._reaches(together):
            return {}
        if len(parts) == 1:
            return dict.fromkeys(parts, together)
        named = [n for n, part in parts.items() if names_part(together.reason, part)]
        alone = {n: self._examine([parts[n]]) for n in named if len(named) < len(parts)}
        found = {n: finding for n, finding in alone.items() if not self._reaches(finding)}
        if found:
            rest = {n: part for n, part in parts.items() if n not in alone}
            return found | self._failing(rest)
        numbers = list(parts)
        middle = len(numbers) // 2
        for half in (numbers[:middle], numbers[middle:]):
            found |= self._failing({n: parts[n] for n in half})
        return found

    def _reaches(self, finding: Finding) -> bool:
        wanted = min(self.compiler.original.level, Level.BUILT, key=lambda level: level.rank)
        return finding.level.rank >= wanted.rank

    def _examine(self, parts: Sequence[Part], *, execute: bool = False) -> Finding:
        model = side_by_side(parts)
        feeds = dict(chain.from_iterable(part.rows[0].items() for part in parts))
        engine = with_profiles_of(without_profiles(self.compiler.engine), model, [feeds])
        try:
            return examine(engine, model, [feeds] if execute else ())
        except ConfigError as error:
            return Finding(Level.PARSED, error.message, error.help)


def _rounds(old: Part, new: Part, olds: Outputs, news: Outputs) -> bool:
    """Whether rounding explains how the one value of two parts differs."""
    if len(old.model.graph.outputs) != 1 or len(new.model.graph.outputs) != 1:
        return False
    names = [str(part.model.graph.outputs[0].name) for part in (old, new)]
    expected, actual = olds[names[0]], news[names[1]]
    if not isinstance(expected, np.ndarray) or not isinstance(actual, np.ndarray):
        return False
    feeds = {**old.rows[0], **new.rows[0]}
    return weigh_rounding(old.model, new.model, feeds, expected, actual, names[0]) is True


def _is_named(reason: str, side: Side, makers: Mapping[str, ir.Node]) -> bool:
    """Whether a compiler names a node of a rewrite, or a layer that it made of one."""
    values = {str(value.name) for node in side.nodes for value in node.outputs if value.name}
    names = values | {str(makers[v].name) for v in values if v in makers and makers[v].name}
    return any(re.search(rf"(?<![\w.]){re.escape(n)}(?![\d.])", reason) for n in names)
