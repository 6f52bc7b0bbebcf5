"""What is decided and said of an engine before a model runs on it."""

from __future__ import annotations

import time
from collections.abc import Sequence

import onnx_ir as ir

from onnx_passes.errors import UsageError
from onnx_passes.runtime.compiler_levels import Level, examine
from onnx_passes.runtime.engine_base import Engine, Feeds, Outputs, Session
from onnx_passes.runtime.interface import did_you_mean
from onnx_passes.runtime.tensorrt.engine import compiler_of, with_profiles_of
from onnx_passes.verify.runs.batches import (
    ALL,
    RunPlan,
    SessionBatch,
    distinct,
    makers,
    plan,
)
from onnx_passes.verify.runs.found import Run
from onnx_passes.verify.runs.runner import Runner
from onnx_passes.verify.runs.settings import Settings
from onnx_passes.verify.runs.spool import Spool


def may_execute(runner: Runner, samples: Spool, run: Run) -> bool:
    """Whether an engine may execute a model; if not, say how far it gets.

    Args:
        runner: The model and the engine.
        samples: The inputs, whose shapes the engine is fitted to.
        run: What is said of the run; added to.
    """
    engine, model = runner.engine, runner.model
    inner = compiler_of(engine)
    if inner is None:
        return True
    run.details = engine.describe()
    if inner.missing is not None:
        run.state, run.reason = str(Level.ABSENT), inner.missing.sentence
        return False
    if inner.executes:
        return True
    engine = with_profiles_of(engine, model, distinct(samples))
    finding = examine(engine, model)
    run.state, run.reason = str(finding.level), finding.reason
    if finding.level is Level.BUILT:
        run.reason = f"for {inner.target}, not executed: {inner.not_executed}"
    return False


def plan_run(engine: Engine, model: ir.Model, samples: Spool, settings: Settings) -> RunPlan:
    """Divide what is wanted into batches; with debug tensors one, as TensorRT reports.

    Args:
        engine: The engine, fitted to the model.
        model: The model.
        samples: The inputs.
        settings: What is wanted, and how much memory it may take.

    Raises:
        EngineError: TensorRT does not run the model, and so reports nothing.
    """
    wanted = settings.outputs
    inner = compiler_of(engine)
    if wanted != ALL or inner is None or not inner.options.watch:
        return plan(model, wanted, samples, engine, settings.share)
    with engine.prepare(model) as session:
        names = tuple(session.run(samples.sample(0)))
    own = frozenset(str(value.name) for value in model.graph.outputs)
    note = (
        f"{engine.name} keeps its fusion: compared are the {len(names) - len(own)} debug "
        "tensors between its kernels, by TensorRT's names"
    )
    batches = (SessionBatch(model, names),)
    return RunPlan(batches, own, makers(model), (note,), watched=True)


def check_limits(settings: Settings, names: Sequence[str]) -> None:
    """Refuse limits of outputs that are not there.

    Args:
        settings: The settings, with limits by output.
        names: Names of the outputs.

    Raises:
        UsageError: A limit names none of them.
    """
    limits = settings.limits
    for name in limits.overrides if limits is not None else ():
        if name not in names and name.partition("[")[0] not in names:
            raise UsageError(
                f"--rtol or --atol: there is no output {name!r}",
                help=did_you_mean(name, names),
            )


def fusion_notes(engine: Engine, todo: RunPlan) -> list[str]:
    """Return what a reader must know of an engine that fuses less for inner values.

    Args:
        engine: The engine.
        todo: The values that are asked for.
    """
    if todo.as_it_is or getattr(engine, "node_by_node", False):
        return []
    if compiler_of(engine) is not None:
        count = sum(len(batch.names) for batch in todo.batches)
        return [
            f"{engine.name} builds an engine for each of {len(todo.batches)} batches, "
            f"with {count} values marked as outputs: it fuses less than without; 'watch: "
            "true' keeps fusion, and tells the values between kernels"
        ]
    return [
        f"{engine.name} fuses nodes where nobody asks for the values between them: with "
        "these outputs it may compute otherwise than without"
    ]


def placement_notes(engine: Engine, session: Session) -> list[str]:
    """Return which providers run how many nodes, if the session says so.

    Args:
        engine: The engine.
        session: A session of it.
    """
    placed: dict[str, int] = getattr(session, "placed", {})
    told = ", ".join(f"{name} {count}" for name, count in placed.items())
    return [f"nodes by provider on {engine.name}: {told}"] if placed else []


def timed_run(
    session: Session,
    feeds: Feeds,
    names: Sequence[str] | None,
    settings: Settings,
    seconds: list[float],
) -> Outputs:
    """Run a sample as often as is asked for; return its values.

    Args:
        session: The session.
        feeds: The sample.
        names: The values that are wanted; None for all.
        settings: How many runs warm up, and how many count.
        seconds: The time of each run that counts; added to.
    """
    outputs: Outputs = {}
    for turn in range(settings.warm_up + settings.iterations):
        start = time.perf_counter()
        outputs = session.run(feeds, names)
        if turn >= settings.warm_up:
            seconds.append(time.perf_counter() - start)
    return outputs
