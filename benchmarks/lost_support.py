"""Rewrites after which TensorRT for RTX takes a model no more: is each named, and how soon?

    python -m benchmarks lost-support
    python -m benchmarks lost-support seen
    python -m benchmarks lost-support other

Each pass writes every Add as a Sum. At one of them it takes the sum through operators that
change no number, and that NVIDIA's compiler does not take. Nothing is executed on it, and no
GPU is needed: the extra ``tensorrt-rtx`` is. Printed are the rewrite that is named, and three
times. They end with the name of the rewrite, with the build of the pass without it, and with
one build of the original. The first two begin with the failed check. Runs and builds take
turns, so that other work slows both; each ratio is the median of those of the turns.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np
import onnx
import onnx_ir as ir

from benchmarks.faults.form import guilty
from benchmarks.models import resnet50, transformer
from onnx_passes import passes
from onnx_passes.configs.pipeline_files import config_from_data
from onnx_passes.model.load import deserialize
from onnx_passes.passes.base import Op, RewriteRulePass, Transformation, Value, Var
from onnx_passes.pipeline import culprit, failure
from onnx_passes.pipeline.run import run_pipeline
from onnx_passes.runtime.engine_base import Level, examine
from onnx_passes.runtime.engines import engine_from_config
from onnx_passes.runtime.inputs import generate
from onnx_passes.runtime.tensorrt.engine import with_profiles_of
from onnx_passes.verify.evidence import LEVEL, Verdict

CAPABILITY = "8.9"
TURNS = 3
PLACE = 0.6
"""Which of the rewrites is wrong: where it stands among all of them."""

Detour = Callable[[Op, Any], Any]


def _int64(op: Op, *values: int) -> Any:
    return op.Constant(value=ir.tensor(np.array(values, np.int64)))


def _ones(op: Op) -> Any:
    return op.Constant(value=ir.tensor(np.ones((1,), np.float32)))


def _unique(op: Op, y: Any) -> Any:
    found, _, inverse, _ = op.Unique(y, _outputs=4)
    return op.Reshape(op.Gather(found, inverse), op.Shape(y))


def _masked(op: Op, y: Any) -> Any:
    mask = op.Cast(op.Cast(op.Equal(y, y), to=ir.DataType.UINT8), to=ir.DataType.BOOL)
    return op.Where(mask, y, y)


def _all_true(op: Op, y: Any) -> Any:
    true = ir.tensor(np.array([True]))
    return op.ConstantOfShape(op.Shape(y, end=1), value=true)


def _places(op: Op, y: Any) -> Any:
    return op.Transpose(op.NonZero(op.ConstantOfShape(op.Shape(y), value=_ONE)), perm=[1, 0])


def _quantised(op: Op, y: Any) -> Any:
    scale = op.Constant(value=ir.tensor(np.array(1, np.float32)))
    zero = op.Constant(value=ir.tensor(np.array(3, np.int8)))
    nothing = op.QuantizeLinear(op.Sub(y, y), scale, zero)
    return op.Sum(y, op.DequantizeLinear(nothing, scale, zero))


def _suppressed(op: Op, y: Any) -> Any:
    boxes = op.Constant(value=ir.tensor(np.ones((1, 1, 4), np.float32)))
    scores = op.Constant(value=ir.tensor(np.ones((1, 1, 1), np.float32)))
    none = op.NonMaxSuppression(boxes, scores, _int64(op, 0))
    return op.Sum(y, op.Cast(op.Size(none), to=ir.DataType.FLOAT))


_ONE = ir.tensor(np.array([1], np.int64))

DETOURS: dict[str, Detour] = {
    "sequence": lambda op, y: op.SequenceAt(op.SequenceConstruct(y), _int64(op, 0)),
    "compress": lambda op, y: op.Compress(y, _all_true(op, y), axis=0),
    "quantised": _quantised,
    "crop": lambda op, y: op.CenterCropPad(y, op.Shape(y)),
    "microsoft": lambda op, y: op.Squeeze(
        op.ExpandDims(
            y, op.Constant(value=ir.tensor(np.array(0, np.int32))), _domain="com.microsoft"
        ),
        _int64(op, 0),
    ),
    "places": lambda op, y: op.Reshape(op.GatherND(y, _places(op, y)), op.Shape(y)),
    "determinant": lambda op, y: op.Mul(
        y, op.Det(op.Constant(value=ir.tensor(np.eye(2, dtype=np.float32))))
    ),
    "bytes": _masked,
    "shift": lambda op, y: op.Reshape(
        y,
        op.Cast(
            op.BitShift(
                op.Cast(op.Shape(y), to=ir.DataType.UINT64),
                op.Constant(value=ir.tensor(np.array([0], np.uint64))),
                direction="LEFT",
            ),
            to=ir.DataType.INT64,
        ),
    ),
    "features": lambda op, y: op.Reshape(
        y,
        op.Reshape(
            op.ArrayFeatureExtractor(
                op.Reshape(op.Shape(y), _int64(op, 1, -1)),
                op.Range(
                    op.Constant(value=ir.tensor(np.array(0, np.int64))),
                    op.Size(op.Shape(y)),
                    op.Constant(value=ir.tensor(np.array(1, np.int64))),
                ),
                _domain="ai.onnx.ml",
            ),
            _int64(op, -1),
        ),
    ),
    "optional": lambda op, y: op.OptionalGetElement(op.Optional(y)),
    "unique": _unique,
    "split": lambda op, y: op.ConcatFromSequence(
        op.SplitToSequence(y, axis=0, keepdims=1), axis=0
    ),
    "bits": lambda op, y: op.Reshape(y, op.BitwiseAnd(op.Shape(y), op.Shape(y))),
    "binarizer": lambda op, y: op.Mul(
        y, op.Binarizer(_ones(op), threshold=0.5, _domain="ai.onnx.ml")
    ),
    "text": lambda op, y: op.Reshape(
        y, op.Cast(op.Cast(op.Shape(y), to=ir.DataType.STRING), to=ir.DataType.INT64)
    ),
    "inserted": lambda op, y: op.SequenceAt(
        op.SequenceInsert(op.SequenceEmpty(dtype=1), y), _int64(op, 0)
    ),
    "scaler": lambda op, y: op.Mul(
        y, op.Scaler(_ones(op), offset=[0.0], scale=[1.0], _domain="ai.onnx.ml")
    ),
    "suppressed": _suppressed,
    "hardmax": lambda op, y: op.Mul(y, op.Hardmax(_ones(op), axis=0)),
}

NAMES = tuple(DETOURS)
HALVES = {"seen": NAMES[::2], "other": NAMES[1::2]}


@passes.verify.equality
class LoseSupport(Transformation, RewriteRulePass):
    """Write an addition as a sum; at one place by operators that the compiler lacks.

    Attributes:
        at: Name of the value to compute so.
        detour: What is put behind the sum there.
    """

    at: str = ""
    detour: str = ""

    def pattern(self, op: Op, x: Var, y: Var) -> Var:
        return op.Add(x, y, _outputs=["out"])

    def check(self, context: Any, out: Value, **values: Value) -> bool:
        return out.dtype in (ir.DataType.FLOAT, None)  # exporters write no inner types

    def rewrite(self, op: Op, *, x: Value, y: Value, out: Value) -> Any:
        detour = DETOURS[self.detour] if guilty(self.at, out) else lambda op, y: y
        return detour(op, op.Sum(x, y))


@dataclass(frozen=True)
class Row:
    """What was made of one pass.

    Attributes:
        detour: What is not supported.
        model: The model.
        rewrites: Number of rewrites of the pass.
        level: How far the result got.
        named: "right", "wrong" or "none".
        how: How it was found.
        region: Seconds from the failed check to the name, by regions.
        seconds: The same, and the pass without the rewrite built, as the name's proof.
        build: Seconds of one build of the original.
        to_name: ``region`` over ``build``.
        ratio: ``seconds`` over ``build``.
    """

    detour: str
    model: str
    rewrites: int
    level: str
    named: str
    how: str
    region: float
    seconds: float
    build: float
    to_name: float
    ratio: float


@cache
def _model(name: str) -> onnx.ModelProto:
    made = {
        "resnet50": resnet50,
        "encoder of 4 layers": lambda: transformer(layers=4, hidden=256, heads=4),
    }[name]()
    return made


MODELS = ("resnet50", "encoder of 4 layers")


def row(detour: str, name: str) -> Row:
    """Run one pass, and see whom its failure names."""
    passes.register()(LoseSupport)
    clean = _run(name, "", "")
    rewrites = clean.report.passes[0].rewrites
    at = rewrites[round(PLACE * (len(rewrites) - 1))].replaced[0][0]
    turns: list[tuple[float, float, float]] = []
    for _ in range(TURNS):
        spent: dict[str, float] = {}
        build = _build_seconds(name)
        with (
            _timed(failure.FailedCheck, "explain", spent),
            _timed(culprit.Judgement, "scores", spent),
        ):
            done = _run(name, detour, at).report.passes[0]
        build = (build + _build_seconds(name)) / 2
        turns.append((spent.get("scores", 0.0), spent.get("explain", 0.0), build))
    failed = [c for c in done.checks if c.kind == LEVEL and c.verdict is Verdict.FAILED]
    names = [r.replaced[0][0] for r in done.rewrites if r.number in done.culprits]
    named = "none" if not names else "right" if names == [at] else "wrong"
    how = done.blame[0].how if done.blame else ""
    level = str(failed[0].level) if failed else "not failed"
    region, seconds, build = (statistics.median(column) for column in zip(*turns, strict=True))
    to_name, ratio = (statistics.median(turn[i] / turn[2] for turn in turns) for i in (0, 1))
    return Row(
        detour,
        name,
        len(rewrites),
        level,
        named,
        how,
        region,
        seconds,
        build,
        to_name,
        ratio,
    )


@contextmanager
def _timed(cls: type[Any], method: str, spent: dict[str, float]) -> Iterator[None]:
    right = getattr(cls, method)

    def timed(*arguments: Any) -> Any:
        start = time.perf_counter()
        found = right(*arguments)
        spent[method] = spent.get(method, 0.0) + time.perf_counter() - start
        return found

    with patch.object(cls, method, timed):
        yield


def _run(name: str, detour: str, at: str) -> Any:
    rtx = {"tensorrt-rtx": {"when": "each", "compute_capabilities": [CAPABILITY]}}
    data = {
        "passes": [{"lose-support": {"at": at, "detour": detour}}],
        "engines": [{"onnxruntime": {}}, rtx],
        "reproducers": False,
        "on_failure": "warn",
    }
    return run_pipeline(deserialize(_model(name)), config_from_data(data))


def _build_seconds(name: str) -> float:
    model = deserialize(_model(name))
    engine = engine_from_config("tensorrt-rtx", {"compute_capabilities": [CAPABILITY]})
    ready = with_profiles_of(engine, model, generate(model, samples=1))
    start = time.perf_counter()
    level = examine(ready, model).level
    if level is not Level.BUILT:
        raise SystemExit(f"{name} is {level}, not built")
    return time.perf_counter() - start


def tables(words: list[str]) -> list[str]:
    """Return the lines of the report, of one half where the words name it."""
    detours = HALVES[words[0]] if words else NAMES
    rows = [row(one, MODELS[i % len(MODELS)]) for i, one in enumerate(detours)]
    lines = [
        "| put behind a sum | model | rewrites | level | named | to the name (s) "
        "| and put to the test (s) | one build (s) | name / build | test / build |",
        "|" + "---|" * 10,
    ]
    lines += [
        f"| {r.detour} | {r.model} | {r.rewrites} | {r.level} | {r.named} | "
        f"{r.region:.2f} | {r.seconds:.2f} | {r.build:.2f} | {r.to_name:.2f} | {r.ratio:.2f} |"
        for r in rows
    ]
    right = sum(r.named == "right" for r in rows)
    return [
        *lines,
        "",
        f"- {len(rows)} rewrites: {right} named, {sum(r.to_name <= 2 for r in rows)} in at "
        f"most twice the time of one build, the most {max(r.to_name for r in rows):.2f}; "
        f"{sum(r.ratio <= 2 for r in rows)} put to the test in that, a build included, "
        f"the most {max(r.ratio for r in rows):.2f}.",
    ]
