"""Commands that look for the cause of a failure: bisect and reduce."""

from __future__ import annotations

import json
import math
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from onnx_passes.cli.common import FILE, OVERRIDES, file, flag, option, several
from onnx_passes.cli.output import check_destinations, echo_line, echo_lines
from onnx_passes.cli.word_syntax import ManyWords, read_named_shape
from onnx_passes.errors import ReferenceDataError, UsageError, did_you_mean
from onnx_passes.optional import named_function
from onnx_passes.plain import Plain, PlainMapping
from onnx_passes.report.text import plural

if TYPE_CHECKING:
    import onnx_ir as ir

    from onnx_passes.arrays import Array
    from onnx_passes.bench.reducing import Boundary, Reduction
    from onnx_passes.bench.reducing.candidates import CandidateStore, ModelCheck, Trial
    from onnx_passes.model.load import LoadedModel
    from onnx_passes.pipeline.bisect import BisectionResult
    from onnx_passes.runtime.engine_base import Engine


@click.command("bisect", no_args_is_help=True)
@click.argument("model", type=FILE)
@click.argument("passes", nargs=-1, metavar="[PASS]...")
@option("-c --config", "Pipeline file, or the name of a shipped one.")
@OVERRIDES
@option("--check CMD", "Command that judges the model {model}.")
def bisect_command(
    model: Path,
    passes: Sequence[str],
    config: str | None,
    overrides: Sequence[str],
    check: str | None,
) -> None:
    """Find the first bad pass and rewrite of a pipeline over MODEL, then any others.

    The pipeline runs unchecked. Its result and a logarithmic number of states on the way are
    compared with the original on the reference data of the pipeline. With --check, a command
    judges them, whose exit code is 0 for a good model.

    Examples:
      onnx-passes bisect -c pipeline.yaml model.onnx
      onnx-passes bisect -c pipeline.yaml model.onnx --check './score {model}'
    """
    from onnx_passes.configs.pipeline_files import default_config, load_config
    from onnx_passes.model.load import load_model
    from onnx_passes.pipeline.bisect import ByCheck, Judge, bisect, judge_by_score

    if not config and not passes:
        raise UsageError(
            "there is no pipeline to look through",
            help="name one by -c, or name passes behind MODEL",
        )
    extra = list(overrides)
    settings = load_config(config, extra, passes) if config else default_config(extra, passes)
    loaded = load_model(model)
    judge: Judge
    if check is None:
        judge = judge_by_score(loaded.model, settings)
    else:
        holds = _checker(check, loaded)
        if not holds(loaded.model):
            raise UsageError(
                "the check fails on the original already, so no pass can be to blame",
                help="--check must end with exit code 0 for a good model",
            )
        judge = ByCheck(holds)
    finding = bisect(loaded.model, settings, judge)
    echo_lines(_describe(finding, by_score=check is None))
    raise click.exceptions.Exit({"sound": 0, "found": 1, "undecided": 4}[finding.outcome])


def _checker(check: str, source: LoadedModel) -> Callable[[ir.Model], bool]:
    """Return what writes a model to a scratch folder, and runs the command on it."""
    from onnx_passes.model.save import save_model
    from onnx_passes.runtime import processes

    words = processes.check_words(check)
    if not any("{model}" in word for word in words):
        raise UsageError(
            f"--check {check!r} does not say where the model goes",
            help="write {model} in its place: --check 'python score.py {model}'",
        )

    def holds(model: ir.Model) -> bool:
        with tempfile.TemporaryDirectory(prefix="onnx-passes-") as folder:
            path = Path(folder) / "model.onnx"
            save_model(model, path, source=source)
            given = [word.replace("{model}", str(path)) for word in words]
            try:
                # Its output would mix with ours; its errors are the user's to see.
                return processes.run(given, stdout=subprocess.DEVNULL, stderr=None).code == 0
            except OSError as error:
                raise UsageError(
                    f"--check cannot be run: {given[0]}: {error.strerror or error}"
                ) from error

    return holds


