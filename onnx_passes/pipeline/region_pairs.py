"""What a pass changed, as pairs of small models: each connected part before and after it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import onnx_ir as ir

from onnx_passes.arrays import Array
from onnx_passes.errors import EngineError
from onnx_passes.passes.context import Application
from onnx_passes.pipeline.region_parts import Part, make_part
from onnx_passes.pipeline.weighing import BY_STRUCTURE
from onnx_passes.runtime.engine_base import Data, Engine, Feeds
from onnx_passes.verify.alike import find_proved
from onnx_passes.verify.cut import values_of
from onnx_passes.verify.evidence import Evidence, Kind
from onnx_passes.verify.informative import dependent_on_data
from onnx_passes.verify.judge import Promise
from onnx_passes.verify.node_equality import is_identity
from onnx_passes.verify.obligations import Obligation, find_obligations, split_parts
from onnx_passes.verify.obligations import ObligationPart as Piece
from onnx_passes.verify.recording import inlined
from onnx_passes.verify.region import Region, boundary_of, changed_region

_UNMATCHED = "values inside cannot be matched by name"


@dataclass(frozen=True)
class RegionPair:
    """Both sides of one connected part of a change.

    Attributes:
        what: The part, as text.
        numbers: Numbers of the rewrites that made it.
        ends: What must be equal.
        old: The nodes that were removed; None where they are not to be built.
        new: Those put in place; None where nothing is to be built, as for a constant.
        known: What is known of the part without a build; None where it is to be built.
    """

    what: str
    numbers: tuple[int, ...]
    ends: tuple[Obligation, ...] = ()
    old: Part | None = None
    new: Part | None = None
    known: Evidence | None = None


@dataclass(frozen=True)
class Batch:
    """What one pass changed, to be run on engines that compile.

    Attributes:
        name: The pass.
        promises: What it promises, with its limits for values inside.
        pairs: The parts of the change.
        bodies: Numbers of the rewrites inside bodies, and the names of their rules.
        varying: Names of the values before that depend on data.
    """

    name: str
    promises: tuple[Promise, ...]
    pairs: tuple[RegionPair, ...]
    bodies: Mapping[int, str] = field(default_factory=dict)
    varying: frozenset[str] = frozenset()

    @property
    def nbytes(self) -> int:
        """Bytes of the recorded values that it holds."""
        parts = [part for pair in self.pairs for part in (pair.old, pair.new) if part]
        return sum(a.nbytes for part in parts for row in part.rows for a in row.values())

    def not_kept(self) -> Batch:
        """Return the same without the parts that are to be built."""
        reason = "the values at its borders exceed verify.memory_limit"
        return replace(
            self,
            pairs=tuple(
                p if p.known is not None else _not_run(p.what, p.numbers, reason)
                for p in self.pairs
            ),
        )


def unkept(name: str) -> Batch:
    """Return the changes of passes whose values another process had."""
    return Batch(name, (), (_not_run(name, (), "the values at their borders are gone"),))


def pair_up(
    name: str,
    models: tuple[ir.Model, ir.Model],
    applied: Sequence[Application],
    promises: Sequence[Promise],
    samples: Sequence[Feeds],
    engine: Engine,
) -> Batch:
    """Cut what a pass changed into pairs.

    Parts end where a rewrite says that a value was replaced. Each is fed with the values
    recorded before the pass, so that a fault in one does not show in another.

    Args:
        name: The pass.
        models: The model before and after it.
        applied: The rewrites that it recorded.
        promises: What it promises.
        samples: Inputs of the model.
        engine: What runs the model before, for the values at the borders.
    """
    before, after = map(inlined, models)
    numbers = tuple(application.number for application in applied)
    rules = ", ".join(dict.fromkeys(a.rule for a in applied)) or name
    region = changed_region(before, after)
    if region is None:
        return Batch(name, tuple(promises), (_not_run(rules, numbers, _UNMATCHED),))
    required = find_obligations(region, before, after, applied)
    pieces, lost = split_parts(region, required, required, applied)
    proved = find_proved(region, before, after, required)
    asked = [piece for piece in pieces if not _is_proved(piece, proved)]
    recorded = _record(before, region, required, samples, engine) if asked else []
    if isinstance(recorded, str):
        return Batch(name, tuple(promises), (_not_run(rules, numbers, recorded),))
    static = all(v.shape is not None and v.shape.is_static() for v in before.graph.inputs)
    cutter = _Cutter(before, after, recorded, static)
    pairs = [
        _proved(piece) if _is_proved(piece, proved) else cutter.pair(piece) for piece in pieces
    ]
    gone = [a for a in lost if a.outermost]
    if gone:
        told = ", ".join(dict.fromkeys(a.rule for a in gone))
        pairs.append(_proved(Piece(numbers=[a.number for a in gone], rules=[told])))
    bodies = {a.number: a.rule for a in lost if not a.outermost}
    varying = frozenset(dependent_on_data(before)) if asked else frozenset()
    return Batch(name, tuple(promises), tuple(pairs), bodies, varying)


def _is_proved(piece: Piece, proved: set[Obligation]) -> bool:
    alike = all(map(is_identity, (*piece.old, *piece.new)))
    return alike or all(one in proved for one in piece.obligations)


def _proved(piece: Piece) -> RegionPair:
    numbers = tuple(sorted(piece.numbers))
    found = Evidence(piece.text, Kind.PROVED, numbers, reason=BY_STRUCTURE)
    return RegionPair(piece.text, numbers, known=found)


def _not_run(what: str, numbers: tuple[int, ...], reason: str) -> RegionPair:
    found = Evidence(what, Kind.OUTPUTS_ONLY, numbers, reason=reason)
    return RegionPair(what, numbers, known=found)


def _record(
    model: ir.Model,
    region: Region,
    required: Sequence[Obligation],
    samples: Sequence[Feeds],
    engine: Engine,
) -> list[dict[str, Array]] | str:
    """Return the values at the borders of parts, by sample; else why there are none."""
    names = {o.old for o in required} | {*region.boundary, *boundary_of(region.removed)}
    try:
        found = [values_of(model, names, feeds, engine) for feeds in samples]
    except EngineError as error:
        return f"the values at its borders cannot be recorded: {error.message}"
    rows = [_arrays(row) for row in found]
    for one in required:
        for row in rows:
            if one.old in row and one.tensor is None:
                row.setdefault(one.new, row[one.old])
    return rows


def _arrays(row: Mapping[str, Data]) -> dict[str, Array]:
    return {name: value for name, value in row.items() if isinstance(value, np.ndarray)}


@dataclass(frozen=True)
class _Cutter:
    before: ir.Model
    after: ir.Model
    rows: Sequence[Mapping[str, Array]]
    static: bool

    def pair(self, piece: Piece) -> RegionPair:
        """Return both sides of a part as models; or why they are not run."""
        numbers = tuple(sorted(piece.numbers))
        made = _computed(piece.new)
        ends = [
            o for o in piece.obligations if o.old in _computed(piece.old) and _is_new(o, made)
        ]
        if len(ends) < len(piece.obligations) or not ends:
            reason = "one side of it computes nothing that an engine could run"
            return _not_run(piece.text, numbers, reason)
        old = self._part(self.before, piece.old, [o.old for o in ends])
        fresh = [o.new for o in ends if o.tensor is None]
        new = self._part(self.after, piece.new, fresh) if fresh else None
        if old is None or (fresh and new is None):
            return _not_run(piece.text, numbers, "a value at its border is not a tensor")
        return RegionPair(piece.text, numbers, tuple(ends), old, new)

    def _part(
        self, model: ir.Model, nodes: Sequence[ir.Node], ends: Sequence[str]
    ) -> Part | None:
        cut = nodes, boundary_of(nodes), ends
        return make_part(model, cut, self.rows, static=self.static)


def _computed(nodes: Iterable[ir.Node]) -> set[str]:
    return {str(value.name) for node in nodes for value in node.outputs}


def _is_new(one: Obligation, made: set[str]) -> bool:
    return one.tensor is not None or one.new in made
