"""The section of a pipeline file that ``tune`` reads."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, Strict

from onnx_passes.configs.data_section import Share
from onnx_passes.configs.section import Section, wrong

Whole = Annotated[int, Strict()]


class FlipsSection(Section):
    """How often the largest score may be another one."""

    most: Share = Field(description="Share of the decisions: 1 % or 0.01.")
    confidence: Share = Field(
        default=0.95, description="With which the share of all data is at most that."
    )
    output: str | None = Field(
        default=None, description="The output that holds scores; by default the first."
    )


class GroupSection(Section):
    """Nodes that get one format: those that all keys mean."""

    nodes: tuple[str, ...] = Field(
        default=(),
        description="Names of nodes, or patterns such as /encoder/*; empty for all.",
    )
    operators: tuple[str, ...] = Field(
        default=(), description="Operators, or patterns of them; empty for all."
    )
    skip: tuple[str, ...] = Field(
        default=(), description="Names or patterns of nodes that are not of the group."
    )
    skip_operators: tuple[str, ...] = Field(
        default=(), description="Operators, or patterns of them, that are not of the group."
    )
    after: tuple[str, ...] = Field(
        default=(), description="Values; only nodes that depend on one of them, empty for all."
    )
    before: tuple[str, ...] = Field(
        default=(),
        description="Values; only nodes that one of them depends on, empty for all.",
    )
    formats: tuple[str, ...] = Field(
        default=(), description="Formats that the group may have; by default all."
    )


def _formats(value: object) -> object:
    if not isinstance(value, list | tuple) or not value:
        raise wrong("a list with at least one format")
    for item in value:
        named = isinstance(item, str)
        made = isinstance(item, dict) and len(item) == 1
        if not named and not (made and isinstance(next(iter(item.values())), dict | list)):
            raise wrong("names of formats, or {name: {pass: {option: value}}}")
    return tuple(value)


class TuneSection(Section):
    """Which precision each part of a model may have, and what is looked for."""

    formats: Annotated[tuple[Any, ...], BeforeValidator(_formats)] = Field(
        default=("float16", "int8-dynamic", "int8-weights"),
        description="Formats by name, or {name: {pass: {option: value}}} for one of your own; "
        "a list of passes if it takes several.",
    )
    groups: dict[str, GroupSection] = Field(
        default={},
        description="Nodes that get one format each; by default each layer with a weight, "
        "with the nodes behind it.",
    )
    most_groups: Whole = Field(
        default=24, ge=1, description="Number of groups if none are given; neighbours join."
    )
    objective: Literal["time", "size", "bops"] = Field(
        default="time",
        description="What has to be small: measured time, bytes of the file, or operations "
        "times bits of both operands.",
    )
    flips: FlipsSection | None = Field(
        default=None, description="How often the largest score may be another one."
    )
    samples: Whole = Field(
        default=64,
        ge=1,
        description="Number of samples that groups are scored on, of 'reference.inputs'.",
    )
    evaluations: Whole = Field(
        default=8, ge=1, description="Number of whole models that may be tried on all samples."
    )
    gap: Share = Field(
        default=0.01,
        description="The search ends once no choice is expected to cost less by more than "
        "this share: 1 % or 0.01. A smaller one takes more runs.",
    )
    seconds: Annotated[float, Strict(), Field(gt=0)] | None = Field(
        default=None, description="After which no other model is tried; null for no limit."
    )
