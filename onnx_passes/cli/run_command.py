"""``onnx-passes [run]``: a pipeline over a model."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import click

from onnx_passes.cli.data_sources import as_yaml
from onnx_passes.cli.destinations import check_destinations
from onnx_passes.cli.interrupts import Watch, received
from onnx_passes.cli.printing import echo_line
from onnx_passes.cli.run_outputs import (
    STDOUT,
    budget_keys,
    check_output,
    engines_text,
    freezing,
    print_model,
    read_dump_after,
    save_result,
    split_words,
    states_of,
    write_reports,
)
from onnx_passes.errors import OnnxPassesError, UsageError
from onnx_passes.report.laps import Laps

if TYPE_CHECKING:
    from onnx_passes.configs.schema import PipelineConfig
    from onnx_passes.model.load import LoadedModel
    from onnx_passes.pipeline.resume import Resume
    from onnx_passes.pipeline.run import PipelineRun


# click keeps the lines of a paragraph that begins with a backspace.
HELP = """\
Run a pipeline over MODEL, then the PASSes, and check each before the next one runs.

Without a pipeline and PASSes this is 'optimize'. Without an output only a summary is printed.

\b
Examples:
  onnx-passes model.onnx -o out.onnx
  onnx-passes model.onnx out.onnx --dims batch=1,height=640
  onnx-passes -c optimize --precision float16 model.onnx -o out.onnx
  onnx-passes -c optimize -e onnxruntime -e openvino -o out.onnx model.onnx
  onnx-passes -o out.onnx model.onnx 'fold-constants{size_limit=1MiB}'
