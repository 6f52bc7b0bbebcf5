"""``python -m benchmarks.tune.encoder``: how much faster a BERT-like encoder gets.

Builds the encoder of ``benchmarks.models``, tunes it for time within a loss, and measures
original, result and the whole encoder by onnxruntime's own dynamic quantiser, runs of all
taking turns. Needs a quiet machine.
"""

from __future__ import annotations

import math
import tempfile
import time
from pathlib import Path

import click
import numpy as np
import onnx
import onnx_ir as ir
from onnxruntime.quantization import quantize_dynamic

from benchmarks.models import transformer
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.tuning.asked import Task
from onnx_passes.tuning.budget import Budget
from onnx_passes.tuning.formats import BUILTIN
from onnx_passes.tuning.groups import partition, prepare
from onnx_passes.tuning.journal import Record
from onnx_passes.tuning.objective import time_runs
from onnx_passes.tuning.search import Search

VOCABULARY = 4096


def sample(rng: np.random.Generator, batch: int, length: int) -> dict[str, np.ndarray]:
    """Return token ids, all of them attended to."""
    shape = (batch, length)
    return {
        "input_ids": rng.integers(0, VOCABULARY, shape),
        "attention_mask": np.ones(shape, np.int64),
    }


@click.command()
@click.option("--layers", default=12, show_default=True)
@click.option("--hidden", default=512, show_default=True)
@click.option("--length", default=128, show_default=True)
@click.option(
    "--snr", default=20.0, show_default=True, help="Least SNR of all outputs, in dB."
)
@click.option("--threads", default=1, show_default=True)
@click.option(
    "--formats", default="int8-dynamic", show_default=True, help="With commas between."
)
@click.option("--groups", default=24, show_default=True, help="Most groups.")
def main(
    layers: int, hidden: int, length: int, snr: float, threads: int, formats: str, groups: int
) -> None:
    """Tune and measure."""
    model = ir.from_proto(
        transformer(layers, hidden, hidden // 64, 4 * hidden, vocab=VOCABULARY)
    )
    rng = np.random.default_rng(0)
    engine = OnnxRuntimeEngine(optimization="all", threads=threads)
    prepared = prepare(model)
    names = formats.split(",")
    task = Task(
        prepared,
        partition(prepared, names, {}, groups),
        {name: BUILTIN[name] for name in ("float32", *names)},
        engine,
        "time",
        Budget({"snr": (snr, math.inf)}),
        [sample(rng, 1, length) for _ in range(4)],
        [sample(rng, 1, length)],
        evaluations=4,
    )
    start = time.perf_counter()
    result = Search(task, Record(None, ""), click.echo).run()
    click.echo(f"search: {time.perf_counter() - start:.0f} s, {result.work}")
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder) / "in.onnx", Path(folder) / "out.onnx"
        onnx.save(ir.to_proto(prepared), path)
        quantize_dynamic(str(path), str(out), per_channel=True)
        peer = ir.load(out)
        models = [prepared, result.model, peer]
        best = [math.inf] * 3
        for _ in range(3):
            found = time_runs(engine, models, task.feeds[0])
            best = [min(pair) for pair in zip(best, found, strict=True)]
        outputs = []
        for one in models:
            with engine.prepare(one) as session:
                outputs.append([session.run(feed) for feed in task.feeds])
    for name, seconds, found in zip(
        ("original", "tuned", "onnxruntime's quantize_dynamic"), best, outputs, strict=True
    ):
        loss = task.budget.measure(found, outputs[0]).values["snr"]
        click.echo(
            f"{name:32}{seconds * 1e3:9.1f} ms  {best[0] / seconds:6.2f} times as fast, "
            f"SNR {loss:.1f} dB"
        )
    picked = list(result.best.names.values())
    click.echo(", ".join(f"{picked.count(name)} {name}" for name in sorted(set(picked))))


if __name__ == "__main__":
    main()
