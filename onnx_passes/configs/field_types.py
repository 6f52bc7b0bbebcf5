"""Types of the fields of a pipeline file, each with what a reader of it may write."""

from __future__ import annotations

import math
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, Strict

from onnx_passes.configs.section import wrong

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
