"""``onnx-passes compare``: models on engines, side by side."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

import click

from onnx_passes.cli.compare_settings import (
    keep_inputs,
    loaders_of,
    other_inputs,
    read_runs,
    samples_of,
    settings_of,
)
from onnx_passes.cli.data_options import data_options, refuse_without_data
from onnx_passes.cli.destinations import check_destinations, check_folder
from onnx_passes.cli.printing import echo_line
from onnx_passes.cli.ticker import advance
from onnx_passes.cli.word_syntax import ManyWords, Several
from onnx_passes.errors import ModelError, UsageError
from onnx_passes.plain import Plain, PlainDict

if TYPE_CHECKING:
    from onnx_passes.runtime.engine_base import Feeds
    from onnx_passes.verify.runs import Found, Loader, Runner


HELP = """\
Run MODELS on engines with the same inputs, and compare what they give with the first run.

Without inputs three samples are drawn. A run that is not executed (an engine that is not on
this machine, or only compiles) is never counted as compared.

\b
Examples:
  onnx-passes compare m.onnx -e onnxruntime -e 'onnxruntime{optimization=all}'
  onnx-passes compare model.onnx out.onnx --outputs all --html layers.html
  onnx-passes compare model.onnx out.onnx --inputs data.npz --rtol y:1e-3
  onnx-passes compare model.onnx -e onnxruntime -e openvino --time
  onnx-passes compare m.onnx int8.onnx --data images/ --accuracy drop=0.5%
