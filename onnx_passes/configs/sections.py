"""The sections of a pipeline file: types of their fields, and what their keys mean.

Each section is a mapping with known keys. Waivers say what is accepted though it is not
verified, why, and until when.
"""

from __future__ import annotations

import math
import types
import typing
from collections.abc import Iterable, Sequence
from datetime import date
from fnmatch import fnmatchcase
from pathlib import PurePath
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    Strict,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError

from onnx_passes.configs.data_spec import DataSpec, read_share
from onnx_passes.errors import UsageError
from onnx_passes.passes.options import Size, pipeline_name
from onnx_passes.plain import Plain, PlainDict


def wrong(expected: str) -> PydanticCustomError:
    """Return an error that says what was expected; the loader adds what was given."""
    return PydanticCustomError("expected", "{expected}", {"expected": expected})


class Section(BaseModel):
    """A mapping whose keys without a value have the default; `also` maps names to fields.

    `whole` is the section of a file, which names the others.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    also: ClassVar[dict[str, str]] = {}
    whole: ClassVar[type[Section] | None] = None

    @model_validator(mode="before")
    @classmethod
    def _check_keys(cls, data: Plain) -> Plain:
        if not isinstance(data, dict):
            return data
        fields = [field.alias or name for name, field in cls.model_fields.items()]
        known = [*fields, *cls.also]
        given: PlainDict = {}
        for key, value in data.items():
            name = str(cls.also.get(key, key))
            if name not in fields and cls.model_config.get("extra") == "forbid":
                raise PydanticCustomError(
                    "unknown_key", "unknown key", {"key": key, "known": known}
                )
            if name in given:
                other = next(k for k in data if k != key and cls.also.get(k, k) == name)
                raise PydanticCustomError("same_key", "same key", {"key": key, "other": other})
            if value is not None or _admits_none(cls, name):
                given[name] = value
        return given


def _admits_none(cls: type[Section], name: str) -> bool:
    field = next((f for n, f in cls.model_fields.items() if (f.alias or n) == name), None)
    if field is None:
        return True
    union = typing.get_origin(field.annotation) in (types.UnionType, typing.Union)
    return field.annotation is Any or (
        union and type(None) in typing.get_args(field.annotation)
    )


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


class OnnxRuntime(Section):
    """Options of every engine 'onnxruntime'; its own keys go to the engine."""

    model_config = ConfigDict(extra="allow", frozen=True)

    providers: Annotated[list[Plain], AfterValidator(lambda v: _providers(v))] = Field(
        default=[]
    )
    """Execution providers: names, or lists of a name and a mapping of options."""
    full_context_dump: bool = False
    """Whether every intermediate value is recorded."""

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

    verbose: bool = False
    """Whether every pass says when it starts and ends."""
    checkpoint: PathOrFalse = None
    """Name of files written before and after each pass; false for none."""
    keep_intermediates: PathOrFalse = None
    """Folder that gets the model after each pass; false for none."""


class Limits(Section):
    """Where a run stops by itself."""

    pass_seconds: Annotated[float, Strict(), Field(gt=0)] | None = 600.0
    """Time limit of one pass in seconds; null for none."""
    rewrites: Annotated[int, Strict(), Field(ge=0)] | None = None
    """Number of rewrites after which no other is made; null for no limit."""
    reproducer_seconds: Annotated[float, Strict(), Field(ge=0)] = 20.0
    """Time in seconds for making the reproducer of a failure smaller."""


class Save(Section):
    """How the result is written."""

    external_data: Literal["keep", "inline", "external"] = "keep"
    """Where weights go: where they were (keep), into the model, or into a file beside it. Over
    2 GiB always the latter."""
    size_threshold: Annotated[
        Size, Field(ge=0), WithJsonSchema({"type": ["integer", "string"]})
    ] = 1024
    """Weights of at least this size go into the file beside the model."""


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
    raise wrong("a path, a pattern, module:function, or a list of these")


class DataSection(Section):
    """A whole data set. A text or a list is its source."""

    source: Annotated[
        tuple[str, ...], BeforeValidator(_sources, json_schema_input_type=str | list[str])
    ] = Field(default=(), validate_default=False)
    """Folders, files, patterns, or one 'module:function'."""
    files: dict[str, str] = Field(default={})
    """In place of a source: .npy files by the column they hold."""
    columns: dict[str, str] = Field(default={})
    """Column of each input; by default that of the same name."""
    labels: str | None = None
    """The column of labels."""
    prepare: str | None = None
    """'module:function' that turns a sample into another one."""
    batch: Whole | None = Field(default=None, ge=1)
    """Samples fed at once; by default what the model demands, else 1."""
    shuffle: Whole | None = Field(default=None, ge=0)
    """Seed of the order; null for that of the files."""
    limit: Whole | None = Field(default=None, ge=1)
    """Number of samples that are used."""
    shard: Whole | None = Field(default=None, ge=1)
    """Samples evaluated at once; by default 8192, or 512 with 'early'."""
    jobs: Whole | None = Field(default=None, ge=1)
    """Worker processes; null for this process."""
    scheduler: str | None = None
    """The scheduler of a Dask cluster: tcp://host:8786."""
    scores: str | None = None
    """The output that holds class scores; by default the first."""

    def spec(self, base: str, *, early: bool, allow_nan: bool) -> DataSpec:
        """Return the data set.

        A run that may stop `early` needs a shuffled order. UsageError without a source, or for
        two.
        """
        own = self.model_dump(exclude={"source", "files", "jobs", "scheduler", "scores"})
        own |= {"sources": self.source, "named": self.files, "base": base}
        if early and self.shuffle is None:
            own["shuffle"] = 0
        return DataSpec(**own, early=early, allow_nan=allow_nan)


