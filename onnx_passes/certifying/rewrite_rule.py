"""A rule under test: the job that names it, its pattern, its literals, its application."""

from __future__ import annotations

import ast
import contextlib
import functools
import inspect
import math
import os
import sys
import textwrap
import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import onnx_ir as ir
from onnxscript.rewriter import RewriteRule, RewriteRuleClassBase, RewriteRuleSet

from onnx_passes.contracts import Equality, Tolerance, contracts_of
from onnx_passes.errors import UsageError
from onnx_passes.passes.context import Rewrites
from onnx_passes.passes.patterns import PatternInfo
from onnx_passes.passes.rewriting import rewrite

GRACE = 120.0
"""The most seconds on top of the time asked for: imports, shrinking, the proof."""

_LEAST_GRACE = 18.0
"""Seconds that a child has beyond those of the property test, at the least."""

GIB = 1 << 30


@dataclass(frozen=True)
class Job:
    """What one child does.

    `subject` is ``module:object``, without `index` a pass that is not a rewrite rule. `level`
    is "test", "prove" or "all". `memory` is in bytes. `seconds` limits the property test. The
    child is ended at 1.9 times that, or `grace` after it if that is sooner. The test also ends
    after `faults` faults of different sorts. The engine runs in the child's own process, which
    takes half the time, unless it is to be `apart`.
    """

    subject: str
    index: int | None = 0
    level: str = "all"
    seconds: float = 10.0
    seed: int = 0
    folder: str | None = None
    memory: int = 8 * GIB
    models: int = 200
    grace: float = GRACE
    faults: int = 1
    apart: bool = False

    @property
    def limit(self) -> float:
        """Seconds after which the child is ended."""
        return self.seconds + min(self.grace, max(_LEAST_GRACE, 0.9 * self.seconds))


def resolve(subject: str) -> Any:
    """Return what ``module:object`` names, in the current folder too, or raise UsageError."""
    import importlib

    module_name, _, path = subject.partition(":")
    if not module_name or not path:
        raise UsageError(f"{subject!r} is not of the form module:object")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module_name)
    except Exception as error:
        raise UsageError(
            f"the module {module_name!r} does not import: {type(error).__name__}: {error}",
            help="run from the folder that holds it, or install it",
        ) from error
    for part in path.split("."):
        if not hasattr(found, part):
            raise UsageError(f"the module {module_name!r} has no object {path!r}")
        found = getattr(found, part)
    return found


PatternPart: TypeAlias = Any
"""A pattern, or a node, value or attribute of one: the classes of onnxscript are private."""


def pattern_of(rule: RewriteRule) -> PatternPart:
    """Return the pattern of a rule; to iterate over it yields its nodes."""
    return rule._target_pattern


def replacement_of(rule: RewriteRule) -> PatternPart:
    """Return what a rule replaces its pattern by."""
    return rule._replacement_pattern


def alternatives_of(value: PatternPart) -> Sequence[PatternPart] | None:
    """Return the alternatives of an Or pattern, or None for any other value."""
    found: Sequence[PatternPart] | None = getattr(value, "_values", None)
    if found is None and hasattr(value, "_op_to_pattern"):
        return [choice for _, choice in value._op_to_pattern.values()]
    return found


RuleLike: TypeAlias = Any
"""A rule or several: see ``rules_of``."""


def rules_of(subject: RuleLike) -> list[RewriteRule]:
    """Return the onnxscript rules that an object describes.

    It may be a rule, a rule set, a rule class, a pass, any object with ``pattern`` and
    ``rewrite``, or a class of these that needs no arguments; else UsageError.
    """
    if isinstance(subject, type):
        try:
            subject = for_certificate(subject)
        except TypeError as error:
            raise UsageError(
                f"rule class {subject.__name__} cannot be made without arguments: {error}",
                help="pass an instance",
            ) from None
    if isinstance(subject, RewriteRule):
        return [subject]
    rules = getattr(subject, "rules", None)
    if rules is not None:
        return list(rules() if callable(rules) else rules)
    pattern, rewrite = getattr(subject, "pattern", None), getattr(subject, "rewrite", None)
    if not callable(pattern) or not callable(rewrite):
        raise UsageError(
            f"{type(subject).__name__} is no rewrite rule: it lacks pattern or rewrite",
            help="give an onnxscript RewriteRule, or a class with pattern, check and rewrite",
        )
    name = str(getattr(subject, "name", type(subject).__name__))
    further = {}
    if isinstance(subject, RewriteRuleClassBase):
        further = {k: getattr(subject, k) for k in ("remove_nodes", "as_function")}
        further |= {"graph_pre_visitor": subject.setup, "graph_post_visitor": subject.cleanup}
    check = getattr(subject, "check", None)
    return [RewriteRule(pattern, rewrite, check, name=name, **further)]


