"""Models timed on engines: percentiles of single runs, layers, and the state of GPUs."""

from __future__ import annotations

from collections.abc import Sequence

from onnx_passes.errors import EngineError
from onnx_passes.runtime.engine_base import BUILT_ONLY, Engine, Feeds, time_runs
from onnx_passes.runtime.environment import gpu_states
from onnx_passes.runtime.tensorrt.engine import (
    EngineLayer,
    layers_of,
    with_profiles_of,
    with_profiling,
)
from onnx_passes.verify.runs.runner import Runner
from onnx_passes.verify.runs.timed import Latency, Timing

ITERATIONS = 100
"""Runs that are timed where nobody says."""
WARM_UP = 10
"""Runs before those."""
PROFILED_RUNS = 10
"""Runs over which the times of layers are averaged; one more warms up."""


def measure(
    name: str, runner: Runner, feeds: Feeds, *, warm_up: int, iterations: int
) -> Timing:
    """Time a model on an engine, and its layers.

    Args:
        name: What the run is called.
        runner: The model and the engine.
        feeds: What it is run on.
        warm_up: Runs before those that count.
        iterations: Runs that count.
    """
    found = Timing(name, warm_up=warm_up)
    engine = with_profiles_of(runner.engine, runner.model, [feeds])
    found.before = gpu_states()
    try:
        with engine.prepare(runner.model) as session:
            found.latency = Latency.of(time_runs(session, feeds, warm_up, iterations))
    except EngineError as error:
        found.notes.append(f"not timed: {error.message}")
        if not error.message.startswith(BUILT_ONLY):
            return found
    found.after = gpu_states()
    if not found.before:
        found.notes.append("no NVIDIA GPU says its clocks and temperature here")
    layers, note = list_layers(engine, runner, [feeds] * (PROFILED_RUNS + 1))
    found.layers = layers
    found.notes += [note] if note else []
    return found


def list_layers(
    engine: Engine, runner: Runner, samples: Sequence[Feeds]
) -> tuple[list[EngineLayer], str]:
    """Return the layers of a model on an engine, in a session of their own.

    Args:
        engine: The engine.
        runner: The model.
        samples: What it is run on before its layers are asked for; none for no run.

    Returns:
        The layers, and why there are none, or no times.
    """
    own = with_profiling(engine)
    if own is None:
        return [], f"{engine.name} does not tell its layers"
    note = ""
    try:
        with own.prepare(runner.model) as session:
            try:
                for feeds in samples:
                    session.run(feeds)
            except EngineError as error:
                note = f"layers without times: {error.message}"
            layers = layers_of(session)
    except EngineError as error:
        return [], f"no layers: {error.message}"
    return layers, note if layers else f"{engine.name} tells no layers"