def _describe(finding: BisectionResult, *, by_score: bool) -> list[str]:
    from onnx_passes.report.text import plural

    work = f"{plural(finding.passes, 'pass')} changed the model"
    lines = [f"{work}; {plural(finding.runs, 'model')} judged"]
    noise = f"the noise is {finding.noise:.3g}"
    done, rewrite = finding.done, finding.rewrite
    if finding.outcome == "sound":
        note = f": error {finding.final:.3g}, {noise}" if by_score else ""
        return [*lines, f"nothing to find: the result is good{note}"]
    if finding.outcome == "undecided" and done is None:
        return [
            *lines,
            f"no answer: the error of the result is {finding.final:.3g}, and {noise};",
            "only a fault 10 times above the noise can be seen",
        ]
    assert done is not None
    jump = f"{finding.good:.3g} -> {finding.bad:.3g}"
    if finding.outcome == "undecided":
        return [
            *lines,
            f"no answer: the error grows little by little, and at no step by 10 times: "
            f"{jump} at pass {done.index} {done.name}, and {noise}",
        ]
    lines.append(f"first bad pass     {done.index} {done.name}")
    if rewrite is not None:
        lines.append(f"first bad rewrite  {rewrite.number} {rewrite.rule}")
        lines += [f"  before           {node}" for node in rewrite.nodes]
        lines += [f"  after            {node}" for node in rewrite.new_nodes]
    if by_score:
        lines.append(f"error              {jump}, {noise}")
    for other in finding.also:
        assert other.done is not None
        named = other.rewrite
        note = f"{named.number} {named.rule}" if named else f"all of {other.done.name}"
        of = f"of pass {other.done.index} {other.done.name}"
        lines.append(f"without it, bad    {note} {of}")
        if named is not None:
            lines += [f"  before           {node}" for node in named.nodes]
            lines += [f"  after            {node}" for node in named.new_nodes]
    if rewrite is not None:
        lines.append(f"last good limit    --rewrite-limit {rewrite.number - 1}")
    return lines


def make_check(given: PlainMapping, store: CandidateStore, boundary: Boundary) -> ModelCheck:
    """Return what judges candidates; ``boundary`` gets the engine that is right, if any."""
    from onnx_passes.bench.reducing.checks import CommandCheck, FailureCriteria

    if given["check"] is not None:
        patterns = tuple(_pattern(text) for text in given["fail_regex"])
        rules = FailureCriteria(
            frozenset(given["fail_code"]), frozenset(given["ignore_fail_code"]), patterns
        )
        return CommandCheck(given["check"], store, rules, given["timeout"])
    from onnx_passes.bench.reducing.checks import AskCheck, FunctionCheck, RunCheck
    from onnx_passes.contracts import Tolerance

    if given["check_function"]:
        text = given["check_function"]
        return FunctionCheck(named_function(text, "--check-function"), store, text)
    if given["interactive"]:
        return AskCheck(_ask, store)
    contract = Tolerance(given["rtol"], given["atol"])
    engine = _engine(given["engine"])
    if given["against"] == "golden":
        return RunCheck(engine, boundary, contract)
    against = _engine(given["against"]) if given["against"] else None
    if against is not None:
        boundary.engine = against  # what is right gives the values at the cuts
    elif engine.describe().get("isolate"):
        boundary.engine = _engine("onnxruntime{isolate=true}")  # it may end its process, too
    return RunCheck(engine, against, contract)


def _engine(text: str) -> Engine:
    if "{" not in text:
        from onnx_passes.runtime.engines import engine_from_config

        # Reading options takes longer to import than a small model to reduce.
        return engine_from_config(text)
    from onnx_passes.configs.engine_text import parse_engine

    return parse_engine(text)


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text, re.MULTILINE)
    except re.error as error:
        raise UsageError(
            f"--fail-regex {text!r} is not a regular expression: {error}"
        ) from error


def _ask(path: Path, number: int) -> bool:
    click.echo(f"{number}: does {path} pass or fail? [p/f] ", nl=False, err=True)
    while answer := sys.stdin.readline():
        if (word := answer.strip().lower()) in ("p", "pass", "f", "fail"):
            return word.startswith("f")
        click.echo("answer p, for pass, or f, for fail: ", nl=False, err=True)
    click.echo(err=True)
    raise UsageError(
        "there is no answer: standard input has ended",
        help="run --interactive in a terminal; --replay FILE keeps the answers so far",
    )


_IN_PROCESS, _COMMAND = 200, 40  # checks that may go into dimensions and values