def for_certificate(cls: type[object]) -> Any:
    """Return a pass as it is certified: with what its options let it assume.

    A guard that asks for an assumption admits little without it. What is assumed is not
    tested against: see ``assumes_finite``.
    """
    names = [n for n in _fields(cls) if n.startswith("assume_")]
    return cls(**dict.fromkeys(names, True))


def assumes_finite(cls: type[object]) -> bool:
    """Whether a pass claims something for finite numbers alone: always, or by an option."""
    return bool(getattr(cls, "finite_only", False)) or "assume_no_nan" in _fields(cls)


def declared_by(cls: type[object]) -> Equality | Tolerance | None:
    """Return what a pass declares of the values that it keeps."""
    declared = contracts_of(cls)
    return next((c for c in declared if isinstance(c, Equality | Tolerance)), None)


def _fields(cls: type[object]) -> list[str]:
    return [name for kind in cls.__mro__ for name in inspect.get_annotations(kind)]


def apply_rule(rule: RewriteRule, model: ir.Model) -> ir.Model | None:
    """Return a copy of ``model`` with the rule applied once, or None where it does not fire.

    The project's own driver applies it, so that what is judged is the rule. onnxscript's sweep
    renames an input that becomes an output, and lets initializers of one name overwrite one
    another. PassError if the rule raises.
    """
    copy = model.clone()
    if rule.as_function:
        # The driver makes no functions; onnxscript's own sweep does.
        return copy if RewriteRuleSet([rule]).apply_to_model(copy) else None
    return copy if rewrite(copy, [measured(rule)], Rewrites(limit=1)) else None


def fires(rule: RewriteRule, model: ir.Model) -> bool:
    """Whether a rule changes a model, or raises on it: a finding of who applies it."""
    try:
        return apply_rule(rule, model) is not None
    except Exception:
        return True


measured = functools.lru_cache(256)(PatternInfo.of)
"""Returns what the driver needs of a rule, which is applied to hundreds of models."""


_USUAL = (0.0, 1.0, 2.0, -1.0, 0.5, 3.0, 6.0)


def literals(rule: RewriteRule) -> list[float]:
    """Return the numbers in the code of a rule's check, rewrite and pattern.

    Followed by numbers that guards usually ask for, those that are there already left out.
    """
    return list(dict.fromkeys([*_numbers_of(rule), *_USUAL]))


LARGEST = 1 << 17
"""The largest integer of a rule that decides a size."""
_MOST = 16
"""Integers of a rule that decide sizes."""


def integers(rule: RewriteRule) -> list[int]:
    """Return the integers above 1 of a rule's own code, without their signs."""
    found = (abs(n) for n in _numbers_of(rule) if isinstance(n, int))
    return list(dict.fromkeys(n for n in found if 1 < n <= LARGEST))[:_MOST]


@functools.lru_cache(256)
def _numbers_of(rule: RewriteRule) -> tuple[float, ...]:
    """Return the numbers of check, rewrite, and the functions of their modules they call."""
    functions = (rule._condition_function, replacement_of(rule)._function)
    seen: set[types.CodeType] = set()
    return tuple(n for f in functions if f is not None for n in _of_callable(f, seen))


@functools.lru_cache(256)
def number_lists(rule: RewriteRule, *types: type) -> list[tuple[Any, ...]]:
    """Return the lists of several numbers of some types in the source of a rule's check."""
    found: list[tuple[Any, ...]] = []
    for tree in _sources(rule._condition_function):
        for node in ast.walk(tree):
            if isinstance(node, ast.List | ast.Tuple) and len(node.elts) > 1:
                with contextlib.suppress(ValueError):
                    found.append(tuple(ast.literal_eval(node)))
    kept = (n for n in found if all(type(i) in types and abs(i) < LARGEST for i in n))
    return list(dict.fromkeys(kept))[:_MOST]


@functools.lru_cache(256)
def words(rule: RewriteRule) -> frozenset[str]:
    """Return the texts in the source of a rule's check: names of attributes, and values."""
    return _texts(rule._condition_function)


def _texts(*functions: Any) -> frozenset[str]:
    trees = (tree for f in functions if f is not None for tree in _sources(f))
    nodes = (n.value for t in trees for n in ast.walk(t) if isinstance(n, ast.Constant))
    return frozenset(text for text in nodes if isinstance(text, str))


