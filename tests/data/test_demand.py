"""Bounds against published values, and against simulation of what they promise."""

import math

import numpy as np
import pytest

from onnx_passes.data.demand import DecisionFlips, clopper_pearson
from tests.tables import each_of


def test_clopper_pearson_has_the_bounds_of_the_literature():
    # 0 of n: the rule of three; both sides of 10 of 100 as R's binom.test gives them.
    assert clopper_pearson(0, 100, 0.95).high == pytest.approx(1 - 0.05 ** (1 / 100))
    found = clopper_pearson(10, 100, 0.975)
    assert (found.low, found.high) == pytest.approx((0.0490047, 0.1762226), abs=1e-6)
    assert clopper_pearson(5, 5, 0.9).high == 1.0


@each_of("drop", 0.0, 0.02, 0.1)
def test_the_bounds_of_a_drop_hold_as_often_as_they_say(drop):
    rng = np.random.default_rng(3)
    lost = 0.05 + drop
    draws = rng.multinomial(400, [lost, 0.05, 1 - lost - 0.05], size=300)
    found = [DecisionFlips(int(a), int(b), 400).interval(0.9) for a, b, _ in draws]
    assert np.mean([interval.high >= drop for interval in found]) >= 0.9
    assert np.mean([interval.low <= drop for interval in found]) >= 0.9


def looks(rng, lost, gained, runs, steps, size):
    """Draw cumulative losses and gains of many runs, looked at after each step."""
    draws = rng.multinomial(size, [lost, gained, 1 - lost - gained], size=(runs, steps))
    return draws.cumsum(axis=1)


def ever(found, size, evidence):
    wanted = math.log(20)
    return np.mean(
        [
            any(
                evidence(DecisionFlips(int(a), int(b), size * (step + 1))) >= wanted
                for step, (a, b, _) in enumerate(run)
            )
            for run in found
        ]
    )


@each_of("lost, gained", (0.01, 0.0), (0.06, 0.05), (0.3, 0.29))
def test_evidence_seldom_lies_however_often_one_looks(lost, gained):
    # The drop is exactly at the limit, where a lie is likeliest.
    found = looks(np.random.default_rng(4), lost, gained, 200, 30, 100)
    assert ever(found, 100, lambda f: f.evidence_below(0.01)) <= 0.05
    assert ever(found, 100, lambda f: f.evidence_above(0.01)) <= 0.05


def test_evidence_finds_what_is_far_from_the_limit():
    rng = np.random.default_rng(5)
    good, bad = (looks(rng, lost, 0.01, 50, 30, 100) for lost in (0.01, 0.1))
    assert ever(good, 100, lambda f: f.evidence_below(0.03)) > 0.95
    assert ever(bad, 100, lambda f: f.evidence_above(0.03)) > 0.95


def test_the_bounds_of_a_sequence_contain_the_drop_and_shrink():
    small, large = (
        DecisionFlips(3, 1, 200).sequence(0.95),
        DecisionFlips(300, 100, 20_000).sequence(0.95),
    )
    assert small.low < 0.01 < small.high
    assert large.low < 0.01 < large.high
    assert large.high - large.low < (small.high - small.low) / 3
    assert DecisionFlips(0, 0, 1).sequence(0.95).high > 0.95


def test_bounds_and_decisions_agree():
    flips = DecisionFlips(20, 10, 3000)
    high = flips.sequence(0.95).high
    assert flips.evidence_below(high + 1e-5) >= math.log(20)
    assert flips.evidence_below(high - 1e-5) < math.log(20)