def reduce_file(path: Path, output: Path, given: PlainMapping) -> None:
    """Reduce the model of a file; write the result and print what it is."""
    check_options(given)
    _places(path, output, given)
    from onnx_passes.bench.reducing import Boundary, Reducer
    from onnx_passes.bench.reducing.candidates import Artifacts, CandidateStore
    from onnx_passes.bench.reducing.parts import Parts
    from onnx_passes.model.load import load_model
    from onnx_passes.runtime.ort import engine_for

    loaded = load_model(path)
    model = loaded.model
    samples = _read_golden(given["load_inputs"], model)
    _set_shapes(model, given["model_input_shapes"])
    for golden in samples:
        _fits(golden, model, given["load_inputs"])
    artifacts = Artifacts(model, given["artifacts"]) if given["artifacts"] else None

    def tell(trial: Trial) -> None:
        if artifacts is not None:
            artifacts.keep(trial)
        if not given["quiet"]:
            echo_line(_progress(trial, len(parts.nodes)), err=True)

    by_command = bool(given["check"]) or given["interactive"]
    limit = _COMMAND if by_command else _IN_PROCESS
    with CandidateStore(model) as store:
        for number, golden in enumerate(samples):
            boundary = Boundary(model, engine_for(model), golden)
            check = make_check(given, store, boundary)
            last = number == len(samples) - 1
            if last or by_command or _fails(check, model, golden):
                break
        parts = Parts(
            model,
            boundary,
            keep_inputs=given["no_reduce_inputs"],
            keep_outputs=given["no_reduce_outputs"],
        )
        kept = _why_not_smaller(given, by_command and _inner(golden, model))
        found = Reducer(
            parts,
            check,
            given["mode"],
            tell=tell,
            replay=given["replay"],
            shrink=0 if given["no_shrink"] or kept else limit,
        ).run()
    if kept and not given["no_shrink"]:
        why = f"dimensions and values were left as they are, since {kept} with them"
        found = replace(found, notes=(*found.notes, why))
    if len(samples) > 1 and not by_command:
        told = f"reduced on sample {number} of {len(samples)}, the first that fails"
        found = replace(found, notes=(*found.notes, told))
    written = _write(found, loaded, output, given["min_good"])
    _tell(found, written, boundary, as_json=given["as_json"])


def _fails(check: ModelCheck, model: ir.Model, golden: Mapping[str, Array]) -> bool:
    """Whether a check fails on the whole model with the inputs of a sample."""
    from onnx_passes.bench.reducing.candidates import SmallerModel

    names = [str(v.name) for v in model.graph.inputs if not v.is_initializer()]
    feeds = {name: golden[name] for name in names if name in golden}
    return check.judge(SmallerModel(model, lambda: feeds), 0).bad


def _why_not_smaller(given: PlainMapping, inner: bool) -> str | None:
    """Return why dimensions and values cannot get smaller, as a clause; None if they can."""
    return "golden values go" if inner or given["against"] == "golden" else None


def _places(path: Path, output: Path, given: PlainMapping) -> None:
    files = {"-o": output, "--min-good": given["min_good"], "--replay": given["replay"]}
    read = {"the model": [path]}
    if given["load_inputs"]:
        read["the golden values"] = [Path(given["load_inputs"])]
    for named, place in files.items():
        if place is not None and place.exists() and path.exists() and place.samefile(path):
            raise UsageError(
                f"{named} {place} is the model itself, which stays as it is",
                help="give another path",
            )
    check_destinations(output, {k: v for k, v in files.items() if k != "-o"}, read)
    if given["artifacts"] and given["artifacts"].exists() and not given["artifacts"].is_dir():
        raise UsageError(f"--artifacts {given['artifacts']} is not a folder")


def _read_golden(path: str | None, model: ir.Model) -> list[dict[str, Array]]:
    """Return the values of this model, sample by sample."""
    if path is None:
        return [{}]
    from onnx_passes.verify.saved import read_samples

    samples = read_samples(path)
    known = {str(value.name) for value in model.graph.inputs}
    known |= {str(v.name) for node in model.graph for v in node.outputs if v.name}
    values = samples[0] if samples else {}
    if values and not known & values.keys():
        raise ReferenceDataError(
            f"the file holds no value of this model, but {', '.join(list(values)[:3])}",
            where=path,
            help="see that it was saved from this model: onnx-passes inspect data " + path,
        )
    found = [{n: a for n, a in each.items() if n in known} for each in samples]
    return found or [{}]


def _fits(golden: Mapping[str, Array], model: ir.Model, path: str | None) -> None:
    """Check values for the inputs, where all are given."""
    from onnx_passes.verify.reference_data import check_feeds

    inputs = [str(v.name) for v in model.graph.inputs if not v.is_initializer()]
    if path is not None and golden and all(name in golden for name in inputs):
        feeds = {name: golden[name] for name in inputs}
        check_feeds(feeds, model, dict.fromkeys(inputs, path), allow_nan=True)