@functools.lru_cache(256)
def numbers_beside(rule: RewriteRule) -> tuple[frozenset[str], list[int]]:
    """Return the texts in a rule's code, and the integers beside its own.

    An attribute was compared with 1, and every other number was taken for 2.
    """
    own = [n for n in _numbers_of(rule) if isinstance(n, int) and abs(n) < LARGEST]
    beside = list(dict.fromkeys(n + by for n in own for by in (0, 1, -1)))[:_MOST]
    return _texts(rule._condition_function, replacement_of(rule)._function), beside


@functools.lru_cache(256)
def joint_integers(rule: RewriteRule) -> list[tuple[int, ...]]:
    """Return the integers above 0 that one `and` of a rule's check or rewrite asks for."""
    functions = (rule._condition_function, replacement_of(rule)._function)
    trees = (tree for f in functions if f is not None for tree in _sources(f))
    found: dict[tuple[int, ...], None] = {}
    for node in (n for tree in trees for n in ast.walk(tree) if isinstance(n, ast.BoolOp)):
        asked = [n.comparators for n in ast.walk(node) if isinstance(n, ast.Compare)]
        numbers = [n for sides in asked for side in sides if (n := _number(side)) is not None]
        whole = tuple(n for n in numbers if type(n) is int and 0 < n < LARGEST)
        if isinstance(node.op, ast.And) and len({*whole}) > 1 and math.prod(whole) < LARGEST:
            found[whole] = None
    return list(found)[:_MOST]


@functools.lru_cache(256)
def find_guard_constants(rule: RewriteRule) -> dict[str, list[float]]:
    """Return the numbers that a rule's check holds each of its variables against.

    A call such as ``is_singleton_value(clip_min, 0.0)`` says that clip_min is to be 0; so does
    a comparison for equality. Of a bound, others are as likely to be admitted. Read from the
    source, where there is one.
    """
    found: dict[str, list[float]] = {}
    for tree in _sources(rule._condition_function):
        for node in ast.walk(tree):
            sides: list[ast.expr] = []
            if isinstance(node, ast.Call):
                sides = list(node.args)
            elif isinstance(node, ast.Compare) and isinstance(node.ops[0], _EQUALS):
                sides = [node.left, *node.comparators]
            names = [side.id for side in sides if isinstance(side, ast.Name)]
            numbers = [n for side in sides if (n := _number(side)) is not None]
            for name in names:
                found.setdefault(name, []).extend(numbers)
    return {name: numbers for name, numbers in found.items() if numbers}


_EQUALS = (ast.Eq, ast.NotEq, ast.In, ast.NotIn, ast.Is, ast.IsNot)


def _number(node: ast.expr) -> float | None:
    """Return a number as the source spells it, with its sign."""
    with contextlib.suppress(ValueError, TypeError):
        value = ast.literal_eval(node)
        return value if type(value) in (int, float) else None
    return None


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


def _of_callable(function: Any, seen: set[types.CodeType]) -> Iterator[float]:
    owner = getattr(function, "__self__", None)
    if owner is not None:
        yield from _of_owner(owner, seen)
    yield from _of_function(inspect.unwrap(getattr(function, "__func__", function)), seen)


def _of_owner(owner: object, seen: set[types.CodeType]) -> Iterator[float]:
    for value in [*getattr(owner, "__dict__", {}).values(), *vars(type(owner)).values()]:
        yield from _numbers(value)
        if inspect.isfunction(value):
            yield from _of_function(value, seen)


def _of_function(function: Any, seen: set[types.CodeType]) -> Iterator[float]:
    if not isinstance(function, types.FunctionType) or function.__code__ in seen:
        return
    code = function.__code__
    seen.add(code)
    names = [name for each in (code, *_codes_in(code)) for name in each.co_names]
    read = [function.__globals__[n] for n in names if n in function.__globals__]
    for cell in function.__closure__ or ():
        with contextlib.suppress(ValueError):  # a cell that was never filled
            read.append(cell.cell_contents)
    for value in (*read, *(function.__defaults__ or ())):
        yield from _numbers(value)
    for each in (code, *_codes_in(code)):
        yield from _numbers(each.co_consts)
    for value in read:
        if getattr(value, "__module__", None) == function.__module__:
            yield from _of_function(inspect.unwrap(value), seen)
        elif "self" in code.co_freevars and hasattr(value, "rules"):
            yield from _of_owner(value, seen)


def _codes_in(code: types.CodeType) -> Iterator[types.CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield constant
            yield from _codes_in(constant)


def _numbers(value: object) -> Iterator[float]:
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield value  # an integer stays one: the largest has no float
    elif isinstance(value, tuple | list | frozenset):
        for item in value:
            yield from _numbers(item)
