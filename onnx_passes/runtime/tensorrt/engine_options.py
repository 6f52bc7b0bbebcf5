"""The options of a TensorRT engine, as a pipeline file spells them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from onnx_passes.errors import ConfigError, did_you_mean
from onnx_passes.plain import Plain

Dims = tuple[int, ...]
Require = Literal["absent", "parsed", "built", "executed"]
Verbosity = Literal["error", "warning", "info", "verbose"]

_WEAK = ("fp16", "bf16", "int8", "fp8", "int4", "fp4", "precision", "best")
_SIZES = {"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}
_HOOK = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")


class Profile(BaseModel):
    """The shapes that one input may have; of an input that decides shapes, its values.

    Sizes of each dimension; the engine is optimised for ``opt``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    min: Dims
    opt: Dims
    max: Dims


def _capability(value: object) -> object:
    text = "" if isinstance(value, bool) else str(value).strip().lower()
    match = re.fullmatch(r"(?:sm_?)?(\d{1,2})\.?(\d)", text)
    if match is None:
        raise ValueError("a compute capability such as 8.9")
    return f"{match[1]}.{match[2]}"


def _capabilities(value: object) -> object:
    return tuple(value) if isinstance(value, list | tuple) else (value,)


def _profiles(value: object) -> object:
    """Read one profile, or a list of them, each a mapping of inputs to sizes."""
    if isinstance(value, Mapping):
        return (_profile(value),) if value else ()
    if isinstance(value, list | tuple) and all(isinstance(one, Mapping) for one in value):
        return tuple(map(_profile, value))
    raise ValueError("a mapping of inputs to sizes, or a list of such mappings")


def _profile(value: Mapping[str, object]) -> tuple[dict[str, object], ...]:
    found: list[dict[str, object]] = []
    for name, sizes in value.items():
        if isinstance(sizes, list | tuple):
            sizes = {"min": sizes, "opt": sizes, "max": sizes}
        if not isinstance(sizes, Mapping) or set(sizes) != {"min", "opt", "max"}:
            raise ValueError(f"{name}: needs sizes under min, opt and max, or one list")
        found.append({"name": str(name), **sizes})
    return tuple(found)


def _paths(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _hook(value: object) -> object:
    if isinstance(value, str) and (not value or _HOOK.fullmatch(value)):
        return value
    raise ValueError("a function, written module:function")


def _size(value: object) -> object:
    match = re.fullmatch(r"(\d+)\s*([KMG]iB)", value, re.I) if isinstance(value, str) else None
    return int(match[1]) * _SIZES[match[2].upper()] if match else value


Capability = Annotated[str, BeforeValidator(_capability)]
Hook = Annotated[str, BeforeValidator(_hook)]
Bytes = Annotated[int, Field(gt=0), BeforeValidator(_size)]


class TensorRtOptions(BaseModel):
    """How an engine is built.

    Attributes:
        compute_capabilities: The GPUs to build for; empty for the one of this machine.
        profiles: Shapes of dynamic inputs, of one profile or several. Inputs that one leaves
            out get those of the reference inputs.
        tf32: Whether float32 products may be rounded to TF32, which is off as a model is to
            compute what it says.
        optimization_level: How hard the builder searches, 0 to 5; None for its default.
        workspace: Bytes of scratch memory that layers may use; None for the default.
        timing_cache: File of measured kernels, read if it is there and written after.
        plugins: Libraries of plugins to load before the model is parsed.
        network_hook: ``module:function``, called with the bindings and the parsed network.
        config_hook: ``module:function``, called with the bindings and the builder's config.
        verbosity: How much of what the compiler logs is attached to a failure.
        profile: Whether sessions report their layers, and beside a GPU the time of each.
        cache: Folder of engines that were built before, by the content of what makes them.
        save: File that every build writes its engine to; not for pipelines, which build many.
        load: File of an engine that is run in place of one that is built.
        require: Level that the original and the result must reach, else the run fails. By
            default the package must be there; "absent" goes without it.
        region_builds: Number of builds that a pipeline may spend on what passes changed, apart
            from builds of whole models; 0 for none.
        region_share: Time that these builds may take, as a share of the time of whole models;
            None for any.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    compute_capabilities: Annotated[
        tuple[Capability, ...], BeforeValidator(_capabilities)
    ] = ()
    profiles: Annotated[tuple[tuple[Profile, ...], ...], BeforeValidator(_profiles)] = ()
    tf32: bool = False
    optimization_level: Annotated[int, Field(ge=0, le=5)] | None = None
    workspace: Bytes | None = None
    timing_cache: str = ""
    plugins: Annotated[tuple[str, ...], BeforeValidator(_paths)] = ()
    network_hook: Hook = ""
    config_hook: Hook = ""
    verbosity: Verbosity = "warning"
    profile: bool = False
    cache: str = ""
    save: str = ""
    load: str = ""
    require: Require | None = None
    region_builds: Annotated[int, Field(ge=0)] = 100
    region_share: Annotated[float, Field(gt=0, strict=False)] | None = None

    @property
    def spelled_profiles(self) -> list[dict[str, dict[str, list[int]]]]:
        """The profiles as a pipeline file has them."""
        return [
            {
                p.name: {"min": list(p.min), "opt": list(p.opt), "max": list(p.max)}
                for p in profile
            }
            for profile in self.profiles
        ]


def read_options(engine: str, options: Mapping[str, object]) -> TensorRtOptions:
    """Check options; ``engine`` is for the message of a ConfigError."""
    known = list(TensorRtOptions.model_fields)
    for key in options:
        if key in _WEAK:
            raise ConfigError(
                f"the engine {engine!r} has no option {key!r}: networks are strongly typed",
                help="change the types in the model, with a pass for precision",
            )
        if key not in known:
            raise ConfigError(
                f"the engine {engine!r} has no option {key!r}", help=did_you_mean(key, known)
            )
    try:
        return TensorRtOptions(**_tuples(options))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join([engine, *(str(part) for part in first["loc"])])
        cause = first.get("ctx", {}).get("error")
        wanted = cause if cause is not None else first["msg"]
        raise ConfigError(
            f"{place} cannot be {first['input']!r}", help=f"wanted: {wanted}"
        ) from error


def _tuples(value: Plain) -> Plain:
    """Give lists, which is what YAML and JSON have, as tuples."""
    if isinstance(value, Mapping):
        return {key: _tuples(item) for key, item in value.items()}
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