def _inner(golden: Mapping[str, Array], model: ir.Model) -> bool:
    return any(value.name in golden for node in model.graph for value in node.outputs)


def _set_shapes(model: ir.Model, texts: Sequence[str]) -> None:
    import onnx_ir as ir

    inputs = {str(value.name): value for value in model.graph.inputs}
    for text in texts:
        name, sizes = read_named_shape(text, "--model-input-shapes")
        if name not in inputs:
            raise UsageError(
                f"--model-input-shapes: the model has no input {name!r}",
                help=did_you_mean(name, inputs),
            )
        old = inputs[name].shape
        if old is not None and len(old) != len(sizes):
            raise UsageError(
                f"--model-input-shapes: {name!r} has {len(old)} dimensions, not {len(sizes)}"
            )
        inputs[name].shape = ir.Shape(sizes)


def _progress(trial: Trial, total: int) -> str:
    outcome = trial.outcome
    took = "replayed" if trial.replayed else f"{trial.seconds:.2f} s"
    told = "".join(c if c.isprintable() else "?" for c in outcome.told)
    return (
        f"{trial.number:4d}  {trial.nodes:{len(str(total))}d} of {total} nodes  "
        f"{outcome.status.value:8s}  {took:>8s}  {told}"
    ).rstrip()


def _write(
    found: Reduction, loaded: LoadedModel, output: Path, min_good: Path | None
) -> dict[str, str]:
    import numpy as np

    from onnx_passes.model.save import save_model
    from onnx_passes.verify.saved import write_samples

    written = {"model": str(output)}
    save_model(found.model, output, source=loaded)
    arrays = {k: v for k, v in (found.feeds or {}).items() if isinstance(v, np.ndarray)}
    if found.feeds is not None and len(arrays) == len(found.feeds) and arrays:
        values = output.with_name(f"{output.stem}-inputs.npz")
        write_samples(values, [arrays])
        written["inputs"] = str(values)
    if min_good is not None and found.good is not None:
        save_model(found.good, min_good, source=loaded)
        written["good"] = str(min_good)
    return written


def _tell(
    found: Reduction, written: Mapping[str, str], boundary: Boundary, *, as_json: bool
) -> None:
    nodes = [
        {
            "name": node.name or "",
            "operator": node.op_type if not node.domain else f"{node.domain}::{node.op_type}",
        }
        for node in found.model.graph
    ]
    notes = list(found.notes)
    if boundary.why is not None:
        notes.append(f"values at the cuts are not known: {boundary.why}")
    if as_json:
        told = {
            "before": found.before,
            "after": found.after,
            "checks": found.checks,
            "replayed": found.replayed,
            "failure": found.told,
            "nodes": nodes,
            "written": dict(written),
            "notes": notes,
        }
        click.echo(json.dumps(told, indent=2))
        return
    replayed = f", {found.replayed} replayed" if found.replayed else ""
    checks = f"{found.checks} checks{replayed}"
    echo_line(f"{found.before} -> {plural(found.after, 'node')} in {checks}: {found.told}")
    for node in nodes[:10]:
        echo_line(f"  {node['operator']} {node['name']}")
    if len(nodes) > 10:
        click.echo(f"  and {len(nodes) - 10} more")
    for what, path in written.items():
        echo_line(f"{what + ':':9s}{path}")
    for note in notes:
        echo_line(f"note: {note}")


# Which checks an option says something to.
_OF = {
    "fail_code": ("--check",),
    "ignore_fail_code": ("--check",),
    "fail_regex": ("--check",),
    "against": ("--engine",),
    "rtol": ("--engine",),
    "atol": ("--engine",),
}


def check_options(given: PlainMapping) -> None:
    """Check what the words alone show: raise UsageError if options do not go together."""
    check = _one_check(given)
    for name, checks in _OF.items():
        if given[name] not in (None, (), False) and check not in checks:
            option = f"--{name.replace('_', '-')}"
            what = ": what to hold against it" if name == "against" else f", not {check}"
            raise UsageError(f"{option} needs {' or '.join(checks)}{what}")
    for name in ("rtol", "atol", "timeout"):
        number = given[name]
        low = "more than 0" if name == "timeout" else "0 or more"
        if number is not None and (
            not math.isfinite(number) or number < 0 or (name == "timeout" and not number)
        ):
            raise UsageError(f"--{name} {number:g}: it has to be a number, {low}")
    both = sorted({*given["fail_code"]} & {*given["ignore_fail_code"]})
    if both:
        raise UsageError(
            f"--fail-code {both[0]} and --ignore-fail-code {both[0]} contradict each other",
            help="give each exit code to one of them",
        )
    if given["no_reduce_inputs"] and given["no_reduce_outputs"]:
        raise UsageError(
            "--no-reduce-inputs and --no-reduce-outputs together leave nothing to take away"
        )
    if given["against"] == "golden" and not given["load_inputs"]:
        raise UsageError(
            "--against golden needs --load-inputs: the golden values",
            help="record them: onnx-passes compare MODEL --outputs all --save-outputs FILE",
        )


