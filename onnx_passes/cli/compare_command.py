"""``onnx-passes compare``: models on engines side by side, on samples or a data set."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from onnx_passes.cli.common import FILE, file, flag, option, several
from onnx_passes.cli.data_options import (
    data_options,
    make_executor,
    read_engine_choice,
    read_rule,
    read_spec,
    refuse_without_data,
)
from onnx_passes.cli.output import (
    advance,
    check_destinations,
    check_folder,
    echo_line,
    echo_lines,
)
from onnx_passes.cli.word_syntax import ManyWords, Several, read_size
from onnx_passes.errors import EngineError, ModelError, UsageError
from onnx_passes.plain import Plain, PlainDict, PlainMapping

if TYPE_CHECKING:
    from onnx_passes.bench.runs import Found, Loader, Run, Runner
    from onnx_passes.bench.runs.judges import Settings
    from onnx_passes.data.evaluation_job import DataJob
    from onnx_passes.data.input_binding import DataInterface
    from onnx_passes.runtime.engine_base import Feeds
    from onnx_passes.runtime.inputs import Substitute


def settings_of(given: PlainDict, *, keep: bool, hashes: bool) -> Settings:
    """Return the settings of a comparison."""
    from onnx_passes.bench.runs.judges import Settings, judge, read_limits, read_postprocess

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
        memory_limit=read_size(given["memory_limit"], "--memory-limit"),
        keep=keep,
        hashes=hashes,
        progress=lambda done, total: advance(done, total, "sample"),
    )


def loaders_of(models: tuple[Path, ...], *, now: bool) -> dict[Path, Loader]:
    """Return the models, read ``now`` if values take the memory."""
    if not models:
        return {}
    from onnx_passes.bench.runs.runner import Loader

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
    from onnx_passes.bench.runs import open_results

    return [run for path in paths for run in open_results(path)]


def samples_of(given: PlainDict, runners: list[Runner]) -> Iterable[Feeds]:
    """Return the inputs that models are compared on; UsageError if two sources are named."""
    from onnx_passes.bench.runs import runner

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
        return runner.from_loader(given["data_loader"])
    if given["inputs"]:
        return runner.from_file(given["inputs"], runners[0].model)
    return runner.read_generate(given["generate"]).make(_least_dynamic(runners).model)


def _least_dynamic(runners: list[Runner]) -> Runner:
    """Return the runner whose model fixes most sizes: what it takes, the others take too."""

    def dynamic(runner: Runner) -> int:
        shapes = (value.shape for value in runner.model.graph.inputs)
        return sum(not isinstance(size, int) for shape in shapes for size in shape or ())

    return min(runners, key=dynamic)


def other_inputs(run: Run, given: PlainDict, runners: list[Runner]) -> Substitute | None:
    """Return other inputs where the first model does not run on the generated ones."""
    from onnx_passes.bench.runs import runner
    from onnx_passes.bench.runs.results import FAILED

    if run.state != FAILED:
        return None
    try:
        return runner.read_generate(given["generate"]).find_others(_least_dynamic(runners))
    except EngineError:
        return None  # the reason is in the run


def keep_inputs(
    path: Path, samples: Iterable[Feeds], runners: list[Runner], read: dict[str, list[Path]]
) -> Iterable[Feeds]:
    """Save inputs, and return them.

    ``read`` has the files that the command reads, by option. UsageError if the path is one of
    them, or there is no model.
    """
    from onnx_passes.bench.runs.runner import save_inputs

    if not runners:
        raise UsageError("--save-inputs needs a MODEL, whose inputs are saved")
    if path.suffix:
        check_destinations(None, {"--save-inputs": path}, read)
    kept = list(samples)
    save_inputs(path, kept)
    return kept


_APART = {
    "inputs": "--inputs",
    "generate": "--generate",
    "data_loader": "--data-loader",
    "outputs": "--outputs",
    "postprocess": "--postprocess",
    "validate": "--validate",
    "fail_fast": "--fail-fast",
    "html": "--html",
}


def compare_on_data(
    models: Sequence[Path],
    engines: Sequence[str],
    given: PlainMapping,
    *,
    isolate: bool,
    verbose: bool,
    as_json: bool,
) -> int:
    """Run models on engines over a data set, print the result, return the exit code."""
    from onnx_passes.bench.runs.comparison import rounding_notes
    from onnx_passes.data.evaluation_job import WorkerProcessors
    from onnx_passes.data.evaluation_result import result_lines, save_worst
    from onnx_passes.data.job_evaluation import Journal, evaluate
    from onnx_passes.model.load import load_model

    _refuse(given)
    _check_places(models, given)
    job, rule = _job(models, engines, given, isolate=isolate), read_rule(given)
    fleet = WorkerProcessors(job, allow_mixed=given["mixed_cpus"])
    with ExitStack() as stack:
        journal = None
        if given["journal"] is not None:
            journal = stack.enter_context(Journal(given["journal"], job))
        result = evaluate(
            job,
            rule,
            make_executor(given),
            journal=journal,
            on_progress=lambda done, total: advance(done, total, "sample"),
            accept=fleet.accept,
        )
    notes = [*fleet.notes]
    for run in job.runs:
        notes += rounding_notes(
            run.name, run.engine.make(), load_model(models[run.model]).model
        )
    try:
        if given["save_worst"] is not None:
            notes.append(save_worst(result, given["save_worst"]))
    finally:
        # A full disk does not take the findings of a long run with it.
        if as_json:
            click.echo(result.text(), nl=False)
        else:
            echo_lines(result_lines(result.data, result.timing, notes, verbose=verbose))
    return result.exit_code


def _refuse(given: PlainMapping) -> None:
    for name, named in _APART.items():
        if given[name]:
            raise UsageError(
                f"{named} and --data do not go together", help="give one of the two"
            )
    if given["judge"] != "simple":
        raise UsageError(
            "--compare and --data do not go together",
            help="limits are given by --tolerance, --rtol and --atol, metrics by --metric",
        )


def _check_places(models: Sequence[Path], given: PlainMapping) -> None:
    check_destinations(None, {"--journal": given["journal"]}, {"a model": list(models)})
    if given["save_worst"] is not None:
        check_folder("--save-worst", given["save_worst"])


def _job(
    models: Sequence[Path], engines: Sequence[str], given: PlainMapping, *, isolate: bool
) -> DataJob:
    from onnx_passes.bench.runs.judges import read_limits
    from onnx_passes.data.dataset import make_plan
    from onnx_passes.data.evaluation_job import DataJob, ModelFile, RunSpec
    from onnx_passes.data.input_binding import DataInterface
    from onnx_passes.data.measures import Measures, make_metric
    from onnx_passes.model.load import load_model

    if not models:
        raise UsageError("there is no MODEL to run on the data")
    limits = read_limits(given["tolerance"], given["rtol"], given["atol"])
    rule = read_rule(given)
    for name in rule.metrics:
        make_metric(name)
    measures = Measures.of(
        limits.contract, limits.overrides, scores=given["scores"], metrics=tuple(rule.metrics)
    )
    choices = [
        read_engine_choice(text, isolate=isolate) for text in engines or ("onnxruntime",)
    ]
    names = [str(m) if [o.name for o in models].count(m.name) > 1 else m.name for m in models]
    files = tuple(ModelFile.of(m, n) for m, n in zip(models, names, strict=True))
    interface = DataInterface.of(load_model(models[0]).model)
    _same_inputs(models, interface)
    runs = tuple(
        RunSpec(place, choice, f"{file.name} on {choice.make().name}")
        for place, file in enumerate(files)
        for choice in choices
    )
    if len(runs) == 1 and not (rule.metrics or rule.accuracy or given["labels"]):
        raise UsageError(
            "one model on one engine has nothing to be compared with",
            help="give a second MODEL or --engine, or --labels or --metric to measure it",
        )
    return DataJob(make_plan(read_spec(given), interface), files, runs, measures)


def _same_inputs(models: Sequence[Path], interface: DataInterface) -> None:
    from onnx_passes.data.input_binding import DataInterface
    from onnx_passes.model.load import load_model

    for path in models[1:]:
        other = DataInterface.of(load_model(path).model)
        if dict(other.dtypes) != dict(interface.dtypes):
            raise UsageError(
                f"the inputs of {path} are not those of {models[0]}",
                help=f"{', '.join(other.names)}; and {', '.join(interface.names)}",
            )


@click.command("compare", cls=ManyWords, no_args_is_help=True)
@click.argument("models", nargs=-1, type=FILE, metavar="[MODEL]...")
@several(
    "-e --engine engines ENGINE",
    "onnxruntime[:PROVIDER], openvino, reference, tensorrt; repeat for several.",
)
@flag("--isolate", "Run each engine in a child process.")
@option("--inputs --load-inputs inputs FILE", "Saved inputs, or a folder.")
@several(
    "--generate KEY=VALUE,...",
    "seed=0, samples=3, range=NAME:LOW:HIGH, shape=NAME:1x3x224x224.",
)
@option("--data-loader MODULE:FUNCTION", "Function that yields inputs by name.")
@file("--save-inputs FILE", "Write the inputs: a folder, .json, or .npz of one sample.")
@file("--save-outputs FILE", "Write the results: .json, .zip, .npz.")
@several(
    "--load-outputs FILE",
    "Compare with saved results, or these among themselves. Repeat for several.",
    type=FILE,
)
@several("--outputs NAME...|all", "Values to compare, inner ones too.", cls=Several)
@option("--memory-limit", "For values.", default="2GiB", show_default=True)
@option(
    "--compare judge HOW",
    "simple, l2=, cosine=, snr=, psnr=, quantile=0.99, indices=5, or MODULE:FUNCTION.",
    default="simple",
    show_default=True,
)
@option("--tolerance LIMIT", "exact, or 1e-3 for rtol and atol.")
@several("--rtol [NAME:]X...", "Relative tolerance.", cls=Several)
@several("--atol [NAME:]X...", "Absolute tolerance.", cls=Several)
@several(
    "--postprocess [NAME:]top-k=5...",
    "Compare the indices of the largest elements.",
    cls=Several,
)
@flag("--validate", "Count NaN and Inf as a failure.")
@flag("--fail-fast", "Stop a run at its first difference.")
@option("--iterations", "Runs that --time times. Default: 100.", type=click.IntRange(1))
@option("--warm-up", "Runs before those. Default: 10.", type=click.IntRange(0))
@flag(
    "--time timed",
    "Time each model on each engine: percentiles, layers, GPU clocks and temperature.",
)
@file("--html FILE", "Write the result as a page.")
@data_options
@flag("-v --verbose", "List every value.")
@flag("--json as_json", "Print JSON, or write it to FILE.")
def command(
    models: tuple[Path, ...],
    engines: tuple[str, ...],
    isolate: bool,
    load_outputs: tuple[Path, ...],
    save_inputs: Path | None,
    save_outputs: Path | None,
    timed: bool,
    verbose: bool,
    as_json: bool,
    **given: Plain,
) -> None:
    """Run MODELS on engines with the same inputs, and compare the results with the first run.

    Without inputs three samples are drawn. A run that is not executed (an engine that is not
    on this machine, or only compiles) is never counted as compared.

    Examples:
      onnx-passes compare m.onnx -e onnxruntime -e 'onnxruntime{optimization=all}'
      onnx-passes compare model.onnx out.onnx --outputs all --html layers.html
      onnx-passes compare model.onnx out.onnx --inputs data.npz --rtol y:1e-3
      onnx-passes compare model.onnx -e onnxruntime -e openvino --time
      onnx-passes compare m.onnx int8.onnx --data samples/ --accuracy drop=0.5%
    """
    for name in ("iterations", "warm_up"):
        if given[name] is not None and not timed:
            option = name.replace("_", "-")
            raise UsageError(f"--{option} needs --time, which it is for")
    if given["data"]:
        if load_outputs or save_outputs or save_inputs:
            raise UsageError(
                "saved results and --data do not go together",
                help="--json=FILE writes the result",
            )
        if timed:
            raise UsageError(
                "--time does not go together with --data",
                help="time on one sample: --inputs or --generate",
            )
        raise click.exceptions.Exit(
            compare_on_data(
                models, engines, given, isolate=isolate, verbose=verbose, as_json=as_json
            )
        )
    page = given["html"]
    assert page is None or isinstance(page, Path)
    refuse_without_data(given)
    loaders = loaders_of(models, now=bool(given["outputs"]))
    from onnx_passes.bench.comparison_report import comparison_dict, comparison_lines
    from onnx_passes.bench.runs import compare, save_results
    from onnx_passes.bench.runs.results import check_form

    runners = make_runners(models, loaders, engines, isolate=isolate, timed=timed)
    recorded = read_runs(load_outputs)
    alone = len(runners) + len(recorded) == 1  # its results are reported
    settings = settings_of(
        given, keep=bool(save_outputs or alone), hashes=bool(save_outputs or load_outputs)
    )
    if not runners and (given["inputs"] or given["generate"] or given["data_loader"]):
        raise UsageError("inputs are given, and no MODEL to run on them")
    if not runners and not recorded:
        raise UsageError("there is no MODEL", help="name one, or give --load-outputs")
    read: dict[str, list[Path]] = {"a model": list(models), "results": list(load_outputs)}
    check_destinations(None, {"--save-outputs": save_outputs, "--html": page}, read)
    if save_outputs is not None:
        check_form(save_outputs, len(runners) + len(recorded))
    samples = samples_of(given, runners)
    if save_inputs is not None:
        samples = keep_inputs(save_inputs, samples, runners, read)
    first: list[Feeds] = []
    if timed:
        samples = iter(samples)
        first = list(islice(samples, 1))
        samples = chain(first, samples)
    found: Found = compare(runners, samples, recorded=recorded, settings=settings)
    generated = not (given["inputs"] or given["data_loader"])
    if (
        runners
        and generated
        and (other := other_inputs(found.runs[len(recorded)], given, runners))
    ):
        samples = other.samples
        if save_inputs is not None:
            keep_inputs(save_inputs, samples, runners, read)
        found = compare(runners, samples, recorded=recorded, settings=settings)
        found.notes.append(other.note)
        first = list(samples[:1])
    if timed and runners:
        add_timings(found, runners, first[0], given, len(recorded))
    try:
        if save_outputs is not None:
            save_results(found, save_outputs)
        if page is not None:
            from onnx_passes.bench.comparison_report import compare_page
            from onnx_passes.report.report_files import write_text

            write_text(compare_page(found), page)
    finally:
        # A full disk does not take the findings of a long run with it.
        if as_json:
            click.echo(json.dumps(comparison_dict(found), indent=2))
        else:
            for line in comparison_lines(found, verbose=verbose):
                echo_line(line, color="red" if line.startswith("  DIFFERS") else None)
    raise click.exceptions.Exit(found.exit_code)


def make_runners(
    models: Sequence[Path],
    loaders: dict[Path, Loader],
    engines: Sequence[str],
    *,
    isolate: bool,
    timed: bool = False,
) -> list[Runner]:
    """Return a runner for each model on each engine.

    ``timed`` runs get the layouts of weights that kernels choose. UsageError if something does
    not fit the rest; ConfigError if a text is not an engine.
    """
    from onnx_passes.bench.runs import Runner
    from onnx_passes.configs.engine_text import parse_engine

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
    from onnx_passes.runtime.engine_models import LARGE
    from onnx_passes.runtime.ort import is_large

    try:
        return path.is_file() and path.stat().st_size < LARGE and is_large(loader())
    except ModelError:  # reported where the model is used
        return False


def add_timings(
    found: Found, runners: Sequence[Runner], feeds: Feeds, given: PlainDict, skip: int
) -> None:
    """Time each model on each engine, and add the times to ``found``.

    ``skip`` is the number of runs that come before the runners.
    """
    from onnx_passes.bench.runs.runner import ITERATIONS, WARM_UP, measure

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
