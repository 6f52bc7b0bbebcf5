"""``onnx-passes split``: a model in parts that run one after the other."""

from __future__ import annotations

import json
from pathlib import Path

import click

from onnx_passes.cli.common import path
from onnx_passes.cli.output import check_folder, echo_line
from onnx_passes.cli.word_syntax import ManyWords, Several
from onnx_passes.errors import UsageError
from onnx_passes.plain import PlainDict
from onnx_passes.report.text import plural

HELP = """\
Cut MODEL into parts, at values that are named or by the size of the weights. Run one after the
other, fed by name, they give what MODEL gives.

\b
Examples:
  onnx-passes split model.onnx -o parts --at /layer4/Add_output_0
  onnx-passes split model.onnx -o parts --max-size 500MB
"""
_UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}


@click.command("split", cls=ManyWords, help=HELP, no_args_is_help=True)
@click.argument("model", type=path)
@click.option("-o", "--output", type=path, required=True, help="Folder for the parts.")
@click.option(
    "--at", cls=Several, multiple=True, metavar="NAME...", help="Values at which a part ends."
)
@click.option("--max-size", metavar="SIZE", help="Most weights of a part: 500MB, 1GiB.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, or write it to FILE.")
def command(
    model: Path,
    output: Path,
    at: tuple[str, ...],
    max_size: str | None,
    as_json: bool,
) -> None:
    """Cut a model into parts."""
    from onnx_passes.model.load import load_model
    from onnx_passes.model.save import save_model
    from onnx_passes.surgery.graph_edits import split

    check_folder("-o", output)
    loaded = load_model(model)
    rows: list[PlainDict] = []
    for index, part in enumerate(split(loaded.model, at, most=_bytes(max_size))):
        place = output / f"part_{index}.onnx"
        save_model(part, place, source=loaded)
        rows.append(
            {
                "file": str(place),
                "nodes": len(part.graph),
                "inputs": [str(v.name) for v in part.graph.inputs],
                "outputs": [str(v.name) for v in part.graph.outputs],
            }
        )
    for note in loaded.notes:
        echo_line(f"note: {note}", err=True)
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    for row in rows:
        ports = f"{', '.join(row['inputs']) or 'nothing'} -> {', '.join(row['outputs'])}"
        echo_line(f"{row['file']}  {plural(row['nodes'], 'node')}  {ports}")


def _bytes(text: str | None) -> int | None:
    if text is None:
        return None
    number, unit = text.rstrip("BbKkMmGgIi"), text.lstrip("0123456789.").upper()
    try:
        return int(float(number) * (_UNITS[unit] if unit not in ("", "B") else 1))
    except (KeyError, ValueError) as error:
        raise UsageError(f"{text!r} is not a size", help="write 500MB or 1GiB") from error
