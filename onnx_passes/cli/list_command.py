"""``onnx-passes list``: the passes by group."""

from __future__ import annotations

import json
from collections.abc import Sequence

import click

from onnx_passes.cli.printing import echo_line
from onnx_passes.errors import UsageError
from onnx_passes.plain import PlainMapping

HELP = """\
List the passes: group, contract, what they do. With WORDs, those that hold them all.

\b
Examples:
  onnx-passes list --presets
  onnx-passes list
  onnx-passes list fuse gelu --json
"""


@click.command("list", help=HELP)
@click.argument("words", nargs=-1, metavar="[WORD]...")
@click.option("-c", "--config", help="Pipeline file whose imports are listed as well.")
@click.option("--presets", is_flag=True, help="List the shipped pipelines, for -c.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, or write it to FILE.")
def command(words: tuple[str, ...], config: str | None, presets: bool, as_json: bool) -> None:
    """List the passes: group, contract, what they do. With WORDs, those that hold them all."""
    from onnx_passes.cli.pass_rows import pass_rows, preset_rows

    rows = [
        row
        for row in (preset_rows() if presets else pass_rows(config))
        if all(word.lower() in " ".join(map(str, row.values())).lower() for word in words)
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    if not rows:
        raise UsageError(
            f"no pass has all of these words: {' '.join(words)}",
            help="onnx-passes list prints all passes, list --presets the presets",
        )
    for group in dict.fromkeys(row["group"] for row in rows):
        click.secho(group, bold=True)
        _table([row for row in rows if row["group"] == group])


def _table(rows: Sequence[PlainMapping]) -> None:
    name = max(len(row["name"]) for row in rows)
    contract = max(len(row["contract"]) for row in rows)
    for row in rows:
        echo_line(f"  {row['name']:<{name}}  {row['contract']:<{contract}}  {row['summary']}")