"""
_path = click.Path(path_type=Path)


@click.command("compare", cls=ManyWords, help=HELP, no_args_is_help=True)
@click.argument("models", nargs=-1, type=_path, metavar="[MODEL]...")
@click.option(
    "-e",
    "--engine",
    "engines",
    multiple=True,
    metavar="ENGINE",
    help="onnxruntime[:PROVIDER], openvino, reference, tensorrt; repeat for several.",
)
@click.option("--isolate", is_flag=True, help="Run each engine in a child process.")
@click.option(
    "--inputs", "--load-inputs", "inputs", metavar="FILE", help="Saved inputs, or a folder."
)
@click.option(
    "--generate",
    multiple=True,
    metavar="KEY=VALUE,...",
    help="seed=0, samples=3, range=NAME:LOW:HIGH, shape=NAME:1x3x224x224.",
)
@click.option(
    "--data-loader", metavar="MODULE:FUNCTION", help="Function that yields inputs by name."
)
@click.option(
    "--save-inputs",
    type=_path,
    metavar="FILE",
    help="Write the inputs: a folder, .json, or .npz of one sample.",
)
@click.option(
    "--save-outputs", type=_path, metavar="FILE", help="Write the results: .json, .zip, .npz."
)
@click.option(
    "--load-outputs",
    multiple=True,
    type=_path,
    metavar="FILE",
    help="Compare with saved results, or these among themselves. Repeat for several.",
)
@click.option(
    "--outputs",
    cls=Several,
    multiple=True,
    metavar="NAME...|all",
    help="Values to compare, inner ones too.",
)
@click.option("--memory-limit", default="2GiB", show_default=True, help="For values.")
@click.option(
    "--compare",
    "judge",
    default="simple",
    show_default=True,
    metavar="HOW",
    help="simple, l2=, cosine=, snr=, psnr=, quantile=0.99, indices=5, error-growth=2, or "
    "MODULE:FUNCTION.",
)
@click.option(
    "--tolerance", metavar="LIMIT", help="exact, 1e-3 (both), or rtol=1e-3,atol=1e-5."
)
@click.option(
    "--rtol", cls=Several, multiple=True, metavar="[NAME:]X...", help="Relative tolerance."
)
@click.option(
    "--atol", cls=Several, multiple=True, metavar="[NAME:]X...", help="Absolute tolerance."
)
@click.option(
    "--postprocess",
    cls=Several,
    multiple=True,
    metavar="[NAME:]top-k=5...",
    help="Compare the indices of the largest elements.",
)
@click.option("--validate", is_flag=True, help="Count NaN and Inf as a failure.")
@click.option("--fail-fast", is_flag=True, help="Stop a run at its first difference.")
@click.option(
    "--iterations",
    type=click.IntRange(1),
    help="Timed runs a sample. Default: 1, 100 with --time.",
)
@click.option(
    "--warm-up",
    type=click.IntRange(0),
    help="Runs before the timed ones. Default: 0, 10 with --time.",
)
@click.option(
    "--time",
    "timed",
    is_flag=True,
    help="Time each model on each engine: percentiles, layers, GPU clocks and temperature.",
)
@click.option(
    "--write-script",
    type=_path,
    metavar="FILE",
    help="Write a Python script that does this, to be edited, and stop.",
)
@click.option("--plots", type=_path, metavar="DIR", help="Draw errors as PNG (extra: plots).")
@data_options
@click.option("-v", "--verbose", is_flag=True, help="List every value.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, or write it to FILE.")
def command(
    models: tuple[Path, ...],
    engines: tuple[str, ...],
    isolate: bool,
    load_outputs: tuple[Path, ...],
    save_inputs: Path | None,
    save_outputs: Path | None,
    plots: Path | None,
    timed: bool,
    write_script: Path | None,
    verbose: bool,
    as_json: bool,
    **given: Plain,
) -> None:
    """Run models side by side, and compare what they give."""
    if write_script is not None:
        from onnx_passes.cli.script_files import write_compare_script

        write_compare_script(
            write_script,
            models,
            engines,
            load_outputs,
            given,
            isolate=isolate,
            save_outputs=save_outputs,
        )
        return
    if given["data"]:
        from onnx_passes.cli.compare_on_data import compare_on_data

        if load_outputs or save_outputs or save_inputs or plots:
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
    refuse_without_data({name: value for name, value in given.items() if name != "html"})
    loaders = loaders_of(models, now=bool(given["outputs"]))
    from onnx_passes.data.files import import_optional
    from onnx_passes.report.side_by_side import comparison_dict, comparison_lines
    from onnx_passes.verify.runs import compare, save_results
    from onnx_passes.verify.runs.saved_results import check_form

    runners = make_runners(models, loaders, engines, isolate=isolate, timed=timed)
    recorded = read_runs(load_outputs)
    alone = len(runners) + len(recorded) == 1  # its results are reported
    settings = settings_of(
        given,
        keep=bool(save_outputs or plots or alone),
        hashes=bool(save_outputs or load_outputs),
    )
    if not runners and (given["inputs"] or given["generate"] or given["data_loader"]):
        raise UsageError("inputs are given, and no MODEL to run on them")
    if not runners and not recorded:
        raise UsageError("there is no MODEL", help="name one, or give --load-outputs")
    read: dict[str, list[Path]] = {"a model": list(models), "results": list(load_outputs)}
    check_destinations(None, {"--save-outputs": save_outputs, "--html": page}, read)
    if plots is not None:
        import_optional("matplotlib")  # before the models run
        check_folder("--plots", plots)
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
    asked = bool(given["iterations"] or given["warm_up"]) and not timed
    try:
        if save_outputs is not None:
            save_results(found, save_outputs)
        if plots is not None:
            from onnx_passes.report.plots import draw_plots

            drawn = draw_plots(found, plots)
            found.notes.append(f"{len(drawn)} pictures are in {plots}")
        if page is not None:
            from onnx_passes.report.compare_page import compare_page
            from onnx_passes.report.report_files import write_text

            write_text(compare_page(found, latencies=asked), page)
    finally:
        # A full disk does not take the findings of a long run with it.
        if as_json:
            click.echo(json.dumps(comparison_dict(found), indent=2))
        else:
            for line in comparison_lines(found, verbose=verbose, latencies=asked):
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
