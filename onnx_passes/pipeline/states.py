"""Saved states of runs on the disk: a folder each, with a model and what was done to it.

A folder is written under a temporary name and renamed, so that readers see all of it or
nothing. Its name is the digest of ``state.json``, which has those of the other files.
Processes share no file, so they need no locks.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import onnx_ir as ir

from onnx_passes.errors import ModelError
from onnx_passes.model.load import load_model
from onnx_passes.model.save import save_model
from onnx_passes.plain import PlainDict

FOLDER = "states-2"
"""Where states are in a cache: the name of their layout."""

KEPT = 4
"""Number of states that are kept; the oldest are removed first."""

_TORN = ".tmp"


def save_state(folder: Path, model: ir.Model, state: PlainDict) -> Path:
    """Save a model with data that JSON can hold, and remove states that are too many.

    Args:
        folder: The folder of all states.
        model: The model.
        state: The data.

    Raises:
        ModelError: The model cannot be saved.
        OSError: The folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(_TORN, dir=folder, ignore_cleanup_errors=True) as temporary:
        files = save_model(model, Path(temporary, "model.onnx"), external_data="inline")
        digests = {file.name: digest_file(file) for file in files}
        text = json.dumps({**state, "id": temporary, "files": digests}).encode()
        Path(temporary, "state.json").write_bytes(text)
        path = Path(temporary).rename(folder / hashlib.sha256(text).hexdigest())
    for old in (*list_states(folder)[KEPT:], *list_states(folder, _TORN)[KEPT:]):
        remove_state(old)
    return path


def list_states(folder: Path, suffix: str = "") -> list[Path]:
    """Return the states in a folder, the newest first.

    Args:
        folder: The folder of all states.
        suffix: The ending of those that are listed; empty for complete ones.
    """
    found: list[tuple[float, Path]] = []
    with suppress(OSError):
        for path in folder.iterdir():
            with suppress(FileNotFoundError):  # another process has removed it
                found.append((path.stat().st_mtime, path))
    return [path for _, path in sorted(found, reverse=True) if path.suffix == suffix]


def read_state(path: Path) -> PlainDict:
    """Read the data of a state.

    Raises:
        ModelError: It is missing, or is not what was saved.
    """
    _check_digest(path / "state.json", path.name)
    state: PlainDict = json.loads((path / "state.json").read_bytes())
    return state


def read_model(path: Path, state: PlainDict) -> ir.Model:
    """Read the model of a state, which counts as new from now on.

    Args:
        path: The folder of the state.
        state: Its data.

    Raises:
        ModelError: A file is missing, or is not what was saved.
    """
    for name, digest in state["files"].items():
        _check_digest(path / name, digest)
    os.utime(path)
    return load_model(path / "model.onnx").model


def remove_state(path: Path | None) -> None:
    """Remove a state, if there is one."""
    if path is not None:
        shutil.rmtree(path, ignore_errors=True)


def digest_file(path: Path) -> str:
    """Hash the content of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _check_digest(path: Path, digest: str) -> None:
    if digest_file(path) != digest:
        raise ModelError(f"{path} is damaged")
