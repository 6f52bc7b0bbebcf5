"""One verdict with every seed; ``python -m benchmarks certify seeds`` runs the whole."""

import pytest

from benchmarks.certify import seeds
from benchmarks.certify.seeds import subjects, table
from onnx_passes.verify.rules.rule_fuzzing import fuzz_rule

FAULTY = (
    "rules.common:successive_clip_rule",
    "rules.common:two_reshapes_matmul_reshape_rule",
)


def test_all_rules_with_a_fault_and_all_right_ones_are_judged():
    found = subjects()
    assert sum(not label.startswith("right: ") for label in found) >= 30
    assert sum(label.startswith("right: ") for label in found) >= 20


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("label", FAULTY)
def test_a_faulty_rule_is_refuted_whatever_the_seed(label, seed):
    tested = fuzz_rule(subjects()[label], seconds=600, models=100, seed=seed)
    assert tested.verdict == "refuted"


def test_the_table_shows_what_depends_on_the_seed():
    rows = [
        {"rule": rule, "seed": seed, "verdict": verdict, "key": "", "seconds": 1.0}
        for rule, verdicts in (
            ("always", ("refuted", "refuted")),
            ("sometimes", ("refuted", "tested")),
            ("right: fine", ("tested", "tested")),
            ("right: accused", ("tested", "refuted")),
        )
        for seed, verdict in enumerate(verdicts)
    ]
    text = "\n".join(table(rows))
    assert "1 of 2 public rules with a known fault are refuted with each of 2 seeds" in text
    assert "1 of 2 right rules are refuted with any" in text
    assert "| sometimes | refuted 1, tested 1 |" in text
    assert "always |" not in text
    assert seeds.SEEDS == 10
