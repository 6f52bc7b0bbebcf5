"""``python -m benchmarks.tune.random_models``: searches over random models and budgets.

Each has to end with a model that onnx's checker accepts, runs, and keeps the budget; the
original does where nothing else can. Prints how they ended, and each that did not.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections import Counter
from pathlib import Path

import click
import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.errors import OnnxPassesError
from onnx_passes.model.load import load_model
from onnx_passes.runtime.inputs import generate
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.tuning.budget_search import TuningSearch
from onnx_passes.tuning.groups import BUILTIN, partition, prepare
from onnx_passes.tuning.loss_budget import LossBudget
from onnx_passes.tuning.search_record import Record, Task, save
from onnx_passes.verify.models import recipes

FORMATS = [name for name in BUILTIN if name != "float32"]


def task(model: ir.Model, rng: np.random.Generator) -> Task:
    """Return a search over a random model, with a random budget, at times impossible."""
    prepared = prepare(model)
    feeds = generate(prepared, seed=int(rng.integers(2**31)), samples=2)
    names = [str(name) for name in rng.choice(FORMATS, int(rng.integers(1, 5)), False)]
    groups = partition(prepared, names, {}, int(rng.integers(1, 9)))
    limits = {
        "rmse": (0.0, float(rng.choice([0.0, 1e-6, 1e-3, 0.1]))),
        "snr": (float(rng.choice([20.0, 40.0, 300.0])), math.inf),
        "max_abs_error": (0.0, float(rng.choice([0.0, 1e-4, 1.0]))),
    }
    kept = rng.choice(list(limits), int(rng.integers(1, 3)), False)
    return Task(
        prepared,
        groups,
        {name: BUILTIN[name] for name in ("float32", *names)},
        OnnxRuntimeEngine(optimization=str(rng.choice(["none", "all"]))),  # type: ignore[arg-type]
        str(rng.choice(["size", "bops"])),  # type: ignore[arg-type]
        LossBudget({str(name): limits[str(name)] for name in kept}),
        feeds,
        feeds[:1],
        evaluations=int(rng.integers(1, 5)),
    )


def check(asked: Task, folder: Path, original: Path) -> str:
    """Run one search; return how it ended, or what is wrong."""
    result = TuningSearch(asked, Record(None, "")).run()
    path = folder / "out.onnx"
    save(result, path, load_model(original))
    onnx.checker.check_model(path)
    with asked.engine.prepare(asked.model) as old:
        expected = [old.run(feed) for feed in asked.feeds]
    with asked.engine.prepare(load_model(path).model) as new:
        found = [new.run(feed) for feed in asked.feeds]
    if not asked.budget.measure(found, expected).holds:
        return "WRONG: the budget is not kept"
    why = [s.refused for s in result.scores] + [tried.why for tried in result.tried]
    for fault in sorted({text for text in why if text.startswith("it fails: ")}):
        click.echo(f"fault of a pass, told by the search: {fault}")
    changed = any(name != "float32" for name in result.best.names.values())
    return f"{result.ended}, {'changed' if changed else 'original'}"


@click.command()
@click.option("--count", default=500, show_default=True)
@click.option("--seed", default=0, show_default=True)
def main(count: int, seed: int) -> None:
    """Search over COUNT random models."""
    start, ends = time.perf_counter(), Counter[str]()
    for number, recipe in enumerate(recipes(count, seed=seed, steps=10)):
        rng = np.random.default_rng([seed, number])
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            model = recipe.model()
            ir.save(model, folder / "in.onnx")
            try:
                asked = task(model, rng)
                with asked.engine.prepare(asked.model) as session:
                    outputs = [session.run(feed) for feed in asked.feeds]
                asked.budget.begin(outputs)
            except OnnxPassesError as error:
                ends[f"not asked: {type(error).__name__}: {error.message[:60]}"] += 1
                continue
            try:
                found = check(asked, folder, folder / "in.onnx")
            except Exception as error:
                found = f"WRONG: {type(error).__name__}: {str(error)[:200]}"
        if found.startswith("WRONG"):
            click.echo(f"{number}: {recipe}: {found}")
            found = "WRONG"
        ends[found] += 1
    for kind, times in ends.most_common():
        click.echo(f"{times:5}  {kind}")
    click.echo(f"{count} searches, seed {seed}, {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
