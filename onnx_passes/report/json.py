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
from onnx_passes.plain import Plain
from onnx_passes.report.run_report import SCHEMA_VERSION, RunReport

if TYPE_CHECKING:
    from pydantic import BaseModel

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
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"cannot read the report: {reason}", where=where, help=_WROTE
        ) from error
    return from_json(text, where=where)


def from_json(text: str, *, where: str | None = None) -> RunReport:
    """Return the report that JSON text holds; raise ConfigError as :func:`read_json` does."""
    from pydantic import ValidationError

    try:
        version = json.loads(text)["schema_version"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ConfigError(
            "this is not a report of onnx-passes", where=where, help=_WROTE
        ) from error
    if version != SCHEMA_VERSION:
        raise ConfigError(
            f"the report has layout {version}; this onnx-passes reads layout {SCHEMA_VERSION}",
            where=where,
            help="run the pipeline again with --json, or read it by the version that wrote it",
        )
    try:
        found = _document().model_validate_json(f'{{"run": {text}}}')
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigError(
            f"the report does not fit layout {SCHEMA_VERSION}: "
            f"{'.'.join(map(str, first['loc'][1:]))}: {first['msg']}",
            where=where,
            help="something changed it since; run the pipeline again with --json",
        ) from None
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
