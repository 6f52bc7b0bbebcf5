"""The search as a step of a pipeline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import onnx_ir as ir

from onnx_passes.configs.pipeline_files import config_from_data
from onnx_passes.errors import PassError
from onnx_passes.plain import PlainMapping
from onnx_passes.tuning.budget_search import TuningSearch
from onnx_passes.tuning.search_journal import Record
from onnx_passes.tuning.search_result import lines, to_json
from onnx_passes.tuning.task_from_config import task_of
from onnx_passes.verify.reference_data import ReferenceData


def search_within(
    model: ir.Model,
    config: PlainMapping,
    samples: Sequence[PlainMapping],
    record: str | None,
) -> tuple[ir.Model | None, list[str]]:
    """Search for precisions on behalf of a pass.

    Args:
        model: The model; not changed.
        config: The pipeline file as plain data; its own steps do not count.
        samples: The user's samples.
        record: A folder for decisions; None for none.

    Returns:
        The model that was chosen, None for the one given; and what was found, as text.

    Raises:
        ConfigError: There is no budget, or a setting is wrong.
        PassError: The search was interrupted.
    """
    kept = {"tune", "verify", "engines", "imports"}
    own = {name: value for name, value in config.items() if name in kept}
    reference = ReferenceData(
        [dict(sample) for sample in samples], None, "those of the pipeline"
    )
    task = task_of(model, config_from_data(own), None, reference)
    folder = None if record is None else Path(record)
    result = TuningSearch(task, Record(folder, task.key)).run()
    if result.ended == "interrupted":
        raise PassError("tune: the search was interrupted")
    text = lines(to_json(result))
    same = all(name == "float32" for name in result.best.names.values())
    return None if same else result.model, text
