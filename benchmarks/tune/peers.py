"""``python -m benchmarks.tune.peers``: the search against that of AIMET.

Both choose between 8 and 16 bits for what each product reads. Weights have 8 bits. The budget
is a divergence on one half of the data; the other half is held back. AIMET simulates integers
in floats, so that our models run as written, too. If a peer fails, its error is printed.
"""

from __future__ import annotations

import importlib
import logging
import math
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
import onnx_ir as ir

from benchmarks.tune.optimum import EXAMPLE, HERE
from onnx_passes.contracts.scores import kl_divergence
from onnx_passes.passes.convert.convert_opset import ConvertOpset
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.tuning.budget_search import TuningSearch
from onnx_passes.tuning.groups import (
    BUILTIN,
    Format,
    operations,
    partition,
    prepare,
    weight_of,
)
from onnx_passes.tuning.loss_budget import LossBudget
from onnx_passes.tuning.search_record import Record, Task

NETWORKS = {
    "CNN": EXAMPLE / "model.onnx",
    "MLP, 7 layers": HERE / "digits-7.onnx",
    "MLP, 11 layers": HERE / "digits-11.onnx",
    "vision transformer": HERE / "vit.onnx",
}
WIDE = Format("w8a16", "quantize-static", {"activations": "uint16"}, 8, 16)
_MOVEMENT = ("Flatten", "MaxPool", "Reshape", "Transpose")
"""What moves values that were rounded before."""
LIMITS = (1e-2, 1e-3, 1e-4)


@dataclass(frozen=True)
class Found:
    """What a tool reached.

    Attributes:
        bits: Bit operations of products, as a share of those in 8 bits throughout.
        spent: Divergence from the original on the data of the search, as the tool measures.
        loss: The same on held-back data.
        runs: Whole models that were run on the data of the search.
        seconds: What the search took.
    """

    bits: float
    spent: float
    loss: float
    runs: float
    seconds: float

    def __str__(self) -> str:
        losses = f"{self.spent:.1e} | {self.loss:.1e}"
        return f"{self.bits:.3f} | {losses} | {self.runs:.1f} | {self.seconds:.2f}"


@dataclass(frozen=True)
class Case:
    """A network, with inputs of the search and held-back ones."""

    model: ir.Model
    data: Mapping[str, Any]
    held: Mapping[str, Any]

    def run(self, model: ir.Model, feeds: Mapping[str, Any]) -> Any:
        """Run a model as it is written."""
        with OnnxRuntimeEngine(optimization="none").prepare(model) as session:
            return next(iter(session.run(dict(feeds)).values()))

    def lost(self, model: ir.Model) -> float:
        """Return the divergence on held-back data."""
        ours, theirs = (self.run(m, self.held) for m in (model, self.model))
        return kl_divergence([ours], [theirs])

    def bits(self, data_bits: Callable[[ir.Node], tuple[int, int]]) -> float:
        """Return the bit operations of products, as a share of those in 8 bits.

        Args:
            data_bits: Returns the bits of the weight and of the values of a product.
        """
        costs = operations(self.model, dict(self.data))
        nodes = [node for node in self.model.graph if weight_of(node) is not None]
        total = sum(costs[str(node.name)] * math.prod(data_bits(node)) for node in nodes)
        return total / sum(costs[str(node.name)] * 64 for node in nodes)


def load(path: Path) -> Case:
    """Return a network with the two halves of its data."""
    model = ir.load(path)
    ConvertOpset(version=21).call(model)
    images = np.load(EXAMPLE / "images.npy")
    return Case(prepare(model), {"image": images[:200]}, {"image": images[200:]})


