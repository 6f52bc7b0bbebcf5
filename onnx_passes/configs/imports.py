"""The modules that a pipeline file names under ``imports:``."""

from __future__ import annotations

import importlib
import os
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import PathFinder
from pathlib import Path

from onnx_passes.configs.schema import PipelineConfig
from onnx_passes.errors import ConfigError, OnnxPassesError, did_you_mean
from onnx_passes.passes.registry import Scope, for_pipeline

_lock = threading.RLock()
_ours: dict[str, Path] = {}  # modules found from a config's folder, with that folder
_added: list[str] = []  # what search_path has put on sys.path


def import_modules(config: PipelineConfig) -> Scope:
    """Import what ``imports:`` names, so that its passes, metrics and engines register.

    Modules are found from the folder of the config, the working folder, and the environment,
    in this order. A module from another config's folder does not count as one of the same name
    here. Nothing else is imported.

    Return the scope of these modules, whose passes win over those of the library. ConfigError
    if a module is not there, or fails to import.
    """
    if not config.imports:
        return Scope()
    with _lock, search_path(config.folder), for_pipeline():
        importlib.invalidate_caches()
        for index, name in enumerate(config.imports):
            where = config.where("imports", index)
            _check_name(name, where)
            _check_not_hidden(name, config.folder, where)
            _import(name, config.folder, where)
    return Scope(config.imports, config.folder)


@contextmanager
def search_path(folder: Path) -> Iterator[None]:
    """Let Python find modules from the folder of a config, and the working folder, first.

    A run goes inside of it, as a pass may import a module when it is called.
    """
    added = list(dict.fromkeys([str(folder), os.getcwd()]))
    is_ours = sys.path.count(str(folder)) == _added.count(str(folder))
    _forget_other_folders(folder)
    known = set(sys.modules)
    sys.path[:0] = added
    _added.extend(added)
    try:
        yield
    finally:
        # A module may have changed the path for its own needs: take back only what is ours.
        for entry in added:
            _added.remove(entry)
            if entry in sys.path:
                sys.path.remove(entry)
        if is_ours:
            new = set(sys.modules) - known
            _ours.update({name: folder for name in new if _is_from(name, folder)})


def _forget_other_folders(folder: Path) -> None:
    for name in [n for n, home in _ours.items() if home != folder]:
        sys.modules.pop(name, None)
        del _ours[name]


def _is_from(name: str, folder: Path) -> bool:
    """Whether a module was found in the folder itself, and not in an environment below it."""
    file = getattr(sys.modules[name], "__file__", None)
    if not isinstance(file, str) or not Path(file).absolute().is_relative_to(folder):
        return False
    first = Path(file).absolute().relative_to(folder).parts[0]
    return first.partition(".")[0] == name.partition(".")[0]


def _check_name(name: str, where: str | None) -> None:
    if name and all(part.isidentifier() for part in name.split(".")):
        return
    module = name.removesuffix(".py").removeprefix("./").replace("/", ".").strip(".")
    fits = module != name and all(part.isidentifier() for part in module.split("."))
    way = f"write {module}" if fits else "a name has letters, digits and _, and dots between"
    if name.startswith(("/", "..")):
        way = "modules are found beside the pipeline file, in this folder and on PYTHONPATH"
    raise ConfigError(f"{name!r} is not the name of a module", where=where, help=way)


def _check_not_hidden(name: str, folder: Path, where: str | None) -> None:
    """Refuse a module of the folder that Python would not import, having one of its name."""
    top = name.partition(".")[0]
    loaded = sys.modules.get(top)
    if loaded is None or top == "onnx_passes":
        return
    spec = PathFinder.find_spec(top, [str(folder)])
    file = getattr(loaded, "__file__", None)
    if spec is None or spec.origin is None or (file and Path(file).samefile(spec.origin)):
        return
    raise ConfigError(
        f"{spec.origin} is hidden by the module {top!r} that is already imported"
        + (f" from {file}" if file else ""),
        where=where,
        help="rename the file",
    )


def _import(name: str, folder: Path, where: str | None) -> None:
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise _failed(name, error, where) from error
        raise _missing(name, folder, where) from error
    except OnnxPassesError as error:
        raise ConfigError(
            f"module {name!r} fails to import: {error.message}", where=where, help=error.help
        ) from error
    except (Exception, SystemExit) as error:
        raise _failed(name, error, where) from error


def _missing(name: str, folder: Path, where: str | None) -> ConfigError:
    if name.endswith(".py"):
        return ConfigError(
            f"there is no module {name!r}",
            where=where,
            help=f"a module is named without .py: write {name.removesuffix('.py')}",
        )
    near = {p.stem for p in folder.glob("*.py")}
    near |= {p.parent.name for p in folder.glob("*/__init__.py")}
    places = " nor ".join(dict.fromkeys([str(folder), os.getcwd()]))
    return ConfigError(
        f"there is no module {name!r}",
        where=where,
        help=did_you_mean(name, near, f"it is neither in {places} nor in the environment"),
    )


def _failed(name: str, error: BaseException, where: str | None) -> ConfigError:
    summary = traceback.format_exception_only(error)[-1].strip()
    if isinstance(error, SyntaxError):
        summary = f"SyntaxError: {error.msg}"
        at: tuple[str | None, int | None] | None = (error.filename, error.lineno)
    else:
        frames = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if not frame.filename.startswith("<frozen")
            and frame.filename != __file__
            and frame.filename != importlib.__file__
        ]
        at = (frames[-1].filename, frames[-1].lineno) if frames else None
    place = f" ({at[0]}:{at[1]})" if at is not None else ""
    return ConfigError(
        f"module {name!r} fails to import: {summary}{place}",
        where=where,
        help="repair it, or run with --debug to see the traceback",
    )
