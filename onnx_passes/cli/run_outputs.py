"""What a run reads, writes and prints beside its pipeline."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import click

from onnx_passes.cli.destinations import abandon_stdout
from onnx_passes.cli.printing import echo_line
from onnx_passes.cli.word_syntax import names_a_model, read_range
from onnx_passes.errors import UsageError, VerificationError

if TYPE_CHECKING:
    import onnx_ir as ir

    from onnx_passes.configs.schema import PipelineConfig
    from onnx_passes.model.load import LoadedModel
    from onnx_passes.pipeline.resume import Resume
    from onnx_passes.pipeline.run import PipelineRun
    from onnx_passes.report.laps import Laps
    from onnx_passes.report.run_report import RunReport


def states_of(
    settings: PipelineConfig, loaded: LoadedModel, *, wanted: bool, began: float
) -> Resume | None:
    """Return what saves the state of a run; None if the user wants none.

    Args:
        settings: The pipeline.
        loaded: The model.
        wanted: Whether the run continues from a saved state.
        began: When it began, on the clock of ``time.time``.

    Raises:
        UsageError: A saved state is wanted, and none is kept.
    """
    from onnx_passes.cli.cache_folder import cache_folder
    from onnx_passes.pipeline.resume import Resume
    from onnx_passes.pipeline.states import FOLDER

    folder = cache_folder(settings)
    if folder is not None:
        # A pass may change the working folder.
        files = [path.absolute() for path in (loaded.path, *loaded.external)]
        return Resume(folder / FOLDER, files, wanted, began)
    if wanted:
        raise UsageError(
            "--resume has no saved state: the cache of states is switched off",
            help="give 'cache' in the pipeline file, or ONNX_PASSES_CACHE, a folder",
        )
    return None


STDOUT = Path("-")
"""The output that is printed."""


def check_output(output: Path | None) -> None:
    """Refuse to print a model where nothing can be printed, or a person reads.

    Raises:
        UsageError: There is no standard output, or it is a terminal.
    """
    if output == STDOUT and (sys.stdout is None or sys.stdout.isatty()):
        found = (
            "there is no standard output" if sys.stdout is None else "a terminal is no place"
        )
        raise UsageError(f"{found} to print the model on", help="give a file: -o FILE")


def split_words(words: Sequence[str], output: Path | None) -> tuple[list[str], Path | None]:
    """Return passes and the output from the words behind the model.

    Args:
        words: The words. One that names the file of a model is the output.
        output: What -o gives.

    Raises:
        UsageError: There are two outputs, or a word names a file that exists.
    """
    files = [word for word in words if names_a_model(word)]
    passes = [word for word in words if word not in files]
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


def freezing(texts: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return what ``--dims batch=1,height=640`` means: a first pass, and keys of the data.

    Args:
        texts: The values of the option.

    Raises:
        UsageError: A text is not a list of names and sizes.
    """
    sizes: dict[str, int] = {}
    for part in (part for text in texts for part in text.split(",")):
        name, sign, size = part.rpartition("=")
        if not (sign and name and size.isdecimal() and size.isascii()):
            raise UsageError(f"--dims {part!r} is not NAME=SIZE", help="write batch=1,seq=128")
        if name in sizes:
            raise UsageError(f"--dims gives {name!r} two sizes", help="give one")
        sizes[name] = int(size)
    if not sizes:
        return [], []
    keys = [f"reference.dims.{json.dumps(name)}={size}" for name, size in sizes.items()]
    return [f"freeze-dims{{dims={json.dumps(sizes)}}}"], keys


def print_model(model: ir.Model) -> None:
    """Print a model as ONNX text.

    Raises:
        UsageError: It cannot be printed.
    """
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


def write_reports(
    report: RunReport, paths: Iterable[Path | None], laps: Laps | None = None
) -> None:
    """Write a report in the forms asked for.

    Args:
        report: The report. Its exit code becomes 2 if it is 0 and a file cannot be written:
            what is worse stays.
        paths: Files for JSON, HTML and JUnit XML; None for none.
        laps: The clock of the run: each report knows what those before it took.
    """
    from onnx_passes.report.report_files import write_text

    forms = list(zip(("json", "html", "junit"), paths, strict=True))
    for form, path in (*forms[1:], forms[0]):
        if path is None:
            continue
        report.seconds = laps.end("writing") if laps is not None else report.seconds
        writer = import_module(f"onnx_passes.report.{form}")
        try:
            write_text(getattr(writer, f"to_{form}")(report), path)
        except UsageError as error:
            echo_line(f"error[usage]: {error.sentence}", err=True)
            report.exit_code = report.exit_code or error.exit_code


def engines_text(texts: Sequence[str]) -> str:
    """Return engines as a pipeline file has them.

    Raises:
        ConfigError: A text is not an engine.
        EngineUnavailableError: An engine that compiles is not on this machine. Of the others
            the run itself says so.
    """
    from onnx_passes.configs.engine_text import parse_engine, read_engine
    from onnx_passes.runtime.tensorrt.engine import compiler_of

    for text in texts:
        engine = parse_engine(text)  # errors are reported for the option, not for a file
        if (inner := compiler_of(engine)) is not None and inner.missing is not None:
            raise inner.missing
    return json.dumps([{name: options} for name, options in map(read_engine, texts)])


def budget_keys(metrics: Sequence[str]) -> list[str]:
    """Return ranges of metrics as keys of a pipeline file.

    Raises:
        UsageError: A text is not a range of a metric.
    """
    from onnx_passes.configs.format_text import format_value

    found = dict(map(read_range, metrics))
    return [f"verify.metrics.{format_value(n)}={format_value(r)}" for n, r in found.items()]


def read_dump_after(text: str) -> str:
    """Return the value of --dump-after as a pipeline file has it."""
    return text if text in ("all", "changed", "none") else f"[{text}]"


def save_result(
    run: PipelineRun, loaded: LoadedModel, settings: PipelineConfig, goal: Path
) -> None:
    """Write the result; of a verified run, the file is read back before it is in its place.

    Args:
        run: The run; its report says what was read back.
        loaded: The file that the model is from.
        settings: How it is written.
        goal: The file to write.

    Raises:
        ModelError: The file cannot be written.
        VerificationError: It does not hold the model that was verified.
    """
    from onnx_passes.api.models import with_functions
    from onnx_passes.model.formats import form_of
    from onnx_passes.model.save import save_model
    from onnx_passes.report.run_report import ReadBackReport
    from onnx_passes.verify.read_back import ReadBack

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
