"""``python -m benchmarks.tune.optimum``: the search against all choices, and against others.

All choices of each small network are really run. The other tools are the greedy search by
signal-to-noise ratio, and ``auto_convert_mixed_precision`` of onnxconverter-common if that is
installed. The latter knows float16 only, so it is compared with a search with that format
alone.
"""

from __future__ import annotations

import importlib
import io
import itertools
import math
import statistics
import time
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import click
import numpy as np
import onnx
import onnx_ir as ir

from onnx_passes.contracts.scores import snr
from onnx_passes.passes.convert.convert_opset import ConvertOpset
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.tuning.budget_search import TuningSearch
from onnx_passes.tuning.groups import BUILTIN, partition, prepare
from onnx_passes.tuning.loss_budget import LossBudget
from onnx_passes.tuning.search_record import Record, Task

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "examples" / "digits"
NETWORKS = {
    "CNN, 4 groups": (EXAMPLE / "model.onnx", ("int8-static", "int8-weights", "int4-weights")),
    "MLP, 7 groups": (HERE / "digits-7.onnx", ("float16", "int8-weights")),
    "MLP, 11 groups": (HERE / "digits-11.onnx", ("int4-weights",)),
    "ViT, 7 groups": (HERE / "vit.onnx", ("int8-weights", "int4-weights")),
}
_MOST_GROUPS = {"vit.onnx": 7}
_RANGES = "int8-static"
"""The format whose models depend on the samples of the scores."""
BUDGETS: tuple[tuple[str, tuple[float, float]], ...] = (
    ("snr", (12.0, math.inf)),
    ("snr", (25.0, math.inf)),
    ("snr", (40.0, math.inf)),
    ("kl_divergence", (0.0, 1e-2)),
    ("kl_divergence", (0.0, 1e-3)),
    ("kl_divergence", (0.0, 1e-5)),
)
SECOND: tuple[tuple[str, tuple[float, float]], ...] = (
    ("snr", (15.0, math.inf)),
    ("snr", (28.0, math.inf)),
    ("snr", (36.0, math.inf)),
    ("kl_divergence", (0.0, 3e-2)),
    ("kl_divergence", (0.0, 3e-4)),
    ("kl_divergence", (0.0, 3e-5)),
    ("max_abs_error", (0.0, 0.3)),
    ("max_abs_error", (0.0, 2.0)),
    ("rmse", (0.0, 0.2)),
)
"""Budgets that the search was not looked at with, until two of them came out worse."""
THIRD: tuple[tuple[str, tuple[float, float]], ...] = (
    ("snr", (18.0, math.inf)),
    ("snr", (31.0, math.inf)),
    ("snr", (44.0, math.inf)),
    ("kl_divergence", (0.0, 5e-3)),
    ("kl_divergence", (0.0, 2e-4)),
    ("kl_divergence", (0.0, 3e-6)),
    ("max_abs_error", (0.0, 0.15)),
    ("max_abs_error", (0.0, 1.0)),
    ("rmse", (0.0, 0.05)),
    ("rmse", (0.0, 0.35)),
)
"""Budgets that the search was not looked at with, as were none of the last network."""
SETS = {"first": BUDGETS, "second": SECOND, "third": THIRD}


@dataclass
class Row:
    """What one tool reached: cost, inferences of the whole model, seconds.

    Inferences are in passes over all samples, those of few samples as shares of one. The first
    run of the original is not among them: each tool has it. Seconds of the CPU leave
    out other work on the machine.
    """

    cost: float
    inferences: float
    seconds: float
    cpu: float
    parts: float = 0.0


class Clock:
    """Seconds since it was made: those of a wall clock, and those of the CPU."""

    def __init__(self) -> None:
        self._start = time.perf_counter(), time.process_time()

    def read(self) -> tuple[float, float]:
        """Return both."""
        return time.perf_counter() - self._start[0], time.process_time() - self._start[1]