def read_data(value: object) -> object:
    """Read a source as a data set."""
    return {"source": value} if isinstance(value, str | list | tuple) else value


class AccuracySection(Section):
    """How much accuracy the result may lose over the data set, and how sure that must be."""

    drop: Share = 0.0
    """The most that may be lost: 0.5 % of the samples, or 0.005."""
    confidence: Share = 0.95
    """Probability with which each verdict is right."""
    early: bool = False
    """Whether to stop as soon as the verdict is known."""


def read_accuracy(value: object) -> Plain:
    """Read a share as the drop that is allowed."""
    plain = isinstance(value, str | int | float) and not isinstance(value, bool)
    return {"drop": value} if plain else value


class ToleranceSection(Section):
    """How far floats may be off: ``|new - old| <= atol + rtol * |old|``."""

    rtol: Limit | None = None
    """Relative tolerance; by default that of the output's type."""
    atol: Limit | None = None
    """Absolute tolerance; by default that of the output's type."""


class OutputTolerance(ToleranceSection):
    """A tolerance with exceptions for some outputs."""

    outputs: dict[str, ToleranceSection] = Field(default={})
    """Tolerances of single outputs, by name."""


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

    enabled: bool = True
    """Whether anything is verified."""
    scope: Scope = "auto"
    """What is run after a pass: the changed region, the whole model, or the region where that
    is enough (auto)."""
    inputs: Inputs = "random"
    """Whether special values, and dimensions of size 1 and 0, are added to the reference data
    (adversarial), or not (random)."""
    tolerance: Annotated[
        OutputTolerance,
        BeforeValidator(_limits, json_schema_input_type=OutputTolerance | LimitsName),
    ] = Field(default_factory=OutputTolerance)
    """Tolerance after each pass that declares tolerance. 'derived', which is the default, lets
    double precision decide where nobody gave a limit; 'default' holds such values to the limit
    of their type."""
    reference: Truth = "engine"
    """What floats under tolerance are judged by: the distance between two results of an
    engine, or how much farther they are from one in float64."""
    growth: Annotated[float, Strict(), Field(ge=1, allow_inf_nan=False)] = 2.0
    """How many times its error against float64 a result may have, with 'reference:
    float64'."""
    drawn_parts: Annotated[int, Strict(), Field(ge=0)] = 1000
    """How many parts of a run are run on drawn values at most, which show what the samples may
    lack; 0 runs none."""
    drift: ToleranceSection = Field(default_factory=ToleranceSection)
    """Tolerance against the original model: the error budget that passes under tolerance
    share, and the limit of the result. By default 'tolerance'."""
    metrics: dict[str, Interval] = Field(default={})
    """Registered metrics by name, each with its range [least, greatest]."""
    accuracy: Annotated[
        AccuracySection | None,
        BeforeValidator(
            read_accuracy, json_schema_input_type=str | float | AccuracySection | None
        ),
    ] = None
    """The accuracy that the result may lose over 'reference.data', in place of limits on its
    outputs there."""
    allow_invalid: bool = False
    """Whether a model that onnx's checker and the engines refuse is accepted, with a note."""
    negative_zero: bool = False
    """Whether -0 and 0 are different under equality."""
    memory_limit: Annotated[
        Size, Field(ge=0), WithJsonSchema({"type": ["integer", "string"]})
    ] = 1 << 30
    """Memory for recorded values, by which regions are checked; beyond it they go to disk."""

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
        """Say what system the file was written for."""
        self._for_seed = for_seed

    @property
    def derives_limits(self) -> bool:
        """Whether double precision decides where nobody gave a limit."""
        return not isinstance(self.tolerance, _Default)


