"""``compare --data``: models over a whole data set."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from onnx_passes.cli.data_options import (
    announce,
    make_executor,
    read_engine_choice,
    read_rule,
    read_spec,
)
from onnx_passes.cli.destinations import check_destinations, check_folder
from onnx_passes.cli.printing import echo_line
from onnx_passes.errors import UsageError
from onnx_passes.plain import PlainMapping

if TYPE_CHECKING:
    from onnx_passes.data.evaluation_job import DataJob
    from onnx_passes.data.evaluation_result import DataResult
    from onnx_passes.data.input_binding import DataInterface
    from onnx_passes.data.shard_evaluation import Fleet

_APART = {
    "inputs": "--inputs",
    "generate": "--generate",
    "data_loader": "--data-loader",
    "outputs": "--outputs",
    "postprocess": "--postprocess",
    "validate": "--validate",
    "fail_fast": "--fail-fast",
    "warm_up": "--warm-up",
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
    """Run models on engines over a data set, and print what was found.

    Args:
        models: Files of the models; the first is the reference.
        engines: Texts of ``--engine``.
        given: Values of the options by name.
        isolate: Whether engines run in child processes.
        verbose: Whether details are printed as well.
        as_json: Whether JSON is printed.

    Returns:
        The exit code.

    Raises:
        OnnxPassesError: The data, a model or an engine cannot be used.
    """
    from onnx_passes.data.job_evaluation import Journal, evaluate
    from onnx_passes.report.data_set import result_lines

    _refuse(given)
    _check_places(models, given)
    job, rule = _job(models, engines, given, isolate=isolate), read_rule(given)
    fleet = _fleet(job, given)
    with ExitStack() as stack:
        journal = None
        if given["journal"] is not None:
            journal = stack.enter_context(Journal(given["journal"], job))
        result = evaluate(
            job,
            rule,
            make_executor(given),
            journal=journal,
            on_progress=announce(stack),
            accept=fleet.accept,
        )
    notes = [*fleet.notes]
    try:
        notes += _write(result, given)
    finally:
        # A full disk does not take the findings of a long run with it.
        if as_json:
            click.echo(result.text(), nl=False)
        else:
            timing = result.timing.to_json()
            for line in result_lines(result.data, timing, notes, verbose=verbose):
                echo_line(line)
    return result.exit_code


def _refuse(given: PlainMapping) -> None:
    for name, option in _APART.items():
        if given[name]:
            raise UsageError(
                f"{option} and --data do not go together", help="give one of the two"
            )
    if given["iterations"] not in (None, 1) or given["judge"] != "simple":
        option = "--compare" if given["judge"] != "simple" else "--iterations"
        raise UsageError(
            f"{option} and --data do not go together",
            help="limits are given by --tolerance, --rtol and --atol, metrics by --metric",
        )


def _check_places(models: Sequence[Path], given: PlainMapping) -> None:
    files = {f"--{name}": given[name] for name in ("timing", "html", "journal")}
    check_destinations(None, files, {"a model": list(models)})
    if given["save_worst"] is not None:
        check_folder("--save-worst", given["save_worst"])


def _job(
    models: Sequence[Path], engines: Sequence[str], given: PlainMapping, *, isolate: bool
) -> DataJob:
    from onnx_passes.data.evaluation_job import DataJob, ModelFile, RunSpec
    from onnx_passes.data.input_binding import DataInterface
    from onnx_passes.data.measures import Measures, make_metric
    from onnx_passes.data.plan import make_plan
    from onnx_passes.model.load import load_model
    from onnx_passes.verify.runs.tolerance_options import read_limits

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


def _fleet(job: DataJob, given: PlainMapping) -> Fleet:
    from onnx_passes.data.shard_evaluation import Fleet

    return Fleet(job, allow_mixed=given["mixed_cpus"])


def _write(result: DataResult, given: PlainMapping) -> list[str]:
    from onnx_passes.data.evaluation_result import save_worst
    from onnx_passes.report.report_files import write_text

    notes: list[str] = []
    if given["timing"] is not None:
        write_text(json.dumps(result.timing.to_json(), indent=2) + "\n", given["timing"])
    if given["save_worst"] is not None:
        notes.append(save_worst(result, given["save_worst"]))
    if given["html"] is not None:
        from onnx_passes.report.data_page import data_page

        write_text(data_page(result), given["html"])
    return notes
