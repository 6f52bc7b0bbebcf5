"""The steps of a pipeline as a user wrote them; names are not looked up yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, Strict

from onnx_passes.configs.field_types import Policy
from onnx_passes.configs.section import Section
from onnx_passes.configs.sections import OutputTolerance
from onnx_passes.configs.source import Span
from onnx_passes.configs.yaml_tree import Path, Tree
from onnx_passes.plain import PlainMapping

Repeat = Literal["once", "fixpoint"]

DEFAULT_LIMIT = 20


@dataclass(frozen=True)
class Places:
    """Where a step was written.

    Attributes:
        name: Its name.
        keys: The names of its options.
        values: The values of its options.
    """

    name: Span | None = None
    keys: Mapping[str, Span] = field(default_factory=dict)
    values: Mapping[str, Span] = field(default_factory=dict)

    @classmethod
    def of(cls, name: Span | None, tree: Tree, path: Path = ()) -> Places:
        """Return the places of a step whose options stand at ``path`` in ``tree``.

        Args:
            name: Where the name of the step is.
            tree: Places of all keys and values.
            path: Where the options are.
        """
        size = len(path) + 1
        keys, values = (
            {str(p[-1]): s for p, s in table.items() if len(p) == size and p[:-1] == path}
            for table in (tree.keys, tree.values)
        )
        return cls(name, keys, values)

    def option(self, key: str, *, value: bool = False) -> Span | None:
        """Return where an option is, or its value, or else the step.

        Args:
            key: Name of the option.
            value: Whether the place of the value is wanted, and not that of the key.
        """
        return (self.values if value else self.keys).get(key, self.name)


@dataclass(frozen=True)
class PassUse:
    """A pass, or a registered group of passes, with its options.

    Attributes:
        name: Name of the pass or group.
        options: Options given here, not yet checked.
        on_failure: What to do if it fails, where that differs from the pipeline's.
        tolerance: Its tolerance, where that differs from the pipeline's.
        places: Where it was written.
    """

    name: str
    options: PlainMapping = field(default_factory=dict)
    on_failure: Policy | None = None
    tolerance: OutputTolerance | None = None
    places: Places = field(default_factory=Places, compare=False, repr=False)


@dataclass(frozen=True)
class Group:
    """Steps that belong together.

    Attributes:
        steps: The steps.
        name: What a report calls it.
        repeat: "once", or "fixpoint" to repeat them until the model stops changing.
        limit: Number of rounds after which a fixpoint has failed.
        places: Where it was written.
    """

    steps: tuple[Step, ...]
    name: str = "group"
    repeat: Repeat = "once"
    limit: int = DEFAULT_LIMIT
    places: Places = field(default_factory=Places, compare=False, repr=False)


@dataclass(frozen=True)
class Checkpoint:
    """A point at which the whole model is held against the original.

    Attributes:
        name: What a report calls it.
        places: Where it was written.
    """

    name: str = "checkpoint"
    places: Places = field(default_factory=Places, compare=False, repr=False)


Step: TypeAlias = PassUse | Group | Checkpoint


class UseSettings(Section):
    """Settings of one use of a pass, beside its options."""

    on_failure: Policy | None = Field(
        default=None, description="What to do if this pass fails: stop, rollback or warn."
    )
    tolerance: OutputTolerance | None = Field(
        default=None, description="Tolerance of this pass, instead of the pipeline's."
    )


class GroupSettings(Section):
    """Settings of a group."""

    name: str | None = Field(
        default=None, min_length=1, description="What a report calls the group."
    )
    repeat: Repeat = Field(
        default="once", description="Once, or until the model stops changing (fixpoint)."
    )
    limit: Annotated[int, Strict(), Field(ge=1)] = Field(
        default=DEFAULT_LIMIT,
        description="Number of rounds after which a fixpoint has failed.",
    )


class CheckpointSettings(Section):
    """Settings of a checkpoint."""

    name: str = Field(
        default="checkpoint", min_length=1, description="What a report calls the checkpoint."
    )
