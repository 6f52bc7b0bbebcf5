"""A whole data set in a pipeline file, and what it must show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import BeforeValidator, Field, Strict, WithJsonSchema

from onnx_passes.configs.percentages import read_share
from onnx_passes.configs.section import Section, wrong
from onnx_passes.errors import UsageError
from onnx_passes.plain import Plain

if TYPE_CHECKING:
    from onnx_passes.configs.data_spec import DataSpec

Whole = Annotated[int, Strict()]


def _share(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise wrong("a share, such as 0.5 % or 0.005")
    try:
        return read_share(value, "a share")
    except UsageError as error:
        raise wrong("a share, such as 0.5 % or 0.005") from error


Share = Annotated[
    float, BeforeValidator(_share), WithJsonSchema({"type": ["number", "string"]})
]


def _sources(value: object) -> object:
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list | tuple) and value and all(isinstance(v, str) for v in value):
        return tuple(value)
    raise wrong("a path, a pattern, a URL, module:function, or a list of these")


class DataSection(Section):
    """A whole data set. A text or a list is its source."""

    source: Annotated[
        tuple[str, ...],
        BeforeValidator(_sources, json_schema_input_type=str | list[str]),
    ] = Field(
        default=(),
        validate_default=False,
        description="Folders, files, patterns, URLs, or one 'module:function'.",
    )
    files: dict[str, str] = Field(
        default={}, description="In place of a source: .npy files by the column they hold."
    )
    columns: dict[str, str] = Field(
        default={}, description="Column of each input; by default that of the same name."
    )
    labels: str | None = Field(default=None, description="The column of labels.")
    prepare: str | None = Field(
        default=None, description="'module:function' that turns a sample into another one."
    )
    split: str | None = Field(
        default=None, description="Split of a Hugging Face data set that has several."
    )
    batch: Whole | None = Field(
        default=None,
        ge=1,
        description="Samples fed at once; by default what the model demands, else 1.",
    )
    shuffle: Whole | None = Field(
        default=None, ge=0, description="Seed of the order; null for that of the files."
    )
    limit: Whole | None = Field(
        default=None, ge=1, description="Number of samples that are used."
    )
    fraction: Share | None = Field(
        default=None, description="Share of the samples that are used."
    )
    shard: Whole | None = Field(
        default=None,
        ge=1,
        description="Samples evaluated at once; by default 8192, or 512 with 'early'.",
    )
    jobs: Whole | None = Field(
        default=None, ge=1, description="Worker processes; null for this process."
    )
    scheduler: str | None = Field(
        default=None, description="A Dask cluster: local:8, or tcp://host:8786."
    )
    scores: str | None = Field(
        default=None, description="The output that holds class scores; by default the first."
    )

    def spec(self, base: str, *, early: bool, allow_nan: bool) -> DataSpec:
        """Return the data set.

        Args:
            base: Folder that relative paths start from.
            early: Whether the run may stop early, which needs a shuffled order.
            allow_nan: Whether inputs may hold NaN.

        Raises:
            UsageError: There is no source, or there are two.
        """
        from onnx_passes.configs.data_spec import DataSpec

        return DataSpec(
            sources=self.source,
            named=self.files,
            columns=self.columns,
            labels=self.labels,
            prepare=self.prepare,
            split=self.split,
            batch=self.batch,
            shuffle=0 if early and self.shuffle is None else self.shuffle,
            limit=self.limit,
            fraction=self.fraction,
            shard=self.shard,
            early=early,
            allow_nan=allow_nan,
            base=base,
        )


def read_data(value: object) -> object:
    """Read a source as a data set."""
    return {"source": value} if isinstance(value, str | list | tuple) else value


class AccuracySection(Section):
    """How much accuracy the result may lose over the data set, and how sure that must be."""

    drop: Share = Field(
        default=0.0, description="The most that may be lost: 0.5 % of the samples, or 0.005."
    )
    confidence: Share = Field(
        default=0.95, description="Probability with which each verdict is right."
    )
    early: bool = Field(
        default=False, description="Whether to stop as soon as the verdict is known."
    )


def read_accuracy(value: object) -> Plain:
    """Read a share as the drop that is allowed."""
    plain = isinstance(value, str | int | float) and not isinstance(value, bool)
    return {"drop": value} if plain else value