class Reference(Section):
    """The data that models are compared on. What is not given is generated."""

    also: ClassVar[dict[str, str]] = {"inp": "inputs", "out": "outputs"}

    inputs: Files = None
    """Inputs: .npy, .npz or .pb files in the order of the model's inputs, a mapping of input
    names to files, or a folder of ONNX test data."""
    outputs: Files = None
    """Expected outputs or labels, in the forms of 'inputs'."""
    data: Annotated[
        DataSection | None,
        BeforeValidator(
            read_data, json_schema_input_type=str | list[str] | DataSection | None
        ),
    ] = None
    """A whole data set, which the result is compared with the original on at checkpoints and
    at the end. Each pass is checked on its first samples."""
    seed: Whole = Field(default=0, ge=0)
    """Seed of generated inputs."""
    samples: Whole | None = Field(default=None, ge=1)
    """Number of generated samples; by default the generator's."""
    ranges: dict[str, Interval] = Field(default={})
    """Range of the generated values of an input, by input name."""
    dims: dict[str, Sizes] = Field(default={})
    """Sizes of dynamic dimensions by name, one or several that take turns from sample to
    sample; or the whole shape of an input, by its name."""
    allow_nan: bool = False
    """Whether given inputs may hold NaN."""
    steps: Whole | None = Field(default=None, ge=1)
    """Number of steps of a model with states. Each step is a sample."""
    feed: dict[str, str] = Field(default={})
    """For each input that is a state, the output of the step before it."""

    @model_validator(mode="after")
    def _check_steps(self) -> Reference:
        if (self.steps is None) != (not self.feed):
            raise wrong("both 'steps' and 'feed', or neither")
        if self.steps is not None and (self.data is not None or self.samples is not None):
            other = "data" if self.data is not None else "samples"
            raise wrong(f"no '{other}' beside 'steps': each step is a sample")
        return self


class FlipsSection(Section):
    """How often the largest score may be another one."""

    most: Share
    """Share of the decisions: 1 % or 0.01."""
    confidence: Share = 0.95
    """With which the share of all data is at most that."""
    output: str | None = None
    """The output that holds scores; by default the first."""


