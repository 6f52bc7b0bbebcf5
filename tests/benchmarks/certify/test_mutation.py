"""A fast part of the mutation check; ``python -m benchmarks certify`` runs the whole."""

import pytest

from benchmarks.certify.correct_rules import correct_rules
from benchmarks.certify.mutants import Mutant
from benchmarks.certify.mutation import judge, new_nodes, rule_mutants, spread
from benchmarks.certify.places import place_mutants
from onnx_passes.certifying import rule_fuzzing
from onnx_passes.certifying.rule_fuzzing import fuzz_rule
from tests.tables import each_of, each_row


def _named(name):
    return next(rule for rule in correct_rules() if rule.name == name)


def test_a_right_rule_is_not_refuted():
    assert fuzz_rule(_named("clip-clip"), seconds=600, models=20).verdict == "tested"


@each_row("""name | change
- sub-as-add | swapped operands of Add 1
- transpose-transpose | perm rotated of Transpose 0
- unsqueeze | a constant one larger of Constant 0
- flatten | a constant one smaller at its end of Constant 0
""")
def test_a_wrong_rule_is_refuted_and_a_swap_in_a_sum_is_proved_to_be_none(name, change):
    mutant = next(m for m in rule_mutants([_named(name)]) if m.change == change)
    expected = "equivalent" if "swapped operands of Add" in change else "refuted"
    assert judge(mutant).verdict == expected


def test_the_guard_is_part_of_what_is_tested():
    rule = _named("clip-clip")
    (bare,) = (m for m in rule_mutants([rule]) if m.change == "no guard")
    assert isinstance(bare, Mutant)
    assert judge(bare).verdict == "refuted"


def test_what_a_rewrite_makes_is_found():
    assert [n.op_type for n in new_nodes(_named("sub-as-add"))] == ["Neg", "Add"]


PLACES = [
    *("operand 1 of rank 1", "operand 2 of rank 4", "operand 0 of rank 0"),
    *("type UINT16", "opset 26", "group is given", "select_last_index is given"),
    *("x is -1.5", "x is 3"),
]


@each_of("place", *PLACES)
def test_a_rule_that_is_wrong_in_one_place_is_refuted(place):
    assert judge(next(m for m in place_mutants() if m.change == place)).verdict == "refuted"


def test_a_place_is_a_rank_a_type_an_opset_an_attribute_or_a_breakpoint():
    mutants = place_mutants()
    assert len(mutants) > 150
    assert len({(m.origin, m.change) for m in mutants}) == len(mutants)


def test_a_rule_with_no_wrong_place_is_right(monkeypatch):
    monkeypatch.setattr(rule_fuzzing, "ATTEMPTS", 200)
    mutant = next(m for m in place_mutants() if m.change == "operand 0 of rank 2")
    mutant.rule._condition_function = lambda *_, **__: False
    assert fuzz_rule(mutant.rule, seconds=600, models=20).verdict == "never fired"


@pytest.mark.slow
def test_97_of_100_wrong_rules_are_refuted_and_no_right_one():
    mutants = rule_mutants()
    assert len(mutants) >= 200
    results = [judge(m) for m in spread(mutants, 60)]
    refuted = sum(r.verdict == "refuted" for r in results)
    survived = [r for r in results if r.verdict == "survived"]
    assert refuted >= 0.97 * (refuted + len(survived)), survived
