"""What every section of a pipeline file is: a mapping with known keys."""

from __future__ import annotations

import types
import typing
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic_core import PydanticCustomError

from onnx_passes.plain import Plain, PlainDict


def wrong(expected: str) -> PydanticCustomError:
    """Return an error that says what was expected; the loader adds what was given."""
    return PydanticCustomError("expected", "{expected}", {"expected": expected})


class Section(BaseModel):
    """A mapping with known keys. A key without a value has its default.

    Attributes:
        also: Further names of fields, and the fields.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    also: ClassVar[dict[str, str]] = {}

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
