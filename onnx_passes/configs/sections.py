"""The sections of a pipeline file, and what their keys mean."""

from __future__ import annotations

import math
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
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
from onnx_passes.configs.section import Section, wrong
from onnx_passes.passes.options import Size

Policy = Literal["stop", "rollback", "warn"]
When = Literal["each", "checkpoint", "end"]
Scope = Literal["auto", "region", "model"]
Truth = Literal["engine", "float64"]
Inputs = Literal["random", "adversarial"]
LimitsName = Literal["derived", "default"]

Whole = Annotated[int, Strict()]
Number = Annotated[float, Strict()]
Limit = Annotated[float, Strict(), Field(ge=0, allow_inf_nan=False)]


def _interval(value: object) -> object:
    match value:
        case [int() | float() as low, int() | float() as high] if not (
            isinstance(low, bool) or isinstance(high, bool)
        ):
            if low <= high:
                return (low, high)
            if not (math.isnan(low) or math.isnan(high)):
                raise wrong("two numbers, the lower one first")
    raise wrong("two numbers, [low, high]")


Interval = Annotated[tuple[float, float], BeforeValidator(_interval)]


def _sizes(value: object) -> object:
    sizes = value if isinstance(value, list | tuple) else [value]
    if all(isinstance(n, int) and not isinstance(n, bool) and n >= 0 for n in sizes):
        return tuple(sizes) if sizes is value else value
    raise wrong("a size, or a list of sizes")


Sizes = Annotated[
    int | tuple[int, ...],
    BeforeValidator(_sizes, json_schema_input_type=int | tuple[int, ...]),
]


def _files(value: object) -> object:
    if value in ([], {}):
        return None  # as the seed system writes that there are none
    listed = isinstance(value, list) and all(isinstance(v, str) for v in value)
    named = isinstance(value, dict) and all(
        isinstance(v, str)
        or (isinstance(v, list) and bool(v) and all(isinstance(p, str) for p in v))
        for v in value.values()
    )
    if value is None or isinstance(value, str) or listed or named:
        return value
    raise wrong("a path, a list of paths, or a mapping of names to paths")


Files = Annotated[str | list[str] | dict[str, str | list[str]] | None, BeforeValidator(_files)]


def _path_or_false(value: object) -> object:
    if value is False or value is None:
        return None
    if isinstance(value, str) and value:
        return value
    raise wrong("a path, or false")


PathOrFalse = Annotated[
    str | None,
    BeforeValidator(_path_or_false, json_schema_input_type=str | Literal[False] | None),
]


class Tolerance(Section):
    """How far floats may be off: ``|new - old| <= atol + rtol * |old|``."""

    rtol: Limit | None = Field(
        default=None, description="Relative tolerance; by default that of the output's type."
    )
    atol: Limit | None = Field(
        default=None, description="Absolute tolerance; by default that of the output's type."
    )


class OutputTolerance(Tolerance):
    """A tolerance with exceptions for some outputs."""

    outputs: dict[str, Tolerance] = Field(
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
    drawn_share: Annotated[float, Strict(), Field(ge=0, le=1, allow_inf_nan=False)] = Field(
        default=0.2,
        description="The share of the time of a run that may go into drawn values, which show "
        "what the samples may lack; 0 asks for none. Two seconds are always free.",
    )
    drift: Tolerance = Field(
        default_factory=Tolerance,
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


class OnnxRuntime(Section):
    """Options of every engine 'onnxruntime'; its own keys go to the engine."""

    model_config = ConfigDict(extra="allow", frozen=True)

    providers: Annotated[list[Any], AfterValidator(lambda v: _providers(v))] = Field(
        default=[],
        description="Execution providers: names, or lists of a name and a mapping of options.",
    )
    full_context_dump: bool = Field(
        default=False, description="Whether every intermediate value is recorded."
    )

    def engine_options(self) -> dict[str, Any]:
        """Return the options as the engine has them, whose provider is the first."""
        options = dict(self.model_extra or {})
        if self.providers:
            provider, provider_options = self.providers[0]
            options |= {"provider": provider, "provider_options": provider_options}
        return options


def _providers(value: list[Any]) -> list[tuple[str, dict[str, Any]]]:
    result: list[tuple[str, dict[str, Any]]] = []
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
