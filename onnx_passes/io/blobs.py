"""A store of byte strings by content: what has a name is complete, and never changes."""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Set as AbstractSet
from contextlib import suppress
from pathlib import Path

from onnx_passes.errors import ModelError
from onnx_passes.io.atomic import pending

GRACE = 3600.0
"""Seconds for which a blob that nothing refers to yet is left alone: its writer may be about
to."""


class Blobs:
    """Byte strings in a folder, each in a file named by its SHA-256.

    Any number of processes may read, write and remove at once: a file appears by being renamed
    into place, and all writers of one name write the same bytes.

    Args:
        folder: Made when the first blob is written.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, data: bytes | memoryview) -> str:
        """Keep some bytes, unless they are kept already, and return their digest.

        Raises:
            OSError: They cannot be written.
        """
        digest = hashlib.sha256(data).hexdigest()
        path = self.path(digest)
        try:
            # The time of the last use tells those who clean up that it is needed.
            os.utime(path)
            if path.stat().st_size == len(data):
                return digest
        except FileNotFoundError:
            path.parent.mkdir(parents=True, exist_ok=True)
        with pending(path) as file:
            file.write(data)
            file.publish(path)
        return digest

    def get(self, digest: str) -> bytes:
        """Return the bytes of a digest.

        Raises:
            ModelError: They are gone, or are not what they were.
        """
        try:
            data = self.path(digest).read_bytes()
        except OSError as error:
            raise ModelError(
                f"a part of a saved state is gone: {error.strerror or error}",
                where=str(self.path(digest)),
            ) from error
        if hashlib.sha256(data).hexdigest() != digest:
            raise ModelError(
                "a part of a saved state is not what was written",
                where=str(self.path(digest)),
            )
        return data

    def path(self, digest: str) -> Path:
        """Return where the bytes of a digest are, or would be."""
        return self.folder / digest[:2] / digest

    def sizes(self) -> dict[str, int]:
        """Return the size in bytes of each blob."""
        found = {}
        for path in self.folder.glob("??/*"):
            with suppress(OSError):
                found[path.name] = path.stat().st_size
        return found

    def sweep(self, used: AbstractSet[str], *, grace: float = GRACE) -> None:
        """Remove the blobs that nobody refers to, and what interrupted writers have left.

        Args:
            used: The digests that are referred to.
            grace: Seconds for which a blob is kept after its last use all the same.
        """
        oldest = time.time() - grace
        for path in self.folder.glob("??/*"):
            with suppress(OSError):
                if path.name not in used and path.stat().st_mtime < oldest:
                    path.unlink()
