"""The numbers that a rule's author wrote down: what its guard compares with."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

from onnxscript.rewriter import RewriteRule

_USUAL = (0.0, 1.0, 2.0, -1.0, 0.5, 3.0, 6.0)


def literals(rule: RewriteRule) -> list[float]:
    """Return the numbers in the code of a rule's check, rewrite and pattern.

    Followed by numbers that guards usually ask for, those that are there already left out.
    """
    replacement: Any = rule._replacement_pattern
    functions = (rule._condition_function, replacement._function)
    found = [n for f in functions if f is not None for n in _of_callable(f)]
    return list(dict.fromkeys([*found, *_USUAL]))


def _of_callable(function: Callable[..., Any]) -> Iterator[float]:
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


def _numbers(value: Any) -> Iterator[float]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield float(value)
    elif isinstance(value, tuple | list | frozenset):
        for item in value:
            yield from _numbers(item)
