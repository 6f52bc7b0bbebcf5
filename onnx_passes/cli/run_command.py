"""``onnx-passes [run]``: a pipeline over a model, and its other inputs and outputs."""

from __future__ import annotations

import json
import os
import re
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, redirect_stdout
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from onnx_passes.cli.common import FILE, OVERRIDES, file, flag, is_debugging, option, several
from onnx_passes.cli.output import (
    abandon_stdout,
    advance,
    check_destinations,
    echo_line,
    echo_lines,
)
from onnx_passes.cli.supervision import Watch, received
from onnx_passes.cli.word_syntax import names_a_model, read_range
from onnx_passes.errors import OnnxPassesError, UsageError, VerificationError
from onnx_passes.plain import Plain, PlainMapping
from onnx_passes.report.report_files import Laps

if TYPE_CHECKING:
    import onnx_ir as ir

    from onnx_passes.configs.schema import PipelineConfig
    from onnx_passes.model.load import LoadedModel
    from onnx_passes.passes.base import Pass
    from onnx_passes.pipeline.pass_execution import Instrument
    from onnx_passes.pipeline.run import PipelineRun
    from onnx_passes.report.console import ConsoleReporter
    from onnx_passes.report.run_report import PassReport, RunReport


def _absolute(source: str) -> str:
    """Return a source that holds in any folder; a function stays as it is."""
    function = re.fullmatch(r"[\w.]+:\w+", source) and not os.path.exists(source)
    return source if function else os.path.abspath(source)


@dataclass
class Unfinished:
    """Saves the last accepted model of a run that ends early, beside its output.

    ``hint`` says how to continue; None before that.
    """

    loaded: LoadedModel
    settings: PipelineConfig
    goal: Path
    hint: str | None = None

    def save(self, model: ir.Model, step: int) -> None:
        """Write a model from which a run may start at a step."""
        from onnx_passes.api.models import with_functions
        from onnx_passes.model.save import save_model

        place = self.goal.with_name(f"{self.goal.stem}.before-step-{step}{self.goal.suffix}")
        save = self.settings.save
        try:
            with received.unhurried():
                save_model(
                    with_functions(model),
                    place,
                    external_data=save.external_data,
                    size_threshold=save.size_threshold,
                    source=self.loaded,
                )
        except (OSError, OnnxPassesError) as error:
            self.hint = f"the model before step {step} could not be saved: {error}"
        else:
            self.hint = f"--start-at {step} continues from {place}"
        received.hint = self.hint


STDOUT = Path("-")
"""The output that is printed."""


def check_output(output: Path | None) -> None:
    """Refuse to print a model where nothing can be printed, or a person reads."""
    if output == STDOUT and (sys.stdout is None or sys.stdout.isatty()):
        found = (
            "there is no standard output" if sys.stdout is None else "a terminal is no place"
        )
        raise UsageError(f"{found} to print the model on", help="give a file: -o FILE")


def split_words(words: Sequence[str], output: Path | None) -> tuple[list[str], Path | None]:
    """Return passes and the output from the words behind the model.

    A word that names the file of a model is the output. UsageError if there are two outputs,
    or a word names a file that exists, or one of data: a shell lists several behind --inputs.
    """
    data = [word for word in words if word.endswith((".npz", ".npy", ".pb"))]
    if data:
        raise UsageError(
            f"{data[0]!r} is data, and no pass",
            help="--inputs takes one file, or a folder of them",
        )
    files = [word for word in words if names_a_model(word)]
    passes = [word for word in words if word not in files]
    if places := [word for word in passes if "/" in word.partition("{")[0]]:
        raise UsageError(
            f"{places[0]!r} is neither a model nor a pass",
            help="the result is a file: -o FILE",
        )
    if not files:
        return passes, output
    if len(files) > 1 or output is not None:
        raise UsageError(f"{files[-1]!r} is a second output", help="give one: -o FILE")
    if os.path.lexists(files[0]):
        raise UsageError(
            f"{files[0]} exists already, and is not written over without -o",
            help=f"write -o {files[0]} to replace it",
        )
    return passes, Path(files[0])


