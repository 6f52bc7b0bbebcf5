"""``python -m benchmarks.tune.speed``: how much faster large networks get within a loss.

Builds a BERT-like encoder, a vision transformer and a Llama-like decoder of full size, and
tunes them within a divergence. Measures original, result and what onnxruntime's quantisers
make of them, runs of all taking turns. Losses are those on inputs that no tool was given.
Needs a quiet machine.
"""

from __future__ import annotations

import importlib
import logging
import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper, numpy_helper

import onnx_passes
from benchmarks.models import llama_decoder, transformer, vision_transformer
from benchmarks.tune.quality import peers
from onnx_passes.model.walk import weight_bytes
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.tuning.groups import time_runs
from onnx_passes.tuning.loss_budget import FlipLimit, LossBudget

Feeds = dict[str, Any]
_ORT = "onnxruntime"
_RECORDED, _HELD = 16, 32
"""Samples that tools are given, and samples that losses are measured on."""


@dataclass(frozen=True)
class Network:
    """A network, and what is asked of it.

    Attributes:
        build: Makes it from the number of its layers.
        layers: By default.
        sample: Makes an input from a generator.
        timed: The input that runs are timed on.
        tune: The section ``tune`` of the pipeline.
        peers: Names of the tools beside it.
    """

    build: Callable[[int], onnx.ModelProto]
    layers: int
    sample: Callable[[np.random.Generator], Feeds]
    timed: Feeds
    tune: Mapping[str, Any]
    peers: Sequence[str]


def _ids(rng: np.random.Generator, length: int, vocabulary: int) -> Feeds:
    ids = rng.integers(0, vocabulary, (1, length))
    return {"input_ids": ids, "attention_mask": np.ones((1, length), np.int64)}


