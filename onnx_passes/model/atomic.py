"""Files that appear complete or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO


class Pending:
    """A file being written beside its place under a temporary name."""

    def __init__(self, temporary: Path, stream: BinaryIO) -> None:
        """Remember the two."""
        self.temporary, self.stream = temporary, stream

    def write(self, data: bytes | memoryview) -> None:
        """Add to the content."""
        self.stream.write(data)

    def flush(self) -> None:
        """Let readers of the temporary file see all that was written."""
        self.stream.flush()

    def publish(self, path: Path) -> None:
        """Flush to the disk and move into place, over any file that is there.

        The mode of a file that is replaced stays.
        """
        self.stream.flush()
        with suppress(FileNotFoundError):
            os.chmod(self.temporary, path.stat().st_mode & 0o777)
        os.fsync(self.stream.fileno())
        self.stream.close()
        os.replace(self.temporary, path)
        _sync_folder(path.parent)


@contextmanager
def pending(path: Path) -> Iterator[Pending]:
    """Open a file to be published at, or beside, a path; nothing is left if it is not.

    Raises:
        OSError: The folder cannot be written to.
    """
    temporary = path.with_name(f".{path.name[:200]}.{secrets.token_hex(6)}.tmp")
    # Not tempfile: its files are readable by their owner only, whatever the umask says.
    try:
        with open(temporary, "xb") as stream:
            yield Pending(temporary, stream)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()


def _sync_folder(folder: Path) -> None:
    """Make a rename last through a power cut, where the file system knows how."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
