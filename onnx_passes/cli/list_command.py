"""``onnx-passes list``: the passes by group, with the names and summaries of all passes.

They come from the index of the library where it is enough, so that no pass is imported.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points

import click

from onnx_passes.cli.output import echo_line
from onnx_passes.errors import UsageError
from onnx_passes.library_index import ENTRY_POINTS, LibraryIndex, library_index
from onnx_passes.plain import PlainMapping


def library_alone() -> LibraryIndex | None:
    """Return the index of the library; None if there is none, or other packages add passes."""
    return None if entry_points(group=ENTRY_POINTS) else library_index()


def pass_rows(config: str | None = None) -> Sequence[Mapping[str, str]]:
    """Return name, group, contract and summary of every pass, also of ``config``."""
    index = library_alone() if config is None else None
    if index is not None:
        return index.rows
    from onnx_passes.cli.pass_descriptions import describe_passes, import_from

    return describe_passes(import_from(config))


def preset_rows() -> list[Mapping[str, str]]:
    """Return name and summary of every shipped pipeline, in the form of rows of passes."""
    from onnx_passes.configs.pipeline_files import shipped_configs, shipped_summary

    return [
        {"name": n, "group": "presets", "contract": f"-c {n}", "summary": shipped_summary(n)}
        for n in shipped_configs()
    ]


def group_names() -> list[str]:
    """Return the names of all groups of passes."""
    index = library_alone()
    if index is not None:
        return [n for n, found in index.groups.items() if n not in index.places or found[1:]]
    from onnx_passes.passes.registry import groups

    return list(groups())


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
