"""Evaluating whole data sets: cost, scaling, memory, equal results, and error rates."""

from __future__ import annotations

import gc
import hashlib
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

from onnx_passes.configs.data_spec import DataSpec
from onnx_passes.data.confidence import DecisionFlips
from onnx_passes.data.demand import Accuracy, Demand, RunOutcome
from onnx_passes.data.evaluation_job import DataJob, EngineChoice, ModelFile, RunSpec
from onnx_passes.data.exact_sums import Block
from onnx_passes.data.input_binding import DataInterface
from onnx_passes.data.job_evaluation import evaluate
from onnx_passes.data.measures import PairState
from onnx_passes.data.plan import make_plan
from onnx_passes.data.workers import Executor, InProcess, choose_executor
from onnx_passes.model.load import load_model

RULE = Demand(Accuracy(0.01))
RUNS = 5
SIMULATED = 2000
CASES = (("dense", 1, 40_000), ("dense", 32, 400_000), ("convolutions", 1, 1000))
PART = 400_000
"""Samples in a file."""


def tables() -> list[str]:
    """Return all tables as lines of Markdown."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        return [
            "### Data sets",
            "",
            *_throughput(root),
            "",
            *_scaling(root),
            "",
            *_memory(root),
            "",
            *_bytes(root),
            "",
            *_sequential(),
        ]


def dense(path: Path, width: int, classes: int, noise: float = 0.0, seed: int = 0) -> Path:
    """Write a classifier of one matrix."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(width, classes)).astype(np.float32)
    weights += (np.random.default_rng(1).normal(size=weights.shape) * noise).astype(np.float32)
    _save(path, [helper.make_node("MatMul", ["x", "w"], ["scores"])], {"w": weights},
          ["N", width], ["N", classes])  # fmt: skip
    return path


def convolutions(path: Path, noise: float = 0.0) -> Path:
    """Write a network of five convolutions for images [16,32,32], some milliseconds a run."""
    rng, extra = np.random.default_rng(0), np.random.default_rng(1)
    nodes, weights, value, channels = [], {}, "x", 16
    for layer in range(5):
        shape = (64, channels, 3, 3)
        weights[f"w{layer}"] = (
            rng.normal(size=shape) + extra.normal(size=shape) * noise
        ).astype(np.float32) / math.sqrt(9 * channels)
        nodes.append(
            helper.make_node("Conv", [value, f"w{layer}"], [f"c{layer}"], pads=[1, 1, 1, 1])
        )
        nodes.append(helper.make_node("Relu", [f"c{layer}"], [f"r{layer}"]))
        value, channels = f"r{layer}", 64
    nodes.append(helper.make_node("GlobalAveragePool", [value], ["p"]))
    nodes.append(helper.make_node("Flatten", ["p"], ["scores"]))
    _save(path, nodes, weights, ["N", 16, 32, 32], ["N", 64])
    return path


def _save(path, nodes, weights, inputs, outputs) -> None:  # noqa: ANN001
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, inputs)],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, outputs)],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    opset = [helper.make_opsetid("", 20)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=10), path)


def job_of(a: Path, b: Path, data: Path, **spec: int) -> DataJob:
    """Return a job of two models over a folder."""
    models = ModelFile.of(a), ModelFile.of(b)
    engine = EngineChoice("onnxruntime", {"threads": 1})
    runs = tuple(RunSpec(i, engine, model.name) for i, model in enumerate(models))
    plan = make_plan(DataSpec((str(data),), **spec), DataInterface.of(load_model(a).model))
    from onnx_passes.data.measures import Measures

    return DataJob(plan, models, runs, Measures())


