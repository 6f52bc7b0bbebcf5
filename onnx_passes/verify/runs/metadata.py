"""What saved results remember beside their values."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from onnx_passes.errors import ReferenceDataError
from onnx_passes.plain import Plain, PlainDict, PlainMapping
from onnx_passes.verify.runs.found import SAVED, Found, Run
from onnx_passes.verify.runs.timed import Latency

KEY = "onnx_passes"
"""Under which it lies in a file."""
SCHEMA = 1


def described(meta: Plain, path: Path) -> list[Run]:
    """Return the runs that a file says it has, without their values.

    Args:
        meta: The content of the file, as JSON has it.
        path: The file, for messages.

    Raises:
        ReferenceDataError: It is damaged, or of another version.
    """
    if not isinstance(meta, dict) or meta.get("schema") != SCHEMA:
        version = meta.get("schema") if isinstance(meta, dict) else None
        raise fault(path, f"is of schema {version}, not {SCHEMA}")
    try:
        return [
            _run(told, [str(digest) for digest in meta["inputs"]]) for told in meta["runs"]
        ]
    except (KeyError, TypeError) as error:
        raise fault(path, f"is damaged: {type(error).__name__} {error}") from error


def _run(told: PlainMapping, inputs: list[str]) -> Run:
    latency = told["latency"]
    run = Run(
        str(told["name"]),
        str(told["model"]),
        str(told["engine"]),
        details=dict(told["details"]),
        names=[str(name) for name in told["names"]],
        types={str(name): str(text) for name, text in told["types"].items()},
        latency=None if latency is None else Latency(**latency),
        batches=int(told["batches"]),
        model_hash=str(told["model_hash"]),
        makers={str(name): str(node) for name, node in told["makers"].items()},
    )
    return replace(run, state=SAVED, inputs=inputs)


def metadata(runs: list[Run], found: Found) -> PlainDict:
    """Return what a file remembers, as plain data.

    Args:
        runs: The runs that are saved.
        found: The comparison, for digests of the inputs.
    """
    return {
        "schema": SCHEMA,
        "inputs": found.inputs,
        "runs": [run.as_dict() for run in runs],
    }


def fault(path: Path, what: str) -> ReferenceDataError:
    """Return an error about a file of results.

    Args:
        path: The file.
        what: What is wrong with it, as the end of a sentence.
    """
    return ReferenceDataError(
        f"{path.name!r} {what}", where=str(path), help="save it again with --save-outputs"
    )
