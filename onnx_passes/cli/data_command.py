"""``onnx-passes data``: saved inputs and outputs, joined and converted."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from onnx_passes.cli.common import Family, flag, option, several
from onnx_passes.cli.data_options import add_options
from onnx_passes.cli.output import check_destinations, check_folder, echo_line
from onnx_passes.cli.word_syntax import ManyWords, Several
from onnx_passes.plain import Plain

if TYPE_CHECKING:
    from onnx_passes.arrays import Array


@click.group("data", cls=Family, no_args_is_help=True)
def command() -> None:
    """Join and convert saved inputs and outputs; 'inspect data' shows them.

    Forms: .npz, .npy, Polygraphy's .json (feeds and RunResults), and folders of ONNX test
    data.

    Examples:
      onnx-passes data concat feeds.json -o inputs.npz
      onnx-passes data merge inputs.npz outputs.json -o golden.json
    """


_options = (
    option("-o --output", "Where to write.", required=True),
    option(
        "--as kind",
        "What .json and test data are: feeds (inputs), or results (outputs).",
        type=click.Choice(["feeds", "results"]),
        default="feeds",
    ),
    several("--names NAME...", "Keep these values only.", cls=Several),
    flag("--json as_json", "Print what was written as JSON."),
)


def _check(output: str, files: Sequence[str]) -> None:
    """Check the destination before anything is read."""
    if Path(output).suffix:
        check_destinations(Path(output), {}, {"what is read": [Path(file) for file in files]})
    else:
        check_folder("-o", Path(output))


def _write(
    samples: list[dict[str, Array]],
    output: str,
    kind: Literal["feeds", "results"],
    names: tuple[str, ...],
    as_json: bool,
) -> None:
    import json

    from onnx_passes.verify.saved import describe, select, write_samples

    kept = select(samples, names) if names else samples
    write_samples(output, kept, kind=kind)
    shown = {name: describe(array) for name, array in kept[0].items()} if kept else {}
    if as_json:
        click.echo(json.dumps({"output": output, "samples": len(kept), "values": shown}))
    else:
        count = f"{len(kept)} sample{'' if len(kept) == 1 else 's'}"
        echo_line(f"{output}: {count} of {', '.join(shown) or 'nothing'}")


@command.command("merge", cls=ManyWords)
@click.argument("files", nargs=-1, required=True)
@add_options(_options)
def merge(files: tuple[str, ...], **rest: Plain) -> None:
    """Join the values of FILES, sample by sample.

    Examples:
      onnx-passes data merge a.npz b.npz -o both.npz
      onnx-passes data merge inputs.json results.json -o golden.json
    """
    from onnx_passes.verify.saved import merge_samples, read_samples

    _check(rest["output"], files)
    _write(merge_samples([read_samples(file) for file in files]), **rest)


@command.command("concat", cls=ManyWords)
@click.argument("files", nargs=-1, required=True)
@add_options(_options)
def concat(files: tuple[str, ...], **rest: Plain) -> None:
    """Put the samples of FILES one after the other, in the form of the output's extension.

    Examples:
      onnx-passes data concat day1.npz day2.npz -o week.json
      onnx-passes data concat inputs.npz -o inputs.json
      onnx-passes data concat results.json -o golden --as results
    """
    from onnx_passes.verify.saved import read_samples

    _check(rest["output"], files)
    _write([sample for file in files for sample in read_samples(file)], **rest)
