"""The whole data set of a task, as a stream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import onnx_ir as ir

from onnx_passes.configs.data_spec import DataSpec
from onnx_passes.configs.engine_configs import options_of
from onnx_passes.configs.schema import DEFAULT_ENGINES, PipelineConfig
from onnx_passes.contracts import metrics
from onnx_passes.data.dataset import DataSet
from onnx_passes.data.evaluation_job import EngineChoice
from onnx_passes.data.input_binding import DataInterface
from onnx_passes.data.measures import make_metric
from onnx_passes.data.plan import IncompleteDataError, make_plan
from onnx_passes.data.workers import Executor, choose_executor
from onnx_passes.errors import ConfigError, ReferenceDataError
from onnx_passes.runtime.engine_base import Feeds
from onnx_passes.tuning.all_samples import Stream, Watch


@dataclass(frozen=True)
class DataSource:
    """A whole data set, and what runs models over it.

    Attributes:
        spec: The data set.
        executor: Makes what runs the shards.
        allow_mixed: Whether workers with different processors may run models in 8 bits.
        journals: Folder of finished shards, from which a killed run continues; None for none.
        watch: Shows how far a run is; see ``Stream``.
    """

    spec: DataSpec
    executor: Callable[[], Executor]
    allow_mixed: bool = False
    journals: Path | None = None
    watch: Watch | None = None


def source_of(config: PipelineConfig) -> DataSource | None:
    """Return the whole data set that a pipeline file names; None if there is none.

    Raises:
        UsageError: It has no source, or two.
    """
    data = config.reference.data
    if data is None:
        return None
    base, allow_nan = str(config.folder or Path()), config.reference.allow_nan
    return DataSource(
        data.spec(base, early=False, allow_nan=allow_nan),
        lambda: choose_executor(data.jobs, data.scheduler),
    )


def make_stream(model: ir.Model, config: PipelineConfig, source: DataSource) -> Stream:
    """Plan a data set, and choose the engine that runs over it.

    Args:
        model: As :func:`onnx_passes.tuning.groups.prepare` returns it.
        config: The file: its engines, imports and metrics count.
        source: The data set.

    Raises:
        ConfigError: A metric needs labels, and there are none.
        ReferenceDataError: The data does not fit the model.
        UsageError: A metric needs all samples at once, or the engine has no number of threads.
    """
    plan = make_plan(source.spec, DataInterface.of(model))
    for name in config.verify.metrics:
        make_metric(name)
        if metrics.lookup(name).expects == "labels" and plan.binding.labels is None:
            raise ConfigError(
                f"the metric {name!r} needs labels, and the data has none",
                where=config.where("verify", "metrics", name),
                help="name their column: labels: COLUMN, or --labels",
            )
    if config.engines == DEFAULT_ENGINES:
        choice = EngineChoice("onnxruntime", {"optimization": "all"})
    else:
        use = config.engines[0]
        choice = EngineChoice(use.name, options_of(config, use))
        choice.check_threads()
    return Stream(
        plan,
        choice,
        source.executor,
        source.allow_mixed,
        config.imports,
        source.journals,
        source.watch,
    )


def draw_batches(stream: Stream, count: int) -> list[Feeds]:
    """Return samples from all over a data set, as the model is fed with them.

    Args:
        stream: The data set.
        count: How many samples, at most; rounded up to whole batches.

    Raises:
        IncompleteDataError: They cannot be read.
    """
    try:
        shard = DataSet(stream.plan).sample(count)
        return [feed for part in shard.batches() for feed in part.feeds]
    except ReferenceDataError as error:
        where = f" ({error.where})" if error.where else ""
        raise IncompleteDataError(
            f"a part of the data set could not be evaluated: {error.message}{where}",
            help=error.help,
        ) from error
    except OSError as error:
        raise IncompleteDataError(
            f"a part of the data set could not be evaluated: {error}",
            help="mend that part, or leave it out of the data",
        ) from error
