"""``onnx-passes reduce``: the smallest model that still fails."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from onnx_passes.cli.data_options import CLUSTER, SOURCE, add_options
from onnx_passes.cli.word_syntax import ManyWords
from onnx_passes.errors import UsageError
from onnx_passes.plain import Plain

HELP = """\
Reduce MODEL to the smallest model that still fails: fewest nodes, then smaller dimensions and
simpler values. One of these decides what "fails" means:

\b
  --check CMD              a command that fails (exit code not 0) if bad
  --check-function M:F     a function: does the model at this path fail?
  --engine E --against E2  two engines (or E and golden values) that differ
  --engine E               an engine that does not run it, or makes NaN or Inf
  --pass P, -c PIPELINE    passes that raise, or change what it computes
  --interactive            you

\b
CMD gets each candidate as {model}, and its inputs as the .npz file {inputs};
without {model} it reads onnx_passes_debug.onnx (--iter-artifact) in this
folder. Quote CMD, or put it last: all that follows --check is CMD then.

With --data, two engines or passes are asked about each sample of a data set, which is read as
a stream. What a candidate reads from inside of MODEL is computed from the data.

\b
Examples:
  onnx-passes reduce m.onnx -o small.onnx -e onnxruntime{optimization=all} \\
      --against onnxruntime
  onnx-passes reduce m.onnx -o small.onnx --mode bisect --load-inputs in.npz \\
      --fail-regex 'Op: Mul' --check trtexec --onnx={model}
"""
_path = click.Path(path_type=Path)


class _Reduce(ManyWords):
    """Takes all words after ``--check`` as the command, unless it is quoted as one word."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--check" in args:
            place = args.index("--check") + 1
            words = args[place:]
            if len(words) > 1 and len(shlex.split(words[0], posix=False)) == 1:
                args = [*args[:place], shlex.join(words)]
        return super().parse_args(ctx, args)


@click.command("reduce", cls=_Reduce, help=HELP, no_args_is_help=True)
@click.argument("model", type=_path)
@click.option("-o", "--output", type=_path, metavar="FILE", help="Where to write the result.")
@click.option("--check", metavar="CMD", help="Command that judges candidates.")
@click.option("--check-function", metavar="MODULE:FUNCTION", help="Function that judges.")
@click.option(
    "-e", "--engine", metavar="ENGINE", help="Engine under test, in the form of compare."
)
@click.option(
    "--against",
    metavar="ENGINE|golden",
    help="Reference: an engine, or golden (--load-inputs).",
)
@click.option("--pass", "passes", multiple=True, metavar="PASS", help="Passes under test.")
@click.option("-c", "--config", metavar="FILE", help="Pipeline whose passes are the check.")
@click.option("--interactive", is_flag=True, help="Ask whether each candidate passes.")
@click.option("--rtol", type=float, help="Relative tolerance of --engine and --pass.")
@click.option("--atol", type=float, help="Absolute tolerance of --engine and --pass.")
@click.option(
    "--mode",
    type=click.Choice(["auto", "bisect", "linear", "ddmin"]),
    default="auto",
    show_default=True,
    help="auto bisects for one needed node after the other, and ends with ddmin.",
)
@click.option("--every", is_flag=True, help="Find other failing parts too: FILE-2.onnx, ...")
@click.option("--no-reduce-inputs", is_flag=True, help="Take nodes from the end only.")
@click.option("--no-reduce-outputs", is_flag=True, help="Take nodes from the start only.")
@click.option("--no-shrink", is_flag=True, help="Leave dimensions and values as they are.")
@click.option("--load-inputs", metavar="FILE", help="Inputs, and golden values of all layers.")
@click.option(
    "--model-input-shapes",
    multiple=True,
    metavar="NAME:1x3x224x224",
    help="Fix the shape of an input.",
)
@click.option(
    "--fallback-shape-inference", is_flag=True, help="Take shapes at cuts from a recorded run."
)
@click.option(
    "--iter-artifact",
    type=_path,
    default="onnx_passes_debug.onnx",
    metavar="FILE",
    help="Candidate, if CMD has no {model}.",
)
@click.option(
    "--timeout",
    type=float,
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    help="Seconds for a check.",
)
@click.option(
    "-j",
    "--jobs",
    type=click.IntRange(1),
    default=1,
    help="Checks run at once; with --data, worker processes.",
)
@click.option(
    "--warm", is_flag=True, help="Start --check's Python script from a warm process."
)
@click.option("--fail-code", type=int, multiple=True, help="Only these exit codes fail.")
@click.option("--ignore-fail-code", type=int, multiple=True, help="These exit codes pass.")
@click.option("--fail-regex", multiple=True, metavar="RE", help="Text of a failure.")
@click.option("--min-good", type=_path, metavar="FILE", help="Write the nearest good model.")
@click.option("--artifacts", type=_path, metavar="DIR", help="Save candidates: good/, bad/.")
@click.option(
    "--replay", type=_path, metavar="FILE", help="Read answers from FILE, and add new ones."
)
@add_options((*SOURCE, *CLUSTER))
@click.option("--json", "as_json", is_flag=True, help="Print JSON, or write it to FILE.")
@click.option("-q", "--quiet", is_flag=True, help="Print no line for each check.")
def command(model: Path, output: Path | None, **given: Plain) -> None:
    """Reduce a model."""
    from onnx_passes.cli.reduce_runs import reduce_file

    if output is None:
        raise UsageError(
            "there is no -o: where to write the reduced model",
            help="give it before --check, which takes all that follows it unless it is quoted"
            if given["check"]
            else "-o small.onnx",
        )
    reduce_file(model, output, given)
