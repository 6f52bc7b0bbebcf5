"""The numbers that a rule's author wrote down: what its guard compares with."""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
import types
from collections.abc import Callable, Iterator
from typing import Any

from onnxscript.rewriter import RewriteRule

from onnx_passes.verify.rules.pattern import replacement_of

_USUAL = (0.0, 1.0, 2.0, -1.0, 0.5, 3.0, 6.0)


def literals(rule: RewriteRule) -> list[float]:
    """Return the numbers in the code of a rule's check, rewrite and pattern.

    Followed by numbers that guards usually ask for, those that are there already left out.
    """
    functions = (rule._condition_function, replacement_of(rule)._function)
    found = [n for f in functions if f is not None for n in _of_callable(f)]
    return list(dict.fromkeys([*found, *_USUAL]))


@functools.lru_cache(256)
def guarded(rule: RewriteRule) -> dict[str, list[float]]:
    """Return the numbers that a rule's check holds each of its variables against.

    A call such as ``is_singleton_value(clip_min, 0.0)`` says that clip_min is to be 0; so does
    a comparison. Read from the source, where there is one.
    """
    found: dict[str, list[float]] = {}
    for tree in _sources(rule._condition_function):
        for node in ast.walk(tree):
            sides: list[ast.expr] = []
            if isinstance(node, ast.Call):
                sides = list(node.args)
            elif isinstance(node, ast.Compare):
                sides = [node.left, *node.comparators]
            names = [side.id for side in sides if isinstance(side, ast.Name)]
            numbers = [n for side in sides if (n := _number(side)) is not None]
            for name in names:
                found.setdefault(name, []).extend(numbers)
    return {name: numbers for name, numbers in found.items() if numbers}


def _number(node: ast.expr) -> float | None:
    """Return a number as the source spells it, with its sign."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _number(node.operand)
        return None if inner is None else -inner
    value = node.value if isinstance(node, ast.Constant) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value)


def _sources(function: Any) -> Iterator[ast.AST]:
    owner = getattr(function, "__self__", None)
    functions = [function]
    if owner is not None:
        functions += [
            getattr(kind, function.__name__)
            for kind in type(owner).__mro__
            if hasattr(kind, function.__name__)
        ]
    for one in functions:
        try:
            yield ast.parse(textwrap.dedent(inspect.getsource(one)))
        except (OSError, TypeError, SyntaxError):
            continue  # made at run time, or a lambda in the middle of an expression


def _of_callable(function: Callable[..., object]) -> Iterator[float]:
    owner = getattr(function, "__self__", None)
    if owner is not None:
        for value in [*vars(owner).values(), *vars(type(owner)).values()]:
            yield from _numbers(value)
            if inspect.isfunction(value):
                yield from _of_code(value.__code__)
    plain = inspect.unwrap(getattr(function, "__func__", function))
    for cell in getattr(plain, "__closure__", None) or ():
        try:
            yield from _numbers(cell.cell_contents)
        except ValueError:
            continue  # a cell that was never filled
    if isinstance(plain, types.FunctionType):
        yield from _of_code(plain.__code__)


def _of_code(code: types.CodeType) -> Iterator[float]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _of_code(constant)
        else:
            yield from _numbers(constant)


def _numbers(value: object) -> Iterator[float]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)
    elif isinstance(value, tuple | list | frozenset):
        for item in value:
            yield from _numbers(item)
