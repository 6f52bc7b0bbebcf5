"""Files of a data set: found by folder, pattern or URL, brought here, and hashed.

Libraries that only some data sets need are imported on first use.
"""

from __future__ import annotations

import glob
import hashlib
import os
from functools import cache
from pathlib import Path

from onnx_passes.errors import ReferenceDataError
from onnx_passes.model.formats import closest_file_name
from onnx_passes.optional import import_optional

_BLOCK = 1 << 20


def is_url(text: str) -> bool:
    """Whether a source is a URL, such as ``s3://bucket/folder``."""
    return "://" in text


def expand(text: str, base: str) -> list[str]:
    """Return the files and folders that a path, pattern or URL names, sorted.

    Relative paths start from ``base``. Raises ``ReferenceDataError`` if there are none, and
    ``UsageError`` if it is a URL and fsspec is not installed.
    """
    if is_url(text):
        return _expand_url(text)
    full = str(Path(base) / Path(text).expanduser())
    if os.path.exists(full):
        return [full]
    if glob.has_magic(text) and (found := sorted(glob.glob(full, recursive=True))):
        return found
    near = closest_file_name(Path(full))
    raise ReferenceDataError(
        f"there is no data {text!r}",
        where=full,
        help=f"did you mean {near!r}?" if near else "give a file, a folder or a pattern",
    )


def _expand_url(text: str) -> list[str]:
    fsspec = import_optional("fsspec")
    try:
        system, path = fsspec.core.url_to_fs(text)
        if glob.has_magic(path):
            found = system.glob(path)
        elif system.isdir(path):
            found = system.find(path)
        else:
            found = [path] if system.exists(path) else []
        names = sorted(system.unstrip_protocol(name) for name in found)
    except Exception as error:  # each file system has errors of its own
        raise ReferenceDataError(
            f"{text} cannot be listed: {type(error).__name__}: {error}",
            help="the library of its protocol may be missing, or access be denied",
        ) from error
    if not names:
        raise ReferenceDataError(f"there is no data {text!r}", help="check the URL")
    return names


@cache
def local(path: str) -> str:
    """Return a local path of a file; one behind a URL is copied to a temporary folder once.

    Raises ``ReferenceDataError`` if it cannot be copied.
    """
    if not is_url(path):
        return path
    fsspec = import_optional("fsspec")
    try:
        return str(fsspec.open_local(f"simplecache::{path}"))
    except Exception as error:  # each file system has errors of its own
        raise ReferenceDataError(
            f"{path} cannot be read: {type(error).__name__}: {error}", help="check access"
        ) from error


def digest(path: str) -> str:
    """Return the SHA-256 of a file's content, or of all files below a folder."""
    content = hashlib.sha256()
    root = Path(path)
    for file in sorted(p for p in root.rglob("*") if p.is_file()) if root.is_dir() else [root]:
        if file != root:
            content.update(f"{file.relative_to(root).as_posix()}\0".encode())
        with file.open("rb", buffering=0) as stream:
            while block := stream.read(_BLOCK):
                content.update(block)
    return content.hexdigest()
