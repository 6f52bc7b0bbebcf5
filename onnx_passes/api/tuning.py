"""Choose the precision of each part of a model."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import onnx
import onnx_ir as ir

from onnx_passes.api.models import AnyModel, notebook_frame, take_model, take_samples
from onnx_passes.configs.pipeline_files import config_from_data, load_config
from onnx_passes.model.save import save_model, to_proto
from onnx_passes.plain import Plain, PlainDict
from onnx_passes.report.text import plural
from onnx_passes.report.tune_page import tune_page
from onnx_passes.runtime.engine_base import Feeds
from onnx_passes.tuning.budget_search import TuningSearch
from onnx_passes.tuning.data_source import source_of
from onnx_passes.tuning.search_journal import Record
from onnx_passes.tuning.search_result import inspector, lines, to_json
from onnx_passes.tuning.search_task import SearchResult
from onnx_passes.tuning.task_from_config import task_of
from onnx_passes.verify.feeds import check_feeds
from onnx_passes.verify.reference_data import ReferenceData


@dataclass(frozen=True)
class TuneResult:
    """What a search found.

    Attributes:
        found: The search, in full.
        name: Name of the model.
    """

    found: SearchResult
    name: str = "model"

    @property
    def model(self) -> ir.Model:
        """The best model that keeps the budget; the original if no other does."""
        return self.found.model

    @property
    def formats(self) -> dict[str, str]:
        """The format of each group."""
        return dict(self.found.best.names)

    @cached_property
    def data(self) -> PlainDict:
        """All but the model, as ``--json`` has it."""
        return to_json(self.found)

    def proto(self) -> onnx.ModelProto:
        """Return the model as ONNX's own."""
        return to_proto(self.model)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the model as ``-o`` does, and return where it is.

        Raises:
            ModelError: The file cannot be written.
            VerificationError: What was read back does not hold the formats that were chosen.
        """
        goal = Path(path)
        save_model(self.model, goal, inspect=inspector(self.found))
        return goal

    def html(self) -> str:
        """Return the result as a page with a plot of error against cost."""
        return tune_page(self.data, self.name)

    def __str__(self) -> str:
        """Return what ``onnx-passes tune`` prints."""
        return "\n".join(lines(self.data))

    def __repr__(self) -> str:
        """Return the gain on one line."""
        cost = self.data["cost"]
        saved = 1 - cost["chosen"] / cost["original"] if cost["original"] else 0.0
        tried = plural(len(self.found.tried), "model")
        return f"<{self.found.task.objective}: {saved:.1%} less, {tried} tried>"

    def _repr_html_(self) -> str:
        """Return the page for a notebook, in a frame."""
        return notebook_frame(self.html(), "tune")


def tune(
    model: AnyModel,
    pipeline: Plain,
    *,
    inputs: Feeds | Sequence[Feeds] | None = None,
    labels: Sequence[Feeds] | None = None,
    record: str | os.PathLike[str] | None = None,
    progress: Callable[[str], object] | None = None,
) -> TuneResult:
    """Choose the precision of each part of a model, within a budget of what may be lost.

    Args:
        model: A path, an ``onnx.ModelProto`` or an ``onnx_ir.Model``; it stays as it is.
        pipeline: The path of a YAML file, or a mapping as such a file holds it: the budget
            (``verify.metrics``, ``tune.flips``), the formats and the objective (``tune``).
        inputs: Samples, arrays by input name; those of the pipeline if None.
        labels: What is expected of each sample, by output name.
        record: A folder for every score and decision; a later search continues from it.
        progress: Called with a sentence on each step.

    Returns:
        The result. Without a better model it holds the original.

    Raises:
        ConfigError: The pipeline is wrong, has no budget, or there is no data.
        ReferenceDataError: The data does not fit the model.
        ModelError: The model cannot be read.
        EngineError: The engine does not run the original.
        IncompleteDataError: A part of a data set could not be evaluated.
    """
    if isinstance(pipeline, Mapping):
        config = config_from_data(pipeline)
    else:
        config = load_config(pipeline, ())
    taken, name, _ = take_model(model)
    source = None if inputs is not None else source_of(config)
    reference = None
    if inputs is not None:
        samples = take_samples(inputs, taken)
        for sample in samples:
            check_feeds(sample, taken, {})
        expected = None if labels is None else [dict(each) for each in labels]
        reference = ReferenceData(samples, expected, "samples of the caller")
    task = task_of(taken, config, source, reference)
    folder = None if record is None else Path(record)
    search = TuningSearch(task, Record(folder, task.key), progress or (lambda text: None))
    return TuneResult(search.run(), name)
