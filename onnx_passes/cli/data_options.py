"""Options of commands that run over a data set, and what they mean."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

import click

from onnx_passes.cli.common import file, flag, option, several
from onnx_passes.cli.word_syntax import Several, SeveralFiles, read_range
from onnx_passes.errors import UsageError
from onnx_passes.plain import PlainMapping

if TYPE_CHECKING:
    from onnx_passes.configs.data_spec import DataSpec
    from onnx_passes.data.demand import Demand
    from onnx_passes.data.evaluation_job import EngineChoice
    from onnx_passes.data.workers import Executor

F = TypeVar("F", bound=Callable[..., object])

DATA = (
    several(
        "--data SOURCE...",
        "A whole data set: folders, files, patterns, or MODULE:FUNCTION.",
        cls=SeveralFiles,
    ),
    several(
        "--columns INPUT=COLUMN...",
        "Columns of the data that feed inputs; by default those of the same name.",
        cls=Several,
    ),
    option("--labels COLUMN", "The column of labels."),
    option("--prepare MODULE:FUNCTION", "Transforms each sample."),
    option("--batch", "Samples fed at once; default 1.", type=click.IntRange(1)),
    option("--shuffle SEED", "Seed of a shuffle.", type=click.IntRange(0)),
    option("--limit", "Use at most this many samples.", type=click.IntRange(1)),
    option("--shard", "Samples evaluated at once [8192].", type=click.IntRange(1)),
    option(
        "--accuracy drop=0.5%,...",
        "The accuracy that may be lost; with confidence=95% and early, to stop once the "
        "verdict is known.",
    ),
    several(
        "--metric metrics NAME=LOW:HIGH",
        "A metric and its range; registered, or MODULE:CLASS.",
    ),
    option("--scores OUTPUT", "The output that holds class scores."),
    option("--jobs", "Worker processes; default none.", type=click.IntRange(1)),
    option("--scheduler ADDRESS", "The scheduler of a Dask cluster: tcp://host:8786."),
    flag("--mixed-cpus", "Allow different processors for 8-bit models."),
    file("--journal FILE", "Continue from, and extend."),
    file("--save-worst DIR", "Write the worst samples as inputs."),
)


def data_options(function: F) -> F:
    """Add the options of a run over a data set to a command."""
    return add_options(DATA)(function)


def add_options(options: Sequence[Callable[[F], F]]) -> Callable[[F], F]:
    """Return what adds options to a command, in order."""

    def add(function: F) -> F:
        for each in reversed(options):
            function = each(function)
        return function

    return add


def refuse_without_data(given: PlainMapping) -> None:
    """Check that options of a data set come with one."""
    for param in click.command()(data_options(lambda: None)).params:
        if param.name != "data" and given.get(str(param.name)) not in (None, False, ()):
            raise UsageError(f"{param.opts[0]} needs a data set", help="give --data SOURCE")


def read_spec(given: PlainMapping) -> DataSpec:
    """Return the data set that options describe."""
    from onnx_passes.configs.data_spec import DataSpec

    sources = tuple(given["data"])
    named = _pairs((s for s in sources if _is_pair(s)), "--data")
    return DataSpec(
        sources=tuple(source for source in sources if not _is_pair(source)),
        named=named,
        columns=_pairs(given["columns"], "--columns"),
        labels=given["labels"],
        prepare=given["prepare"],
        batch=given["batch"],
        shuffle=0 if given["shuffle"] is None and _is_early(given) else given["shuffle"],
        limit=given["limit"],
        shard=given["shard"],
        early=_is_early(given),
        allow_nan=True,
    )


def _is_early(given: PlainMapping) -> bool:
    # What is stored in an order, by class for example, says nothing after its first part.
    return "early" in str(given.get("accuracy") or "")


def _is_pair(source: str) -> bool:
    name, equals, _ = source.partition("=")
    return bool(equals) and name.isidentifier()


def _pairs(texts: Iterable[str], option: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not (name and equals and value):
            raise UsageError(f"{option} {text!r} cannot be read", help="write NAME=COLUMN")
        found[name] = value
    return found


def read_rule(given: PlainMapping) -> Demand:
    """Return what options demand."""
    from onnx_passes.configs.data_spec import read_share
    from onnx_passes.data.demand import Accuracy, Demand

    accuracy = None
    if given["accuracy"] is not None:
        drop, confidence, early = 0.0, 0.95, False
        for part in str(given["accuracy"]).split(","):
            key, _, value = part.strip().partition("=")
            if key == "drop":
                drop = read_share(value, "--accuracy drop")
            elif key == "confidence":
                confidence = read_share(value, "--accuracy confidence")
            elif key == "early" and not value:
                early = True
            else:
                raise UsageError(
                    f"--accuracy: {part!r} cannot be read",
                    help="write drop=0.5%,confidence=95%,early",
                )
        accuracy = Accuracy(drop, confidence, early)
    confidence = accuracy.confidence if accuracy is not None else 0.95
    return Demand(accuracy, dict(map(read_range, given["metrics"])), confidence)


def make_executor(given: PlainMapping) -> Executor:
    """Return what runs the shards."""
    from onnx_passes.data.workers import choose_executor

    return choose_executor(given["jobs"], given["scheduler"])


def read_engine_choice(text: str, *, isolate: bool = False) -> EngineChoice:
    """Read an engine, so that each worker can make it.

    Options of the engine win over ``isolate``. UsageError if it has no number of threads.
    """
    from onnx_passes.configs.engine_text import read_engine
    from onnx_passes.data.evaluation_job import EngineChoice

    choice = EngineChoice(*read_engine(text, isolate=True if isolate else None))
    choice.check_threads()
    return choice
