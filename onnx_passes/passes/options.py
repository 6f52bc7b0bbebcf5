"""The typed fields of a pass are its options, and its class name gives its pipeline name.

class FoldConstants(Transformation): size_limit: Size = 1 * MIB

gives the pass ``fold-constants`` the option ``size_limit``, checked and converted by pydantic,
in YAML (``- fold-constants: {size_limit: 2 MiB}``) and on the command line (``'fold-
constants{size_limit=2MiB}'``).
"""

import re
from collections.abc import Hashable, Mapping
from types import EllipsisType
from typing import Annotated, Any, ClassVar, get_origin, get_type_hints
from weakref import WeakKeyDictionary

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError, create_model
from pydantic.fields import FieldInfo

from onnx_passes.errors import OptionError
from onnx_passes.errors import did_you_mean as did_you_mean
from onnx_passes.plain import PlainDict, PlainMapping

_WORD = re.compile(r"[A-Z][A-Z0-9]*(?=[A-Z][a-z])|[A-Z]?[a-z0-9]+|[A-Z0-9]+")


def pipeline_name(class_name: str) -> str:
    """Return ``merge-clips`` for ``MergeClips``."""
    return "-".join(word.lower() for word in _WORD.findall(class_name))


MIB = 1 << 20

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}
_SIZE = re.compile(r"(\d{1,18}(?:\.\d+)?)\s*([A-Za-z]*)")


def parse_size(value: object) -> object:
    """Turn ``"1 MiB"`` into bytes; leave anything but text to pydantic."""
    if not isinstance(value, str):
        return value
    match = _SIZE.fullmatch(value.strip())
    if match is None or match[2].upper() not in _UNITS:
        raise ValueError("a size is a number with an optional unit, such as 64 KiB or 1.5 GB")
    return int(float(match[1]) * _UNITS[match[2].upper()])


Size = Annotated[int, BeforeValidator(parse_size)]
"""A number of bytes; text such as ``1 MiB`` is understood."""


class _Options(BaseModel):
    model_config = ConfigDict(extra="forbid", arbitrary_types_allowed=True)


_CLASS_VARIABLE = re.compile(r"(\w+\.)*ClassVar\b")
_DEFAULTS: WeakKeyDictionary[type[object], PlainDict | None] = WeakKeyDictionary()
_MODELS: WeakKeyDictionary[type[object], type[BaseModel]] = WeakKeyDictionary()


def option_model(cls: type[object]) -> type[BaseModel]:
    """Return the pydantic model of the options of a pass class."""
    if cls not in _MODELS:
        _MODELS[cls] = _make_model(cls)
    return _MODELS[cls]


def _make_model(cls: type[object]) -> type[BaseModel]:
    fields: dict[str, Any] = {}
    for name, hint in get_type_hints(cls, include_extras=True).items():
        if name.startswith("_") or is_class_variable(hint):
            continue
        fields[name] = (hint, getattr(cls, name)) if hasattr(cls, name) else (hint, ...)
    return create_model(f"{cls.__name__}Options", __base__=_Options, **fields)


def plain_defaults(cls: type[object]) -> PlainMapping | None:
    """Return the default of each option of a pass class, if pydantic need not be asked.

    To make a pydantic model of a class takes half a millisecond. Most passes in a pipeline
    have their defaults, for which no model is needed. None if an option has no default, or one
    that pydantic makes or copies.
    """
    if cls not in _DEFAULTS:
        hints: dict[str, object] = {}
        for base in reversed(cls.__mro__):
            hints |= vars(base).get("__annotations__", {})
        defaults = {
            name: getattr(cls, name, ...)
            for name, hint in hints.items()
            if not name.startswith("_") and not is_class_variable(hint)
        }
        simple = all(
            isinstance(value, Hashable) and not isinstance(value, FieldInfo | EllipsisType)
            for value in defaults.values()
        )
        _DEFAULTS[cls] = defaults if simple else None
    return _DEFAULTS[cls]


def is_class_variable(hint: object) -> bool:
    """Whether an annotation, or its text, says that a name is not an option."""
    if isinstance(hint, str):
        return _CLASS_VARIABLE.match(hint) is not None
    return hint is ClassVar or get_origin(hint) is ClassVar


def option_fields(cls: type[object]) -> dict[str, FieldInfo]:
    """Return the options of a pass class by name."""
    return option_model(cls).model_fields


def validate_options(cls: type[object], options: Mapping[str, object]) -> PlainDict:
    """Check and convert the options given to a pass; those not given get their default."""
    if not options and (defaults := plain_defaults(cls)) is not None:
        return dict(defaults)
    model = option_model(cls)
    name = getattr(cls, "name", cls.__name__)
    known = list(model.model_fields)
    for key in options:
        if key not in known:
            other = f"it has {', '.join(known)}" if known else "it has no options"
            raise OptionError(
                f"{name} has no option {key!r}", help=did_you_mean(str(key), known, other)
            )
    try:
        values = model(**options)
    except ValidationError as error:
        first = error.errors()[0]
        option = ".".join(str(part) for part in first["loc"]) or "options"
        message = first["msg"].removeprefix("Value error, ")
        raise OptionError(
            f"{name}: option {option!r}: {message[0].lower()}{message[1:]}",
            help=f"run 'onnx-passes explain {name}'",
        ) from error
    return {key: getattr(values, key) for key in known}
