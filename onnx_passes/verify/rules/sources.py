"""The files that the verdict on a pass depends on: its own, and the helpers it imports."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path

from onnx_passes.ops import families
from onnx_passes.ops.operator_class import find
from onnx_passes.passes import hints as hints_module
from onnx_passes.verify.rules.code import Names, imports_of

FRAMEWORK = frozenset(
    f"onnx_passes.{name}"
    for name in (
        "errors",
        "contracts",
        "ops.families",
        "runtime",
        "verify",
        "passes.base",
        "passes.compose",
        "passes.context",
        "passes.driver",
        "passes.hints",
        "passes.options",
        "passes.patterns",
        "passes.registry",
        "passes.verify",
    )
)
"""What runs and judges every pass alike: a change of it leaves certificates as they are.

A pass that reads the descriptions of operators imports their modules, which then count.
"""


_RECORDS = frozenset(
    {
        "certificate.py",
        "certified.py",
        "code.py",
        "conformance.py",
        "random_calls.py",
        "sources.py",
        "told.py",
    }
)
"""Modules of the verifier that only record, show or serve other ends."""

_OF_NO_RULE = frozenset(
    {
        *("breakpoints.py", "decisions.py", "families.py", "node_edit.py", "changes.py"),
        *("early_changes.py", "later_changes.py", "image_changes.py"),
    }
)
"""Modules on operators that no verdict on a rule depends on: they decide on inputs, list the
families, or convert nodes to other versions."""


@dataclass(frozen=True)
class _Module:
    name: str
    path: Path
    is_package: bool


def sources_of(cls: type[object]) -> tuple[Path, ...]:
    """Return the file that defines a class, then its helpers, ordered by module.

    Helpers are the modules that it imports, anywhere in its text and at any distance, and that
    belong to the same package. For a module without a package, they are in the same folder.
    The framework that runs every pass is not among them.

    Args:
        cls: The class of a pass.

    Raises:
        TypeError: It has no source file.
        OSError: A file cannot be read.
    """
    own = Path(inspect.getfile(cls))
    root = _root(cls.__module__, own)
    start = _find(cls.__module__) or _Module(cls.__module__, own, own.stem == "__init__")
    found: dict[str, Path] = {}
    waiting = [start]
    while waiting:
        for module in _imported(waiting.pop()):
            inside = root is not None and module.path.resolve().is_relative_to(root)
            new = module.name not in found and module.path.resolve() != own.resolve()
            if inside and new and not _is_framework(module.name):
                found[module.name] = module.path
                waiting.append(module)
    return own, *(found[name] for name in sorted(found))


def verifier_of(operators: Collection[str], *, rules: bool) -> dict[Path, Names]:
    """Return the files that verdicts were found with, and what was read of each.

    Of the families of operators those descriptions count that the models needed: one that is
    added leaves certificates as they are.

    Args:
        operators: Names of the operators that the models had, the domain in front of them if
            it is not the main one.
        rules: Whether rules were judged, and not a pass as a whole on random models.
    """
    verify, ops = (Path(__file__).parents[1], Path(families.__file__).parent)
    if not rules:
        return dict.fromkeys(sorted((verify / "models").rglob("*.py")))
    known = [module for module in vars(families).values() if inspect.ismodule(module)]
    paths = {module.__name__: Path(module.__file__ or "") for module in known}
    passed_over = {path.name for path in paths.values()} | _OF_NO_RULE
    core = [path for path in ops.glob("*.py") if path.name not in passed_over]
    judges = [p for p in (verify / "rules").glob("*.py") if p.name not in _RECORDS]
    form = Path(hints_module.__file__)
    found: dict[Path, Names] = dict.fromkeys([*core, *judges, form])
    found |= dict.fromkeys((ops / "domains").glob("*.py"))
    described = (find(*_parted(name)) for name in operators)
    waiting = [(type(each).__module__, type(each).__name__) for each in described if each]
    read: dict[str, set[str]] = {}
    while waiting:
        module, name = waiting.pop()
        if name in read.setdefault(module, set()):
            continue
        read[module].add(name)
        path = paths.get(module) or Path(inspect.getfile(importlib.import_module(module)))
        imported = imports_of(path.read_text("utf-8"), frozenset((name,)))
        waiting += [(other, what) for other, what in imported if other in paths]
        if path not in found or found[path] is not None:
            found[path] = frozenset(read[module])
    return dict(sorted(found.items()))


def _parted(name: str) -> tuple[str, str]:
    domain, _, op_type = name.rpartition(":")
    return domain, op_type


def _root(name: str, own: Path) -> Path | None:
    """Return the folder that helpers lie in; None where neighbours are strangers."""
    top = name.partition(".")[0]
    spec = _spec(top)
    if spec is not None and spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations))).resolve()
    folder = own.resolve().parent
    return None if folder.name in ("site-packages", "dist-packages") else folder


def _is_framework(name: str) -> bool:
    return any(name == part or name.startswith(f"{part}.") for part in FRAMEWORK)


def _imported(module: _Module) -> Iterator[_Module]:
    tree = ast.parse(module.path.read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from filter(None, (_find(alias.name) for alias in node.names))
        elif isinstance(node, ast.ImportFrom):
            base = _absolute(module, node)
            for alias in node.names:
                yield from _named(base, alias.name)


def _named(base: str, name: str, depth: int = 0) -> Iterator[_Module]:
    """Yield what ``from base import name`` reads: a module, or the one that defines the name.

    A package's own file is passed over: most import all of their modules, which the importer
    need not use.
    """
    submodule, module = _find(f"{base}.{name}"), _find(base)
    if submodule is not None and not submodule.is_package:
        yield submodule
    elif module is not None and not module.is_package:
        yield module
    elif module is not None and submodule is None and depth < 4:
        for node in ast.walk(ast.parse(module.path.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom):
                names = {alias.asname or alias.name: alias.name for alias in node.names}
                if name in names:
                    yield from _named(_absolute(module, node), names[name], depth + 1)


def _absolute(module: _Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = module.name.split(".")
    kept = parts[: len(parts) - node.level + (1 if module.is_package else 0)]
    return ".".join([*kept, *([node.module] if node.module else [])])


def _find(name: str) -> _Module | None:
    spec = _spec(name)
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    return _Module(name, Path(spec.origin), spec.submodule_search_locations is not None)


def _spec(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return None  # an optional dependency, or a script's own name
