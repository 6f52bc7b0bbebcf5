"""``python -m benchmarks.tune.bounds``: are the bounds kept, and how wide are they?

Statistical: a network whose flips over all images are known is judged on resampled images;
the bound has to lie above the known share as often as its confidence says. Sound: products of
the network are run on random inputs within the recorded ranges.
"""

from __future__ import annotations

import click
import numpy as np

from benchmarks.tune.optimum import EXAMPLE, ask
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.tuning.audit import product_bound
from onnx_passes.tuning.format_scores import record
from onnx_passes.tuning.groups import BUILTIN, ModelRegions, Observed, convert
from onnx_passes.tuning.loss_budget import FlipLimit
from onnx_passes.tuning.search_record import Task
from onnx_passes.verify.region import Region

FORMATS = ("int8-static", "int8-dynamic", "int8-weights", "int4-weights")
BATCH = 10_000


def statistical(task: Task, resamplings: int, size: int) -> None:
    """Print how often a bound lies above the share that it bounds."""
    found = []
    images = task.feeds[0]["image"]
    names = {group.name: "int4-weights" for group in task.groups}
    rng = np.random.default_rng(0)
    noisy = images + rng.normal(0, 0.3, (20, *np.shape(images))).astype(np.float32)
    feed = {"image": noisy.reshape(-1, *np.shape(images)[1:])}
    for model in (task.model, task.build(names)):
        with task.engine.prepare(model) as session:
            found.append(np.asarray(session.run(feed)["scores"]).argmax(-1))
    flipped = found[0] != found[1]
    for confidence in (0.9, 0.95, 0.99):
        flips = FlipLimit(1.0, confidence)
        draws = rng.integers(0, len(flipped), (resamplings, size))
        bounds = [flips.bound(int(flipped[draw].sum()), size).high for draw in draws]
        kept = float(np.mean(np.array(bounds) >= flipped.mean()))
        click.echo(
            f"flips {flipped.mean():.3%} of {len(flipped)}: the bound of {size} images with "
            f"{confidence:.0%} confidence holds in {kept:.1%} of {resamplings} resamplings"
        )


def sound(task: Task, name: str, samples: int) -> None:
    """Print bounds of a product in all formats, and the largest error on random inputs."""
    ranges = record(task.model, OnnxRuntimeEngine(), task.feeds, set()).ranges
    node = next(node for node in task.model.graph if node.name == name)
    data = str(node.inputs[0].name)  # type: ignore[union-attr]
    low, high = ranges[data]
    width = node.inputs[0].shape[-1]  # type: ignore[union-attr,index]
    assert isinstance(width, int)
    rng = np.random.default_rng(1)
    rows = [{data: np.zeros((2, width), np.float32)}]
    before = ModelRegions(task.model).build(
        Region((node,), (data,), (str(node.outputs[0].name),)), rows
    )
    for item in FORMATS:
        kind = BUILTIN[item]
        if item == "int8-static":
            kind = type(kind)(item, kind.pass_name, {"outputs": False}, 8, 8)
        after = convert(before, {item: [name]}, {item: kind}, Observed(ranges))
        bound = product_bound(after, node, ranges)
        assert bound is not None, "these are products in integers"
        engine, worst = OnnxRuntimeEngine(), 0.0
        with engine.prepare(before) as old, engine.prepare(after) as new:
            for number in range(samples // BATCH):
                x = rng.uniform(low, high, (BATCH, width)).astype(np.float32)
                if number % 2:
                    x = rng.choice([low, high], (BATCH, width)).astype(np.float32)
                (ours,), (theirs,) = (s.run({data: x}).values() for s in (new, old))
                worst = max(worst, float(np.abs(np.asarray(ours) - np.asarray(theirs)).max()))
        click.echo(
            f"{name} {item}: bound {bound:.4g}, largest of {samples} inputs {worst:.4g}, "
            f"ratio {bound / worst:.1f}{'' if worst <= bound else '  EXCEEDED'}"
        )


@click.command()
@click.option("--samples", default=1_000_000, show_default=True, help="Inputs of a product.")
def main(samples: int) -> None:
    """Measure both."""
    task = ask(EXAMPLE / "model.onnx", ("int4-weights",), ("snr", (10.0, np.inf)))
    task.known.ranges.update(record(task.model, task.engine, task.feeds, set()).ranges)
    statistical(task, 1000, 200)
    sound(task, "/fc2/MatMul", samples)
    sound(task, "/fc1/Gemm", max(BATCH, samples // 10))


if __name__ == "__main__":
    main()
