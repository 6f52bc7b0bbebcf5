"""Build models from a rule's pattern, until the rule fires on some of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx_ir as ir
from onnxscript.rewriter import RewriteRule

from onnx_passes.ops.semantics import Unsupported
from onnx_passes.verify.rules.applying import apply_rule
from onnx_passes.verify.rules.building import CannotInstantiate, ModelBuilder
from onnx_passes.verify.rules.draws import Draws, Hits
from onnx_passes.verify.rules.enumeration import Plan, few_types, plans_of
from onnx_passes.verify.rules.hinted_operands import hint_of
from onnx_passes.verify.rules.literals import literals
from onnx_passes.verify.rules.plausible_operands import Chooser
from onnx_passes.verify.rules.replay import Replayer, samples

_TYPES = (
    *(ir.DataType.FLOAT,) * 4,
    *(ir.DataType.INT32, ir.DataType.INT64, ir.DataType.BOOL, ir.DataType.UINT8),
    *(ir.DataType.DOUBLE, ir.DataType.FLOAT16),
)

_USUAL = (ir.DataType.FLOAT, ir.DataType.INT64, ir.DataType.BOOL, ir.DataType.FLOAT)
"""Element types that a plan of ranks is tried with."""

SIZES = (1, 2, 2, 3)
"""Sizes that keep formulas small enough for a proof."""


def instances(
    rule: RewriteRule,
    *,
    limit: int = 24,
    attempts: int = 600,
    seed: int = 0,
    near: bool = False,
    planned: bool = False,
) -> Iterator[ir.Model]:
    """Yield models on which ``rule`` fires.

    Args:
        rule: The rule; its pattern is walked, and its check decides.
        limit: How many models at most, all unlike one another in types or shapes.
        attempts: How many random models are tried.
        seed: Of the choices.
        near: Whether to yield the models alone that have a constant beside the number that
            the pattern spells out, within its tolerance; without, there are none such.
        planned: Whether models come first that enumerate ranks, types and opsets; these do
            not count.
    """
    rng = np.random.default_rng(seed)
    numbers = literals(rule)
    seen: set[str] = set()
    hits, hint = Hits(rng), hint_of(rule.name)
    few = few_types(rule, _TYPES) if hint is None else hint.types
    usual = few or _USUAL
    since = 1 if hint is None else hint.since
    plans = plans_of(rule, _TYPES, since) if planned else []
    # Nothing is proved of empty tensors: the property test runs them.
    for plan in (p for p in plans if not p.near and (p.edge is None or 0 not in p.edge)):
        before = hits.count
        for draw in range(plan.draws):
            dtype, draws = plan.dtype or usual[draw % len(usual)], Draws(rng)
            if draw % 2 and hits:
                (name, *_), draws = hits.pick()
                dtype = plan.dtype or ir.DataType[name]
            chooser = Chooser(draws, dtype, numbers)
            model = _template(rule, chooser, plan, seen, near=False)
            if model is not None:
                hits.add(hits.kind(dtype.name, model), tuple(draws.trace))
                yield model
                if hits.count - before >= plan.enough:
                    break
    found = 0
    for attempt in range(attempts):
        if found >= limit:
            return
        # The common type first: most rules are about it, and others may be refused.
        dtype, draws = _TYPES[attempt % len(_TYPES)], Draws(rng)
        # Fresh ones first: variations of one template would crowd out the other types.
        if attempt % 2 and hits and attempt > attempts // 4:
            (name, *_), draws = hits.pick()
            dtype = ir.DataType[name]
        elif hint is not None and hint.types and attempt % 3:
            dtype = hint.types[attempt % len(hint.types)]
        model = _template(rule, Chooser(draws, dtype, numbers), Plan(), seen, near=near)
        if model is not None:
            found += 1
            hits.add(hits.kind(dtype.name, model), tuple(draws.trace))
            yield model


def _template(
    rule: RewriteRule, chooser: Chooser, plan: Plan, seen: set[str], *, near: bool
) -> ir.Model | None:
    """Return a model on which the rule fires, unlike those seen; None if the choices fail."""
    # No constant is infinite: the reals, in which is proved, have no such number.
    chooser.slack, chooser.sizes, chooser.finite = near, SIZES, True
    chooser.edge = plan.edge
    try:
        model = ModelBuilder(rule, chooser, plan).build()
    except (CannotInstantiate, Unsupported, OverflowError):
        return None
    key = _signature(model)
    if near != chooser.near or key in seen:
        return None
    # A rule may refuse to make an output of an input; behind a further node it need not.
    for candidate in (model, _followed(model)):
        if candidate is not None and _fires(rule, candidate) and _runs(candidate):
            seen.add(key)
            return candidate
    return None


def _signature(model: ir.Model) -> str:
    values = (*model.graph.inputs, *model.graph.initializers.values())
    constants = (v.const_value for v in values)
    numbers = (str(None if c is None else c.numpy().tolist()) for c in constants)
    nodes = (
        f"{n.op_type}{sorted(str(a) for a in n.attributes.values())}" for n in model.graph
    )
    return ";".join((*(f"{v.dtype}{v.shape}" for v in values), *numbers, *nodes))


def _followed(model: ir.Model) -> ir.Model | None:
    """Return a copy whose outputs are negated, which loses nothing but NaN's sign."""
    copy = model.clone()
    for index, output in enumerate(list(copy.graph.outputs)):
        dtype = output.dtype
        if dtype == ir.DataType.BOOL:
            negation = ir.node("Not", [output])
        elif dtype is not None and dtype.is_signed():
            negation = ir.node("Neg", [output])
        else:
            return None
        copy.graph.append(negation)
        fresh = negation.outputs[0]
        fresh.name, fresh.type, fresh.shape = (
            f"{output.name}_negated",
            output.type,
            output.shape,
        )
        copy.graph.outputs[index] = fresh
    return copy


def _fires(rule: RewriteRule, model: ir.Model) -> bool:
    try:
        return apply_rule(rule, model) is not None
    except Exception:
        # A rule that raises on a valid model is a finding of the caller, who applies it.
        return True


def _runs(model: ir.Model) -> bool:
    replayer = Replayer(model, model)
    feeds = next(samples(replayer.inputs, 1, special=False, seed=0))
    return replayer.runs(feeds) is None
