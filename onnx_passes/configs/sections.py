"""The sections of a pipeline file, and what their keys mean."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import (
    BeforeValidator,
    Field,
    PrivateAttr,
    Strict,
    WithJsonSchema,
    model_validator,
)

from onnx_passes.configs.data_section import (
    AccuracySection,
    DataSection,
    read_accuracy,
    read_data,
)
from onnx_passes.configs.field_types import (
    Files,
    Inputs,
    Interval,
    Limit,
    LimitsName,
    Scope,
    Sizes,
    Truth,
    Whole,
)
from onnx_passes.configs.section import Section, wrong
from onnx_passes.passes.options import Size


class ToleranceSection(Section):
    """How far floats may be off: ``|new - old| <= atol + rtol * |old|``."""

    rtol: Limit | None = Field(
        default=None, description="Relative tolerance; by default that of the output's type."
    )
    atol: Limit | None = Field(
        default=None, description="Absolute tolerance; by default that of the output's type."
    )


class OutputTolerance(ToleranceSection):
    """A tolerance with exceptions for some outputs."""

    outputs: dict[str, ToleranceSection] = Field(
        default={}, description="Tolerances of single outputs, by name."
    )


class _Default(OutputTolerance):
    """The limits of the types, which nothing moves."""


def _limits(value: object) -> object:
    """Read a tolerance, or the name of a way to find one.

    An option of numpy.allclose is left out, which the seed system passes on.
    """
    if value == "derived":
        return OutputTolerance()
    if value == "default":
        return _Default()
    if isinstance(value, str):
        raise wrong("'derived', 'default', or limits such as {rtol: 1.0e-3, atol: 1.0e-5}")
    if not isinstance(value, dict) or "equal_nan" not in value:
        return value
    if value["equal_nan"] is not True:
        raise wrong("'equal_nan: true', since NaN equals NaN in every check")
    return {key: given for key, given in value.items() if key != "equal_nan"}


class Verify(Section):
    """What a pass must show before the next one runs.

    ``verify: false`` and ``verify: {}`` switch verification off. Without the key, or without
    a value, there are the defaults.
    """

    enabled: bool = Field(default=True, description="Whether anything is verified.")
    scope: Scope = Field(
        default="auto",
        description="What is run after a pass: the changed region, the whole model, or the "
        "region where that is enough (auto).",
    )
    inputs: Inputs = Field(
        default="random",
        description="Whether special values, and dimensions of size 1 and 0, are added to the "
        "reference data (adversarial), or not (random).",
    )
    tolerance: Annotated[
        OutputTolerance,
        BeforeValidator(_limits, json_schema_input_type=OutputTolerance | LimitsName),
    ] = Field(
        default_factory=OutputTolerance,
        description="Tolerance after each pass that declares tolerance. 'derived', which is "
        "the default, lets double precision decide where nobody gave a limit; 'default' holds "
        "such values to the limit of their type.",
    )
    reference: Truth = Field(
        default="engine",
        description="What floats under tolerance are judged by: the distance between two "
        "results of an engine, or how much farther they are from one in float64.",
    )
    growth: Annotated[float, Strict(), Field(ge=1, allow_inf_nan=False)] = Field(
        default=2.0,
        description="How many times its error against float64 a result may have, with "
        "'reference: float64'.",
    )
    drawn_parts: Annotated[int, Strict(), Field(ge=0)] = Field(
        default=1000,
        description="How many parts of a run are run on drawn values at most, which show what "
        "the samples may lack; 0 runs none.",
    )
    drift: ToleranceSection = Field(
        default_factory=ToleranceSection,
        description="Tolerance against the original model: the error budget that passes under "
        "tolerance share, and the limit of the result. By default 'tolerance'.",
    )
    metrics: dict[str, Interval] = Field(
        default={},
        description="Registered metrics by name, each with its range [least, greatest].",
    )
    accuracy: Annotated[
        AccuracySection | None,
        BeforeValidator(
            read_accuracy,
            json_schema_input_type=str | float | AccuracySection | None,
        ),
    ] = Field(
        default=None,
        description="The accuracy that the result may lose over 'reference.data', in place of "
        "limits on its outputs there.",
    )
    allow_invalid: bool = Field(
        default=False,
        description="Whether a model that onnx's checker and the engines refuse is accepted, "
        "with a note.",
    )
    negative_zero: bool = Field(
        default=False, description="Whether -0 and 0 are different under equality."
    )
    memory_limit: Annotated[
        Size, Field(ge=0), WithJsonSchema({"type": ["integer", "string"]})
    ] = Field(
        default=1 << 30,
        description="Memory for recorded values, by which regions are checked; beyond it they "
        "go to disk.",
    )

    _for_seed: bool = PrivateAttr(default=False)

    @property
    def for_seed(self) -> bool:
        """Whether the file was written for the seed system.

        That system compares before and after each pass on one engine without optimizations. So
        nobody who wrote such a tolerance meant it for other engines, or for the sum of all
        passes.
        """
        return self._for_seed

    def attach(self, *, for_seed: bool) -> None:
        """Say what system the file was written for.

        Args:
            for_seed: Whether it is the seed system.
        """
        self._for_seed = for_seed

    @property
    def derives_limits(self) -> bool:
        """Whether double precision decides where nobody gave a limit."""
        return not isinstance(self.tolerance, _Default)


class Reference(Section):
    """The data that models are compared on. What is not given is generated."""

    also: ClassVar[dict[str, str]] = {"inp": "inputs", "out": "outputs"}

    inputs: Files = Field(
        default=None,
        description="Inputs: .npy, .npz or .pb files in the order of the model's inputs, a "
        "mapping of input names to files, or a folder of ONNX test data.",
    )
    outputs: Files = Field(
        default=None,
        description="Expected outputs or labels, in the forms of 'inputs'.",
    )
    data: Annotated[
        DataSection | None,
        BeforeValidator(
            read_data, json_schema_input_type=str | list[str] | DataSection | None
        ),
    ] = Field(
        default=None,
        description="A whole data set, which the result is compared with the original on at "
        "checkpoints and at the end. Each pass is checked on its first samples.",
    )
    seed: Whole = Field(default=0, ge=0, description="Seed of generated inputs.")
    samples: Whole | None = Field(
        default=None,
        ge=1,
        description="Number of generated samples; by default the generator's.",
    )
    ranges: dict[str, Interval] = Field(
        default={}, description="Range of the generated values of an input, by input name."
    )
    dims: dict[str, Sizes] = Field(
        default={},
        description="Sizes of dynamic dimensions by name, one or several that take turns from "
        "sample to sample; or the whole shape of an input, by its name.",
    )
    allow_nan: bool = Field(default=False, description="Whether given inputs may hold NaN.")
    steps: Whole | None = Field(
        default=None,
        ge=1,
        description="Number of steps of a model with states. Each step is a sample.",
    )
    feed: dict[str, str] = Field(
        default={},
        description="For each input that is a state, the output of the step before it.",
    )

    @model_validator(mode="after")
    def _check_steps(self) -> Reference:
        if (self.steps is None) != (not self.feed):
            raise wrong("both 'steps' and 'feed', or neither")
        if self.steps is not None and (self.data is not None or self.samples is not None):
            other = "data" if self.data is not None else "samples"
            raise wrong(f"no '{other}' beside 'steps': each step is a sample")
        return self
