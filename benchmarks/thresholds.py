"""Thresholds of random layers, held against their originals at the floats around each."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import onnx_ir as ir

from onnx_passes import testing
from onnx_passes.ops.bodies.operator_bodies import CUSTOM
from onnx_passes.passes.annotation.shape_inference import infer_shapes
from onnx_passes.passes.quantised._chains import _float, _place_of
from onnx_passes.passes.quantised.infer_thresholds import InferThresholds
from onnx_passes.runtime.ort import OnnxRuntimeEngine

WANTED, CHANNELS, SEED = 100_000, 64, 20261123
BESIDE = (-3, -2, -1, 0, 1, 2, 3)
"""Distances, in floats, at which both models are asked."""

MODES = ("ROUND", "CEIL", "FLOOR", "UP", "DOWN", "HALF_UP", "HALF_DOWN")
CHAINS = {
    "Mul, Add": "r = Identity(b)",
    "Mul, Add, Relu": "r = Relu(b)",
    "Mul, Add, Clip": "r = Clip(b, low, high)",
    "Mul, Add, LeakyRelu": "r = LeakyRelu(b)",
    "Mul, Add, Div": "r = Div(b, minus)",
    "Mul, Add, BatchNormalization": "r = BatchNormalization(b, k, t, t, v)",
}
"""What stands between a layer and its quantiser; factors of channels have both signs."""


def tables() -> list[str]:
    """Return a row for each kind of chain, and one for all."""
    rng, counts, wrong = np.random.default_rng(SEED), Counter[str](), Counter[str]()
    for number, chain in enumerate(itertools.cycle(CHAINS)):
        if counts.total() >= WANTED:
            break
        found = _layer(rng, chain, MODES[number % len(MODES)], number)
        counts[chain] += found[0]
        wrong[chain] += found[1]
    rows = [f"| {chain} | {counts[chain]:,} | {wrong[chain]:,} |" for chain in CHAINS]
    return [
        "## Thresholds",
        "",
        "| chain | thresholds | misplaced |",
        "|---|---|---|",
        *rows,
        f"| all | {counts.total():,} | {wrong.total():,} |",
    ]


def _layer(rng: np.random.Generator, chain: str, mode: str, number: int) -> tuple[int, int]:
    """Return how many thresholds a layer has, and how many are misplaced."""
    original = _model(rng, chain, mode, number)
    infer_shapes(original)
    model = original.clone()
    assert InferThresholds()(model).modified, f"{chain}, {mode}: it stays"
    node = next(n for n in model.graph if (n.domain, n.op_type) == (CUSTOM, "MultiThreshold"))
    table = ir.convenience.get_const_tensor(node.inputs[1])
    assert table is not None, "they are constant"
    wide = table.numpy().reshape(-1, table.shape.numpy()[-1])
    wide = np.broadcast_to(wide, (CHANNELS, wide.shape[-1]))
    there = np.isfinite(wide)
    places = np.vectorize(_place_of, otypes=[np.int64])(np.where(there, wide, 0))
    asked = np.concatenate([_float(places + beside).T for beside in BESIDE])
    results = []
    for one in (original, model):
        with OnnxRuntimeEngine(prepacking=False).prepare(one) as session:
            results.append(session.run({"x": asked[..., None].astype(np.float32)})["y"])
    # Levels differ by a scale; what is less is the rounding of the last product.
    off = ~np.isclose(results[0], results[1], rtol=1e-5, atol=1e-7)
    differ = off.reshape(len(BESIDE), -1, CHANNELS).any(0).T
    return int(there.sum()), int((differ & there).sum())


def _model(rng: np.random.Generator, chain: str, mode: str, number: int) -> ir.Model:
    shape = (CHANNELS, 1) if number % 3 else (1, 1)
    numbers = {
        "s": rng.uniform(0.01, 0.6, shape),
        "k": rng.normal(0.5, 0.8, CHANNELS),
        "t": rng.normal(0, 0.5, CHANNELS),
        "v": rng.uniform(0.5, 2, CHANNELS),
    }
    columns = {name: numbers[old][:, None] for name, old in (("f", "k"), ("a", "t"))}
    signed = int(rng.integers(2))
    constants = {
        **{name: np.float32(array) for name, array in (numbers | columns).items()},
        "z": np.float32(0),
        "bits": np.float32(rng.integers(2, 7)),
        "low": np.float32(-1),
        "high": np.float32(1),
        "minus": np.float32(-3),
    }
    model = testing.parse(f"""<ir_version: 10, opset_import: ["" : 20,
        "qonnx.custom_op.general" : 1]> g (float[N,{CHANNELS},1] x) =>
        (float[N,{CHANNELS},1] y) <{", ".join(_declared(*item) for item in constants.items())}>
        {{ m = Mul(x, f) b = Add(m, a) {CHAINS[chain]}
        y = qonnx.custom_op.general.Quant<signed = {signed}, narrow = 0,
        rounding_mode = "{mode}">(r, s, z, bits) }}""")
    for name, array in constants.items():
        model.graph.initializers[name].const_value = ir.tensor(array, name=name)
    return model


def _declared(name: str, array: Any) -> str:
    shape = f"[{','.join(map(str, array.shape))}]" if array.ndim else ""
    return f"float{shape} {name} = {{{', '.join(['0'] * array.size)}}}"
