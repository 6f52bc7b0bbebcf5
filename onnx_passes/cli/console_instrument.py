"""The console reporter as an instrument of the pipeline."""

from __future__ import annotations

from pathlib import Path
from typing import Self, TextIO

import onnx_ir as ir

from onnx_passes.passes.base import Pass
from onnx_passes.pipeline.pass_execution import Instrument
from onnx_passes.report.console import ConsoleReporter
from onnx_passes.report.run_report import PassReport, RunReport


class Announcer(Instrument):
    """Prints on a stream what the pipeline does."""

    def __init__(self, stream: TextIO, *, verbosity: int) -> None:
        """Print nothing yet."""
        self.reporter = ConsoleReporter(stream, verbosity=verbosity)

    def __enter__(self) -> Self:
        self.reporter.__enter__()
        return self

    def __exit__(self, *how: object) -> None:
        """Give the terminal back."""
        self.reporter.__exit__(*how)

    def start(self, report: RunReport, model: ir.Model) -> None:
        self.reporter.start(report)

    def before_pass(self, pass_: Pass, model: ir.Model, report: PassReport) -> None:
        self.reporter.pass_started(report)

    def after_pass(self, pass_: Pass, model: ir.Model, report: PassReport) -> None:
        self.reporter.pass_finished(report)

    def close(self, report: RunReport, page: Path | None) -> None:
        """Print how the run ended, once its output and its page, if any, are written."""
        self.reporter.finished(report, page)
