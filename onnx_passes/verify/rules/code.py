"""The code of a module: its text without what cannot change a verdict."""

from __future__ import annotations

import ast
import hashlib
import io
import tokenize
from collections.abc import Iterable
from pathlib import Path


def hash_of(paths: Iterable[Path]) -> str:
    """Return the SHA-256 of the code of some modules, whatever their names and order.

    Raises:
        OSError: A file cannot be read.
        SyntaxError: A file is not Python.
    """
    texts = sorted(code_of(path.read_text("utf-8")) for path in paths)
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def code_of(text: str) -> str:
    """Return a module's text without comments, docstrings, empty lines and import paths.

    Of an import, the names count that it binds. Where they come from does not, so that a moved
    module leaves certificates as they are. The result is the same on each version of
    Python, because nothing is printed from a syntax tree.

    Raises:
        SyntaxError: The text is not Python.
    """
    lines = text.splitlines()
    for row, column in _comments(text):
        lines[row] = lines[row][:column]
    bound = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            bound |= {f"{name.name} as {name.asname or name.name}" for name in node.names}
            _remove(lines, node)
        elif (docstring := _docstring(node)) is not None:
            _remove(lines, docstring)
    return "\n".join([*sorted(bound), *(line.rstrip() for line in lines if line.strip())])


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
    last = node.end_lineno or node.lineno
    lines[node.lineno - 1 : last] = [""] * (last - node.lineno + 1)