def ours(case: Case, limit: float, optimization: Any = "all") -> Found:
    """Search, with ONNX Runtime's optimisations or as models are written."""
    formats = {item.name: item for item in (BUILTIN["float32"], BUILTIN["int8-static"], WIDE)}
    task = Task(
        case.model,
        partition(case.model, ["int8-static", "w8a16"], {}, 24),
        formats,
        OnnxRuntimeEngine(optimization=optimization),
        "bops",
        LossBudget({"kl_divergence": (0.0, limit)}),
        [dict(case.data)],
        [{"image": case.data["image"][:80]}],
    )
    start = time.perf_counter()
    result = TuningSearch(task, Record(None, "")).run()
    seconds = time.perf_counter() - start
    owners = {n: result.best.names[g.name] for g in task.groups for n in g.nodes}

    def bits(node: ir.Node) -> tuple[int, int]:
        item = formats[owners[str(node.name)]]
        return item.weight_bits, item.data_bits

    work = result.work
    runs = work["whole model"] + work["whole model, few samples"]
    spent = result.best.spent.values["kl_divergence"] if result.best.spent else 0.0
    return Found(case.bits(bits), spent, case.lost(result.model), runs, seconds)


def aimet(case: Case, limit: float) -> Found:
    """Run AIMET's greedy search over quantizer groups, from 16 bits and 8 bits."""
    search: Any = importlib.import_module("aimet_onnx.mixed_precision")
    quantsim: Any = importlib.import_module("aimet_onnx.quantsim")
    defs: Any = importlib.import_module("aimet_onnx.common.defs")
    proto = ir.to_proto(case.model)
    expected, count = case.run(case.model, case.data), 0
    whole = defs.QuantizationDataType.int
    data = dict(case.data)

    def score(session: Any, _: Any = None) -> float:
        nonlocal count
        count += 1
        return -float(kl_divergence([session.run(None, data)[0]], [expected]))

    def forward(session: Any, _: Any = None) -> None:
        session.run(None, data)

    start = time.perf_counter()
    sim = quantsim.QuantizationSimModel(
        proto, dummy_input=data, providers=["CPUExecutionProvider"]
    )
    sim.compute_encodings(forward, None)
    call = defs.CallbackFunc
    with tempfile.TemporaryDirectory() as folder:
        search.choose_mixed_precision(
            sim,
            [((bits, whole), (8, whole)) for bits in (16, 8)],
            call(score),
            call(score),
            limit,
            folder,
            True,
            call(forward),
            use_all_amp_candidates=True,
        )
    seconds, runs = time.perf_counter() - start, count
    quantizers, spent = sim.qc_quantize_op_dict, -score(sim.session)

    def bits(node: ir.Node) -> tuple[int, int]:
        place = weight_of(node)
        assert place is not None, "it is a product"
        weight, data = node.inputs[place], node.inputs[1 - place]
        return _bits_of(quantizers, weight), _bits_of(quantizers, data)

    loss = math.nan
    with suppress(Exception):
        loss = case.lost(ir.from_proto(sim.to_onnx_qdq()))
    if not math.isfinite(loss):
        held = sim.session.run(None, dict(case.held))[0]
        loss = kl_divergence([held], [case.run(case.model, case.held)])
    return Found(case.bits(bits), spent, loss, runs, seconds)


def _bits_of(quantizers: Mapping[str, Any], value: ir.Value | None) -> int:
    assert value is not None, "a product reads both"
    found = quantizers.get(str(value.name))
    if found is not None and found.enabled:
        return int(found.bitwidth)
    producer = value.producer()
    if producer is not None and producer.op_type in _MOVEMENT and producer.inputs[0]:
        return _bits_of(quantizers, producer.inputs[0])
    return 32


TOOLS: dict[str, Callable[[Case, float], Found]] = {
    "tune": ours,
    "tune, as written": partial(ours, optimization="none"),
    "AIMET": aimet,
}


@click.command()
@click.option("--network", "only", default="", help="Part of the name of a network.")
def main(only: str) -> None:
    """Print a table."""
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    click.echo("| network | KL | tool | bit operations | KL | held back | runs | seconds |")
    click.echo("|---|---|---|---|---|---|---|---|")
    for title, path in NETWORKS.items():
        if only not in title:
            continue
        case = load(path)
        for limit in LIMITS:
            for name, tool in TOOLS.items():
                try:
                    text = str(tool(case, limit))
                except Exception as error:
                    said = " ".join(str(error).split())[:160]
                    text = f"{type(error).__name__}: {said} | | | |"
                click.echo(f"| {title} | {limit:g} | {name} | {text} |")


if __name__ == "__main__":
    main()