def ask(
    path: Path,
    formats: tuple[str, ...],
    budget: tuple[str, tuple[float, float]],
    samples: int = 80,
) -> Task:
    """Return the search for the smallest network."""
    model = ir.load(path)
    ConvertOpset(version=21).call(model)
    model = prepare(model)
    images = np.load(EXAMPLE / "images.npy")
    return Task(
        model,
        partition(model, list(formats), {}, _MOST_GROUPS.get(path.name, 24)),
        {name: BUILTIN[name] for name in ("float32", *formats)},
        OnnxRuntimeEngine(optimization="all"),
        "size",
        LossBudget(dict([budget])),
        [{"image": images}],
        [{"image": images[:samples]}],
        evaluations=6,
    )


def ours(task: Task) -> tuple[Row, Any]:
    """Search."""
    clock = Clock()
    result = TuningSearch(task, Record(None, "")).run()
    work = result.work
    whole = work["whole model"] - 1 + work["whole model, few samples"]
    return Row(result.best.cost, whole, *clock.read(), work["parts"]), result


class Runs:
    """Runs choices on all samples, and counts."""

    def __init__(self, task: Task) -> None:
        self.task, self.count = task, 0
        self.original = self.outputs(task.model)
        self.count = 0

    def outputs(self, model: ir.Model) -> list[Any]:
        """Run a model."""
        self.count += 1
        with self.task.engine.prepare(model) as session:
            return [session.run(feed) for feed in self.task.feeds]

    def of(self, names: dict[str, str]) -> list[Any]:
        """Run a choice."""
        return self.outputs(self.task.build(names))

    def holds(self, outputs: list[Any], budget: LossBudget) -> bool:
        """Whether outputs keep a budget."""
        return budget.measure(outputs, self.original).holds


def greedy(task: Task, runs: Runs, costs: dict[tuple[str, str], float]) -> Row:
    """Lower one group after the other, those with the best signal-to-noise ratio first."""
    clock, before = Clock(), runs.count
    none = {group.name: "float32" for group in task.groups}
    scored = []
    for group, name in costs:
        if name != "float32":
            found = runs.of(none | {group: name})
            noise = snr([*found[0].values()], [*runs.original[0].values()])
            scored.append((noise, group, name))
    names = dict(none)
    for _, group, name in sorted(scored, reverse=True):
        if costs[group, name] >= costs[group, names[group]]:
            continue
        tried = names | {group: name}
        if runs.holds(runs.of(tried), task.budget):
            names = tried
    cost = sum(costs[pair] for pair in names.items())
    return Row(cost, runs.count - before, *clock.read())


def auto_mixed(task: Task, runs: Runs) -> Row | None:
    """Run auto_convert_mixed_precision; None where it is not installed or gives no model."""
    try:
        module = importlib.import_module("onnxconverter_common.auto_mixed_precision")
    except ImportError:
        return None
    count, clock = 0, Clock()

    def validate(expected: list[Any], found: list[Any]) -> bool:
        nonlocal count
        count += 1
        name = task.model.graph.outputs[0].name
        return runs.holds([{str(name): np.asarray(found[0], np.float32)}], task.budget)

    proto = ir.to_proto(task.model)
    for node in proto.graph.node:
        node.name = node.name or node.output[0]
    try:
        # It prints each attempt.
        with redirect_stdout(io.StringIO()):
            made = module.auto_convert_mixed_precision(
                proto, dict(task.feeds[0]), validate, keep_io_types=True
            )
    except Exception as error:
        click.echo(f"    auto_mixed_precision: {type(error).__name__}: {str(error)[:80]}")
        return Row(math.inf, count, *clock.read())
    size = sum(onnx.numpy_helper.to_array(t).nbytes for t in made.graph.initializer)
    return Row(float(size), count, *clock.read())