class GroupSection(Section):
    """Nodes that get one format: those that all keys mean."""

    nodes: tuple[str, ...] = ()
    """Names of nodes, or patterns such as /encoder/*; empty for all."""
    operators: tuple[str, ...] = ()
    """Operators, or patterns of them; empty for all."""
    skip: tuple[str, ...] = ()
    """Names or patterns of nodes that are not of the group."""
    skip_operators: tuple[str, ...] = ()
    """Operators, or patterns of them, that are not of the group."""
    after: tuple[str, ...] = ()
    """Values; only nodes that depend on one of them, empty for all."""
    before: tuple[str, ...] = ()
    """Values; only nodes that one of them depends on, empty for all."""
    formats: tuple[str, ...] = ()
    """Formats that the group may have; by default all."""


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

    formats: Annotated[tuple[Any, ...], BeforeValidator(_formats)] = (
        "float16",
        "int8-dynamic",
        "int8-weights",
    )
    """Formats by name, or {name: {pass: {option: value}}} for one of your own; a list of
    passes if it takes several."""
    groups: dict[str, GroupSection] = Field(default={})
    """Nodes that get one format each; by default each layer with a weight, with the nodes
    behind it."""
    most_groups: Whole = Field(default=24, ge=1)
    """Number of groups if none are given; neighbours join."""
    objective: Literal["time", "size", "bops"] = "time"
    """What has to be small: measured time, bytes of the file, or operations times bits of both
    operands."""
    flips: FlipsSection | None = None
    """How often the largest score may be another one."""
    samples: Whole = Field(default=64, ge=1)
    """Number of samples that groups are scored on, of 'reference.inputs'."""
    evaluations: Whole = Field(default=8, ge=1)
    """Number of whole models that may be tried on all samples."""
    gap: Share = 0.01
    """The search ends once no choice is expected to cost less by more than this share: 1 % or
    0.01. A smaller one takes more runs."""
    seconds: Annotated[float, Strict(), Field(gt=0)] | None = None
    """After which no other model is tried; null for no limit."""


def _text(value: object) -> object:
    if isinstance(value, str) and value.strip():
        return value.strip()
    raise wrong("text that is not empty")


def _day(value: object) -> object:
    if value is None or isinstance(value, date):
        return value
    try:
        return date.fromisoformat(str(value))
    except ValueError:
        raise wrong("a date such as 2027-01-31") from None


Text = Annotated[str, BeforeValidator(_text, json_schema_input_type=str)]


class WaiverSection(Section):
    """Something that is not verified, or fails its check, and is accepted."""

    rule: Text | None = None
    """Name of the rule, as reports print it."""
    pass_name: Text | None = Field(default=None, alias="pass")
    """Name of the pass; a waiver has this or 'rule'."""
    model: Text = "*"
    """Pattern of the names of model files: 'bert-*.onnx'."""
    reason: Text
    """Why it is accepted. Reports print it."""
    expires: Annotated[
        date | None, BeforeValidator(_day, json_schema_input_type=str | None)
    ] = None
    """The last day on which it counts, such as 2027-01-31; by default it has no end, and
    reports say so."""

    @model_validator(mode="after")
    def _check_what(self) -> WaiverSection:
        if (self.rule is None) == (self.pass_name is None):
            raise wrong("either 'rule' or 'pass'")
        return self

    @property
    def what(self) -> str:
        """The name of the rule or the pass."""
        return str(self.pass_name if self.rule is None else self.rule)

    def __str__(self) -> str:
        """Name what is accepted: ``rule merge-relus``."""
        return f"{'pass' if self.rule is None else 'rule'} {self.what}"

    def has_expired(self, today: date) -> bool:
        """Whether its last day is over."""
        return self.expires is not None and today > self.expires

    def covers_model(self, name: str) -> bool:
        """Whether it is for a model, by the name of its file without the folder."""
        return fnmatchcase(PurePath(name).name, self.model)


def find_waivers(
    waivers: Iterable[WaiverSection],
    pass_name: str,
    rules: Sequence[str],
    model_name: str,
    today: date,
) -> tuple[WaiverSection, ...]:
    """Return the waivers that accept what a pass has done to a model; none if they do not.

    A waiver of the pass accepts all of it. Waivers of rules accept it if each of the rules has
    one.
    """
    valid = [w for w in waivers if w.covers_model(model_name) and not w.has_expired(today)]
    own = _plain(pass_name.partition("{")[0])
    of_pass = next((w for w in valid if w.rule is None and _plain(w.what) == own), None)
    if of_pass is not None:
        return (of_pass,)
    by_rule = {_plain(w.what): w for w in reversed(valid) if w.rule is not None}
    wanted = list(dict.fromkeys(map(_plain, rules)))
    if not wanted or any(rule not in by_rule for rule in wanted):
        return ()
    return tuple(by_rule[rule] for rule in wanted)


def _plain(name: str) -> str:
    """Return a name as pipelines write it, however it was given."""
    name = name.strip()
    return pipeline_name(name) if name[:1].isupper() else name.replace("_", "-")
