"""What a user names: functions as ``module:function``, and files."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from onnx_passes.errors import ReferenceDataError, UsageError
from onnx_passes.model.formats import near_by
from onnx_passes.runtime.engine_base import did_you_mean


def named_function(text: str, option: str) -> Callable[..., Any]:
    """Import a function, from the working folder or the environment.

    Args:
        text: ``module:function``.
        option: What named it, for messages.

    Raises:
        UsageError: There is none.
    """
    module_name, _, name = text.partition(":")
    if not module_name or not name.isidentifier():
        raise UsageError(f"{option} {text!r} is not a function", help="write module:function")
    folder = str(Path.cwd())
    sys.path.insert(0, folder)
    try:
        importlib.invalidate_caches()
        module = importlib.import_module(module_name)
    except Exception as error:  # whatever the module raises
        raise UsageError(
            f"{option} {text!r}: the module {module_name!r} cannot be imported: "
            f"{type(error).__name__}: {error}",
            help=f"modules are looked for in {folder} and the environment",
        ) from error
    finally:
        sys.path.remove(folder)
    function = getattr(module, name, None)
    if not callable(function):
        known = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
        raise UsageError(
            f"{option}: the module {module_name!r} has no function {name!r}",
            help=did_you_mean(name, known),
        )
    found: Callable[..., Any] = function
    return found


def existing(path: str | os.PathLike[str], what: str) -> Path:
    """Return the path of a file or folder that is there.

    Args:
        path: The path.
        what: What it holds, for the message.

    Raises:
        ReferenceDataError: There is none; the message suggests one beside it.
    """
    full = Path(path).expanduser()
    if full.exists():
        return full
    near = near_by(full)
    option = f"--save-{what.removeprefix('saved ').replace('results', 'outputs')}"
    raise ReferenceDataError(
        f"there are no {what} {str(path)!r}",
        help=f"did you mean {near!r}?" if near else f"{option} writes such a file",
    )
