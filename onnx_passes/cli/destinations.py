"""Can what a run makes be written where it is asked for? Known before it starts."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from onnx_passes.errors import UsageError


def check_destinations(
    output: Path | None,
    reports: Mapping[str, Path | None],
    inputs: Mapping[str, Sequence[Path]],
) -> None:
    """Check that files can be written, and that none takes the place of what is read.

    The model may be written over itself: it is replaced in one step, once all is verified.

    Args:
        output: Where the model goes.
        reports: Where reports go, by option.
        inputs: The files that the run reads, by what they are.

    Raises:
        UsageError: A place is not a place for a file, or is in use.
    """
    wanted = {"-o": output, **reports}
    taken: dict[Path, str] = {}
    for option, path in wanted.items():
        if path is None:
            continue
        _check_place(option, path)
        for what, files in inputs.items():
            if what == "the model" and option == "-o":
                continue
            if any(_same(path, file) for file in files):
                raise UsageError(
                    f"{option} {path} would write over {what}", help="give another path"
                )
        other = taken.setdefault(Path(os.path.realpath(path)), option)
        if other != option:
            raise UsageError(
                f"{option} and {other} name the same file {path}", help="give two paths"
            )


def check_folder(option: str, path: Path) -> None:
    """Check that a folder can be written to, or made.

    Args:
        option: The option that names it, for messages.
        path: The folder.

    Raises:
        UsageError: It cannot.
    """
    if os.path.lexists(path) and not path.is_dir():
        raise UsageError(f"{option} {path} is not a folder", help="name a folder")
    folder = path.absolute()
    while not os.path.lexists(folder):
        folder = folder.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(
            f"{option} {path}: {folder} may not be written to",
            help="give a path in a folder that you may write to",
        )


def _check_place(option: str, path: Path) -> None:
    if option != "-o" and path.name == str(path) == "-":
        raise UsageError(f"{option} prints nothing on -", help="name a file: report.json")
    if path.is_dir():
        raise UsageError(f"{option} {path} is a folder", help="name a file in it")
    if path.exists() and not path.is_file():
        # Renaming a file over a device would take the device away.
        raise UsageError(
            f"{option} {path} is a pipe or device",
            help="name a file; -o - prints the model" if option == "-o" else "name a file",
        )
    folder = path.absolute().parent
    while not os.path.lexists(folder):  # folders are made
        folder = folder.parent
    if not folder.is_dir():
        raise UsageError(
            f"{option} {path}: {folder} is not a folder", help="give another path"
        )
    if not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(
            f"{option} {path}: the folder {folder} may not be written to",
            help="give a path in a folder that you may write to",
        )


def _same(path: Path, other: Path) -> bool:
    try:
        return path.samefile(other)
    except OSError:
        return False


def abandon_stdout() -> None:
    """Let nothing more be written to a pipe that nobody reads."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
