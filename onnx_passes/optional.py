"""Libraries that may be missing, and functions of the user: imported by names, and called."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from onnx_passes.errors import OnnxPassesError, UsageError, did_you_mean
from onnx_passes.plain import Foreign

EXTRAS = {
    "pyarrow": ("data", "reads Parquet files and Hugging Face data sets"),
    "scipy": ("data", "computes confidence intervals and integer programs"),
    "PIL": ("data", "decodes images"),
    "distributed": ("distributed", "runs data sets on a Dask cluster"),
}


def import_optional(module: str) -> Foreign:
    """Import a module of an optional library; ``UsageError`` says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        extra, use = EXTRAS[library]
        raise UsageError(
            f"the library {library!r}, which {use}, is not installed",
            help=f"in a checkout: pip install '.[{extra}]'",
        ) from error


def named_function(text: str, option: str) -> Callable[..., Foreign]:
    """Import ``module:function``, from the working folder too; or raise UsageError."""
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
            help=f"a module is named without .py: {module_name[:-3]}:{name}"
            if module_name.endswith(".py")
            else f"modules are looked for in {folder} and the environment",
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
    found: Callable[..., Foreign] = function
    return found


def users_line(error: BaseException) -> str:
    """Return the last line of the user's code that led to an error: `` (pass.py:12)``, or "".

    It is a line of no installed package, nor of this one.
    """
    ours = str(Path(__file__).parent)
    lines = [
        f" ({frame.filename}:{frame.lineno})"
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith((ours, "<")) and "site-packages" not in frame.filename
    ]
    return lines[-1] if lines else ""


@contextmanager
def users_call(
    what: str,
    kind: type[OnnxPassesError],
    help: str,
    *,
    where: str | None = None,
    let: tuple[type[Exception], ...] = (),
) -> Iterator[None]:
    """Make an error of a kind of what a function of the user raises.

    Errors of this package, and those that are `let`, reach the caller as they are.
    """
    try:
        yield
    except (Exception, SystemExit) as error:
        if isinstance(error, (OnnxPassesError, *let)):
            raise
        told = f"{what} raised {type(error).__name__}: {error}"
        raise kind(told, where=where, help=help) from error
