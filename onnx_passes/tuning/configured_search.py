"""A search from a pipeline file: its task, and the search as a step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from onnx_passes.configs.engine_configs import resolve_engines
from onnx_passes.configs.pipeline_files import config_from_data
from onnx_passes.configs.resolve import resolve
from onnx_passes.configs.schema import DEFAULT_ENGINES, PipelineConfig
from onnx_passes.configs.steps import PassUse, read_steps
from onnx_passes.errors import ConfigError, PassError, did_you_mean
from onnx_passes.model.walk import weight_bytes
from onnx_passes.passes.base import Pass
from onnx_passes.passes.precision._node_selection import OnSomeNodes
from onnx_passes.passes.registry import lookup
from onnx_passes.plain import Plain, PlainMapping
from onnx_passes.runtime.engine_base import Engine, Feeds
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.tuning.budget_search import TuningSearch
from onnx_passes.tuning.groups import (
    BUILTIN,
    FLOAT32,
    Format,
    FormatGroup,
    partition,
    prepare,
    raise_opset,
)
from onnx_passes.tuning.loss_budget import FlipLimit, LossBudget
from onnx_passes.tuning.search_record import Task, lines, to_json
from onnx_passes.verify.reference_data import ReferenceData, load_reference

_LARGE = 1 << 28
"""Bytes of weights from which on sessions of a model share no memory."""
_CHANGES = ("convert-", "quantize-")
"""How the names of passes begin that give a part its format."""


def task_of(
    model: ir.Model, config: PipelineConfig, reference: ReferenceData | None = None
) -> Task:
    """Return what a pipeline file asks.

    `reference` replaces the data of the file; the model is not changed. ConfigError if the
    file is wrong or lacks data or a budget, ReferenceDataError if the data does not fit.
    """
    if config.passes:
        raise ConfigError(
            "tune runs no passes but those of its formats",
            where=config.where("passes"),
            help="run the passes first, or make tune one of the steps",
        )
    resolve(config)  # imports the modules that may register passes, metrics and engines
    asked = config.tune
    if config.verify.accuracy is not None:
        raise ConfigError(
            "tune holds models to metrics and flips, not to verify.accuracy",
            where=config.where("verify", "accuracy"),
            help="give verify.metrics: {accuracy: [0.97, 1]}, or tune.flips: {most: 1 %}",
        )
    if reference is None:
        reference = load_reference(config.reference.model_dump(), model, config.folder)
    if not reference.samples:
        raise ConfigError(
            "there is no data, and what a model loses on random inputs says nothing",
            where=config.where("reference"),
            help="give reference.inputs; reference.data is for the check at the end of a run",
        )
    arrays = [value for sample in reference.samples for value in sample.values()]
    if not any(isinstance(a, np.ndarray) and a.size for a in arrays):
        raise ConfigError(
            "the data holds no samples",
            where=config.where("reference", "inputs"),
            help="give arrays with at least one sample",
        )
    if not config.verify.metrics and asked.flips is None:
        raise ConfigError(
            "there is no budget",
            where=config.where("tune"),
            help="give verify.metrics, such as {kl_divergence: [0, 0.01]}, or tune.flips",
        )
    formats = _formats(asked.formats, config)
    for name, group in asked.groups.items():
        for wanted in group.formats:
            if wanted not in formats:
                raise ConfigError(
                    f"the group {name!r} has an unknown format {wanted!r}",
                    where=config.where("tune", "groups", name),
                    help=did_you_mean(wanted, formats, f"known are {', '.join(formats)}"),
                )
    given = prepare(model)
    prepared, notes = raise_opset(given, formats.values())
    names = [name for name in formats if name != FLOAT32]
    groups = {
        name: (group.model_dump(exclude={"formats"}), group.formats)
        for name, group in asked.groups.items()
    }
    flips = None
    if asked.flips is not None:
        section, scores = asked.flips, asked.flips.output
        ends = [str(value.name) for value in model.graph.outputs]
        if scores is not None and scores not in ends:
            raise ConfigError(
                f"the model has no output {scores!r}, which holds the scores",
                where=config.where("tune", "flips", "output"),
                help=did_you_mean(scores, ends, f"known are {', '.join(ends)}"),
            )
        flips = FlipLimit(section.most, section.confidence, scores, asked.evaluations)
    labels = [
        [np.asarray(value) for value in sample.values()] for sample in reference.expected or ()
    ]
    return Task(
        prepared,
        _groups(prepared, names, groups, config),
        formats,
        _engine(config, prepared),
        asked.objective,
        LossBudget(dict(config.verify.metrics), flips, labels),
        reference.samples,
        take_few(prepared, reference.samples, asked.samples),
        asked.evaluations,
        asked.seconds or math.inf,
        judges=_judges(config),
        gap=asked.gap,
        given=given,
        notes=notes,
    )


def _groups(
    model: ir.Model,
    formats: Sequence[str],
    wanted: Mapping[str, tuple[PlainMapping, Sequence[str]]],
    config: PipelineConfig,
) -> list[FormatGroup]:
    """Return the groups; see ``onnx_passes.tuning.groups.partition``."""
    try:
        return partition(model, formats, wanted, config.tune.most_groups)
    except ConfigError as error:
        where = config.where("tune", "groups")
        raise ConfigError(error.message, where=where, help=error.help) from error


def _formats(listed: Sequence[Plain], config: PipelineConfig) -> dict[str, Format]:
    found = {FLOAT32: BUILTIN[FLOAT32]}
    for index, item in enumerate(listed):
        if isinstance(item, str):
            if item not in BUILTIN:
                raise ConfigError(
                    f"there is no format {item!r}",
                    where=config.where("tune", "formats", index),
                    help=did_you_mean(item, BUILTIN, f"known are {', '.join(BUILTIN)}"),
                )
            found[item] = BUILTIN[item]
            continue
        ((name, use),) = item.items()
        found[name] = _own(str(name), use, config, index)
    return found


def _own(name: str, use: object, config: PipelineConfig, index: int) -> Format:
    """Return a format that the user has made of passes and their options."""
    where = config.where("tune", "formats", index)
    if name == FLOAT32:
        raise ConfigError(
            f"{FLOAT32} is the format of what stays as it is",
            where=where,
            help="give the format another name",
        )
    listed = use if isinstance(use, list | tuple) else [use]
    steps: list[tuple[str, PlainMapping]] = []
    for step in read_steps(listed, config.tree, ("tune", "formats", index, name)):
        classes = lookup(step.name, where=where) if isinstance(step, PassUse) else ()
        if not isinstance(step, PassUse) or len(classes) != 1:
            raise ConfigError(
                f"a step of the format {name!r} is not one pass",
                where=where,
                help="write {name: {quantize-weights: {weights: int4, block: 64}}}",
            )
        _check_step(name, classes[0], step.options, where)
        steps.append((classes[0].name, step.options))
    mains = [i for i, (one, _) in enumerate(steps) if one.startswith(_CHANGES)]
    if len(mains) != 1:
        raise ConfigError(
            f"the format {name!r} has {len(mains)} passes that round weights, not one",
            where=where,
            help="it may have others before it (smooth-activations) and behind it "
            "(correct-biases)",
        )
    place = mains[0]
    main, given = steps[place]
    made: Plain = lookup(main)[0](**given, nodes=["*"])
    kinds = [getattr(made, part, None) for part in ("weights", "activations")]
    bits = [int("".join(c for c in kind if c.isdigit())) if kind else 0 for kind in kinds]
    if main.startswith("convert-"):
        bits = [16, 16]
    data = bits[1] or (8 if main == "quantize-dynamic" else 32)
    around = tuple(steps[:place]), tuple(steps[place + 1 :])
    return Format(name, main, given, bits[0] or 32, data, *around)


def _check_step(name: str, cls: type[Pass], options: PlainMapping, where: str | None) -> None:
    """Check a pass of a format and its options as far as the search cares."""
    if not issubclass(cls, OnSomeNodes):
        raise ConfigError(
            f"the format {name!r} has the pass {cls.name}, which changes whole models",
            where=where,
            help="a format takes passes that have the option 'nodes', such as quantize-static",
        )
    if "nodes" in options:
        raise ConfigError(
            f"the format {name!r} names nodes",
            where=where,
            help="tune.groups says which nodes may have a format",
        )


def _judges(config: PipelineConfig) -> list[Engine]:
    """Return the engines behind the first, which have to build what is chosen."""
    if config.engines == DEFAULT_ENGINES:
        return []
    return [entry.engine for entry in resolve_engines(config)[1:]]


def _engine(config: PipelineConfig, model: ir.Model) -> Engine:
    if config.engines == DEFAULT_ENGINES:
        # What users run: all its optimisations. What a session has left stays in the arena,
        # its copies of the weights among them, where passes need the memory. Weights in a
        # layout of kernels are another copy, which counts only for time.
        small = weight_bytes(model) < _LARGE
        timed = config.tune.objective == "time"
        return OnnxRuntimeEngine(
            optimization="all", memory_arena=small, prepacking=small or timed
        )
    return resolve_engines(config)[0].engine


def take_few(model: ir.Model, feeds: Sequence[Feeds], count: int) -> list[Feeds]:
    """Return samples from all over some feeds.

    Rows are taken if the model says that its inputs share a first dimension of any size; else
    whole feeds are taken.
    """
    dims = {_first(value) for value in model.graph.inputs if str(value.name) in feeds[0]}
    if len(dims) != 1 or None in dims:
        return [feeds[number] for number in _spread(len(feeds), count)]
    sizes = [min(len(np.asarray(value)) for value in feed.values()) for feed in feeds]
    ends, numbers = np.cumsum(sizes), _spread(sum(sizes), count)
    found: list[Feeds] = []
    for feed, size, end in zip(feeds, sizes, ends, strict=True):
        rows = [number - (end - size) for number in numbers if end - size <= number < end]
        if rows:
            found.append({name: np.asarray(value)[rows] for name, value in feed.items()})
    return found


def _spread(total: int, count: int) -> list[int]:
    """Return at most `count` numbers below `total`, evenly spread, and at least one."""
    return [int(n) for n in np.linspace(0, total - 1, max(1, min(count, total))).round()]


def _first(value: ir.Value) -> str | None:
    dim = value.shape[0] if value.shape is not None and len(value.shape) else None
    return dim.value if isinstance(dim, ir.SymbolicDim) else None


def search_within(
    model: ir.Model, config: PlainMapping, samples: Sequence[PlainMapping]
) -> tuple[ir.Model | None, list[str]]:
    """Search for precisions on behalf of a pass.

    `config` is a pipeline file whose own steps do not count. Return the model, None for the
    one given, and what was found as text. ConfigError without a budget or for a wrong setting,
    PassError if the search was interrupted.
    """
    own = {name: config[name] for name in ("tune", "engines", "imports") if name in config}
    # The end of the run judges the accuracy, over all of its data.
    limits = config.get("verify", {})
    own["verify"] = {name: value for name, value in limits.items() if name != "accuracy"}
    reference = ReferenceData(
        [dict(sample) for sample in samples], None, "those of the pipeline"
    )
    result = TuningSearch(task_of(model, config_from_data(own), reference)).run()
    if result.ended == "interrupted":
        raise PassError("tune: the search was interrupted")
    text = lines(to_json(result))
    same = all(name == "float32" for name in result.best.names.values())
    return None if same else result.model, text
