"""An index of the pass library, so that a pipeline imports only the passes that it names.

Its file says in which module each pass is, what it promises and does, which operators its
rules need, and which passes a group has. Nothing of the library is imported to read it.
``make docs`` writes it, and a test compares it with the sources.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onnx_passes.passes.base import Pass

PACKAGE = "onnx_passes.passes"
ENTRY_POINTS = PACKAGE
"""The group of entry points by which installed packages announce their passes."""
FOLDER = Path(__file__).parent / "passes"
FILE = FOLDER / "library_index.json"


@dataclass(frozen=True)
class LibraryIndex:
    """Where the passes of the library are.

    ``places`` maps pipeline names and class names to modules. ``groups`` maps each further
    name to class names, in the order of registration. ``rows`` are sorted by group.
    ``operators`` are what rules of a pass need, as ``Mul,Erf|Gelu``: all of a set, of any set.
    """

    places: Mapping[str, str]
    groups: Mapping[str, Sequence[str]]
    rows: Sequence[Mapping[str, str]]
    operators: Mapping[str, str]

    def __contains__(self, name: str) -> bool:
        """Return whether the library has a pass or a group of this name."""
        return name in self.places or name in self.groups

    def modules_of(self, name: str) -> list[str]:
        """Return the modules to import for a pass or a group; none for an unknown name."""
        names = [name] if name in self.places else []
        names += self.groups.get(name, ())
        return list(dict.fromkeys(self.places[n] for n in names))

    def may_match(self, name: str, operators: AbstractSet[tuple[str, str]]) -> bool:
        """Return whether a model of these operators may hold what rules of a pass match."""
        sets = self.operators.get(name, "").split("|")
        return any(operators >= {_operator(o) for o in one.split(",") if o} for one in sets)


def read_index() -> LibraryIndex | None:
    """Return the index; None if there is none, or it was made of other modules."""
    try:
        found = json.loads(FILE.read_text("utf-8"))
    except FileNotFoundError:
        return None
    if found["modules"] != sorted(_modules()):
        return None
    places: dict[str, str] = {}
    rows: list[dict[str, str]] = []
    operators: dict[str, str] = {}
    for module, passes in found["passes"].items():
        for name, (class_name, contract, summary, *needed) in passes.items():
            operators[name] = "".join(needed)
            places[name] = places[class_name] = f"{PACKAGE}.{module}"
            row = {"name": name, "group": group_of(module), "contract": contract}
            rows.append({**row, "summary": summary})
    rows.sort(key=lambda row: (row["group"], row["name"]))
    return LibraryIndex(places, found["groups"], rows, operators)


def group_of(module: str) -> str:
    """Return the folder of a module (named within the package of passes), or its own name."""
    return module.rpartition(".")[0] or module


def summary_of(cls: type[Pass]) -> str:
    """Return the first line of a pass's docstring."""
    return (inspect.getdoc(cls) or "").partition("\n")[0] if cls.__doc__ else ""


@cache
def library_index() -> LibraryIndex | None:
    """Return the index of the library, read once in a process."""
    return read_index()


def index_text(
    passes: Iterable[type[Pass]], groups: Mapping[str, Sequence[type[Pass]]]
) -> str:
    """Return what the file of the index holds; all passes are imported."""
    by_module: dict[str, dict[str, list[str]]] = {}
    for cls in sorted(passes, key=lambda cls: (cls.__module__, cls.name)):
        module = cls.__module__.removeprefix(f"{PACKAGE}.")
        told = [cls.__name__, cls.promise(), summary_of(cls), *_needed(cls)]
        by_module.setdefault(module, {})[cls.name] = told
    found = {
        "modules": sorted(_modules()),
        "passes": by_module,
        "groups": {name: [c.__name__ for c in groups[name]] for name in sorted(groups)},
    }
    return json.dumps(found, indent=1) + "\n"


def _needed(cls: type[Pass]) -> list[str]:
    """Return the operators that a pass needs, as one text; none where that is not known."""
    from onnx_passes.passes.options import plain_defaults

    if not cls.repeats_itself or plain_defaults(cls) is None:
        return []
    sets = [sorted(map(_operator_text, one)) for one in cls().operator_sets()]
    return ["|".join(sorted(map(",".join, sets)))] if all(sets) else []


def _operator_text(operator: tuple[str, str]) -> str:
    return "::".join(filter(None, operator))


def _operator(text: str) -> tuple[str, str]:
    domain, _, name = text.rpartition("::")
    return domain, name


def _modules(folder: Path = FOLDER, prefix: str = "") -> Iterator[str]:
    """Yield the names of the modules that have a file, within the package."""
    for path in folder.iterdir():
        if path.suffix == ".py":
            yield prefix + path.stem
        elif path.name != "__pycache__" and path.is_dir():
            yield from _modules(path, f"{prefix}{path.name}.")
