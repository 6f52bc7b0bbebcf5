"""The engines of ``compare``: models are run on them, and timed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_passes.cli.ticker import advance
from onnx_passes.errors import ModelError, UsageError
from onnx_passes.plain import PlainDict

if TYPE_CHECKING:
    from onnx_passes.runtime.engine_base import Feeds
    from onnx_passes.verify.runs import Found, Loader, Runner


def make_runners(
    models: Sequence[Path],
    loaders: dict[Path, Loader],
    engines: Sequence[str],
    *,
    isolate: bool,
    timed: bool = False,
) -> list[Runner]:
    """Return a runner for each model on each engine.

    Args:
        models: The models.
        loaders: What loads each.
        engines: The engines, as the user wrote them.
        isolate: Whether all run in child processes.
        timed: Whether runs are timed, with the layouts of weights that kernels choose.

    Raises:
        UsageError: Something does not fit the rest.
        ConfigError: A text is not an engine.
    """
    from onnx_passes.configs.engine_text import parse_engine
    from onnx_passes.verify.runs import Runner

    if engines and not models:
        raise UsageError("--engine is given, and no MODEL to run on it")
    # What is timed is what is deployed: all optimisations, the threads of the machine.
    deployed = "onnxruntime{optimization=all,threads=0}"
    texts = engines or (deployed if timed else "onnxruntime",)
    # Both sides of a comparison compute alike: one large model decides for all.
    lean = not timed and any(_is_large(path, loader) for path, loader in loaders.items())
    made = [parse_engine(text, isolate=True if isolate else None, lean=lean) for text in texts]
    return [Runner(loaders[path], engine) for path in models for engine in made]


def _is_large(path: Path, loader: Loader) -> bool:
    """Whether a model has many weights in files, which engines map and need not copy."""
    from onnx_passes.runtime.large_models import LARGE, is_large

    try:
        return path.is_file() and path.stat().st_size < LARGE and is_large(loader())
    except ModelError:  # reported where the model is used
        return False


def add_timings(
    found: Found, runners: Sequence[Runner], feeds: Feeds, given: PlainDict, skip: int
) -> None:
    """Time each model on each engine.

    Args:
        found: What a comparison found; added to.
        runners: The models on engines.
        feeds: What they are run on.
        given: The options of the command.
        skip: Number of runs that come before the runners.
    """
    from onnx_passes.verify.runs.timed_runs import ITERATIONS, WARM_UP, measure

    for place, (run, runner) in enumerate(zip(found.runs[skip:], runners, strict=True)):
        advance(place, len(runners), "timing")
        timing = measure(
            run.name,
            runner,
            feeds,
            warm_up=WARM_UP if given["warm_up"] is None else given["warm_up"],
            iterations=given["iterations"] or ITERATIONS,
        )
        found.timings.append(timing)