def write_data(folder: Path, count: int, *shape: int, classes: int) -> Path:
    """Write samples and labels, in parts of constant size."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    for number, start in enumerate(range(0, count, PART)):
        size = min(PART, count - start)
        np.save(folder / f"x-{number}.npy", rng.normal(size=(size, *shape)).astype(np.float32))
        np.save(folder / f"label-{number}.npy", rng.integers(0, classes, size))
    return folder


def plain_loop(job: DataJob, *, session_each: int = 0) -> float:
    """Run both models on all samples and measure them, as a script would; return seconds.

    The script calls ONNX Runtime itself, with the options of the engine, copies each result
    into an array, and measures all samples at once.

    Args:
        job: Two models and their data, in one part.
        session_each: Samples after which the sessions are made anew; 0 for never.
    """
    start = time.process_time()
    files = job.plan.parts[0].files
    x, labels = (np.load(files[name], mmap_mode="r") for name in ("x", "label"))
    batch, options = job.plan.binding.batch, ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.use_deterministic_compute = True
    found: list[np.ndarray] = []
    for first in range(0, len(x), session_each or len(x)):
        one, two = (ort.InferenceSession(model.path, options) for model in job.models)
        if not found:
            width = one.get_outputs()[0].shape[-1]
            found = [np.empty((len(x), width), np.float32) for _ in job.models]
        old, new = found
        for place in range(first, min(first + (session_each or len(x)), len(x)), batch):
            feeds = {"x": np.array(x[place : place + batch])}
            old[place : place + batch] = one.run(None, feeds)[0]
            new[place : place + batch] = two.run(None, feeds)[0]
    left, right = ({"scores": values} for values in found)
    state = PairState(job.measures)
    state.update(Block(np.arange(len(x)), left, right, np.array(labels)))
    state.finish()
    return time.process_time() - start


def timed(job: DataJob, executor: Executor) -> float:
    """Return the seconds of a run without the start of its workers."""
    begin: list[float] = []
    start = executor.start

    def started(job: DataJob) -> None:
        start(job)
        warm = getattr(executor, "warm", None)
        if warm is not None:
            warm()
        begin.append(time.process_time())

    executor.start = started  # type: ignore[method-assign]
    evaluate(job, RULE, executor)
    return time.process_time() - begin[0]


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]


def _throughput(root: Path) -> Iterator[str]:
    yield (
        f"Samples a second of processor time, both models, one thread, medians of {RUNS} runs "
        "in turns. The loop is a script that calls ONNX Runtime itself:"
    )
    yield ""
    yield "| model | batch | samples | plain loop | in process | cost |"
    yield "|---|---|---|---|---|---|"
    for name, batch, count in CASES:
        folder = root / f"{name}-{batch}"
        shape = (64,) if name == "dense" else (16, 32, 32)
        write_data(folder, count, *shape, classes=10)
        if name == "dense":
            models = dense(root / "a.onnx", 64, 10), dense(root / "b.onnx", 64, 10, 0.01)
        else:
            models = convolutions(root / "a.onnx"), convolutions(root / "b.onnx", 0.01)
        job = job_of(*models, folder, batch=batch)
        loops, runs = [], []
        gc.freeze()
        for _ in range(RUNS):  # in turns, so that a slow moment slows all
            loops.append(plain_loop(job))
            runs.append(timed(job, InProcess()))
        loop, run = _median(loops), _median(runs)
        yield (
            f"| {name} | {batch} | {count:,} | {count / loop:,.0f} | {count / run:,.0f} | "
            f"{run / loop - 1:+.1%} |"
        )
    yield ""
    yield "1,000 samples of a matrix of 40 MB, batch 1, 100 shards of 10 samples:"
    yield ""
    data = write_data(root / "large", 1000, 3200, classes=10)
    models = dense(root / "l.onnx", 3200, 3200), dense(root / "k.onnx", 3200, 3200, 0.01)
    job = job_of(*models, data, shard=10)
    once, each = timed(job, InProcess()), plain_loop(job, session_each=10)
    yield "| sessions | seconds of processor time |"
    yield "|---|---|"
    yield f"| made once | {once:.1f} |"
    yield f"| made for each shard | {each:.1f} ({each / once:.1f}x) |"


def _scaling(root: Path) -> Iterator[str]:
    yield (
        f"2,000 samples of the convolutions, workers of one thread, medians of {RUNS} runs in "
        "turns. Processor time of the workers does not depend on what else runs; the client "
        "works while they do, on what is left of a processor. From both follows the gain on "
        "two processors that are free:"
    )
    yield ""
    yield "| workers | seconds | processor seconds of workers | of client | gain |"
    yield "|---|---|---|---|---|"
    data = write_data(root / "scale", 2000, 16, 32, 32, classes=64)
    job = job_of(convolutions(root / "c.onnx"), convolutions(root / "d.onnx", 0.01), data,
                 shard=50)  # fmt: skip
    times: dict[tuple[str, int], list[tuple[float, float, float]]] = {}
    for _ in range(RUNS):
        for count, kind, jobs, scheduler in _fleets():
            found = _spent(job, choose_executor(jobs, scheduler))
            times.setdefault((kind, count), []).append(found)
    for (kind, count), runs in times.items():
        wall, workers, client = (_median([run[i] for run in runs]) for i in range(3))
        _, one, one_client = (_median([r[i] for r in times[kind, 1]]) for i in range(3))
        # A client that takes its own time from the workers' processors is the worst case.
        gain = (one + one_client) / ((workers + client) / count)
        yield (
            f"| {kind}, {count} | {wall:.1f} | {workers:.1f} | {client:.2f} | "
            f"{'' if count == 1 else f'{gain:.2f}'} |"
        )


def _fleets() -> list[tuple[int, str, int | None, str | None]]:
    return [
        (1, "pool", 1, None),
        (2, "pool", 2, None),
        (1, "Dask", None, "local:1"),
        (2, "Dask", None, "local:2"),
    ]


def _spent(job: DataJob, executor: Executor) -> tuple[float, float, float]:
    """Return seconds from the first outcome on, and of processor time: workers, client."""
    begin: list[tuple[float, float]] = []

    def accept(_: object) -> None:
        begin.append((time.perf_counter(), time.process_time()))

    result = evaluate(job, RULE, executor, accept=accept)
    wall, client = (begin[-1][place] - begin[0][place] for place in (0, 1))
    return wall, result.timing.processor, client


_CHILD = """
import json, sys
from pathlib import Path
from benchmarks.data_sets import RULE, job_of
from onnx_passes.data.workers import InProcess
from onnx_passes.data.job_evaluation import evaluate
a, b, data = map(Path, sys.argv[1:])
job = job_of(a, b, data, batch=64, shuffle=0)
result = evaluate(job, RULE, InProcess())
# Not getrusage: its peak is that of the parent, if that is larger.
status = Path("/proc/self/status").read_text()
peak = int(status.split("VmHWM:")[1].split()[0]) / 1024
print(json.dumps([result.data["counts"]["evaluated"], peak, result.timing.seconds]))
"""


def _memory(root: Path) -> Iterator[str]:
    yield "Peak memory of the whole process, samples of 64 floats in shuffled order, batch 64:"
    yield ""
    yield "| samples | data | peak | seconds |"
    yield "|---|---|---|---|"
    a, b = dense(root / "m.onnx", 64, 10), dense(root / "n.onnx", 64, 10, 0.01)
    for count in (1_000, 1_000_000):
        data = write_data(root / f"memory-{count}", count, 64, classes=10)
        words = [sys.executable, "-c", _CHILD, str(a), str(b), str(data)]
        done = subprocess.run(words, capture_output=True, text=True, check=True)
        samples, peak, seconds = json.loads(done.stdout)
        size = sum(path.stat().st_size for path in data.iterdir()) / 1e6
        yield f"| {samples:,} | {size:,.0f} MB | {peak:,.0f} MB | {seconds:.1f} |"


def _bytes(root: Path) -> Iterator[str]:
    yield "SHA-256 of the result over 20,000 samples:"
    yield ""
    yield "| workers | SHA-256, first 16 digits |"
    yield "|---|---|"
    a, b = dense(root / "e.onnx", 64, 10), dense(root / "f.onnx", 64, 10, 0.01)
    data = write_data(root / "bytes", 20_000, 64, classes=10)
    job = job_of(a, b, data, batch=16, shuffle=0, shard=256)
    fleets: list[tuple[str, int | None, str | None]] = [("in process", None, None)]
    fleets += [(f"pool of {n}", n, None) for n in (1, 2, 8)]
    fleets += [(f"Dask, {n} workers", None, f"local:{n}") for n in (1, 2, 8)]
    for name, jobs, scheduler in fleets:
        text = evaluate(job, RULE, choose_executor(jobs, scheduler)).text()
        yield f"| {name} | `{hashlib.sha256(text.encode()).hexdigest()[:16]}` |"


def _sequential() -> Iterator[str]:
    yield (
        f"{SIMULATED:,} simulated runs over 50,000 samples each, limit 1 %, confidence 95 %, "
        "looked at every 250 samples. A verdict is wrong if it is *passed* with a drop of at "
        "least the limit, or *failed* with one of at most the limit:"
    )
    yield ""
    yield "| true drop | lost, gained | passed | failed | undecided | wrong | mean samples |"
    yield "|---|---|---|---|---|---|---|"
    cases = [
        *((0.01, 0.0), (0.02, 0.01), (0.06, 0.05)),
        *((0.0, 0.0), (0.01, 0.01), (0.03, 0.0), (0.06, 0.01), (0.012, 0.0)),
    ]
    for lost, gained in cases:
        yield _simulated(lost, gained)


def _simulated(lost: float, gained: float) -> str:
    rng = np.random.default_rng(0)
    rule, size, steps = Accuracy(0.01, 0.95, early=True), 250, 200
    counts = dict.fromkeys(RunOutcome, 0)
    used = 0
    for _ in range(SIMULATED):
        draws = rng.multinomial(size, [lost, gained, 1 - lost - gained], size=steps)
        found, step = RunOutcome.UNDECIDED, 0
        for step, (a, b, _) in enumerate(draws.cumsum(axis=0).tolist(), 1):
            found = rule.decide(DecisionFlips(a, b, size * step))
            if found is not RunOutcome.UNDECIDED:
                break
        counts[found] += 1
        used += size * step
    drop = lost - gained
    wrong = counts[RunOutcome.PASSED] if drop >= 0.01 - 1e-12 else 0
    wrong += counts[RunOutcome.FAILED] if drop <= 0.01 + 1e-12 else 0
    shares = [counts[o] for o in (RunOutcome.PASSED, RunOutcome.FAILED, RunOutcome.UNDECIDED)]
    cells = " | ".join(f"{share / SIMULATED:.1%}" for share in (*shares, wrong))
    mean = used / SIMULATED
    return f"| {drop:.1%} | {lost:.1%}, {gained:.1%} | {cells} | {mean:,.0f} |"
