"""Any form, batch, order and shard of a data set gives the numbers of one numpy expression."""

import math

import numpy as np
import pytest

from onnx_passes.configs.data_spec import DataSpec
from onnx_passes.data.confidence import DecisionFlips, clopper_pearson
from onnx_passes.data.dataset import Order
from onnx_passes.data.demand import Demand
from onnx_passes.data.evaluation_job import DataJob, EngineChoice, ModelFile, RunSpec
from onnx_passes.data.input_binding import DataInterface
from onnx_passes.data.job_evaluation import evaluate
from onnx_passes.data.measures import Measures
from onnx_passes.data.plan import make_plan
from onnx_passes.data.workers import InProcess
from onnx_passes.model.load import load_model
from tests.tables import each_of


def stored(folder, rng, x, y):
    """Store samples in a form that is drawn."""
    folder.mkdir()
    cuts = np.sort(rng.integers(1, len(x), rng.integers(0, 4)))
    parts = [part for part in np.split(np.arange(len(x)), cuts) if len(part)]
    form = rng.choice(["npy", "npz", "compressed", "single"])
    for number, part in enumerate(parts):
        if form == "npy":
            np.save(folder / f"x-{number}.npy", x[part])
            np.save(folder / f"label-{number}.npy", y[part])
        elif form == "single":
            for row in part:
                np.savez(folder / f"{row:05}.npz", x=x[row], label=y[row])
        else:
            save = np.savez if form == "npz" else np.savez_compressed
            save(folder / f"{number}.npz", x=x[part], label=y[part])
    return form


def drawn_spec(folder, rng, batch):
    options = {
        "shuffle": [None, int(rng.integers(9))],
        "limit": [None, int(rng.integers(1, 90))],
        "fraction": [None, float(rng.uniform(0.05, 1))],
        "shard": [None, int(rng.integers(1, 40))],
        "batch": [None, batch if isinstance(batch, int) else int(rng.integers(1, 20))],
    }
    chosen = {name: values[int(rng.integers(2))] for name, values in options.items()}
    return DataSpec((str(folder),), **chosen)


@each_of("seed", *range(24))
def test_the_numbers_are_those_of_numpy(tmp_path, save_classifier, samples, seed):
    rng = np.random.default_rng(1000 + seed)
    batch = ["N", 1, 4, 7][seed % 4]
    x, y = samples(int(rng.integers(5, 120)), seed=seed)
    stored(tmp_path / "data", rng, x, y)
    a = save_classifier("a.onnx", 0, batch)
    b = save_classifier("b.onnx", float(rng.uniform(0, 0.5)), batch)
    spec = drawn_spec(tmp_path / "data", rng, batch)
    plan = make_plan(spec, DataInterface.of(load_model(a).model))
    engine = EngineChoice("onnxruntime", {})
    runs = tuple(RunSpec(i, engine, name) for i, name in enumerate("ab"))
    limit = float(rng.uniform(0.01, 1))
    measures = Measures(rtol=0.0, atol=limit)
    job = DataJob(plan, (ModelFile.of(a), ModelFile.of(b)), runs, measures)
    result = evaluate(job, Demand(), InProcess()).data
    used = Order(len(x), spec.shuffle).rows(0, spec.selected(len(x)))
    assert result["counts"]["evaluated"] == len(used)
    graphs = [load_model(path).model.graph for path in (a, b)]
    old, new = (x[used] @ g.initializers["w"].const_value.numpy() for g in graphs)
    found = result["pairs"][0]["found"]
    error = np.abs(new - old)
    assert found["outputs"]["scores"]["max_abs"] == pytest.approx(error.max(), abs=1e-5)
    near = np.abs(error - limit) < 1e-5
    if not near.any():
        assert found["failing_samples"] == (error > limit).any(axis=1).sum()
        assert found["outputs"]["scores"]["failing_elements"] == (error > limit).sum()
    classes, labels = found["classes"], y[used]
    assert classes["flips"] == (old.argmax(1) != new.argmax(1)).sum()
    assert classes["accuracy_right"] == pytest.approx((new.argmax(1) == labels).mean())


# Bounds against published values, and against simulation of what they promise.


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