def read_dims(texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return what ``--dims batch=1,height=640`` means: a first pass, and keys of the data."""
    sizes: dict[str, int] = {}
    for part in (part for text in texts for part in text.split(",")):
        name, sign, size = part.rpartition("=")
        if not (sign and name and size.isdecimal() and size.isascii()):
            raise UsageError(
                f"--dims {part!r} is not NAME=SIZE",
                help="write batch=1,seq=128; x[0]=1 for a dimension of x without a name",
            )
        if not int(size):
            raise UsageError(f"--dims {part!r} leaves no element", help="a size is at least 1")
        if name in sizes:
            raise UsageError(f"--dims gives {name!r} two sizes", help="give one")
        sizes[name] = int(size)
    if not sizes:
        return [], []
    keys = [f"reference.dims.{json.dumps(name)}={size}" for name, size in sizes.items()]
    return [f"freeze-dims{{dims={json.dumps(sizes)}}}"], keys


def print_model(model: ir.Model) -> None:
    """Print a model as ONNX text."""
    from onnx_passes.model.save import to_text

    # ONNX text is UTF-8, whatever the locale says.
    text = to_text(model).rstrip("\n") + "\n"
    try:
        click.echo(text.encode(), nl=False)
    except BrokenPipeError:
        raise
    except OSError as error:
        # Python would try again when it ends, and change the exit code.
        abandon_stdout()
        raise UsageError(
            f"the model cannot be printed: {error.strerror}", help="give a file: -o FILE"
        ) from error


def write_reports(report: RunReport, paths: Iterable[Path | None], laps: Laps) -> None:
    """Write a report in the forms asked for.

    If a file cannot be written, the report's exit code of 0 becomes 2; what is worse stays.
    Each report knows from ``laps`` what those before it took.
    """
    from onnx_passes.report.report_files import write_text

    forms = list(zip(("json", "html", "junit"), paths, strict=True))
    for form, path in (*forms[1:], forms[0]):
        if path is None:
            continue
        report.seconds = laps.end("writing")
        writer = import_module(f"onnx_passes.report.{form}")
        try:
            write_text(getattr(writer, f"to_{form}")(report), path)
        except UsageError as error:
            echo_line(f"error[usage]: {error.sentence}", err=True)
            report.exit_code = report.exit_code or error.exit_code


def engines_text(texts: Sequence[str]) -> str:
    """Return engines as a pipeline file has them.

    EngineUnavailableError if an engine that compiles is not on this machine. For others the
    run itself says so.
    """
    from onnx_passes.configs.engine_text import parse_engine, read_engine
    from onnx_passes.runtime.tensorrt.engine import compiler_of

    for text in texts:
        engine = parse_engine(text)  # errors are reported for the option, not for a file
        if (inner := compiler_of(engine)) is not None and inner.missing is not None:
            raise inner.missing
    return json.dumps([{name: options} for name, options in map(read_engine, texts)])


def budget_keys(metrics: Sequence[str]) -> list[str]:
    """Return ranges of metrics as keys of a pipeline file."""
    from onnx_passes.configs.steps import format_value

    found = dict(map(read_range, metrics))
    return [f"verify.metrics.{format_value(n)}={format_value(r)}" for n, r in found.items()]


def keys_of(given: PlainMapping) -> Iterator[str]:
    """Yield what options say as keys of a pipeline file."""
    yield from given["overrides"]
    yield from budget_keys(given["metrics"])
    for key, path in {"inputs": given["inputs"], "outputs": given["labels"]}.items():
        if path is not None:
            yield f"reference.{key}={json.dumps(os.path.abspath(path))}"
    data, dump = given["data"], given["dump_after"]
    found = {
        "engines": given["engines"] and engines_text(given["engines"]),
        "objective": given["objective"],
        "verify": given["no_verify"] and "false",
        "verify.allow_invalid": given["allow_invalid"] and not given["no_verify"] and "true",
        "strict": given["strict"] and "true",
        "reference.data.source": data and json.dumps([*map(_absolute, data)]),
        "dump_after": dump if dump in ("all", "changed", "none", None) else f"[{dump}]",
    }
    yield from (f"{key}={value}" for key, value in found.items() if value)
    if given["rewrite_limit"] is not None:
        yield f"limits.rewrites={given['rewrite_limit']}"


def save_result(
    run: PipelineRun, loaded: LoadedModel, settings: PipelineConfig, goal: Path
) -> None:
    """Write the result; of a verified run, the file is read back before it is in its place.

    The report of the run gets what was read back. VerificationError if the file does not hold
    the model that was verified.
    """
    from onnx_passes.api.models import with_functions
    from onnx_passes.model.formats import form_of
    from onnx_passes.model.save import save_model
    from onnx_passes.report.run_report import ReadBackReport
    from onnx_passes.verify.snapshot import ReadBack

    report = run.report
    run.model = with_functions(run.model)
    # ONNX text has no place for doc strings and other remarks.
    check = ReadBack(remarks=form_of(goal) != "text") if report.verify else None
    sizes = [sum(path.stat().st_size for path in (loaded.path, *loaded.external))]
    try:
        written = save_model(
            run.model,
            goal,
            external_data=settings.save.external_data,
            size_threshold=settings.save.size_threshold,
            source=loaded,
            inspect=check,
        )
    except VerificationError as error:
        report.read_back = ReadBackReport("differs", error.message)
        raise
    sizes.append(sum(path.stat().st_size for path in written))
    for model, size in zip((report.before, report.after), sizes, strict=True):
        if model is not None:
            model.file_bytes = size
    if check is None:
        report.read_back = ReadBackReport("not done", "verification is off")
    else:
        report.read_back = ReadBackReport(
            "equal", None, check.parts, check.tensor_bytes, check.seconds
        )


@click.command("run", no_args_is_help=True)
@click.argument("model", type=FILE)
@click.argument("passes", nargs=-1, metavar="[PASS]... [OUT]")
@option(
    "-c --config",
    "Pipeline file, or a preset: cleanup, lower, optimize, optimize-ort, simplify, "
    "streamline, tensorrt ('onnx-passes list --presets' explains them).",
)
@file("-o --output", "Where to write the result; - prints it as ONNX text.")
@several("--skip PASS", "Leave a pass or group out of the pipeline.")
@several(
    "--keep NODE",
    "Leave out the rewrites that remove a node, named by itself or by a value of it.",
)
@flag("--no-passes", "Run no pass: copy the model.")
@several("--dims NAME=SIZE,...", "Fix dynamic dimensions before the passes run.")
@OVERRIDES
@several(
    "-e --engine engines ENGINE",
    "Check on this engine, not on the pipeline's: openvino, onnxruntime:CUDA. Repeat "
    "for several.",
)
@option(
    "--objective",
    "Undo rewrites that do not pay, measured by nodes, by time on the last engine, or by "
    "the size of the file.",
    type=click.Choice(["nodes", "time", "size"]),
)
@option(
    "--precision",
    "Convert or quantise the result of the passes; int8-static needs --calib.",
    type=click.Choice(["float16", "int8", "int8-static", "int4"]),
)
@option(
    "--inputs --calib inputs FILE",
    "Check and calibrate on these inputs: .npz, .npy, .pb, or a folder of them.",
)
@option("--labels FILE", "Labels or expected outputs of the inputs.")
@several(
    "--metric metrics NAME=LOW:HIGH",
    "Range of a metric, in which passes such as convert-float16 may change results.",
)
@flag("--no-verify", "Check nothing. The report says so.")
@flag(
    "--allow-invalid", "Accept a MODEL that breaks the rules of ONNX. The report says which."
)
@flag("--strict", "Fail (4) if anything could not be verified.")
@several(
    "--data SOURCE",
    "Compare the result over a whole data set: a folder, file, pattern or function.",
)
@option("--rewrite-limit N", "Stop rewriting after N rewrites.", type=int)
@option(
    "--why-not RULE[@NODE]",
    "Print why a rule, or those of a pass, did not match at a node, or at any.",
)
@option("--dump-after PASS|all|changed", "Write the model after these passes.")
@file("--json json_path", "Write the report.")
@file("--html html_path", "Write the report as a page.")
@file("--junit junit_path", "Write the report for a CI system, as JUnit XML.")
@option(
    "--start-at STEP",
    "Leave out the steps before this one, a name or a number: MODEL is what they gave.",
)
@option("-v --verbose", "Print more: each rewrite, each check.", count=True)
@flag("-q --quiet", "Print errors only.")
def command(
    model: Path,
    passes: Sequence[str],
    config: str | None,
    output: Path | None,
    verbose: int,
    quiet: bool,
    **given: Plain,
) -> None:
    """Run a pipeline over MODEL, then the PASSes, and check each before the next one runs.

    Without a pipeline and PASSes this is 'optimize', with --precision as well. Without an
    output only a summary is printed.

    Examples:
      onnx-passes model.onnx -o out.onnx
      onnx-passes model.onnx out.onnx --dims batch=1,height=640
      onnx-passes --precision float16 model.onnx -o out.onnx
      onnx-passes -c optimize -e onnxruntime -e openvino -o out.onnx model.onnx
      onnx-passes -o out.onnx model.onnx 'fold-constants{size_limit=1MiB}'
    """
    from onnx_passes.configs.imports import import_modules
    from onnx_passes.configs.pipeline_files import default_config, load_config
    from onnx_passes.model.load import load_model
    from onnx_passes.passes.patterns import WhyNot, asking
    from onnx_passes.passes.registry import lookup

    laps = Laps(click.get_current_context().find_object(float))
    reports = {f"--{form}": given[f"{form}_path"] for form in ("json", "html", "junit")}
    passes, output = split_words(passes, output)
    check_output(output)
    first, sizes = read_dims(given["dims"])
    precision, no_passes = given["precision"], given["no_passes"]
    if no_passes and (config or passes or precision):
        raise UsageError("--no-passes contradicts a pipeline and passes", help="give one")
    if not (config or passes or no_passes):
        config = "optimize"
    if precision is not None:
        from onnx_passes.configs.resolve import PRECISIONS

        passes = [*passes, PRECISIONS[precision]]
    extra = [*keys_of(given), *sizes]
    settings = (
        load_config(config, extra, passes, first)
        if config
        else default_config(extra, [*first, *passes])
    )
    settings = settings.model_copy(
        update={key: (*getattr(settings, key), *given[key]) for key in ("skip", "keep")}
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
    question = WhyNot.of(given["why_not"]) if given["why_not"] else None
    if question is not None:
        name, scope = question.rule.partition("[")[0], import_modules(settings)
        lookup(name, where="--why-not", scope=scope)
    with asking(question):
        run = execute(
            loaded,
            settings,
            str(model),
            goal,
            reports,
            -1 if quiet else verbose,
            given["start_at"],
            laps,
        )
    if question is not None:
        from onnx_passes.cli.pass_descriptions import answers, with_members

        ran = with_members(done.name.partition("{")[0] for done in run.report.passes)
        ran -= {*settings.skip}
        echo_lines((f"why not: {line}" for line in answers(question, ran)), err=True)
    if run.usable and output == STDOUT:
        print_model(run.model)
    raise click.exceptions.Exit(run.report.exit_code)


def _announcer(reporter: ConsoleReporter) -> Instrument:
    """Return an instrument that reports each pass on a console."""
    from onnx_passes.pipeline.pass_execution import Instrument

    class Announcer(Instrument):
        def start(self, report: RunReport, model: ir.Model) -> None:
            reporter.start(report)

            self.run = report

        def before_pass(self, pass_: Pass, model: ir.Model, report: PassReport) -> None:
            done, name = report.index - 1, report.name.partition("{")[0]
            advance(done, self.run.planned or 0, "pass", name)

        def after_pass(self, pass_: Pass, model: ir.Model, report: PassReport) -> None:
            reporter.pass_finished(report)

    return Announcer()


def execute(
    loaded: LoadedModel,
    settings: PipelineConfig,
    name: str,
    output: Path | None,
    reports: Mapping[str, Path | None],
    verbosity: int,
    start_at: str | None = None,
    laps: Laps | None = None,
) -> PipelineRun:
    """Run a pipeline over a model, and write what is asked for.

    ``reports`` are paths by option (``--json``, ``--html``, ``--junit``). ``verbosity`` below
    0 prints errors only. ``laps`` is the clock of a run that began earlier.
    """
    from onnx_passes.configs.resolve import note_of_presets, with_budget
    from onnx_passes.pipeline.run import run_pipeline
    from onnx_passes.report.console import ConsoleReporter

    laps = laps or Laps()
    # A pass may change the working folder.
    goal = output.absolute() if output is not None else None
    unfinished = None if goal is None else Unfinished(loaded, settings, goal)
    places = [path.absolute() if path is not None else None for path in reports.values()]
    with ExitStack() as stack:
        stderr = sys.stderr or stack.enter_context(open(os.devnull, "w"))
        reporter = ConsoleReporter(stderr, verbosity=verbosity)
        # Stdout is for the result: what a pass prints must not get into it.
        with redirect_stdout(stderr):
            settings, budget = with_budget(settings, loaded.model)
            try:
                run = run_pipeline(
                    loaded.model,
                    settings,
                    name=name,
                    instruments=[_announcer(reporter)],
                    notes=[*note_of_presets(settings), *budget, *loaded.notes],
                    start_at=start_at,
                    unfinished=None if unfinished is None else unfinished.save,
                    laps=laps,
                )
            except OnnxPassesError as error:
                if unfinished is not None and unfinished.hint is not None:
                    error.help = "; ".join(filter(None, (error.help, unfinished.hint)))
                raise
        report = run.report
        if unfinished is not None and unfinished.hint is not None:
            report.notes.append(unfinished.hint)
        if any(places):
            report.settle()
        received.check()
        try:
            if run.usable and goal is not None:
                save_result(run, loaded, settings, goal)
                report.output = str(output)
                if goal.suffix == ".txt":
                    report.notes.append(f"{output} is ONNX text; .onnx makes a binary model")
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
        if run.error is not None and is_debugging():
            traceback.print_exception(run.error)
        reporter.finished(report, reports["--html"])
    return run