def _one_check(given: PlainMapping) -> str:
    asked = [
        option
        for option, value in (
            ("--check", given["check"] is not None),
            ("--check-function", given["check_function"]),
            ("--engine", given["engine"]),
            ("--interactive", given["interactive"]),
        )
        if value
    ]
    if len(asked) != 1:
        raise UsageError(
            f"{' and '.join(asked)} are {len(asked)} checks"
            if asked
            else "nothing says what fails",
            help="give one of --check, --check-function, --engine and --interactive",
        )
    return asked[0]


class _Reduce(ManyWords):
    """Takes all words after ``--check`` as the command, unless it is quoted as one word."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--check" in args:
            place = args.index("--check") + 1
            words = args[place:]
            if len(words) > 1 and len(shlex.split(words[0], posix=False)) == 1:
                args = [*args[:place], shlex.join(words)]
        return super().parse_args(ctx, args)


@click.command("reduce", cls=_Reduce, no_args_is_help=True)
@click.argument("model", type=FILE)
@file("-o --output FILE", "Where to write the result.")
@option("--check CMD", "Command that judges candidates.")
@option("--check-function MODULE:FUNCTION", "Function that judges.")
@option("-e --engine ENGINE", "Engine under test, in the form of compare.")
@option("--against ENGINE|golden", "Reference: an engine, or golden (--load-inputs).")
@flag("--interactive", "Ask whether each candidate passes.")
@option("--rtol", "Relative tolerance of --engine.", type=float)
@option("--atol", "Absolute tolerance of --engine.", type=float)
@option(
    "--mode",
    "auto bisects for one needed node after the other, then removes what it can.",
    type=click.Choice(["auto", "bisect", "linear"]),
    default="auto",
    show_default=True,
)
@flag("--no-reduce-inputs", "Take nodes from the end only.")
@flag("--no-reduce-outputs", "Take nodes from the start only.")
@flag("--no-shrink", "Leave dimensions and values as they are.")
@option("--load-inputs FILE", "Inputs, and golden values of all layers.")
@several("--model-input-shapes NAME:1x3x224x224", "Fix the shape of an input.")
@option(
    "--timeout SECONDS", "Seconds for a check.", type=float, default=600.0, show_default=True
)
@several("--fail-code", "Only these exit codes fail.", type=int)
@several("--ignore-fail-code", "These exit codes pass.", type=int)
@several("--fail-regex RE", "Text of a failure.")
@file("--min-good FILE", "Write the nearest good model.")
@file("--artifacts DIR", "Save candidates: good/, bad/.")
@file("--replay FILE", "Read answers from FILE, and add new ones.")
@flag("--json as_json", "Print JSON, or write it to FILE.")
@flag("-q --quiet", "Print no line for each check.")
def reduce_command(model: Path, output: Path | None, **given: Plain) -> None:
    r"""Reduce MODEL to the smallest model that still fails.

    Fewest nodes come first, then smaller dimensions and simpler values. One of these decides
    what "fails" means:

      --check CMD              a command that fails (exit code not 0) if bad
      --check-function M:F     a function: does the model at this path fail?
      --engine E --against E2  two engines (or E and golden values) that differ
      --engine E               an engine that does not run it, or makes NaN or Inf
      --interactive            you

    CMD gets each candidate as {model}, and its inputs as the .npz file {inputs}. Quote CMD, or
    put it last: all that follows --check is CMD then.

    Examples:
      onnx-passes reduce m.onnx -o small.onnx -e onnxruntime{optimization=all} \
          --against onnxruntime
      onnx-passes reduce m.onnx -o small.onnx --mode bisect --load-inputs in.npz \
          --fail-regex 'Op: Mul' --check trtexec --onnx={model}
    """
    if output is None:
        raise UsageError(
            "there is no -o: where to write the reduced model",
            help="give it before --check, which takes all that follows it unless it is quoted"
            if given["check"]
            else "-o small.onnx",
        )
    reduce_file(model, output, given)
