"""What compare runs, on what, and how, from its options."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_passes.cli.destinations import check_destinations
from onnx_passes.cli.ticker import advance
from onnx_passes.errors import EngineError, UsageError
from onnx_passes.plain import PlainDict

if TYPE_CHECKING:
    from onnx_passes.runtime.engine_base import Feeds
    from onnx_passes.runtime.inputs import Substitute
    from onnx_passes.verify.runs import Loader, Run, Runner
    from onnx_passes.verify.runs.settings import Settings


def settings_of(given: PlainDict, *, keep: bool, hashes: bool) -> Settings:
    """Return the settings of a comparison.

    Args:
        given: The options of the command.
        keep: Whether values are kept.
        hashes: Whether inputs are hashed.

    Raises:
        UsageError: An option has a wrong value.
    """
    from onnx_passes.passes.options import parse_size
    from onnx_passes.verify.runs.judges import judge
    from onnx_passes.verify.runs.postprocess import read_postprocess
    from onnx_passes.verify.runs.settings import Settings
    from onnx_passes.verify.runs.tolerance_options import read_limits

    try:
        limit = parse_size(given["memory_limit"])
    except ValueError as error:
        raise UsageError(f"--memory-limit {given['memory_limit']!r}: {error}") from error
    assert isinstance(limit, int)
    outputs = given["outputs"]
    if "all" in outputs and len(outputs) > 1:
        raise UsageError("--outputs all leaves no others to name")
    simple = read_limits(given["tolerance"], given["rtol"], given["atol"])
    return Settings(
        outputs="all" if outputs == ("all",) else outputs or None,
        judge=judge(given["judge"], simple),
        limits=simple,
        postprocess=read_postprocess(given["postprocess"]),
        validate=given["validate"],
        fail_fast=given["fail_fast"],
        iterations=given["iterations"] or 1,
        warm_up=given["warm_up"] or 0,
        memory_limit=limit,
        keep=keep,
        hashes=hashes,
        progress=lambda done, total: advance(done, total, "sample"),
    )


def loaders_of(models: tuple[Path, ...], *, now: bool) -> dict[Path, Loader]:
    """Return the models, read now where values take the memory.

    Reading takes the most memory, so it comes before the rest of the program is imported.

    Args:
        models: Paths of the models.
        now: Whether they are read now.
    """
    if not models:
        return {}
    from onnx_passes.verify.runs.runner import Loader

    loaders = {path: Loader(path) for path in models}
    names = [path.name for path in loaders]
    for path, loader in loaders.items():
        if names.count(path.name) > 1:
            loader.name = str(path)
        if now:
            loader.offload()
    return loaders


def read_runs(paths: Iterable[Path]) -> list[Run]:
    """Return the runs that were saved in files."""
    from onnx_passes.verify.runs import open_results

    return [run for path in paths for run in open_results(path)]


def samples_of(given: PlainDict, runners: list[Runner]) -> Iterable[Feeds]:
    """Return the inputs that models are compared on.

    Args:
        given: The options of the command.
        runners: The models on engines.

    Raises:
        UsageError: Two sources of inputs are named.
    """
    from onnx_passes.verify.runs import inputs

    sources = {
        "--inputs": given["inputs"],
        "--generate": given["generate"],
        "--data-loader": given["data_loader"],
    }
    several = [option for option, value in sources.items() if value]
    if len(several) > 1:
        raise UsageError(f"{' and '.join(several)} are two sources of inputs", help="give one")
    if not runners:
        return ()
    if given["data_loader"]:
        return inputs.from_loader(given["data_loader"])
    if given["inputs"]:
        return inputs.from_file(given["inputs"], runners[0].model)
    return inputs.read_generate(given["generate"]).make(_least_dynamic(runners).model)


def _least_dynamic(runners: list[Runner]) -> Runner:
    """Return the runner whose model fixes most sizes: what it takes, the others take too."""

    def dynamic(runner: Runner) -> int:
        shapes = (value.shape for value in runner.model.graph.inputs)
        return sum(not isinstance(size, int) for shape in shapes for size in shape or ())

    return min(runners, key=dynamic)


def other_inputs(run: Run, given: PlainDict, runners: list[Runner]) -> Substitute | None:
    """Return other inputs where the first model does not run on the generated ones.

    Args:
        run: The first run.
        given: The options of the command.
        runners: The models on engines.
    """
    from onnx_passes.verify.runs import inputs
    from onnx_passes.verify.runs.found import FAILED

    if run.state != FAILED:
        return None
    try:
        return inputs.read_generate(given["generate"]).find_others(_least_dynamic(runners))
    except EngineError:
        return None  # the reason is in the run


def keep_inputs(
    path: Path, samples: Iterable[Feeds], runners: list[Runner], read: dict[str, list[Path]]
) -> Iterable[Feeds]:
    """Save inputs, and return them.

    Args:
        path: Where to.
        samples: The inputs.
        runners: The models on engines.
        read: Files that the command reads, by option.

    Raises:
        UsageError: There is no model, or the file is one that is read.
    """
    from onnx_passes.verify.runs.inputs import save_inputs

    if not runners:
        raise UsageError("--save-inputs needs a MODEL, whose inputs are saved")
    if path.suffix:
        check_destinations(None, {"--save-inputs": path}, read)
    kept = list(samples)
    save_inputs(path, kept)
    return kept