@click.command()
@click.option("--network", "only", default="", help="Part of the name of a network.")
@click.option("--set", "chosen", type=click.Choice(list(SETS)), default="first")
@click.option("--samples", default=160, show_default=True, help="Images of the scores.")
@click.option("--times", default=1, show_default=True, help="Searches; the median is printed.")
def main(only: str, chosen: str, samples: int, times: int) -> None:
    """Print a table."""
    click.echo(f"{'network':16}{'budget':26}{'optimum':>9}  tool: cost/optimum, runs, seconds")
    for title, (path, formats) in NETWORKS.items():
        if only not in title:
            continue
        every: Every = []
        for budget in SETS[chosen]:
            search = ask(path, formats, budget, samples)
            row, result = ours(search)
            runs = Runs(search)
            costs = {(s.group, s.format): s.cost for s in result.scores if not s.refused}
            if not every or _RANGES in formats:
                every = run_all(search, runs, costs)
            rows = [row, *(ours(ask(path, formats, budget, samples))[0] for _ in range(times))]
            others = [greedy(search, runs, costs) for _ in rows]
            compare(title, budget, runs, every, {"tune": rows, "greedy": others})
            against_peer(path, budget, runs, samples, times)


Every: TypeAlias = list[tuple[float, list[Any]]]


def run_all(task: Task, runs: Runs, costs: dict[tuple[str, str], float]) -> Every:
    """Return cost and outputs of all choices."""
    options = [[f for f in task.formats if (g.name, f) in costs] for g in task.groups]
    start, every = time.perf_counter(), []
    for picks in itertools.product(*options):
        names = dict(zip([g.name for g in task.groups], picks, strict=True))
        every.append((sum(costs[pair] for pair in names.items()), runs.of(names)))
    click.echo(f"{len(every)} choices run in {time.perf_counter() - start:.0f} s")
    return every


def compare(
    title: str,
    budget: tuple[str, tuple[float, float]],
    runs: Runs,
    every: Every,
    found: dict[str, list[Row]],
) -> None:
    """Print what each tool reached."""
    best = min(c for c, outputs in every if runs.holds(outputs, runs.task.budget))
    text = f"{budget[0]} {budget[1][0]:g}..{budget[1][1]:g}"
    told = "  ".join(
        f"{name} {rows[0].cost / best:.3f}, {rows[0].inferences:.2f}"
        + (f" (+{rows[0].parts:.2f} of parts)" if rows[0].parts else "")
        + f", {seconds_of(rows):.3f} s"
        for name, rows in found.items()
    )
    ratio = ratio_of(found["tune"], found["greedy"])
    click.echo(f"{title:16}{text:26}{best:9.0f}  {told}, {ratio}")


def against_peer(
    path: Path,
    budget: tuple[str, tuple[float, float]],
    runs: Runs,
    samples: int,
    times: int,
) -> None:
    """Print what auto_convert_mixed_precision and a search with its format alone reach."""
    half = ask(path, ("float16",), budget, samples)
    half.budget.begin(runs.original)
    rows = [auto_mixed(half, runs) for _ in range(times)]
    peers = [row for row in rows if row is not None]
    if peers:
        own = [ours(ask(path, ("float16",), budget, samples))[0] for _ in peers]
        click.echo(
            f"{'':51}  float16 only: tune {own[0].cost:.0f} B, {own[0].inferences:.2f}, "
            f"{seconds_of(own):.3f} s  auto_mixed_precision {peers[0].cost:.0f} B, "
            f"{peers[0].inferences:.0f}, {seconds_of(peers):.3f} s, "
            f"{ratio_of(own, peers)}"
        )


def seconds_of(rows: list[Row]) -> float:
    """Return the median of the seconds."""
    return statistics.median(row.seconds for row in rows)


def ratio_of(rows: list[Row], others: list[Row]) -> str:
    """Return how the medians of two tools' times compare."""
    cpu = statistics.median(row.cpu for row in rows) / statistics.median(
        row.cpu for row in others
    )
    return f"time {seconds_of(rows) / seconds_of(others):.2f}, CPU {cpu:.2f}"


if __name__ == "__main__":
    main()
