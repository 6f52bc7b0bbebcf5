"""``onnx-passes bisect``: the first bad pass and rewrite of a pipeline."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from onnx_passes.cli.common import FILE, OVERRIDES
from onnx_passes.cli.output import echo_lines
from onnx_passes.errors import UsageError

if TYPE_CHECKING:
    import onnx_ir as ir

    from onnx_passes.model.load import LoadedModel
    from onnx_passes.pipeline.bisect import BisectionResult

HELP = """\
Find the first bad pass and rewrite of a pipeline over MODEL, then any others.

The pipeline runs unchecked. Its result and a logarithmic number of states on the way
are compared with the original on the reference data of the pipeline. With --check,
a command judges them, whose exit code is 0 for a good model.

\b
Examples:
  onnx-passes bisect -c pipeline.yaml model.onnx
  onnx-passes bisect -c pipeline.yaml model.onnx --check './score {model}'
"""


@click.command("bisect", help=HELP, no_args_is_help=True)
@click.argument("model", type=FILE)
@click.argument("passes", nargs=-1, metavar="[PASS]...")
@click.option("-c", "--config", help="Pipeline file, or the name of a shipped one.")
@OVERRIDES
@click.option("--check", metavar="CMD", help="Command that judges the model {model}.")
def command(
    model: Path,
    passes: Sequence[str],
    config: str | None,
    overrides: Sequence[str],
    check: str | None,
) -> None:
    """Find the first bad pass and rewrite of a pipeline over MODEL."""
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
            f"{jump} at pass {done.index + 1} {done.name}, and {noise}",
        ]
    lines.append(f"first bad pass     {done.index + 1} {done.name}")
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
        of = f"of pass {other.done.index + 1} {other.done.name}"
        lines.append(f"without it, bad    {note} {of}")
        if named is not None:
            lines += [f"  before           {node}" for node in named.nodes]
            lines += [f"  after            {node}" for node in named.new_nodes]
    if rewrite is not None:
        lines.append(f"last good limit    --rewrite-limit {rewrite.number - 1}")
    return lines
