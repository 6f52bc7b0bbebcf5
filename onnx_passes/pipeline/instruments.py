"""Hooks around every pass, as in MLIR's and TVM's pass managers."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import onnx_ir as ir

from onnx_passes.model.save import save_model
from onnx_passes.passes.base import Pass
from onnx_passes.report.run_report import PassReport, RunReport


class Instrument:
    """Something that looks on. Subclass it and override what is wanted.

    An instrument must not change the model: what it changes would be charged to the pass.
    """

    def start(self, report: RunReport, model: ir.Model) -> None:
        """Called once, before the first pass.

        Args:
            report: The report of the run, still empty.
            model: The model as it was loaded.
        """

    def before_pass(self, pass_: Pass, model: ir.Model, report: PassReport) -> None:
        """Called before a pass runs.

        Args:
            pass_: The pass.
            model: The model that it gets.
            report: Its report, still empty.
        """

    def after_pass(self, pass_: Pass, model: ir.Model, report: PassReport) -> None:
        """Called when a pass has run and was checked; ``model`` is what the next one gets.

        Args:
            pass_: The pass.
            model: The model that the next pass gets.
            report: Its report.
        """

    def finish(self, report: RunReport, model: ir.Model) -> None:
        """Called once, when the run has ended, however it did.

        Args:
            report: The report of the run.
            model: The result.
        """


class Dump(Instrument):
    """Writes the model after passes, as ``DIR/0003-fold-constants.onnx``.

    Args:
        which: "all", "changed" for the passes that changed it, or names of passes.
        folder: Made if it is missing.
    """

    def __init__(self, which: Literal["all", "changed"] | list[str], folder: Path) -> None:
        self.which, self.folder = which, folder

    def after_pass(self, pass_: Pass, model: ir.Model, report: PassReport) -> None:
        wanted = (
            self.which == "all"
            or (self.which == "changed" and report.changed)
            or (isinstance(self.which, list) and pass_.name in self.which)
        )
        if wanted:
            self.folder.mkdir(parents=True, exist_ok=True)
            save_model(model, self.folder / f"{report.index:04d}-{pass_.name}.onnx")


class SeedLogging(Instrument):
    """What the seed system's ``logging`` section asks for.

    Args:
        checkpoint: Name of a file, written anew before and after each pass with that prefix.
        intermediates: Folder that gets the model after each pass.
        folder: Where relative paths start.
    """

    def __init__(
        self, checkpoint: str | None, intermediates: str | None, folder: Path
    ) -> None:
        self.checkpoint = folder / checkpoint if checkpoint else None
        self.intermediates = folder / intermediates if intermediates else None

    def before_pass(self, pass_: Pass, model: ir.Model, report: PassReport) -> None:
        if self.checkpoint:
            save_model(model, self.checkpoint.with_name(f"before-{self.checkpoint.name}"))

    def after_pass(self, pass_: Pass, model: ir.Model, report: PassReport) -> None:
        if self.checkpoint:
            save_model(model, self.checkpoint.with_name(f"after-{self.checkpoint.name}"))
        if self.intermediates:
            self.intermediates.mkdir(parents=True, exist_ok=True)
            name = f"{report.index:08d}-{type(pass_).__name__}.onnx"
            save_model(model, self.intermediates / name)
