"""Reports as JSON: versioned, checked when read, described by a JSON Schema."""

from __future__ import annotations

import json
import math
import os
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from onnx_passes.errors import ConfigError
from onnx_passes.plain import Plain, PlainDict
from onnx_passes.report.run_report import SCHEMA_VERSION, RunReport

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

_MOST_COMPLAINTS = 3
_WROTE = "give a file that `onnx-passes run --json FILE` wrote"


def to_json(report: RunReport) -> str:
    """Return a report as JSON text; NaN and infinities are the strings "NaN", "Infinity"."""
    report.settle()
    data = _spelled(_document()(run=report).model_dump(mode="json")["run"])
    text = json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False)
    # A path may hold bytes that are not UTF-8; JSON text may not.
    return re.sub("[\ud800-\udfff]", lambda m: f"\\\\u{ord(m[0]):x}", text) + "\n"


def read_json(path: str | os.PathLike[str]) -> RunReport:
    """Read a report from a file of JSON.

    Raises ConfigError if the file cannot be read, or is not a valid report of this version.
    """
    where = f"  --> {os.fspath(path)}"
    try:
        text = Path(path).read_text(encoding="utf-8")
    except OSError as error:
        told = f"cannot read the report: {error.strerror or error}"
        raise ConfigError(told, where=where, help=_WROTE) from error
    except UnicodeDecodeError as error:
        raise _no_report(where, "it is not UTF-8 text") from error
    return from_json(text, where=where)


def from_json(text: str, *, where: str | None = None) -> RunReport:
    """Return the report that JSON text holds; raise ConfigError as :func:`read_json` does."""
    from pydantic import ValidationError

    _check_version(_parse(text, where), where)
    try:
        found = _document().model_validate_json(f'{{"run": {text}}}')
    except ValidationError as error:
        raise _mangled(error, where) from None
    report: RunReport = getattr(found, "run")  # noqa: B009  (the class is made at run time)
    return report


@cache
def _document() -> type[BaseModel]:
    from pydantic import ConfigDict, create_model

    # Dataclasses take the settings of the model that holds them, and have none of their own.
    settings = ConfigDict(extra="forbid")
    return create_model("Document", __config__=settings, run=(RunReport, ...))


def _spelled(data: Plain) -> Plain:
    if isinstance(data, dict):
        return {key: _spelled(value) for key, value in data.items()}
    if isinstance(data, list):
        return [_spelled(value) for value in data]
    if isinstance(data, float) and not math.isfinite(data):
        return "NaN" if math.isnan(data) else "Infinity" if data > 0 else "-Infinity"
    return data


def _parse(text: str, where: str | None) -> PlainDict:
    def refuse(token: str) -> None:
        raise ValueError(f"{token} is not a JSON number")

    try:
        data = json.loads(text, parse_constant=refuse)
    except RecursionError as error:
        raise _no_report(where, "it is nested too deeply") from error
    except ValueError as error:
        raise _no_report(where, f"it is not JSON: {error}") from error
    if not isinstance(data, dict) or "schema_version" not in data:
        raise _no_report(where, "it has no schema_version")
    return data


def _check_version(data: PlainDict, where: str | None) -> None:
    version = data["schema_version"]
    if type(version) is not int:
        raise _no_report(where, f"its schema_version is {version!r}, not a whole number")
    if version > SCHEMA_VERSION:
        raise ConfigError(
            f"the report has layout {version}; this onnx-passes reads layout {SCHEMA_VERSION}",
            where=where,
            help="read it with the newer onnx-passes that wrote it, or upgrade this one",
        )
    if version < SCHEMA_VERSION:
        raise ConfigError(
            f"the report has the old layout {version}; this onnx-passes reads layout "
            f"{SCHEMA_VERSION}",
            where=where,
            help="run the pipeline again with --json",
        )


def _no_report(where: str | None, why: str) -> ConfigError:
    return ConfigError(f"this is not a report of onnx-passes: {why}", where=where, help=_WROTE)


def _mangled(error: ValidationError, where: str | None) -> ConfigError:
    faults = [
        f"{'.'.join(map(str, e['loc'][1:]))}: {e['msg'][:1].lower()}{e['msg'][1:]}"
        for e in error.errors()
    ]
    more = len(faults) - _MOST_COMPLAINTS
    told = "; ".join(faults[:_MOST_COMPLAINTS]) + (f"; and {more} more" if more > 0 else "")
    return ConfigError(
        f"the report does not fit layout {SCHEMA_VERSION}: {told}",
        where=where,
        help="something changed it after it was written; run the pipeline again with --json",
    )
