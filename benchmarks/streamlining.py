"""Streamlining quantised networks: results, what is left in floating point, widths, time."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from benchmarks.environments import clean_environment
from benchmarks.processes import run
from onnx_passes.configs.pipeline_files import config_from_data, load_config
from onnx_passes.errors import EngineError
from onnx_passes.passes.analysis._demands import floats_between, steps_of
from onnx_passes.passes.analysis.integer_cost import bits_of
from onnx_passes.passes.streamline.annotate_integers import KEY
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.runtime.ort import OnnxRuntimeEngine

EXAMPLES = Path(__file__).parents[1] / "examples"
NETWORKS = ("mlp_1w1a", "mlp_2w2a", "cnn_w4a4", "residual_w3a4", "attention_w4a4")
_PRODUCTS = ("MatMul", "Conv", "ConvTranspose")
_LIMIT = 300
"""Seconds after which another system is stopped."""

_SEED_OPSET = 19
"""The one opset that the seed system takes."""

_SEED = """
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

# qonnx writes an IR version that its own executor does not load.
_FINN = """
import sys, time
import onnx
make_model = onnx.helper.make_model
def older(*args, **options):
    model = make_model(*args, **options)
    model.ir_version = 9
    return model
onnx.helper.make_model = older
from finn.transformation.qonnx.convert_qonnx_to_finn import ConvertQONNXtoFINN
from finn.transformation.streamline import Streamline
from qonnx.core.modelwrapper import ModelWrapper
from qonnx.transformation.infer_datatypes import InferDataTypes
from qonnx.util.cleanup import cleanup_model
proto = onnx.load(sys.argv[1])
proto.ir_version = 9
model = cleanup_model(ModelWrapper(proto))
start = time.perf_counter()
for step in (ConvertQONNXtoFINN(), Streamline(), InferDataTypes()):
    model = model.transform(step)
print("seconds", time.perf_counter() - start)
model.save(sys.argv[2])
"""


@dataclass(frozen=True)
class _Other:
    """Another system, run in an environment of its own.

    Attributes:
        name: What the table calls it.
        variable: The variable that names its Python.
        script: Reads one model and writes another, and prints its seconds.
        opset: The opset that models are converted to; None if it takes any.
    """

    name: str
    variable: str
    script: str
    opset: int | None = None


OTHERS = (
    _Other("seed 0.4.1", "SEED_PYTHON", _SEED, _SEED_OPSET),
    _Other("finn-plus 1.6.1", "FINN_PYTHON", _FINN),
)
"""Systems beside ours; neither takes a dynamic batch."""


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
            for other in OTHERS:
                python = os.environ.get(other.variable)
                if python:
                    lines.append(_theirs(name, other, source, Path(folder), python))
    for other in OTHERS:
        if not os.environ.get(other.variable):
            lines += ["", f"{other.name} was not run: {other.variable} names no Python."]
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


def _theirs(name: str, other: _Other, source: Path, folder: Path, python: str) -> str:
    given, target = folder / "given.onnx", folder / "made.onnx"
    target.unlink(missing_ok=True)
    settings = {"verify": False, "reproducers": False}
    steps: list[dict[str, Any]] = [{"freeze-dims": {"dims": {"batch": 400}}}]
    if other.opset is not None:
        steps.append({"convert-opset": {"version": other.opset}})
    made = run_pipeline(ir.load(source), config_from_data({"passes": steps, **settings}))
    made.raise_for_failure()
    ir.save(made.model, given)
    try:
        done = subprocess.run(
            [python, "-c", other.script, str(given), str(target)],
            capture_output=True,
            text=True,
            env=clean_environment(),
            timeout=_LIMIT,
            cwd=folder,
        )
    except subprocess.TimeoutExpired:
        return f"| {name} | {other.name} | stopped after {_LIMIT} s | | | | | | |"
    found = re.search(r"^seconds (\S+)", done.stdout, re.MULTILINE)
    if done.returncode or found is None:
        error = (done.stderr.strip().splitlines() or ["no error"])[-1]
        return f"| {name} | {other.name} | {error[:80]} | | | | | | |"
    try:
        return _row(name, other.name, source, target, [f"{float(found[1]):.1f}", ""])
    except EngineError as error:
        reason = str(error).splitlines()[0][-80:]
        return f"| {name} | {other.name} | the result does not run: {reason} | | | | | | |"


def _row(name: str, who: str, source: Path, target: Path, times: list[str]) -> str:
    before, after = ir.load(source), _with_our_thresholds(ir.load(target))
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


def _with_our_thresholds(model: ir.Model) -> ir.Model:
    """Return a model whose thresholds are those of our domain, whatever wrote it."""
    settings = {"verify": False, "reproducers": False}
    made = run_pipeline(model, config_from_data({"passes": ["import-qonnx"], **settings}))
    made.raise_for_failure()
    return made.model


def _datatype(value: ir.Value) -> str:
    return str((value.meta.get("quant_parameter_tensor_names") or {}).get(KEY))


def _scores(model: ir.Model) -> np.ndarray:
    images = np.load(EXAMPLES / "digits" / "images.npy")
    image = next(v for v in model.graph.inputs if not v.is_initializer())
    with OnnxRuntimeEngine(prepacking=False).prepare(model) as session:
        (scores,) = session.run({str(image.name): images}).values()
    return np.asarray(scores)
