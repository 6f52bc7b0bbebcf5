"""Any form, batch, order and shard of a data set gives the numbers of one numpy expression."""

import numpy as np
import pytest

from onnx_passes.configs.data_spec import DataSpec
from onnx_passes.data.dataset import Order, make_plan
from onnx_passes.data.demand import Demand
from onnx_passes.data.evaluation_job import DataJob, EngineChoice, ModelFile, RunSpec
from onnx_passes.data.input_binding import DataInterface
from onnx_passes.data.job_evaluation import evaluate
from onnx_passes.data.measures import Measures
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
