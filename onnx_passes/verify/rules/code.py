"""The code of a module: its text without what cannot change a verdict."""

from __future__ import annotations

import ast
import hashlib
import io
import tokenize
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TypeAlias

Names: TypeAlias = "frozenset[str] | None"
"""What is read of a module, by the names that it defines; None for all of it."""


def hash_of(modules: Iterable[Path] | Mapping[Path, Names]) -> str:
    """Return the SHA-256 of the code of some modules, whatever their names and order.

    Args:
        modules: Their files, each with what is read of it if that is not all.

    Raises:
        OSError: A file cannot be read.
        SyntaxError: A file is not Python.
    """
    parts = modules if isinstance(modules, Mapping) else dict.fromkeys(modules)
    texts = sorted(code_of(path.read_text("utf-8"), names) for path, names in parts.items())
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


@cache
def code_of(text: str, names: Names = None) -> str:
    """Return a module's text without comments, docstrings, empty lines and import paths.

    Of an import, the names count that it binds. Where they come from does not, so that a moved
    module leaves certificates as they are. The result is the same on each version of
    Python, because nothing is printed from a syntax tree.

    Args:
        text: The module.
        names: What is read of it: the rest counts only as far as these depend on it.

    Raises:
        SyntaxError: The text is not Python.
    """
    lines = text.splitlines()
    for row, column in _comments(text):
        lines[row] = lines[row][:column]
    bound, tree = set(), ast.parse(text)
    wanted = _reached(tree, names)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            bound |= {
                f"{name.name} as {name.asname or name.name}"
                for name in node.names
                if wanted is None or (name.asname or name.name) in wanted
            }
            _remove(lines, node)
        elif (docstring := _docstring(node)) is not None:
            _remove(lines, docstring)
    for statement in tree.body:
        if wanted is not None and _defined(statement).isdisjoint(wanted):
            _remove(lines, statement)
    return "\n".join([*sorted(bound), *(line.rstrip() for line in lines if line.strip())])


@cache
def imports_of(text: str, names: Names) -> tuple[tuple[str, str], ...]:
    """Return the modules and names that a part of a module imports.

    Args:
        text: The module.
        names: What is read of it.

    Raises:
        SyntaxError: The text is not Python.
    """
    tree = ast.parse(text)
    wanted = _reached(tree, names)
    return tuple(
        (str(node.module), name.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and not node.level
        for name in node.names
        if wanted is None or (name.asname or name.name) in wanted
    )


def _reached(tree: ast.Module, names: Names) -> set[str] | None:
    """Return the names that definitions of a module depend on; None for all."""
    if names is None:
        return None
    read = {
        name: {n.id for n in ast.walk(statement) if isinstance(n, ast.Name)}
        for statement in tree.body
        for name in _defined(statement)
    }
    found, waiting = set[str](), [*names]
    while waiting:
        if (name := waiting.pop()) not in found:
            found.add(name)
            waiting += read.get(name, ())
    return found


def _defined(statement: ast.stmt) -> set[str]:
    """Return the names that a statement defines."""
    if isinstance(statement, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        return {statement.name}
    nodes = ast.walk(statement)
    return {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _comments(text: str) -> list[tuple[int, int]]:
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    return [(t.start[0] - 1, t.start[1]) for t in tokens if t.type == tokenize.COMMENT]


def _docstring(node: ast.AST) -> ast.stmt | None:
    """Return the statement that documents a module, class or function."""
    body = getattr(node, "body", None)
    if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        return None
    first = body[0] if body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        return first if isinstance(first.value.value, str) else None
    return None


def _remove(lines: list[str], node: ast.stmt) -> None:
    """Empty the lines of a statement that shares none with another."""
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(d.lineno for d in decorators)])
    last = node.end_lineno or node.lineno
    lines[first - 1 : last] = [""] * (last - first + 1)
