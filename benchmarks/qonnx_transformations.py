"""qonnx's transformations beside ours, judged on qonnx's own executor."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from benchmarks.environments import clean_environment
from benchmarks.streamlining import EXAMPLES, NETWORKS
from onnx_passes.configs.pipeline_files import config_from_data, load_config
from onnx_passes.pipeline.run import run_pipeline

IMAGES = 8
PAIRS: dict[str, tuple[str, list[Any]]] = {
    "none": ("", []),
    "cleanup_model": ("", ["cleanup"]),
    "GemmToMatMul": ("gemm_to_matmul", ["lower-gemm"]),
    "BatchNormToAffine": ("batchnorm_to_affine", ["inline-batchnorm"]),
    "ExtractBiasFromConv": ("extract_conv_bias", ["sink-scales"]),
    "ExtractQuantScaleZeroPt": ("extract_quant_scale_zeropt", ["extract-weight-scales"]),
    "QuantToQCDQ": ("qonnx_to_qcdq", [{"convert-to-qcdq": {}}]),
    "InferDataTypes": ("infer_datatypes", ["annotate-integers"]),
    "RemoveIdentityOps": ("remove", ["eliminate"]),
    "FoldTransposeIntoQuantInit": ("quant_constant_folding", ["fold-constants"]),
    "SortGraph": ("general", ["topological-sort"]),
}
"""Transformations of qonnx: the module of each, and what does the same here."""

PRESETS = ("cleanup", "simplify", "optimize", "lower")

# qonnx writes an IR version that its own executor does not load.
_SCRIPT = """
import importlib, json, sys, time
import numpy as np, onnx
make_model = onnx.helper.make_model
def older(*args, **options):
    model = make_model(*args, **options)
    model.ir_version = 9
    return model
onnx.helper.make_model = older
from qonnx.core.modelwrapper import ModelWrapper
from qonnx.core.onnx_exec import execute_onnx
from qonnx.transformation.infer_shapes import InferShapes
from qonnx.util.cleanup import cleanup_model
def load(path):
    proto = onnx.load(path)
    proto.ir_version = 9
    return ModelWrapper(proto)
def scores(model):
    (source,) = (v for v in model.graph.input
                 if v.name not in {t.name for t in model.graph.initializer})
    out = execute_onnx(model, {source.name: images})
    return np.asarray(next(iter(out.values())))
pairs, images, base = json.loads(sys.argv[1]), np.load(sys.argv[2]), sys.argv[3]
expected = scores(load(base).transform(InferShapes()))
assert expected.std(0).min() > 0, "the scores tell no image from another"
rows = {}
for name, (module, path) in pairs.items():
    row = rows[name] = {}
    for who in ("qonnx", "ours"):
        try:
            model = load(base if who == "qonnx" else path).transform(InferShapes())
            start = time.perf_counter()
            if who == "qonnx" and name == "cleanup_model":
                model = cleanup_model(model)
            elif who == "qonnx" and module:
                found = importlib.import_module("qonnx.transformation." + module)
                model = model.transform(getattr(found, name)())
            seconds = time.perf_counter() - start
            model = model.transform(InferShapes())
            off = float(np.abs(scores(model) - expected).max())
            row[who] = [len(model.graph.node), off, seconds]
        except Exception as error:
            row[who] = [type(error).__name__ + ": " + str(error).strip().split("\\n")[0][:60]]
print("rows", json.dumps(rows))
"""


def tables() -> list[str]:
    """Return the table of the example networks; ``QONNX_PYTHON`` names qonnx's Python."""
    python = os.environ.get("QONNX_PYTHON")
    if not python:
        return ["", "qonnx 1.0.0 was not run: QONNX_PYTHON names no Python."]
    lines = [
        "## qonnx's transformations",
        "",
        "| network | transformation | here | qonnx: nodes | off by | s | nodes | off by |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in NETWORKS:
        with tempfile.TemporaryDirectory() as folder:
            lines += _rows(name, python, Path(folder))
    return lines


def _rows(name: str, python: str, folder: Path) -> list[str]:
    base = folder / "base.onnx"
    steps: list[Any] = [{"freeze-dims": {"dims": {"batch": IMAGES}}}]
    _save(EXAMPLES / "quantised_digits" / f"{name}.onnx", steps, base)
    images = folder / "images.npy"
    np.save(images, np.load(EXAMPLES / "digits" / "images.npy")[:IMAGES])
    pairs: dict[str, tuple[str, str]] = {}
    for number, (kind, (module, ours)) in enumerate(PAIRS.items()):
        path = folder / f"{number}.onnx"
        _save(base, ours, path)
        pairs[kind] = (module, str(path))
    for preset in PRESETS:
        path = folder / f"{preset}.onnx"
        run = run_pipeline(
            ir.load(base), load_config(preset, ["verify=false", "reproducers=false"])
        )
        run.raise_for_failure()
        ir.save(run.model, path)
        pairs[f"-c {preset}"] = ("", str(path))
    done = subprocess.run(
        [python, "-c", _SCRIPT, json.dumps(pairs), str(images), str(base)],
        capture_output=True,
        text=True,
        env=clean_environment(),
        cwd=folder,
    )
    found = [line for line in done.stdout.splitlines() if line.startswith("rows ")]
    if not found:
        return [f"| {name} | {(done.stderr.strip().splitlines() or ['no error'])[-1][:90]} |"]
    rows = json.loads(found[0][5:])
    return [_line(name, kind, row) for kind, row in rows.items()]


def _line(network: str, kind: str, row: dict[str, list[Any]]) -> str:
    steps = PAIRS[kind][1] if kind in PAIRS else []
    here = ", ".join(str(s if isinstance(s, str) else next(iter(s))) for s in steps)
    theirs = [*row["qonnx"], "", ""][:3]
    if kind.startswith("-c"):
        theirs, here = ["", "", ""], kind
    ours = [*row["ours"], ""][:2]
    cells = [network, kind, here, *map(_told, (*theirs, *ours))]
    return "| " + " | ".join(cells) + " |"


def _told(value: Any) -> str:
    return f"{value:.2g}" if isinstance(value, float) else str(value)


def _save(source: Path, steps: list[Any], target: Path) -> None:
    settings = {"verify": False, "reproducers": False}
    run = run_pipeline(ir.load(source), config_from_data({"passes": steps, **settings}))
    run.raise_for_failure()
    ir.save(run.model, target)
