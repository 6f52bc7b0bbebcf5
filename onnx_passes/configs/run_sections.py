"""Sections of a pipeline file about the run: the engine, logs, limits and the output."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, Strict, WithJsonSchema

from onnx_passes.configs.field_types import PathOrFalse
from onnx_passes.configs.section import Section, wrong
from onnx_passes.passes.options import Size
from onnx_passes.plain import Plain, PlainDict


class OnnxRuntime(Section):
    """Options of every engine 'onnxruntime'; its own keys go to the engine."""

    model_config = ConfigDict(extra="allow", frozen=True)

    providers: Annotated[list[Plain], AfterValidator(lambda v: _providers(v))] = Field(
        default=[],
        description="Execution providers: names, or lists of a name and a mapping of options.",
    )
    full_context_dump: bool = Field(
        default=False, description="Whether every intermediate value is recorded."
    )

    def engine_options(self) -> PlainDict:
        """Return the options as the engine has them, whose provider is the first."""
        options = dict(self.model_extra or {})
        if self.providers:
            provider, provider_options = self.providers[0]
            options |= {"provider": provider, "provider_options": provider_options}
        return options


def _providers(value: list[Plain]) -> list[tuple[str, PlainDict]]:
    result: list[tuple[str, PlainDict]] = []
    for item in value:
        match item:
            case str() as name:
                result.append((name, {}))
            case [str() as name]:
                result.append((name, {}))
            case [str() as name, dict() as options]:
                result.append((name, dict(options)))
            case _:
                raise wrong("provider names, or pairs [name, {option: value}]")
    return result


class Logging(Section):
    """What is reported and kept while the pipeline runs."""

    verbose: bool = Field(
        default=False, description="Whether every pass says when it starts and ends."
    )
    checkpoint: PathOrFalse = Field(
        default=None,
        description="Name of files written before and after each pass; false for none.",
    )
    keep_intermediates: PathOrFalse = Field(
        default=None, description="Folder that gets the model after each pass; false for none."
    )


class Limits(Section):
    """Where a run stops by itself."""

    pass_seconds: Annotated[float, Strict(), Field(gt=0)] | None = Field(
        default=600.0, description="Time limit of one pass in seconds; null for none."
    )
    rewrites: Annotated[int, Strict(), Field(ge=0)] | None = Field(
        default=None,
        description="Number of rewrites after which no other is made; null for no limit.",
    )
    reproducer_seconds: Annotated[float, Strict(), Field(ge=0)] = Field(
        default=20.0,
        description="Time in seconds for making the reproducer of a failure smaller.",
    )


class Save(Section):
    """How the result is written."""

    external_data: Literal["keep", "inline", "external"] = Field(
        default="keep",
        description="Where weights go: where they were (keep), into the model, or into a file "
        "beside it. Over 2 GiB always the latter.",
    )
    size_threshold: Annotated[
        Size, Field(ge=0), WithJsonSchema({"type": ["integer", "string"]})
    ] = Field(
        default=1024,
        description="Weights of at least this size go into the file beside the model.",
    )