"""


@click.command("run", help=HELP, no_args_is_help=True)
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("passes", nargs=-1, metavar="[PASS]... [OUT]")
@click.option(
    "-c",
    "--config",
    help="Pipeline file, or a preset: cleanup, lower, optimize, optimize-ort, simplify, "
    "streamline, tensorrt ('onnx-passes list --presets' explains them).",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Where to write the result; - prints it as ONNX text.",
)
@click.option(
    "--skip", multiple=True, metavar="PASS", help="Leave a pass or group out of the pipeline."
)
@click.option(
    "--keep",
    multiple=True,
    metavar="NODE",
    help="Leave out the rewrites that remove a node, named by itself or by a value of it.",
)
@click.option("--no-passes", is_flag=True, help="Run no pass: copy the model.")
@click.option(
    "--dims",
    multiple=True,
    metavar="NAME=SIZE,...",
    help="Fix dynamic dimensions before the passes run.",
)
@click.option(
    "-s", "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a key."
)
@click.option(
    "-e",
    "--engine",
    "engines",
    multiple=True,
    metavar="ENGINE",
    help="Check on this engine, not on the pipeline's: openvino, onnxruntime:CUDA. Repeat "
    "for several.",
)
@click.option(
    "--objective",
    type=click.Choice(["nodes", "time", "size"]),
    help="Undo rewrites that do not pay, measured by nodes, by time on the last engine, or by "
    "the size of the file.",
)
@click.option(
    "--precision",
    type=click.Choice(["float16", "int8", "int8-static", "int4"]),
    help="Convert or quantise the result of the passes; int8-static needs --calib.",
)
@click.option(
    "--inputs",
    "--calib",
    "inputs",
    metavar="FILE",
    help="Check and calibrate on these inputs: .npz, .npy, .pb, or a folder of them.",
)
@click.option("--labels", metavar="FILE", help="Labels or expected outputs of the inputs.")
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME=LOW:HIGH",
    help="Range of a metric, in which passes such as convert-float16 may change results.",
)
@click.option("--no-verify", is_flag=True, help="Check nothing. The report says so.")
@click.option(
    "--allow-invalid",
    is_flag=True,
    help="Accept a MODEL that breaks the rules of ONNX. The report says which.",
)
@click.option("--strict", is_flag=True, help="Fail (4) if anything could not be verified.")
@click.option(
    "--data",
    multiple=True,
    metavar="SOURCE",
    help="Compare the result over a whole data set: a folder, file, pattern, URL or function.",
)
@click.option(
    "--rewrite-limit", type=int, metavar="N", help="Stop rewriting after N rewrites."
)
@click.option(
    "--why-not",
    metavar="RULE[@NODE]",
    help="Print why a rule, or those of a pass, did not match at a node, or at any.",
)
@click.option(
    "--dump-after", metavar="PASS|all|changed", help="Write the model after these passes."
)
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write the report.")
@click.option(
    "--html", "html_path", type=click.Path(path_type=Path), help="Write the report as a page."
)
@click.option(
    "--junit",
    "junit_path",
    type=click.Path(path_type=Path),
    help="Write the report for a CI system, as JUnit XML.",
)
@click.option(
    "--resume",
    is_flag=True,
    help="Continue after the last verified step of a run that was interrupted.",
)
@click.option("-v", "--verbose", count=True, help="Print more: each rewrite, each check.")
@click.option("-q", "--quiet", is_flag=True, help="Print errors only.")
def command(
    model: Path,
    passes: Sequence[str],
    config: str | None,
    output: Path | None,
    skip: Sequence[str],
    keep: Sequence[str],
    no_passes: bool,
    dims: Sequence[str],
    overrides: Sequence[str],
    engines: Sequence[str],
    objective: str | None,
    precision: str | None,
    inputs: str | None,
    labels: str | None,
    metrics: Sequence[str],
    no_verify: bool,
    allow_invalid: bool,
    strict: bool,
    data: tuple[str, ...],
    rewrite_limit: int | None,
    why_not: str | None,
    dump_after: str | None,
    json_path: Path | None,
    html_path: Path | None,
    junit_path: Path | None,
    resume: bool,
    verbose: int,
    quiet: bool,
) -> None:
    """Run a pipeline over MODEL, and write the result and the reports."""
    from onnx_passes.configs.imports import import_modules
    from onnx_passes.configs.pipeline_files import default_config, load_config
    from onnx_passes.model.load import load_model
    from onnx_passes.passes.reasons import WhyNot, asking
    from onnx_passes.passes.registry import lookup

    began, laps = time.time(), Laps(click.get_current_context().find_object(float))
    reports = {"--json": json_path, "--html": html_path, "--junit": junit_path}
    passes, output = split_words(passes, output)
    check_output(output)
    first, sizes = freezing(dims)
    if no_passes and (config or passes or precision):
        raise UsageError("--no-passes contradicts a pipeline and passes", help="give one")
    if precision is not None:
        from onnx_passes.configs.default_budget import PRECISIONS

        passes = [*passes, PRECISIONS[precision]]
    elif not (config or passes or no_passes):
        config = "optimize"
    extra = [*overrides, *sizes, *budget_keys(metrics)]
    for key, file in {"inputs": inputs, "outputs": labels}.items():
        if file is not None:
            extra.append(f"reference.{key}={json.dumps(os.path.abspath(file))}")
    if engines:
        extra.append(f"engines={engines_text(engines)}")
    if objective is not None:
        extra.append(f"objective={objective}")
    if no_verify:
        extra.append("verify=false")
    elif allow_invalid:
        extra.append("verify.allow_invalid=true")
    if strict:
        extra.append("strict=true")
    if data:
        extra.append(f"reference.data.source={as_yaml(data)}")
    if rewrite_limit is not None:
        extra.append(f"limits.rewrites={rewrite_limit}")
    if dump_after is not None:
        extra.append(f"dump_after={read_dump_after(dump_after)}")
    settings = (
        load_config(config, extra, passes, first)
        if config
        else default_config(extra, [*first, *passes])
    )
    settings = settings.model_copy(
        update={"skip": (*settings.skip, *skip), "keep": (*settings.keep, *keep)}
    )
    if settings.logging.verbose:
        verbose = max(verbose, 1)
    laps.end("starting")
    loaded = load_model(model)
    laps.end("reading")
    read = {"the model": [loaded.path], "its data file": loaded.external}
    if config is not None:
        read["the pipeline file"] = [Path(config)]
    goal = None if output == STDOUT else output
    check_destinations(goal, reports, read)
    received.watch = Watch([goal, *reports.values()])
    states = states_of(settings, loaded, wanted=resume, began=began)
    question = WhyNot.of(why_not) if why_not else None
    if question is not None:
        name, scope = question.rule.partition("[")[0], import_modules(settings)
        lookup(name, where="--why-not", scope=scope)
    try:
        with asking(question):
            run = execute(
                loaded,
                settings,
                str(model),
                goal,
                reports,
                -1 if quiet else verbose,
                states,
                laps,
            )
    except BaseException:
        if states is not None:
            with received.unhurried():
                states.save()
            received.hint = states.hint
        raise
    if states is not None and run.error is None:
        states.remove()
    if question is not None:
        from onnx_passes.cli.pass_descriptions import answers

        ran = {done.name.partition("{")[0] for done in run.report.passes}
        for line in answers(question, ran):
            echo_line(f"why not: {line}", err=True)
    if run.usable and output == STDOUT:
        print_model(run.model)
    raise click.exceptions.Exit(run.report.exit_code)


def execute(
    loaded: LoadedModel,
    settings: PipelineConfig,
    name: str,
    output: Path | None,
    reports: Mapping[str, Path | None],
    verbosity: int,
    states: Resume | None = None,
    laps: Laps | None = None,
) -> PipelineRun:
    """Run a pipeline over a model, and write what is asked for.

    Args:
        loaded: The model.
        settings: The pipeline.
        name: What reports call the model.
        output: Where the result goes; None for nowhere.
        reports: Where reports go, by option: ``--json``, ``--html``, ``--junit``.
        verbosity: How much is printed; less than 0 for errors only.
        states: Saves the state of the run if it ends early.
        laps: The clock of the run, if it began earlier.

    Raises:
        OnnxPassesError: The original cannot be run, or a file cannot be written.
    """
    from onnx_passes.cli.console_instrument import Announcer
    from onnx_passes.configs.default_budget import with_budget
    from onnx_passes.configs.resolve import note_of_presets
    from onnx_passes.pipeline.run import run_pipeline

    laps = laps or Laps()
    # A pass may change the working folder.
    goal = output.absolute() if output is not None else None
    places = [path.absolute() if path is not None else None for path in reports.values()]
    with ExitStack() as stack:
        stderr = sys.stderr or stack.enter_context(open(os.devnull, "w"))
        announcer = stack.enter_context(Announcer(stderr, verbosity=verbosity))
        # Stdout is for the result: what a pass prints must not get into it.
        with redirect_stdout(stderr):
            settings, budget = with_budget(settings, loaded.model)
            run = run_pipeline(
                loaded.model,
                settings,
                name=name,
                instruments=[announcer],
                notes=[*note_of_presets(settings), *budget, *loaded.notes],
                resume=states,
                laps=laps,
            )
        report = run.report
        if any(places):
            report.settle()
        received.check()
        try:
            if run.usable and goal is not None:
                save_result(run, loaded, settings, goal)
                report.output = str(output)
        except OnnxPassesError as error:
            report.error, report.exit_code = (
                f"{type(error).__name__}: {error}",
                error.exit_code,
            )
            raise
        finally:
            if not isinstance(sys.exception(), KeyboardInterrupt):
                write_reports(report, places, laps)
        report.seconds = laps.end("writing")
        announcer.close(report, reports["--html"])
    return run