def _encoder(layers: int, hidden: int = 512, classes: int = 100) -> onnx.ModelProto:
    """The encoder with a classifier on its pooled output."""
    model = transformer(layers, hidden, hidden // 64, 4 * hidden, vocab=4096)
    rng = np.random.default_rng(1)
    head = rng.standard_normal((hidden, classes), np.float32) * np.float32(4 / hidden**0.5)
    model.graph.initializer.append(numpy_helper.from_array(head, "classifier.weight"))
    taken = ["pooler_output", "classifier.weight"]
    model.graph.node.append(helper.make_node("MatMul", taken, ["scores"], "classifier"))
    del model.graph.output[:]
    kind = onnx.TensorProto.FLOAT
    ends = helper.make_tensor_value_info("scores", kind, ["batch", classes])
    model.graph.output.append(ends)
    return model


NETWORKS = {
    "encoder": Network(
        _encoder,
        12,
        lambda rng: _ids(rng, 128, 4096),
        _ids(np.random.default_rng(0), 128, 4096),
        {"objective": "time", "formats": ["int8-dynamic", "int8-static"]},
        (f"{_ORT} quantize_dynamic", f"{_ORT} quantize_static", "float16"),
    ),
    "vision": Network(
        vision_transformer,
        12,
        lambda rng: {"image": rng.standard_normal((1, 3, 224, 224), np.float32)},
        {"image": np.random.default_rng(0).standard_normal((1, 3, 224, 224), np.float32)},
        {"objective": "time", "formats": ["int8-dynamic", "int8-static"]},
        (f"{_ORT} quantize_dynamic", f"{_ORT} quantize_static", "float16"),
    ),
    "decoder": Network(
        llama_decoder,
        8,
        lambda rng: _ids(rng, 32, 8000),
        _ids(np.random.default_rng(0), 1, 8000),
        {"objective": "size", "formats": ["int4-nbits-dynamic", "int8-nbits-dynamic"]},
        (f"{_ORT} quantize_dynamic", f"{_ORT} 4 bits", "float16"),
    ),
}


def float16(source: Path, goal: Path) -> None:
    """Write what onnxconverter-common makes of a model.

    Args:
        source: The model.
        goal: Where the result goes.
    """
    module = importlib.import_module("onnxconverter_common.float16")
    made = module.convert_float_to_float16(onnx.load(source), keep_io_types=True)
    onnx.save(made, goal)


def losses(
    engine: OnnxRuntimeEngine, models: Sequence[ir.Model], feeds: Sequence[Feeds]
) -> list[str]:
    """Return what each model loses against the first, as cells of a table."""
    found: list[list[Any]] = []
    for model in models:
        with engine.prepare(model) as session:
            found.append([session.run(feed) for feed in feeds])
    budget = LossBudget({"kl_divergence": (0.0, math.inf), "snr": (-math.inf, math.inf)})
    cells = []
    for outputs in found:
        values = budget.measure(outputs, found[0]).values
        flipped, total = FlipLimit(1.0).count(outputs, found[0])
        kl, snr = values["kl_divergence"], values["snr"]
        cells.append(f"{kl:.1e} | {snr:.1f} | {flipped} of {total}")
    return cells


def search(model: Any, pipeline: Mapping[str, Any], feeds: Sequence[Feeds]) -> ir.Model:
    """Tune a model, and print what was chosen."""
    start = time.process_time()
    tuned = onnx_passes.tune(model, pipeline, inputs=feeds, progress=click.echo)
    click.echo(f"search: {time.process_time() - start:.0f} s of CPU, {tuned.found.work}")
    names = list(tuned.formats.values())
    click.echo(", ".join(f"{names.count(name)} {name}" for name in sorted(set(names))))
    return tuned.model


@click.command()
@click.option("--network", type=click.Choice(list(NETWORKS)), default="encoder")
@click.option("--layers", type=int, help="Of the network; by default as many as it has.")
@click.option("--kl", default=0.01, show_default=True, help="Divergence that may be lost.")
@click.option("--formats", default="", help="With commas between; by default its own.")
@click.option("--threads", default=1, show_default=True)
@click.option("--turns", default=5, show_default=True, help="The least of them counts.")
def main(
    network: str, layers: int | None, kl: float, formats: str, threads: int, turns: int
) -> None:
    """Tune and measure."""
    logging.disable(logging.WARNING)
    asked = NETWORKS[network]
    model = asked.build(layers or asked.layers)
    feeds = [asked.sample(np.random.default_rng(n)) for n in range(1, 1 + _RECORDED)]
    held = [asked.sample(np.random.default_rng(n)) for n in range(1000, 1000 + _HELD)]
    section = {**asked.tune, **({"formats": formats.split(",")} if formats else {})}
    pipeline = {
        "engines": [{"onnxruntime": {"optimization": "all", "threads": threads}}],
        "verify": {"metrics": {"kl_divergence": [0, kl]}},
        "tune": section,
    }
    rows = {"original": ir.from_proto(model), "original again": ir.from_proto(model)}
    rows["tune"] = search(model, pipeline, feeds)
    rows["optimize-ort"] = onnx_passes.run(model, "optimize-ort", inputs=feeds[:2]).model
    rows["optimize-ort, tune"] = search(rows["optimize-ort"], pipeline, feeds)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "in.onnx")
        onnx.save(model, source)
        tools = peers(feeds, is_symmetric=False, accuracy_level=4) | {"float16": float16}
        for name in asked.peers:
            goal = Path(folder, f"{name}.onnx")
            with suppress(ImportError):
                try:
                    tools[name](source, goal)
                    rows[name] = ir.load(goal)
                except (ValueError, RuntimeError, TypeError) as error:
                    click.echo(f"{name}: {type(error).__name__}: {str(error)[:160]}")
        engine = OnnxRuntimeEngine(optimization="all", threads=threads)
        models = list(rows.values())
        best = [math.inf] * len(models)
        for _ in range(turns):
            taken = time_runs(engine, models, asked.timed)
            best = [min(pair) for pair in zip(best, taken, strict=True)]
        click.echo("| | ms | times as fast | weights | KL | SNR [dB] | flips |")
        click.echo("|---|---|---|---|---|---|---|")
        cells = losses(engine, models, held)
        for name, one, seconds, lost in zip(rows, models, best, cells, strict=True):
            size = weight_bytes(one) / weight_bytes(models[0])
            speed = f"{seconds * 1e3:.1f} | {best[0] / seconds:.2f}"
            click.echo(f"| {name} | {speed} | {size:.3f} | {lost} |")


if __name__ == "__main__":
    main()
