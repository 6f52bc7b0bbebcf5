"""What ``compare`` does with engines beside comparing: it builds again, and times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_passes.cli.destinations import check_folder
from onnx_passes.cli.ticker import advance
from onnx_passes.errors import ModelError, UsageError
from onnx_passes.plain import PlainDict

if TYPE_CHECKING:
    from onnx_passes.runtime.engine_base import Engine, Feeds
    from onnx_passes.verify.runs import Found, Loader, Runner


@dataclass
class Repeated:
    """Builds of one model on one engine, as runners.

    Attributes:
        name: The model on the engine.
        places: Where its runners stand among all.
        paths: Where each build is saved; None for an engine that is not a file.
    """

    name: str
    places: list[int] = field(default_factory=list)
    paths: list[str | None] = field(default_factory=list)


def make_runners(
    models: Sequence[Path],
    loaders: dict[Path, Loader],
    engines: Sequence[str],
    *,
    isolate: bool,
    keep: Path | None,
    timed: bool = False,
) -> tuple[list[Runner], list[Repeated]]:
    """Return a runner for each model on each engine, and for each of several builds.

    Args:
        models: The models.
        loaders: What loads each.
        engines: The engines, as the user wrote them.
        isolate: Whether all run in child processes.
        keep: Where builds are kept; None for nowhere.
        timed: Whether runs are timed, with the layouts of weights that kernels choose.

    Raises:
        UsageError: Something does not fit the rest.
        ConfigError: A text is not an engine.
    """
    from onnx_passes.configs.engine_text import parse_repeated
    from onnx_passes.verify.runs import Runner

    if engines and not models:
        raise UsageError("--engine is given, and no MODEL to run on it")
    # What is timed is what is deployed: all optimisations, the threads of the machine.
    deployed = "onnxruntime{optimization=all,threads=0}"
    texts = engines or (deployed if timed else "onnxruntime",)
    # Both sides of a comparison compute alike: one large model decides for all.
    lean = not timed and any(_is_large(path, loader) for path, loader in loaders.items())
    made = [
        parse_repeated(text, isolate=True if isolate else None, lean=lean) for text in texts
    ]
    if keep is not None:
        if all(repeat is None for _, repeat in made):
            raise UsageError(
                "--keep-builds keeps builds that are repeated, and no engine is",
                help="write repeat=N in its braces: --engine 'tensorrt{repeat=5}'",
            )
        check_folder("--keep-builds", keep)
    runners: list[Runner] = []
    found: list[Repeated] = []
    for path in models:
        for number, (engine, repeat) in enumerate(made):
            runner = Runner(loaders[path], engine)
            if repeat is None:
                runners.append(runner)
                continue
            one = Repeated(runner.name)
            for build in range(1, repeat + 1):
                file = None if keep is None else keep / f"{path.stem}-{number}-{build}.engine"
                own, saved = _build(engine, file)
                name = f"{runner.name}, build {build}"
                one.places.append(len(runners))
                one.paths.append(saved)
                runners.append(Runner(loaders[path], own, name=name, tell_layers=True))
            found.append(one)
    return runners, found


def _is_large(path: Path, loader: Loader) -> bool:
    """Whether a model has many weights in files, which engines map and need not copy."""
    from onnx_passes.runtime.large_models import LARGE, is_large

    try:
        return path.is_file() and path.stat().st_size < LARGE and is_large(loader())
    except ModelError:  # reported where the model is used
        return False


def _build(engine: Engine, file: Path | None) -> tuple[Engine, str | None]:
    """Return an engine that builds anew, lists its layers, and saves what it built."""
    from onnx_passes.runtime.layers import with_profiling
    from onnx_passes.runtime.tensorrt.engine import compiler_of, with_options, without_cache

    own = with_profiling(without_cache(engine)) or engine
    if file is None or compiler_of(own) is None:
        return own, None
    path = str(file.absolute())
    return with_options(own, save=path), path


def add_builds(
    found: Found, repeated: Iterable[Repeated], skip: int, keep: Path | None
) -> None:
    """Say how repeated builds differ, and keep them.

    Args:
        found: What a comparison found; added to.
        repeated: The builds.
        skip: Number of runs that come before the runners.
        keep: Where builds are kept; None for nowhere.
    """
    from onnx_passes.verify.runs.found import gather

    for one in repeated:
        names = [found.runs[skip + place].name for place in one.places]
        builds = gather(one.name, names, found, one.paths)
        if keep is not None:
            builds.keep(keep)
            if not any(build.path for build in builds.builds):
                found.notes.append(
                    f"{one.name}: what it builds is not a file that can be kept"
                )
        found.builds.append(builds)


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
