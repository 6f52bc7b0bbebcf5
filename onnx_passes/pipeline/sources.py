"""Digests of the source of passes, so that one that was repaired is known for another.

A module may hold several passes. A pass depends on its own class, on those that it names, and
on all of the module that is no pass: so repairing one pass leaves those beside it as they
were, and changing what they share does not. Modules that it imports count as a whole, if they
lie in its own package or beside it; what comes from other distributions counts by its version.
"""

from __future__ import annotations

import ast
import hashlib
import sys
import sysconfig
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from onnx_passes.errors import ModelError
from onnx_passes.passes.base import Pass

_ROOT = __name__.partition(".")[0]


class Sources:
    """Digests of source files, each read once.

    Args:
        since: Time, as :func:`time.time` has it, since which a file must not have changed:
            what was imported earlier would not be what is read now. None where nothing that is
            read is claimed to have run.
    """

    def __init__(self, since: float | None = None) -> None:
        self._since = since
        self._modules: dict[Path, _Module] = {}
        self._known: dict[type, str] = {}

    def of(self, cls: type) -> str:
        """Return the digest of a class and all that it is known to need.

        Raises:
            ModelError: Its source is not in a file, or has changed since it was imported.
        """
        if cls not in self._known:
            parts = []
            for base in cls.__mro__:
                if base in (object, Pass) or _is_foreign(base.__module__):
                    continue
                module = self._module(_file(base.__module__), base.__module__)
                parts.append(f"{base.__qualname__} {module.without_others(base)}")
                parts += sorted(self._imported(module))
            self._known[cls] = hashlib.sha256("\n".join(parts).encode()).hexdigest()
        return self._known[cls]

    def of_module(self, name: str) -> str:
        """Return the digest of a module without its passes, and of what it imports.

        Raises:
            ModelError: As :meth:`of`.
        """
        module = self._module(_file(name), name)
        parts = [module.without_others(None), *sorted(self._imported(module))]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def _module(self, path: Path, name: str) -> _Module:
        if path not in self._modules:
            try:
                if self._since is not None and path.stat().st_mtime > self._since:
                    raise ModelError(f"{path} has changed since the run began")
                module = _Module(path, name, path.read_bytes())
            except OSError as error:
                raise ModelError(f"{path} cannot be read: {error.strerror}") from error
            self._modules[path] = module
        return self._modules[path]

    def _imported(self, first: _Module) -> set[str]:
        """Return the digests of the modules that one imports, and they import."""
        seen, pending, found = {first.path}, [first], set()
        while pending:
            for path, name in pending.pop().imports:
                if path not in seen:
                    seen.add(path)
                    module = self._module(path, name)
                    pending.append(module)
                    found.add(f"{name} {module.digest}")
        return found


class _Module:
    """The source of a module."""

    def __init__(self, path: Path, name: str, source: bytes) -> None:
        self.path, self.name = path, name
        self.digest = hashlib.sha256(source).hexdigest()
        try:
            self.tree = ast.parse(source)
        except (SyntaxError, ValueError) as error:
            raise ModelError(f"{path} is no Python source any more: {error}") from error

    def without_others(self, cls: type | None) -> str:
        """Return the digest of the code without the passes that a class does not name."""
        held = vars(sys.modules.get(self.name)) if self.name in sys.modules else {}
        others = {
            node.name: node
            for node in self.tree.body
            if isinstance(node, ast.ClassDef) and _is_pass(held.get(node.name), self.name)
        }
        kept = [node for node in self.tree.body if node not in others.values()]
        if cls is not None and (own := others.pop(cls.__qualname__, None)) is not None:
            kept.append(own)
        pending = list(kept)
        while pending:
            for name in _names(pending.pop()):
                if (needed := others.pop(name, None)) is not None:
                    kept.append(needed)
                    pending.append(needed)
        text = "\n".join(ast.dump(node) for node in kept)
        return hashlib.sha256(text.encode()).hexdigest()

    @cached_property
    def imports(self) -> list[tuple[Path, str]]:
        """Files, and names, of the modules of the same package or folder that it imports."""
        parts = self.name.split(".")
        is_package = self.path.name == "__init__.py"
        root = self.path.parents[len(parts) - (0 if is_package else 1)]
        alone = parts[0] == _ROOT or _is_installed(root)
        package = parts if is_package else parts[:-1]
        found: dict[Path, str] = {}
        for name in _imported_names(self.tree, package):
            if alone and name.partition(".")[0] != parts[0]:
                continue
            file = root.joinpath(*name.split("."))
            for path in (file.with_name(f"{file.name}.py"), file / "__init__.py"):
                if path.is_file():
                    found[path] = name
        return list(found.items())


def _imported_names(tree: ast.Module, package: list[str]) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            if base:
                yield base
            for alias in node.names:
                yield f"{base}.{alias.name}" if base else alias.name


def _names(tree: ast.AST) -> set[str]:
    """Return the names that code mentions, as names or in text."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value)
    return found


def _is_pass(found: object, module: str) -> bool:
    return isinstance(found, type) and issubclass(found, Pass) and found.__module__ == module


def _is_foreign(module: str) -> bool:
    """Whether a module belongs to Python or to a distribution whose version is in the key."""
    top = module.partition(".")[0]
    return top in sys.stdlib_module_names or top in ("onnx_ir", "onnxscript", "onnx")


def _is_installed(root: Path) -> bool:
    places = {Path(path) for path in sysconfig.get_paths().values()}
    return root in places or "site-packages" in root.parts


def _file(module: str) -> Path:
    file = getattr(sys.modules.get(module), "__file__", None)
    if not isinstance(file, str) or not file.endswith(".py"):
        raise ModelError(f"the source of module {module!r} is in no file")
    return Path(file).absolute()
