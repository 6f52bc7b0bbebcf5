"""Run both sides on ONNX Runtime: what z3 says is a bug counts once an engine shows it."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnx_passes.verify.rules.arithmetic import is_float
from onnx_passes.verify.rules.proof import Counterexample
from onnx_passes.verify.rules.symbolic import concrete_shape

Array: TypeAlias = npt.NDArray[Any]
Feeds: TypeAlias = Mapping[str, Array]

# Over the reals a counterexample must stand clear of rounding: this share of the largest
# value is far above what a kernel loses on tensors of a few elements.
_CLEAR = {ir.DataType.FLOAT16: 2e-2, ir.DataType.BFLOAT16: 1e-1, ir.DataType.FLOAT: 1e-3}
_SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, 3.0, np.inf, -np.inf, np.nan, 1e-7, 6e4)


def engine_name() -> str:
    """Return the name and version of the engine."""
    import onnxruntime

    return f"ONNX Runtime {onnxruntime.__version__}, CPU, no graph optimisation"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an engine has no result.

    Attributes:
        message: The engine's first line.
        crashed: Whether its process died.
    """

    message: str
    crashed: bool = False


class Replayer:
    """Both sides of a rewrite, ready to run on ONNX Runtime without its own rewrites."""

    def __init__(self, before: ir.Model, after: ir.Model) -> None:
        """Prepare two models with the same inputs and outputs."""
        self._models = (before, after)
        self._sessions: list[Any] = [None, None]
        # An integer division that overflows kills the process, so it gets one of its own.
        self._isolated = any(_may_crash(m) for m in self._models)
        self.outputs = [str(o.name) for o in before.graph.outputs]
        self.inputs = list(before.graph.inputs)

    def compare(self, feeds: Feeds, *, real: bool) -> Counterexample | None:
        """Return a counterexample if the two sides differ on ``feeds``.

        Args:
            feeds: A value for every input.
            real: Whether a difference must be clear of rounding and both sides finite;
                else floats are compared bit for bit, NaN equal to NaN and -0 to 0.
        """
        expected = self._run(0, feeds)
        if isinstance(expected, Failure):
            return None
        actual = self._run(1, feeds)
        if isinstance(actual, Failure):
            reason = f"the rewritten graph does not run: {actual.message}"
            return Counterexample(feeds, expected, {}, engine_name(), reason)
        for name in self.outputs:
            found = difference(expected[name], actual[name], real=real)
            if found is not None:
                text = f"output {name}: {found}"
                return Counterexample(feeds, expected, actual, engine_name(), text)
        return None

    def runs(self, feeds: Feeds) -> str | None:
        """Return why the graph before the rewrite does not run, or None where it does."""
        result = self._run(0, feeds)
        return result.message if isinstance(result, Failure) else None

    def search(self, count: int, *, real: bool, seed: int = 0) -> Counterexample | None:
        """Try ``count`` random inputs and return the first counterexample."""
        for feeds in samples(self.inputs, count, special=not real, seed=seed):
            found = self.compare(feeds, real=real)
            if found is not None:
                return found
        return None

    def _run(self, side: int, feeds: Feeds) -> dict[str, Array] | Failure:
        if self._isolated:
            return _run_in_child(self._models[side], feeds, self.outputs)
        if self._sessions[side] is None:
            self._sessions[side] = _session(self._models[side])
        session = self._sessions[side]
        if isinstance(session, Failure):
            return session
        wanted = {i.name for i in session.get_inputs()}
        try:
            results = session.run(None, {k: v for k, v in feeds.items() if k in wanted})
        except Exception as error:
            return Failure(_first_line(error))
        return dict(zip(self.outputs, results, strict=True))


def samples(
    values: Sequence[ir.Value], count: int, *, special: bool, seed: int
) -> Iterator[dict[str, Array]]:
    """Yield random inputs: small integers first, then halves, then normals.

    Small integers stored as floats are exact, so that a difference is never rounding's.

    Args:
        values: The inputs; shapes must be concrete.
        count: How many samples.
        special: Whether NaN, infinities and signed zeros are mixed in.
        seed: Of the generator.
    """
    rng = np.random.default_rng(seed)
    for k in range(count):
        yield {
            str(v.name): _sample(v, rng, k, special=special)
            for v in values
            if v.dtype is not None
        }


