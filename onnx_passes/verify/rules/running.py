"""Run pairs of small models on ONNX Runtime, apart where they may kill the process."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from onnx_passes.ops.bodies import attach_bodies
from onnx_passes.runtime.barriers import with_barriers

Array: TypeAlias = npt.NDArray[Any]
Feeds: TypeAlias = Mapping[str, Array]
Result: TypeAlias = "list[Array] | Failure"

_TIMEOUT = 120.0
_LACKS = (
    "NOT_IMPLEMENTED",
    "Could not find an impl",
    # Its Scan wants shapes that its own inference does not find for every operator.
    "Subgraph must have the shape set",
)


def engine_name() -> str:
    """Return the name and version of the engine."""
    import onnxruntime

    return f"ONNX Runtime {onnxruntime.__version__}, CPU, no graph optimisation"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an engine has no result.

    Attributes:
        message: The engine's first line.
    """

    message: str

    @property
    def missing(self) -> bool:
        """Whether the engine lacks an implementation, which says nothing about the model."""
        return any(text in self.message for text in _LACKS)


class Runner:
    """Two models with the same inputs, run side by side without the engine's own rewrites."""

    def __init__(self, models: tuple[ir.Model, ir.Model]) -> None:
        """Prepare the models; sessions are made when they are first run."""
        self._models = models
        self._sessions: list[Any] = [None, None]
        # An integer division that overflows kills the process, so it gets one of its own.
        self._isolated = any(may_crash(m) for m in models)

    def run(self, candidates: Iterable[Feeds]) -> Iterator[tuple[Feeds, Result, Result]]:
        """Yield each of the inputs with what the two models make of it."""
        if self._isolated:
            yield from _run_apart(self._models, list(candidates))
            return
        for feeds in candidates:
            yield feeds, self._run(0, feeds), self._run(1, feeds)

    def _run(self, side: int, feeds: Feeds) -> Result:
        if self._sessions[side] is None:
            self._sessions[side] = _session(self._models[side])
        return _results(self._sessions[side], feeds)


def run_once(model: ir.Model, feeds: Feeds) -> Result:
    """Run a model in this process, which an integer division by 0 would end."""
    return _results(_session(model), feeds)


def _results(session: Any, feeds: Feeds) -> Result:
    if isinstance(session, Failure):
        return session
    # An initializer that is an input too is listed apart.
    inputs = (*session.get_inputs(), *session.get_overridable_initializers())
    wanted = {i.name for i in inputs}
    try:
        results: list[Array] = session.run(
            None, {k: v for k, v in feeds.items() if k in wanted}
        )
    except Exception as error:
        # The engine raises a type per status code, with no common base but this.
        return Failure(_first_line(error))
    return results


def _session(model: ir.Model) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    # The engine's own rewrites would put a second rule between the two sides.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    # As in the gate: a weight in a layout of its own has another kernel than a computed one.
    options.add_session_config_entry("session.disable_prepacking", "1")
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    proto = ir.to_proto(with_barriers(model))
    attach_bodies(proto)
    try:
        return onnxruntime.InferenceSession(
            proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
    except Exception as error:
        return Failure(_first_line(error))


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]


def may_crash(model: ir.Model) -> bool:
    """Whether a model has an integer division that may kill the engine's process.

    One by a constant without 0 and -1 cannot.
    """
    return any(
        node.op_type in ("Div", "Mod")
        and any(
            v is not None and v.dtype is not None and v.dtype.is_integer() for v in node.inputs
        )
        and not _harmless(node.inputs[-1])
        for node in model.graph
    )


def _harmless(divisor: ir.Value | None) -> bool:
    tensor = None if divisor is None else divisor.const_value
    if tensor is None or divisor is None or divisor.is_graph_input():
        return False
    return not np.isin(tensor.numpy(), (0, -1)).any()


# Results are written as they come, so that those before a crash are not lost.
_CHILD = """
import json, sys, numpy as np, onnxruntime as ort
folder, first, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
options = ort.SessionOptions()
options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
options.add_session_config_entry("session.disable_prepacking", "1")
options.log_severity_level = 4
def text(error):
    return json.dumps((str(error).splitlines() or [""])[0][:300])
sessions = []
for side in range(2):
    try:
        provider = ["CPUExecutionProvider"]
        sessions.append(ort.InferenceSession(f"{folder}/{side}.onnx", options, provider))
    except Exception as error:
        sessions.append(error)
for k in range(first, count):
    feeds = dict(np.load(f"{folder}/feeds{k}.npz"))
    for side, session in enumerate(sessions):
        out = f"{folder}/{k}_{side}"
        if isinstance(session, Exception):
            open(out + ".json", "w").write(text(session))
            continue
        inputs = (*session.get_inputs(), *session.get_overridable_initializers())
        wanted = {i.name for i in inputs}
        try:
            results = session.run(None, {n: a for n, a in feeds.items() if n in wanted})
            np.savez(out + ".npz", *results)
        except Exception as error:
            open(out + ".json", "w").write(text(error))
"""


def _run_apart(
    models: Sequence[ir.Model], candidates: Sequence[Feeds]
) -> Iterator[tuple[Feeds, Result, Result]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for side, model in enumerate(models):
            ir.save(with_barriers(model), folder / f"{side}.onnx")
        for k, feeds in enumerate(candidates):
            # savez names its archive members by keyword, which a graph's names need not be.
            np.savez(folder / f"feeds{k}.npz", **dict(feeds))  # type: ignore[arg-type]
        done = 0
        while done < len(candidates):
            died = _child(folder, done, len(candidates))
            while done < len(candidates):
                before, after = (_result(folder, done, side, died) for side in range(2))
                yield candidates[done], before, after
                done += 1
                if died in (before, after):
                    break  # the child stopped here; another one goes on behind it


def _child(folder: Path, first: int, count: int) -> Failure:
    child = subprocess.run(
        [sys.executable, "-c", _CHILD, str(folder), str(first), str(count)],
        capture_output=True,
        timeout=_TIMEOUT,
        check=False,
    )
    return Failure(f"the engine died of signal {-child.returncode}")


def _result(folder: Path, k: int, side: int, died: Failure) -> Result:
    archive, message = folder / f"{k}_{side}.npz", folder / f"{k}_{side}.json"
    if message.exists():
        return Failure(json.loads(message.read_text()))
    if not archive.exists():
        return died
    with np.load(archive) as results:
        return [results[f"arr_{i}"] for i in range(len(results.files))]
