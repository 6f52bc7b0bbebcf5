"""Streamlining quantised networks: results, what is left in floating point, widths, time."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import onnx_ir as ir

from benchmarks.environments import clean_environment
from benchmarks.processes import run
from onnx_passes.configs.load import config_from_data, load_config
from onnx_passes.passes.analysis._between import floats_between, steps_of
from onnx_passes.passes.analysis.integer_cost import bits_of
from onnx_passes.passes.streamline.annotate_integers import KEY
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.runtime.ort import OnnxRuntimeEngine

EXAMPLES = Path(__file__).parents[1] / "examples"
NETWORKS = ("mlp_1w1a", "mlp_2w2a", "cnn_w4a4", "residual_w3a4", "attention_w4a4")
SEED = "SEED_PYTHON"
"""Variable that names the Python of an environment with the seed system, onnx-passes 0.4.1."""

_PRODUCTS = ("MatMul", "Conv", "ConvTranspose")
_OPSET = 19
"""The one opset that the seed system takes; it takes no dynamic batch either."""

_LIMIT = 300
"""Seconds after which the seed system is stopped."""

_SCRIPT = """
import sys, time
import onnx_ir as ir
import onnx_passes.passes.imports.qonnx, onnx_passes.passes.inline.qonnx
from onnx_passes.ops import inject_custom_ops
from onnx_passes.passes import collect
config = {"reference": {"inp": [None], "out": [None]}, "verify": {}, "layouts": {},
          "onnxruntime": {"providers": [["CPUExecutionProvider", {}]]},
          "model_checker": {"full_check": True}, "logging": {"verbose": False}}
names = ["import-qonnx", "shape-inference", "inline-qonnx", "inline-batchnorm", "inline-gemm",
         "shape-inference", "streamline-thresholds", "streamline"]
model, state = inject_custom_ops(ir.load(sys.argv[1])), {}
start = time.perf_counter()
passes = [cls(config, state) for cls in collect(names)]
model = ir.passes.PassManager(passes=passes, steps=1)(model).model
print("seconds", time.perf_counter() - start)
ir.save(inject_custom_ops(model), sys.argv[2])
"""


def tables() -> list[str]:
    """Return the table of the example networks."""
    lines = [
        "## Streamlining",
        "",
        "| network | by | nodes | reads, of 400 | scores off | quantisers and floats left |"
        " accumulators, bits | s, unverified | s, verified |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for name in NETWORKS:
        source = EXAMPLES / "quantised_digits" / f"{name}.onnx"
        with tempfile.TemporaryDirectory() as folder:
            lines.append(_ours(name, source, Path(folder, "ours.onnx")))
            python = os.environ.get(SEED)
            if python:
                lines.append(_seed(name, source, Path(folder, "seed.onnx"), python))
    if not os.environ.get(SEED):
        lines += ["", f"The seed system was not run: {SEED} names no Python."]
    return lines


def _ours(name: str, source: Path, target: Path) -> str:
    times = []
    for verify in ("false", "true"):
        measured = run(source, "-c", "streamline", "-s", f"verify={verify}")
        times.append(f"{measured.seconds:.1f}")
    made = run_pipeline(ir.load(source), load_config("streamline", ["verify=false"]))
    made.raise_for_failure()
    ir.save(made.model, target)
    return _row(name, "onnx-passes", source, target, times)


def _seed(name: str, source: Path, target: Path, python: str) -> str:
    lowered = target.with_name("opset_19.onnx")
    settings = {"verify": False, "reproducers": False}
    sizes = {"freeze-dims": {"dims": {"batch": 400}}}
    steps = [sizes, {"convert-opset": {"version": _OPSET}}]
    made = run_pipeline(ir.load(source), config_from_data({"passes": steps, **settings}))
    made.raise_for_failure()
    ir.save(made.model, lowered)
    command = [python, "-c", _SCRIPT, str(lowered), str(target)]
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            env=clean_environment(),
            timeout=_LIMIT,
            cwd=target.parent,
        )
    except subprocess.TimeoutExpired:
        return f"| {name} | seed 0.4.1 | stopped after {_LIMIT} s | | | | | | |"
    found = re.search(r"^seconds (\S+)", done.stdout, re.MULTILINE)
    if done.returncode or found is None:
        error = (done.stderr.strip().splitlines() or ["no error"])[-1]
        return f"| {name} | seed 0.4.1 | {error[:80]} | | | | | | |"
    return _row(name, "seed 0.4.1", source, target, [f"{float(found[1]):.1f}", ""])


def _row(name: str, who: str, source: Path, target: Path, times: list[str]) -> str:
    before, after = ir.load(source), ir.load(target)
    labels = np.load(EXAMPLES / "digits" / "labels.npy")
    old, new = _scores(before), _scores(after)
    _, quantisers = steps_of(after.graph)
    left = Counter(n.op_type for n in (*quantisers, *floats_between(after.graph)))
    told = ", ".join(f"{count} {kind}" for kind, count in left.items()) or "none"
    right = int((new.argmax(1) == labels).sum())
    widths = [bits_of(_datatype(n.outputs[0])) for n in after.graph if n.op_type in _PRODUCTS]
    cells = [
        *(name, who, f"{len(before.graph)} to {len(after.graph)}", str(right)),
        *(f"{np.abs(old - new).max():.1g}", told, ", ".join(map(str, widths)), *times),
    ]
    return "| " + " | ".join(cells) + " |"


def _datatype(value: ir.Value) -> str:
    return str((value.meta.get("quant_parameter_tensor_names") or {}).get(KEY))


def _scores(model: ir.Model) -> np.ndarray:
    images = np.load(EXAMPLES / "digits" / "images.npy")
    with OnnxRuntimeEngine(prepacking=False).prepare(model) as session:
        return np.asarray(session.run({"image": images})["scores"])
