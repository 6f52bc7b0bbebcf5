"""Models for the property test of a rule: hostile surroundings for what its pattern builds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir
from onnx.shape_inference import InferenceError
from onnxscript.rewriter import RewriteRule

from onnx_passes.ops.input_hints import Shape
from onnx_passes.ops.semantics import Unsupported
from onnx_passes.verify.rules.building import CannotInstantiate, ModelBuilder
from onnx_passes.verify.rules.covered import Template, describe
from onnx_passes.verify.rules.draws import Draw, Draws, Hits
from onnx_passes.verify.rules.enumeration import (
    Plan,
    choices_of_inputs,
    few_types,
    operand_names,
    plans_of,
)
from onnx_passes.verify.rules.generate_variants import AMPLIFIED, VARIANTS, followed
from onnx_passes.verify.rules.hinted_operands import hint_of
from onnx_passes.verify.rules.literals import literals
from onnx_passes.verify.rules.plausible_operands import Chooser

_T = ir.DataType
TYPES = (
    *(_T.FLOAT, _T.FLOAT, _T.INT64, _T.FLOAT, _T.BOOL, _T.FLOAT16, _T.FLOAT, _T.INT32),
    *(_T.DOUBLE, _T.UINT8, _T.FLOAT, _T.BFLOAT16, _T.INT8, _T.UINT32, _T.INT16, _T.UINT64),
    _T.DOUBLE,
    _T.UINT16,
)
"""Element types in the order in which they are tried."""

_USUAL = (_T.FLOAT, _T.INT64, _T.BOOL, _T.FLOAT)
"""Element types that a plan of ranks is tried with."""

_SAME_TYPE = 0.85
"""How often a model that is varied keeps its element type."""

_EVERY = 5
"""One model in so many is tried in surroundings."""

_AMPLIFIER = [name for name, _ in VARIANTS].index(AMPLIFIED)

_FULL = 6
"""One model in so many has all inputs that the pattern leaves open."""

_EDGES: tuple[Shape, ...] = (
    *((1,), (0,), (0, 3), (2, 1, 3), (1, 1), (), (2, 0, 3), (2, 0, 3), (4, 5)),
)


@dataclass(frozen=True)
class Candidate:
    """A model in which the pattern occurs; whether the rule fires is the rule's to say.

    Attributes:
        kind: "plain" or the surrounding, such as "inside an If".
        model: The model.
        ports: Its inputs with concrete shapes, which those of the model need not have.
        dtype: The element type it was built for.
        near: Whether a constant lies beside the number that the pattern or guard spells out,
            within the tolerance with which it is still taken for it.
        trace: What was drawn for it.
        planned: Whether its ranks, type or opset are enumerated, and not drawn.
        template: What a claim says of it.
    """

    kind: str
    model: ir.Model
    ports: tuple[ir.Value, ...]
    dtype: str
    near: bool = False
    trace: tuple[Draw, ...] = ()
    planned: bool = False
    template: Template | None = None


class EdgeChooser(Chooser):
    """Choices that include what authors forget: rank 0, size 1 and empty tensors."""

    edges = 0.25
    """How many of the shapes are such."""

    def shape(self) -> Shape:
        """Return a shape of data, some of them edge cases."""
        known = self.edge or self.rank is not None or self.square is not None
        if not known and len(self._shapes) > 1 and self.rng.random() < self.edges:
            return tuple(self.pick(_EDGES))
        return super().shape()


def probed(numbers: list[float]) -> list[float]:
    """Return the numbers a guard compares with, most often, and those just beside them."""
    beside = [m for n in numbers for m in (n * 0.9, n * 1.1, n - 1.0, n + 1.0)]
    return [*(numbers * 3), *dict.fromkeys(m for m in beside if m not in numbers)]


def candidates(
    rule: RewriteRule,
    *,
    attempts: int,
    seed: int,
    hits: Hits | None = None,
) -> Iterator[list[Candidate]]:
    """Yield groups of candidates: the pattern alone, then in each of the surroundings.

    A caller that sees none of the first two of a group fire need not look at the others. Of a
    group of two, one that fires is enough: breadth comes before surroundings.

    Args:
        rule: The rule whose pattern is walked.
        attempts: How many random models are tried.
        seed: Of the choices.
        hits: What was drawn where the rule has fired, kept up to date by the caller: every
            second model varies one of these.
    """
    rng = np.random.default_rng(seed)
    hits = Hits(rng) if hits is None else hits
    yield from _planned(rule, rng, hits)
    hint = hint_of(rule.name)
    numbers, opens = probed(literals(rule)), choices_of_inputs(rule)
    types = few_types(rule, TYPES) if hint is None else hint.types
    for attempt in range(attempts):
        dtype, draws = TYPES[attempt // 2 % len(TYPES)], Draws(rng)
        if attempt % 2 and hits:
            (name, *_), draws = hits.pick()
            dtype = ir.DataType[name.upper()] if rng.random() < _SAME_TYPE else dtype
        elif types and rng.random() < _SAME_TYPE / (1 + bool(hits)):
            dtype = types[int(rng.integers(len(types)))]
        chooser = EdgeChooser(draws, dtype, numbers)
        chooser.edges = 0.6 if attempt % 3 == 0 else 0.25
        # In turn, so that none is missing by chance.
        turn = range(4 * (attempt // _EVERY), 4 * (attempt // _EVERY) + 4)
        order = [k % len(VARIANTS) for k in turn if attempt % _EVERY == 0]
        # What fired with few inputs is varied with all of them as well.
        plan = Plan()
        if opens and attempt % _FULL == 1:
            plan = Plan(full=opens[attempt // _FULL % len(opens)])
        yield [replace(c, planned=False) for c in _group(rule, chooser, plan, order)]


def _planned(
    rule: RewriteRule, rng: np.random.Generator, hits: Hits
) -> Iterator[list[Candidate]]:
    """Yield candidates for each plan, until the rule fires on one."""
    hint = hint_of(rule.name)
    few = few_types(rule, TYPES) if hint is None else hint.types
    usual = few or _USUAL
    numbers = probed(literals(rule))
    for plan in plans_of(rule, TYPES, 1 if hint is None else hint.since):
        before = hits.count
        for draw in range(plan.draws):
            draws = Draws(rng)
            kinds = TYPES if plan.full and not few else usual
            dtype = plan.dtype or kinds[draw // 2 % len(kinds)]
            if draw % 2 and hits:
                (name, *_), draws = hits.pick()
                dtype = plan.dtype or ir.DataType[name.upper()]
            yield _group(rule, EdgeChooser(draws, dtype, numbers), plan, ())
            if hits.count - before >= plan.enough:
                break


def _group(
    rule: RewriteRule, chooser: Chooser, plan: Plan, surroundings: Sequence[int]
) -> list[Candidate]:
    """Return a model and itself in surroundings; nothing if the choices make none."""
    chooser.edge, chooser.keen = plan.edge, plan.near
    try:
        model = ModelBuilder(rule, chooser, plan, measures=True).build()
        behind = followed(model)
    except (CannotInstantiate, Unsupported, OverflowError, InferenceError):
        return []
    if chooser.near:
        # What is within a tolerance of another number shows behind an amplifier, at zero.
        surroundings = (_AMPLIFIER, *surroundings[:1])
    ports = tuple(model.graph.inputs)
    group = [("plain", model, ports), ("behind a further node", *behind)]
    for base, chosen in ((model, surroundings[:2]), (behind[0], surroundings[2:4])):
        for index in chosen:
            kind, variant = VARIANTS[int(index)]
            made = variant(base)
            if made is not None:
                group.append((kind, *made))
    trace, kind = tuple(chooser.rng.trace), chooser.dtype.name.lower()
    planned, told = plan != Plan(), describe(model, operand_names(rule))
    return [Candidate(k, m, p, kind, chooser.near, trace, planned, told) for k, m, p in group]
