"""``onnx-passes [run]``: a pipeline over a model."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from onnx_passes.report.model import RunReport


# click keeps the lines of a paragraph that begins with a backspace.
HELP = """\
Run a pipeline over MODEL, then the PASSes, and check each before the next one runs.

Without -o the result is printed as ONNX text.

\b
Exit codes:
  0  all verified
  1  a verification failed
  2  bad usage or config
  3  the model cannot be read, or the engine cannot run it
  4  something could not be verified, and --strict was given

\b
Examples:
  onnx-passes -c optimize -o out.onnx model.onnx
  onnx-passes -o out.onnx model.onnx 'fold-constants{size_limit=1MiB}' eliminate-identity
"""


@click.command("run", help=HELP, no_args_is_help=True)
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("passes", nargs=-1, metavar="[PASS]...")
@click.option("-c", "--config", help="Pipeline file, or the name of a shipped one.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Where the result goes.")
@click.option(
    "-s", "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Override a key."
)
@click.option("--no-verify", is_flag=True, help="Check nothing. The report says so.")
@click.option("--strict", is_flag=True, help="Fail (4) if anything could not be verified.")
@click.option(
    "--rewrite-limit", type=int, metavar="N", help="Stop rewriting after N rewrites."
)
@click.option(
    "--dump-after", metavar="PASS|all|changed", help="Write the model after these passes."
)
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write the report.")
@click.option(
    "--html", "html_path", type=click.Path(path_type=Path), help="Write it as a page."
)
@click.option(
    "--junit", "junit_path", type=click.Path(path_type=Path), help="Write it for a CI system."
)
@click.option("-v", "--verbose", count=True, help="Tell more: each rewrite, each check.")
@click.option("-q", "--quiet", is_flag=True, help="Tell errors only.")
@click.option("--debug", is_flag=True, help="Show Python's traceback of an error.")
def command(
    model: Path,
    passes: Sequence[str],
    config: str | None,
    output: Path | None,
    overrides: Sequence[str],
    no_verify: bool,
    strict: bool,
    rewrite_limit: int | None,
    dump_after: str | None,
    json_path: Path | None,
    html_path: Path | None,
    junit_path: Path | None,
    verbose: int,
    quiet: bool,
    debug: bool,
) -> None:
    """Run a pipeline over MODEL, and write the result and the reports."""
    del debug  # read by the program itself
    from onnx_passes.cli.console import Announcer
    from onnx_passes.config.load import default_config, load_config
    from onnx_passes.io.load import load_model
    from onnx_passes.io.save import save_model, to_text
    from onnx_passes.pipeline.run import run_pipeline

    extra = list(overrides)
    if no_verify:
        extra.append("verify=false")
    if strict:
        extra.append("strict=true")
    if rewrite_limit is not None:
        extra.append(f"limits.rewrites={rewrite_limit}")
    if dump_after is not None:
        extra.append(f"dump_after={_dumped(dump_after)}")
    settings = load_config(config, extra, passes) if config else default_config(extra, passes)
    if settings.logging.verbose:
        verbose = max(verbose, 1)
    loaded = load_model(model)
    announcer = Announcer(sys.stderr, verbosity=-1 if quiet else verbose)
    with announcer:
        run = run_pipeline(
            loaded.model,
            settings,
            name=str(model),
            instruments=[announcer],
            notes=loaded.notes,
        )
        report = run.report
        try:
            if run.usable and output is not None:
                save_model(
                    run.model,
                    output,
                    external_data=settings.save.external_data,
                    size_threshold=settings.save.size_threshold,
                    source=loaded,
                )
                report.output = str(output)
        finally:
            write_reports(report, json_path, html_path, junit_path)
        announcer.close(report)
    if run.usable and output is None:
        click.echo(to_text(run.model))
    raise click.exceptions.Exit(report.exit_code)


def write_reports(
    report: RunReport, json_path: Path | None, html_path: Path | None, junit_path: Path | None
) -> None:
    """Write a report in the forms asked for."""
    if json_path is not None:
        from onnx_passes.report.json import write_json

        write_json(report, json_path)
    if html_path is not None:
        from onnx_passes.report.html import write_html

        write_html(report, html_path)
    if junit_path is not None:
        from onnx_passes.report.junit import write_junit

        write_junit(report, junit_path)


def _dumped(text: str) -> str:
    return text if text in ("all", "changed", "none") else f"[{text}]"
