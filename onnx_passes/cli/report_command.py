"""``onnx-passes report``: a saved run, shown again and in other forms."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from onnx_passes.cli.common import FILE

HELP = """\
Show a RUN that 'onnx-passes run --json RUN' saved; no model is run.

\b
Examples:
  onnx-passes report run.json --html run.html
  onnx-passes report run.json --junit run.xml
"""


@click.command("report", help=HELP, no_args_is_help=True)
@click.argument("run", type=FILE)
@click.option("--json", "json_path", type=FILE, help="Write the report.")
@click.option("--html", "html_path", type=FILE, help="Write it as a page.")
@click.option("--junit", "junit_path", type=FILE, help="Write it for a CI system.")
@click.option("-v", "--verbose", count=True, help="Print more: each check, each output.")
@click.option("-q", "--quiet", is_flag=True, help="Print errors only.")
def command(
    run: Path,
    json_path: Path | None,
    html_path: Path | None,
    junit_path: Path | None,
    verbose: int,
    quiet: bool,
) -> None:
    """Show a saved run, and write it in other forms."""
    from onnx_passes.cli.run_command import write_reports
    from onnx_passes.report.console import ConsoleReporter
    from onnx_passes.report.json import read_json

    report = read_json(run)
    with ConsoleReporter(sys.stdout, verbosity=-1 if quiet else verbose) as reporter:
        reporter.replay(report)
    write_reports(report, (json_path, html_path, junit_path))
    raise click.exceptions.Exit(report.exit_code)