def _sample(value: ir.Value, rng: np.random.Generator, k: int, *, special: bool) -> Array:
    shape, dtype = concrete_shape(value), value.dtype
    assert dtype is not None
    if dtype == ir.DataType.BOOL:
        return rng.integers(0, 2, shape).astype(np.bool_)
    if not is_float(dtype):
        low = -9 if dtype.is_signed() else 0
        numbers = rng.integers(low, 10, shape)
        if special:
            info = np.iinfo(dtype.numpy())
            extreme = rng.random(shape) < 0.25
            picked = rng.choice(np.array([info.min, info.max], dtype.numpy()), shape)
            return np.where(extreme, picked, numbers.astype(dtype.numpy()))
        return numbers.astype(dtype.numpy())
    floats = (
        rng.integers(-8, 9, shape).astype(np.float64)
        if k % 3 == 0
        else rng.integers(-16, 17, shape) / 4
        if k % 3 == 1
        else rng.standard_normal(shape)
    )
    if special and k % 2:
        floats = np.where(
            rng.random(shape) < 0.4, rng.choice(np.array(_SPECIAL), shape), floats
        )
    with np.errstate(over="ignore"):
        return np.asarray(floats).astype(dtype.numpy())


def difference(expected: Array, actual: Array, *, real: bool) -> str | None:
    """Return what differs between two results, or None.

    Shapes and types count first, so that broadcasting never hides a difference.
    """
    if expected.dtype != actual.dtype:
        return f"the type is {actual.dtype}, expected {expected.dtype}"
    if expected.shape != actual.shape:
        return f"the shape is {list(actual.shape)}, expected {list(expected.shape)}"
    if expected.dtype.kind in "biu":
        wrong = expected != actual
    else:
        wide_e, wide_a = expected.astype(np.float64), actual.astype(np.float64)
        with np.errstate(invalid="ignore"):
            if real:
                finite = np.isfinite(wide_e) & np.isfinite(wide_a)
                scale = float(np.max(np.abs(wide_e[finite]), initial=1e-3))
                share = _CLEAR.get(ir.DataType.from_numpy(expected.dtype), 1e-6)
                wrong = finite & (np.abs(wide_e - wide_a) > share * scale)
                wrong |= np.isfinite(wide_e) & ~np.isfinite(wide_a)
            else:
                wrong = (wide_e != wide_a) & ~(np.isnan(wide_e) & np.isnan(wide_a))
    if not np.any(wrong):
        return None
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"element {list(at)} is {actual[at]}, expected {expected[at]}"


def _session(model: ir.Model) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # The engine's own rewrites would put a second rule between the two sides.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    try:
        return onnxruntime.InferenceSession(
            ir.to_proto(model).SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:
        return Failure(_first_line(error))


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


def _may_crash(model: ir.Model) -> bool:
    return any(
        node.op_type in ("Div", "Mod")
        and any(
            v is not None and v.dtype is not None and v.dtype.is_integer() for v in node.inputs
        )
        for node in model.graph
    )


_CHILD = """
import sys, json, numpy as np, onnxruntime as ort
folder = sys.argv[1]
feeds = dict(np.load(folder + "/feeds.npz"))
options = ort.SessionOptions()
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
options.log_severity_level = 4
try:
    session = ort.InferenceSession(
        folder + "/model.onnx", options, providers=["CPUExecutionProvider"])
    wanted = {i.name for i in session.get_inputs()}
    results = session.run(None, {k: v for k, v in feeds.items() if k in wanted})
    np.savez(folder + "/results.npz", *results)
except Exception as error:
    print(json.dumps((str(error).splitlines() or [""])[0][:300]))
"""


def _run_in_child(
    model: ir.Model, feeds: Feeds, outputs: Sequence[str]
) -> dict[str, Array] | Failure:
    with tempfile.TemporaryDirectory() as folder:
        ir.save(model, Path(folder) / "model.onnx")
        # savez names its archive members by keyword, which a graph's names need not be.
        np.savez(Path(folder) / "feeds.npz", **dict(feeds))  # type: ignore[arg-type]
        child = subprocess.run(
            [sys.executable, "-c", _CHILD, folder],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        results = Path(folder) / "results.npz"
        if child.returncode < 0:
            return Failure(f"the engine died of signal {-child.returncode}", crashed=True)
        if not results.exists():
            return Failure(json.loads(child.stdout.strip().splitlines()[-1]))
        with np.load(results) as archive:
            return {name: archive[f"arr_{i}"] for i, name in enumerate(outputs)}
