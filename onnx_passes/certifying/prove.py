"""Prove a rewrite, or break it: one verdict per arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

import onnx_ir as ir
from onnxscript.rewriter import RewriteRule

from onnx_passes.certifying import arithmetic_verdicts
from onnx_passes.certifying.arithmetic_verdicts import (
    GAVE_UP,
    Effort,
    judge_exact,
    judge_ieee,
)
from onnx_passes.certifying.coverage import Covered, covered_by, describe, operand_names
from onnx_passes.certifying.equivalence import ModelPair
from onnx_passes.certifying.proof import (
    Arithmetic,
    ArithmeticVerdict,
    Fault,
    Outcome,
    Proof,
    merge,
)
from onnx_passes.certifying.replay import Replayer
from onnx_passes.certifying.rewrite_rule import RuleLike, apply_rule, rules_of
from onnx_passes.certifying.rule_paths import RulePaths
from onnx_passes.certifying.template_models import instances
from onnx_passes.errors import ModelError, PassError
from onnx_passes.ops.domains.bitvectors import z3


def prove_pair(before: ir.Model, after: ir.Model, *, effort: Effort | None = None) -> Proof:
    """Compare two models with the same inputs, in every arithmetic that applies to them.

    Inputs have concrete shapes, outputs correspond by position, and neither model is changed.
    The default effort takes about a second. UsageError without z3, ModelError if interfaces
    differ, OutOfTime if the clock stopped z3.
    """
    effort = effort or Effort()
    pair = ModelPair.of(before, after)
    replayer = Replayer(pair.before, pair.after)
    judgements = {a: ArithmeticVerdict(a, Outcome.NOT_APPLICABLE) for a in Arithmetic}
    exact = judge_exact(pair, replayer, effort)
    judgements[exact.arithmetic] = exact
    if pair.has_floats:
        judgements[Arithmetic.IEEE] = judge_ieee(pair, replayer, effort)
    return Proof(tuple(judgements[a] for a in Arithmetic))


def prove_rule(
    rule: RuleLike,
    templates: Iterable[ir.Model] | None = None,
    *,
    effort: Effort | None = None,
    confirm: Callable[[Fault], bool] = lambda fault: True,
    paths: RulePaths | None = None,
) -> Proof:
    """Apply a rule to templates, as it stands, and compare before and after.

    The rule's own pattern, ``check`` and ``rewrite`` run. Of several rules, the verdicts hold
    for all.

    Without `templates`, models are built from the pattern. A refutation that `confirm` rejects
    is dropped. `paths` note what of a rule's code ran. The verdict is undecided if the clock
    stopped z3. UsageError without z3, or for an object that is not a rule.
    """
    z3()  # its absence is said before anything is built
    try:
        return _proved(rule, templates, effort or Effort(), confirm, paths)
    except arithmetic_verdicts.QueryTimeout as error:
        return replace(_undecided(str(error)), out_of_time=True)


def _proved(
    rule: RuleLike,
    templates: Iterable[ir.Model] | None,
    effort: Effort,
    confirm: Callable[[Fault], bool],
    paths: RulePaths | None,
) -> Proof:
    given = None if templates is None else list(templates)
    found = _Proofs()
    for single in rules_of(rule):
        made = (
            instances(single, seed=effort.seed, limit=effort.limit, planned=True)
            if given is None
            else given
        )
        names = operand_names(single)
        applied = single if paths is None else paths.rule
        for template in made:
            told = describe(template, names)
            wanted = found.wants(told, effort)
            if effort.was_tested and not wanted:
                continue
            proof = _on_template(applied, template, effort, confirm, screen=not wanted)
            if paths is not None:
                sound = proof is None or proof.outcome == Outcome.PROVED
                paths.keep(judged=sound)
            found.add(told, proof, half=_is_half(template))
            if proof is not None and proof.outcome == Outcome.REFUTED:
                break
    return found.merged()


_GIVEN_UP = 3
"""Templates on which z3 gives up after which a proof ends; three times as many behind one."""


@dataclass
class _Proofs:
    """The verdicts on the templates of a rule, so far.

    `coarse` are of half precision: constants of 11 bits, folded and rounded again, are too
    far from the formula for a proof. `kinds` and `types` are those that were proved. Where
    z3 has `given_up` on a few templates, it is not asked about more.
    """

    decisive: list[tuple[Covered, Proof]] = field(default_factory=list)
    coarse: list[Proof] = field(default_factory=list)
    kinds: set[tuple[object, ...]] = field(default_factory=set)
    types: set[frozenset[str]] = field(default_factory=set)
    given_up: int = 0
    proved: bool = False

    def wants(self, template: Covered, effort: Effort) -> bool:
        """Whether a proof is worth its time: on the first few, and on ranks or types anew."""
        kind = tuple(sorted((n, *ranks) for n, (ranks, *_) in template.operands.items()))
        types = frozenset(t for _, types, _ in template.operands.values() for t in types)
        types |= template.attributes.get("Cast.to", set())
        if self.given_up >= _GIVEN_UP * (1 + 2 * self.proved):
            return False
        count = len(self.decisive) + len(self.coarse)
        wanted = (
            count < effort.templates
            or types not in self.types
            or (kind not in self.kinds and count < effort.most)
        )
        self.kinds.add(kind)
        self.types.add(types)
        return wanted

    def add(self, template: Covered, proof: Proof | None, *, half: bool) -> None:
        """Note what was found of one template."""
        if proof is None:
            return
        self.given_up += any(GAVE_UP in judged.reason for judged in proof.judgements)
        self.proved |= proof.outcome == Outcome.PROVED
        if half and proof[Arithmetic.REAL].outcome == Outcome.UNDECIDED:
            self.coarse.append(proof)
        else:
            self.decisive.append((template, proof))

    def merged(self) -> Proof:
        """Return the verdict on the rule: what is not proved is excluded, or weakens it."""
        covered = covered_by(t for t, p in self.decisive if p.outcome == Outcome.PROVED)
        kept = [
            p for t, p in self.decisive if p.outcome != Outcome.UNDECIDED or covered.holds(t)
        ]
        if not any(p.outcome == Outcome.PROVED for p in kept):
            kept = [p for _, p in self.decisive]
        proofs = kept or self.coarse
        if not proofs:
            return _undecided("the rule fired on no template", templates=0)
        return replace(merge(proofs), covers=covered.as_dict())


def _is_half(model: ir.Model) -> bool:
    """Whether an input or output of a model is of half precision."""
    values = (*model.graph.inputs, *model.graph.outputs)
    return any(v.dtype in (ir.DataType.FLOAT16, ir.DataType.BFLOAT16) for v in values)


def _on_template(
    rule: RewriteRule,
    template: ir.Model,
    effort: Effort,
    confirm: Callable[[Fault], bool],
    *,
    screen: bool,
) -> Proof | None:
    try:
        after = apply_rule(rule, template)
    except PassError as error:
        return _undecided(error.message)
    except Exception as error:  # the rule is anyone's code
        return _undecided(f"the rule raised {type(error).__name__}: {error}")
    if after is None:
        return None
    try:
        if screen:
            pair = ModelPair.of(template, after)
            replayer, real = Replayer(pair.before, pair.after), pair.has_floats
            if replayer.search(effort.samples, real=real, seed=effort.seed) is None:
                return None
        proof = prove_pair(template, after, effort=effort)
    except ModelError as error:
        return _undecided(error.message)
    found = proof.counterexample
    if proof.outcome == Outcome.REFUTED and found is not None:
        fault = Fault(found.reason, "template", template, after, found)
        if not confirm(fault):
            return _undecided(f"a difference that does not show again: {found.reason}")
    return proof


def _undecided(reason: str, *, templates: int = 1) -> Proof:
    judgements = tuple(
        ArithmeticVerdict(a, Outcome.UNDECIDED, reason=reason) for a in Arithmetic
    )
    return Proof(judgements, templates)
