"""What runs: passes with checked options, groups and checkpoints, and as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from pydantic_core import PydanticSerializationError, to_jsonable_python

from onnx_passes.configs.field_types import Policy
from onnx_passes.configs.format_text import format_steps, format_value
from onnx_passes.configs.sections import OutputTolerance
from onnx_passes.configs.steps import Checkpoint, Group, PassUse, Repeat, Step
from onnx_passes.errors import ConfigError, OnnxPassesError, PassError
from onnx_passes.passes import registry
from onnx_passes.passes.base import Pass
from onnx_passes.passes.options import option_fields, plain_defaults
from onnx_passes.plain import PlainDict, PlainMapping


@dataclass(frozen=True)
class PassStep:
    """A pass to run.

    Attributes:
        cls: Its class.
        options: All its options, checked and converted.
        on_failure: What to do if it fails, where that differs from the pipeline's.
        tolerance: Its tolerance, where that differs from the pipeline's.
        where: Excerpt of the place it was written at.
    """

    cls: type[Pass]
    options: PlainMapping
    on_failure: Policy | None = None
    tolerance: OutputTolerance | None = None
    where: str | None = field(default=None, compare=False, repr=False)

    @property
    def text(self) -> str:
        """The pass and its options, as they read in a pipeline text."""
        return format_steps([_unresolved(self)])

    def make(self, config: PlainDict, state: PlainDict) -> Pass:
        """Create the pass.

        Args:
            config: The pipeline file as plain data.
            state: The data that passes of a run share.

        Raises:
            PassError: Its own constructor raises.
        """
        try:
            return self.cls(config, state, **self.options)
        except (OnnxPassesError, MemoryError):
            raise
        except Exception as error:
            raise PassError(
                f"pass {self.cls.name!r} cannot be made: {type(error).__name__}: {error}",
                where=self.where,
                help="passes are made with the config of the pipeline, its state and their "
                "options; leave __init__ to the base class, and prepare in call()",
            ) from error


@dataclass(frozen=True)
class GroupStep:
    """Steps that belong together.

    Attributes:
        name: What a report calls them.
        steps: The steps.
        repeat: "once", or "fixpoint" to repeat them until the model stops changing.
        limit: Number of rounds after which a fixpoint has failed.
        where: Excerpt of the place it was written at.
    """

    name: str
    steps: tuple[ResolvedStep, ...]
    repeat: Repeat = "once"
    limit: int = 20
    where: str | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class CheckpointStep:
    """A point at which the whole model is held against the original.

    Attributes:
        name: What a report calls it.
        where: Excerpt of the place it was written at.
    """

    name: str
    where: str | None = field(default=None, compare=False, repr=False)


ResolvedStep: TypeAlias = PassStep | GroupStep | CheckpointStep


@dataclass(frozen=True)
class ResolvedPipeline:
    """What runs: the steps, in order."""

    steps: tuple[ResolvedStep, ...]

    @property
    def passes(self) -> tuple[PassStep, ...]:
        """Every pass once, in order, those in groups included."""
        return tuple(_passes(self.steps))


def format_pipeline(pipeline: ResolvedPipeline) -> str:
    """Return a text that :func:`read_pipeline` reads back to the same pipeline.

    Options that have the default of their class are left out.

    Raises:
        ConfigError: An option has a value that no text can express.
    """
    return format_steps([_unresolved(step) for step in pipeline.steps])


def _unresolved(step: ResolvedStep) -> Step:
    if isinstance(step, CheckpointStep):
        return Checkpoint(step.name)
    if isinstance(step, GroupStep):
        inner = tuple(_unresolved(s) for s in step.steps)
        return Group(inner, step.name, step.repeat, step.limit)
    return PassUse(
        registry.unique_name(step.cls), _plain_options(step), step.on_failure, step.tolerance
    )


def _plain_options(step: PassStep) -> PlainDict:
    """Return the options that differ from their defaults, as YAML would hold them."""
    if step.options == plain_defaults(step.cls):
        return {}
    changed = {
        key
        for key, info in option_fields(step.cls).items()
        if info.is_required()
        or step.options[key] != info.get_default(call_default_factory=True)
    }
    try:
        values: PlainDict = to_jsonable_python(
            {key: step.options[key] for key in step.options if key in changed},
            inf_nan_mode="constants",
        )
        format_value(values)
    except (PydanticSerializationError, TypeError) as error:
        raise ConfigError(
            f"an option of {step.cls.name} has a value that no text stands for: {error}",
            where=step.where,
        ) from error
    return values


def _passes(steps: Sequence[ResolvedStep]) -> Iterator[PassStep]:
    for step in steps:
        if isinstance(step, PassStep):
            yield step
        elif isinstance(step, GroupStep):
            yield from _passes(step.steps)
