"""``onnx-passes view``: the graph of a model as a page."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from onnx_passes.cli.common import FILE
from onnx_passes.cli.output import check_destinations, echo_line, echo_lines

if TYPE_CHECKING:
    import onnx_ir as ir

    from onnx_passes.bench.model_page import Interval

HELP = """\
Write the graph of MODEL as a page for a browser: one file, which needs no network.

Nodes are collapsed by scope; click a group to open it. The page finds nodes and values by
name, and colours them by operator, format, range, or (with --report) by what a run has changed
and the evidence for it.

\b
Examples:
  onnx-passes view model.onnx
  onnx-passes view out.onnx --report run.json -o out.html
  onnx-passes view model.onnx --load-inputs inputs.npz
"""


@click.command("view", help=HELP, no_args_is_help=True)
@click.argument("model")
@click.option(
    "-o",
    "--output",
    type=FILE,
    metavar="FILE",
    help="Where to write the page; by default MODEL.html in the working folder.",
)
@click.option(
    "--report",
    type=FILE,
    metavar="FILE",
    help="Report of a run (--json FILE) that read or wrote MODEL.",
)
@click.option(
    "--load-inputs",
    metavar="FILE",
    help="Ranges are those seen on these inputs, on ONNX Runtime, instead of bounds.",
)
def command(
    model: str, output: Path | None, report: Path | None, load_inputs: str | None
) -> None:
    """Write the graph of a model as a page."""
    from onnx_passes.bench.model_page import PageContent, facts_of, marks_of, to_page
    from onnx_passes.model.inference import annotate
    from onnx_passes.model.load import load_model
    from onnx_passes.report.json import read_json
    from onnx_passes.report.report_files import write_text

    loaded = load_model(model)
    place = output or Path(f"{Path(model).stem}.html")
    read = {"the model itself": [loaded.path]}
    read |= {"the report": [report]} if report is not None else {}
    check_destinations(None, {"-o": place}, read)
    annotate(loaded.model)
    marks = {} if report is None else marks_of(read_json(report), loaded.model)
    ranges, told = (
        _bounds(loaded.model) if load_inputs is None else _seen(loaded.model, load_inputs)
    )
    data = PageContent(ranges, marks).of(loaded.model)
    write_text(to_page(Path(model).name, data, facts_of(loaded.model), told), place)
    echo_lines((f"note: {note}" for note in loaded.notes), err=True)
    echo_line(f"wrote {place}")


def _bounds(model: ir.Model) -> tuple[dict[str, Interval], str]:
    from onnx_passes.errors import OnnxPassesError
    from onnx_passes.passes.analysis.value_ranges import ranges_of

    try:
        found = ranges_of(model, {}, {}).intervals
    except OnnxPassesError as error:
        return {}, f"none, since {error.message}"
    return found, "bounds by interval arithmetic, for any input"


def _seen(model: ir.Model, file: str) -> tuple[dict[str, Interval], str]:
    import numpy as np

    from onnx_passes.runtime.ort import OnnxRuntimeEngine
    from onnx_passes.verify.recording import expose_values
    from onnx_passes.verify.saved import read_samples

    samples = read_samples(file)
    found: dict[str, Interval] = {}
    with OnnxRuntimeEngine().prepare(expose_values(model)) as session:
        for sample in samples:
            for name, array in {**sample, **session.run(sample)}.items():
                if not isinstance(array, np.ndarray) or array.dtype.kind not in "biuf":
                    continue
                if not array.size or not np.isfinite(array).any():
                    continue
                finite = array[np.isfinite(array)]
                low, high = found.get(name, (np.inf, -np.inf))
                found[name] = (min(low, float(finite.min())), max(high, float(finite.max())))
    count = len(samples)
    return found, f"seen on {count} sample{'' if count == 1 else 's'} of {Path(file).name}"
