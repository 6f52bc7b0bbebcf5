"""Rewrites after which TensorRT for RTX takes a model no more: is each named, and how soon?

    python -m benchmarks lost-support
    python -m benchmarks lost-support seen
    python -m benchmarks lost-support other

Each pass writes every Add as a Sum. At one of them it takes the sum through operators that
change no number, and that NVIDIA's compiler does not take. Nothing is executed on it, and no
GPU is needed: the extra ``tensorrt-rtx`` is. Printed are the rewrite that is named, and two
times. The first is from the failed check to the name, put to the test by a build without it.
The second is one build of the original. Runs and builds take turns: other work slows both.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any
from unittest.mock import patch

import onnx

from benchmarks.faults import form
from benchmarks.models import resnet50, transformer
from onnx_passes import passes
from onnx_passes.configs.pipeline_files import config_from_data
from onnx_passes.model.load import deserialize
from onnx_passes.pipeline import failure
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

DETOURS = """
sequence: SequenceAt(SequenceConstruct(y), ints(0))
compress: true = ir.tensor(np.array([True]));
  Compress(y, ConstantOfShape(Shape(y, end=1), value=true), axis=0)
quantised: s = const(1, f4); z = const(3, i1);
  Sum(y, DequantizeLinear(QuantizeLinear(Sub(y, y), s, z), s, z))
crop: CenterCropPad(y, Shape(y))
microsoft: Squeeze(ExpandDims(y, const(0, i4), _domain="com.microsoft"), ints(0))
places: ones = ConstantOfShape(Shape(y), value=ir.tensor(np.array([1], i8)));
  Reshape(GatherND(y, Transpose(NonZero(ones), perm=[1, 0])), Shape(y))
determinant: Mul(y, Det(const(np.eye(2), f4)))
bytes: Where(Cast(Cast(Equal(y, y), to=2), to=9), y, y)
shift: sizes = BitShift(Cast(Shape(y), to=13), const([0], np.uint64), direction="LEFT");
  Reshape(y, Cast(sizes, to=7))
features: all = Range(const(0, i8), Size(Shape(y)), const(1, i8));
  row = ArrayFeatureExtractor(Reshape(Shape(y), ints(1, -1)), all, _domain="ai.onnx.ml");
  Reshape(y, Reshape(row, ints(-1)))
optional: OptionalGetElement(Optional(y))
unique: found, _, inverse, _ = Unique(y, _outputs=4); Reshape(Gather(found, inverse), Shape(y))
split: ConcatFromSequence(SplitToSequence(y, axis=0, keepdims=1), axis=0)
bits: Reshape(y, BitwiseAnd(Shape(y), Shape(y)))
binarizer: Mul(y, Binarizer(const([1], f4), threshold=0.5, _domain="ai.onnx.ml"))
text: Reshape(y, Cast(Cast(Shape(y), to=8), to=7))
inserted: SequenceAt(SequenceInsert(SequenceEmpty(dtype=1), y), ints(0))
scaler: Mul(y, Scaler(const([1], f4), offset=[0.0], scale=[1.0], _domain="ai.onnx.ml"))
suppressed: boxes = const(np.ones((1, 1, 4)), f4); scores = const(np.ones((1, 1, 1)), f4);
  Sum(y, Cast(Size(NonMaxSuppression(boxes, scores, ints(0))), to=FLOAT))
hardmax: Mul(y, Hardmax(const([1], f4), axis=0))
"""
"""What is put behind a sum ``y``."""

PASSES = {
    name: form.made(
        __name__,
        f"lose-{name}",
        "=",
        "Write an addition as a sum; at one place by operators that the compiler lacks.",
        {
            "match": ["Add(x, z)"],
            "when": ["out.dtype in (FLOAT, None)"],  # exporters write no inner types
            "right": ["Sum(x, z)"],
            "wrong": [f"y = Sum(x, z); {detour}"],
        },
    )
    for row in form.entries(DETOURS.replace("\n", "\n\n").replace("\n\n  ", "\n  "))
    for name, detour in [row[""][0].split(": ", 1)]
}
NAMES = tuple(PASSES)
HALVES = {"seen": NAMES[::2], "other": NAMES[1::2]}


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
        seconds: Seconds from the failed check to the name, put to the test.
        build: Seconds of one build of the original.
        ratio: The median of their ratios.
    """

    detour: str
    model: str
    rewrites: int
    level: str
    named: str
    how: str
    seconds: float
    build: float
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
    passes.register()(PASSES[detour])
    clean = _run(name, detour, "")
    rewrites = clean.report.passes[0].rewrites
    at = rewrites[round(PLACE * (len(rewrites) - 1))].replaced[0][0]
    turns: list[tuple[float, float]] = []
    for _ in range(TURNS):
        spent: dict[str, float] = {}
        build = _build_seconds(name)
        with _timed(failure.FailedCheck, "explain", spent):
            done = _run(name, detour, at).report.passes[0]
        build = (build + _build_seconds(name)) / 2
        turns.append((spent.get("explain", 0.0), build))
    failed = [c for c in done.checks if c.kind == LEVEL and c.verdict is Verdict.FAILED]
    names = [r.replaced[0][0] for r in done.rewrites if r.number in done.culprits]
    named = "none" if not names else "right" if names == [at] else "wrong"
    how = done.blame[0].how if done.blame else ""
    level = str(failed[0].level) if failed else "not failed"
    seconds, build = (statistics.median(column) for column in zip(*turns, strict=True))
    ratio = statistics.median(spent / build for spent, build in turns)
    count = len(rewrites)
    return Row(detour, name, count, level, named, how, seconds, build, ratio)


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
        "passes": [{f"lose-{detour}": {"at": at}}],
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
        "| one build (s) | name / build |",
        "|" + "---|" * 8,
    ]
    lines += [
        f"| {r.detour} | {r.model} | {r.rewrites} | {r.level} | {r.named} | "
        f"{r.seconds:.2f} | {r.build:.2f} | {r.ratio:.2f} |"
        for r in rows
    ]
    right = sum(r.named == "right" for r in rows)
    return [
        *lines,
        "",
        f"- {len(rows)} rewrites: {right} named, {sum(r.ratio <= 2 for r in rows)} in at most "
        f"twice the time of one build, the most {max(r.ratio for r in rows):.2f}.",
    ]
