"""Which paths of a rule's own code ran, and which that lead to a rewrite never did.

``check``, ``rewrite`` and what they call of their own files are followed instruction by
instruction. Lines that end in a refusal need not run: there, nothing is rewritten.

Rules of a pass share code. That another rule took a path says nothing of this one, whose
matches may take it too and be rewritten wrongly. Only where each rule decides a condition in
one way, and another rule in the other way, the pattern decides it: then one side need not run.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import copy
import dis
import functools
import inspect
import linecache
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from onnxscript.rewriter import MatchResult, RewriteRule

from onnx_passes.certifying.rewrite_rule import replacement_of
from onnx_passes.plain import PlainDict

Step: TypeAlias = tuple[int, int, int]
"""A code object, an instruction of it, and the next one: `_TRUE` or `_FALSE` at its end."""

Span: TypeAlias = tuple[int, int, int, int]
"""First line and column of a piece of source, last line and column."""

_START, _TRUE, _FALSE = -1, -2, -3
_SHOWN = 3
"""Places and paths that a text names."""
_WIDTH = 40
_FIXED = (bool, int, float, str, tuple, frozenset, type, type(None), type(len))
"""Types of globals and of variables around a function that no match changes."""
_BESIDE_JUMPS = ("COPY", "TO_BOOL", "UNARY_NOT", "NOT_TAKEN", "POP_TOP")
_ENDS = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_FUNCTIONS = (ast.FunctionDef, ast.Lambda)


class Miss(NamedTuple):
    """Lines that never ran, or with a `text` a condition that never was so.

    `test` is the place of the condition that decides it, if there is one.
    """

    first: int
    last: int
    text: str
    test: str


def cap(results: Iterable[PlainDict]) -> None:
    """Cap the verdicts on the rules of a pass where paths to a rewrite never ran."""
    results = [result for result in results if "missed" in result]
    told = [result.pop("outcomes") for result in results]
    one = [{place for place, found in each.items() if len(found) == 1} for each in told]
    settled = {
        place
        for each in told
        for place in each
        if all(place in mine or place not in its for mine, its in zip(one, told, strict=True))
        if len({its[place] for its in told if place in its}) > 1
    }
    for result, mine in zip(results, one, strict=True):
        missed = [Miss(*miss) for miss in result.pop("missed")]
        said = _written([miss for miss in missed if miss.test not in settled & mine])
        if said and result["verdict"] in ("proved", "tested"):
            result.update(verdict="tested", reason=said, never_ran=said, claim="")


def _written(missed: Sequence[Miss]) -> str:
    """Say what never ran, lines first."""
    lines = (n for m in missed if not m.text for n in range(m.first, m.last + 1))
    runs = [run.replace("-", " to ") for run in _ranges(lines).split()]
    texts = [f"line{'s' * (' ' in run)} {run} never ran" for run in runs]
    texts += [f"line {m.first}: {m.text}" for m in missed if m.text]
    more = f", and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
    return f"{', '.join(texts[:_SHOWN])}{more}"


class RulePaths:
    """Follows one rule; `rule` is a copy of it whose functions are followed."""

    def __init__(self, rule: RewriteRule, cls: type | None = None) -> None:
        """Follow ``rule``, whose code has not run yet, and the file of its class.

        Of the file of a base class, methods are followed that the rule inherits.
        """
        replacement = replacement_of(rule)
        functions = [rule._condition_function, getattr(replacement, "_function", None)]
        owners = {f: type(o) for f in functions if (o := getattr(f, "__self__", None))}
        codes = {f: getattr(inspect.unwrap(f), "__code__", None) for f in functions if f}
        self._roots = {code for code in codes.values() if code is not None}
        own = (code for f, code in codes.items() if code is not None and f not in owners)
        self._files = {code.co_filename for code in own}
        classes = filter(None, [cls, *owners.values()])
        files = (getattr(sys.modules.get(c.__module__), "__file__", None) for c in classes)
        self._files.update(filter(None, files))
        self._codes: dict[int, CodeType] = {}
        self._fixed: dict[int, set[str]] = {}
        self._call: set[Step] = set()
        self._pending: list[frozenset[Step]] = []
        self._ran: set[frozenset[Step]] = set()
        self.rule = copy.copy(rule)
        self.rule._condition_function = self._checking(rule._condition_function)
        if functions[1] is not None:
            self.rule._replacement_pattern = copy.copy(replacement)
            self.rule._replacement_pattern._function = self._rewriting(functions[1])

    def keep(self, *, judged: bool = True) -> None:
        """Count the applications since the last call, if their results were judged."""
        self._ran.update(self._pending if judged else ())
        self._pending.clear()

    def told(self) -> PlainDict:
        """Return what never ran of code that leads to a rewrite, and outcomes of conditions.

        These are by place, each outcome a letter: T or F.
        """
        missed: dict[Miss, None] = {}
        outcomes: dict[str, str] = {}
        ran = set().union(*self._ran)
        for file in sorted({code.co_filename for code in self._codes.values()} if ran else ()):
            codes = {k: c for k, c in self._codes.items() if c.co_filename == file}
            try:
                tree = ast.parse("".join(linecache.getlines(file)))
            except SyntaxError:
                continue
            changed = _changed(tree)
            report = _Report(changed, codes, {step for step in ran if step[0] in codes})
            for code in codes.values():
                for node in _functions_of(tree, code):
                    report.function(node, code, self._fixed[id(code)] - changed)
            missed |= report.missed
            outcomes |= {p: "".join(sorted(o)) for p, o in report.outcomes.items() if o}
        return {"missed": [*map(list, missed)], "outcomes": outcomes}

    def taken(self) -> str:
        """Return the lines of each path that ran: those of few paths alone."""
        paths = sorted({_ranges(self._lines(steps)) for steps in self._ran} - {""})
        more = f"; and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
        return f"{'; '.join(paths[:_SHOWN])}{more}"

    def _lines(self, steps: Iterable[Step]) -> set[int]:
        spans = {key: _spans(code) for key, code in self._codes.items()}
        found = (spans[key].get(after) for key, _, after in steps)
        return {span[0] for span in found if span is not None and span[3]}

    def _checking(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def checked(*args: object, **kwargs: object) -> object:
            self._call = set()
            return self._followed(function, *args, **kwargs)

        return checked

    def _rewriting(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def rewritten(*args: object, **kwargs: object) -> object:
            made = self._followed(function, *args, **kwargs)
            if _accepts(made):
                self._pending.append(frozenset(self._call))
            return made

        return rewritten

    def _followed(self, function: Callable[..., Any], *args: object, **kwargs: object) -> Any:
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            return function(*args, **kwargs)
        finally:
            sys.settrace(before)

    def _enter(self, frame: FrameType, event: str, _: object) -> Any:
        code = frame.f_code
        if event != "call":
            return None
        if code.co_filename not in self._files and code not in self._roots:
            return None
        key, add = id(code), self._call.add
        if self._codes.setdefault(key, code) is code and key not in self._fixed:
            known = {**vars(builtins), **frame.f_globals}
            known.update((name, frame.f_locals.get(name)) for name in code.co_freevars)
            fixed = (n for n in (*code.co_names, *code.co_freevars) if n in known)
            self._fixed[key] = {n for n in fixed if isinstance(known[n], _FIXED)}
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        before = last = _START

        def step(frame: FrameType, event: str, result: object) -> Any:
            nonlocal before, last
            if event == "opcode":
                before, last = last, frame.f_lasti
                add((key, before, last))
            elif event == "return":
                add((key, before, _TRUE if _accepts(result) else _FALSE))
            return step

        return step


def _accepts(result: object) -> bool:
    """Whether a check or a rewrite does not refuse by what it returns."""
    if isinstance(result, bool | np.bool_ | MatchResult):
        return bool(result)
    return result is not None


def _functions_of(tree: ast.AST, code: CodeType) -> Iterator[ast.AST]:
    """Yield the function that a code object was made from."""
    spans = {s for s in _spans(code).values() if s[3]}
    for node in ast.walk(tree):
        if not isinstance(node, _FUNCTIONS):
            continue
        body = [node.body] if isinstance(node, ast.Lambda) else node.body
        whole = (*_span(body[0])[:2], *_span(body[-1])[2:])
        named = isinstance(node, ast.Lambda) == (code.co_name == "<lambda>")
        if named and spans and all(_inside(span, whole) for span in spans):
            first = min([node, *getattr(node, "decorator_list", ())], key=lambda n: n.lineno)
            if first.lineno == code.co_firstlineno:
                yield node


def _spans(code: CodeType) -> dict[int, Span]:
    found = {}
    for index, (line, end, start, stop) in enumerate(code.co_positions()):
        if None not in (line, end, start, stop):
            found[2 * index] = (line, start, end, stop)
    return found  # type: ignore[return-value]


def _span(node: Any) -> Span:
    return node.lineno, node.col_offset, node.end_lineno, node.end_col_offset


def _inside(span: Span, other: Span) -> bool:
    return span[:2] >= other[:2] and span[2:] <= other[2:]


def _ranges(lines: Iterable[int]) -> str:
    """Write lines as ranges: 3-5 8."""
    runs: list[list[int]] = []
    for line in sorted(set(lines)):
        if runs and line == runs[-1][-1] + 1:
            runs[-1][1:] = [line]
        else:
            runs.append([line])
    return " ".join("-".join(map(str, run)) for run in runs)


class _Report:
    """What of the functions of one file never ran."""

    def __init__(
        self, changed: set[str], codes: dict[int, CodeType], steps: set[Step]
    ) -> None:
        self._changed = changed
        self._spans = {
            (key, at): span for key, c in codes.items() for at, span in _spans(c).items()
        }
        self._ran = {self._spans[k, b] for k, _, b in steps if (k, b) in self._spans}
        self._arcs = [((k, a), (k, b)) for k, a, b in steps]
        self.missed: dict[Miss, None] = {}
        self.outcomes: dict[str, set[str]] = {}
        # Python 3.11 gives jumps the place of another part: they belong to what ran before.
        names = {
            (key, i.offset): i.opname
            for key, code in codes.items()
            for i in dis.get_instructions(code)
        }
        self._joints = {at for at, n in names.items() if "JUMP" in n or n in _BESIDE_JUMPS}
        self._returns = {at for at, n in names.items() if n.startswith("RETURN")}
        self._fixed: set[str] = set()
        self._tested: set[str] = set()
        self._key = 0
        self._file = ""

    def function(self, node: Any, code: CodeType, fixed: set[str]) -> None:
        """Report what never ran of a function that was called; `fixed` names do not change."""
        self._fixed = fixed
        self._key = id(code)
        self._file = Path(code.co_filename).name
        if isinstance(node, ast.Lambda):
            self._expression(node.body, returned=True)
            return
        nodes = [*_own_nodes(node)]
        tests = [n.test for n in nodes if isinstance(n, ast.If | ast.IfExp | ast.While)]
        tests += [n for n in nodes if isinstance(n, ast.BoolOp)]
        self._tested = {
            n.id for test in tests for n in ast.walk(test) if isinstance(n, ast.Name)
        }
        yields = any(isinstance(n, ast.Yield | ast.YieldFrom) for n in nodes)
        returns = [n for n in nodes if isinstance(n, ast.Return)]
        valued = not yields and any(n.value is not None for n in returns)
        for each in returns if not valued else ():
            each.value = ast.copy_location(ast.Constant(True), each)  # not a refusal
        self._block(node.body, not valued, loop=False)

    def _saw(self, node: Any) -> bool:
        span = _span(node)
        return any(_inside(s, span) for s in self._ran)

    def _place(self, node: ast.expr) -> str:
        return f"{self._file}:{'.'.join(map(str, _span(node)))}"

    def _decider(self, statement: ast.If) -> str:
        """Return the place of the condition that keeps what follows from being reached."""
        match statement.orelse:
            case [ast.If() as other] if self._saw(other.test):
                return self._decider(other)
        ends = isinstance(
            statement.body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break
        )
        return self._deciding(statement.test) if ends else ""

    def _deciding(self, test: ast.expr) -> str:
        """Return the place of the part of a condition that decides it each time."""
        if isinstance(test, ast.BoolOp):
            for part in test.values:
                if "N" not in self.outcomes.get(self._place(part), "N"):
                    return self._deciding(part)
        return self._place(test)

    def _block(
        self, body: Sequence[ast.stmt], then: bool, *, loop: bool, test: str = ""
    ) -> None:
        """Report statements in front of a rewrite; ``then`` says if one may come behind.

        `test` is the place of the condition that leads here.
        """
        for place, statement in enumerate(body):
            if not _leads(body[place:], then, loop):
                return
            if _silent(statement):
                continue
            if not self._saw(statement):
                before = body[place - 1] if place else None
                if isinstance(before, ast.If):
                    if self._is_settled(before.test):
                        return
                    test = self._decider(before)
                elif before is not None:
                    test = ""
                last = body[-1].end_lineno or body[-1].lineno
                self.missed[Miss(statement.lineno, last, "", test)] = None
                return
            self._statement(statement, _leads(body[place + 1 :], then, loop), loop=loop)

    def _statement(self, statement: Any, rest: bool, *, loop: bool) -> None:
        match statement:
            case ast.If() | ast.While():
                inside = loop if isinstance(statement, ast.If) else rest
                if isinstance(statement, ast.If) and self._is_settled(statement.test):
                    for side in (statement.body, statement.orelse):
                        if side and self._saw(side[0]):
                            self._block(side, rest, loop=inside)
                    return
                yes = _leads(statement.body, rest, inside)
                no = _leads(statement.orelse, rest, inside)
                body = statement.body
                region = (*_span(body[0])[:2], *_span(body[-1])[2:])
                yes = yes and any(_inside(s, region) for s in self._ran)
                self._condition(statement.test, region, yes=yes, no=no)
                test = self._deciding(statement.test)
                self._block(body, rest, loop=inside, test=test)
                self._block(statement.orelse, rest, loop=inside, test=test)
            case ast.For():
                self._expression(statement.iter)
                self._block(statement.body, rest, loop=rest)
                self._block(statement.orelse, rest, loop=loop)
            case ast.With() | ast.Try() | ast.Match():
                for block in _blocks(statement):
                    self._block(block, rest, loop=loop)
            case ast.Return(value=ast.expr() as value):
                self._expression(value, returned=True)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.IfExp() as value):
                # What asks for the name decides what follows from None.
                self._expression(value, tested=name in self._tested)
            case ast.FunctionDef() | ast.ClassDef() | ast.Assert():
                pass
            case _:
                self._expression(statement)

    def _expression(self, node: Any, *, returned: bool = False, tested: bool = False) -> None:
        """Report parts of an expression that never ran; None is one of those if `tested`."""
        match node:
            case ast.Lambda() | ast.JoinedStr():
                return
            case ast.IfExp():
                branches = (node.body, node.orelse)
                refuses = returned or tested
                yes, no = (not refuses or _accepting(branch) for branch in branches)
                self._condition(node.test, _span(node.body), yes=yes, no=no)
                for branch in branches:
                    self._expression(branch, returned=returned)
                return
            case ast.BoolOp() if returned:
                self._condition(node, None, yes=True, no=False)
                return
            case ast.BoolOp():
                for operand in node.values:
                    if not self._saw(operand) and not _is_literal(operand):
                        self._miss(operand, "asked")
            # Of nothing, no element is computed: what is made of them decides.
            case ast.ListComp() | ast.SetComp() | ast.GeneratorExp() if not self._saw(
                node.elt
            ):
                return
            case ast.DictComp() if not self._saw(node.value):
                return
        for child in ast.iter_child_nodes(node):
            self._expression(child)

    def _condition(self, test: ast.expr, body: Span | None, *, yes: bool, no: bool) -> None:
        """Report outcomes that decide a condition and never did, if a rewrite may follow.

        `body` is what follows if it holds; None if it is returned.
        """
        whole = _span(test)
        self._outcomes(test, whole, body)

        def decide(
            node: ast.expr, on_true: bool | None, on_false: bool | None, before: str = ""
        ) -> None:
            match node:
                case ast.UnaryOp(op=ast.Not()):
                    decide(node.operand, on_false, on_true, before)
                case ast.BoolOp():
                    both = isinstance(node.op, ast.And)
                    for operand in node.values[:-1]:
                        true, false = (None, on_false) if both else (on_true, None)
                        decide(operand, true, false, before)
                        if self._outcomes(operand, whole, body):
                            before = self._place(operand)
                    decide(node.values[-1], on_true, on_false, before)
                case _ if self._is_settled(node) or _is_literal(node):
                    pass
                case _:
                    seen = self._outcomes(node, whole, body)
                    words = {on_true: "true", on_false: "false"}
                    live = {o for o in words if o is not None and (yes if o else no)}
                    if not self._saw(node):
                        words = dict.fromkeys(words, "asked")
                    for outcome in sorted(live - seen):
                        self._miss(node, words[outcome], before if not seen else "")
                    self._expression(node)

        decide(test, True, False)

    def _outcomes(self, node: ast.expr, whole: Span, body: Span | None) -> set[bool | None]:
        """Return which outcomes of a condition one part of it decided; None: another part did.

        They are noted by the place of the part.
        """
        part = _span(node)
        inside = {at for at, s in self._spans.items() if _inside(s, part)} - self._joints
        while more := {b for a, b in self._arcs if a in inside and b in self._joints} - inside:
            inside |= more
        ends = {b for a, b in self._arcs if a in inside and b not in inside}
        found: set[bool | None]
        if body is None:
            # What it returns follows the instruction that does.
            after = {at for key, at in ends - self._returns if key == self._key}
            found = {at == _TRUE if at < 0 else None for at in after}
        else:
            spans = [self._spans[end] for end in ends if end in self._spans]
            found = {
                True if _inside(s, body) else None if _inside(s, whole) else False
                for s in spans
            }
        noted = self.outcomes.setdefault(self._place(node), set())
        noted.update({True: "T", False: "F", None: "N"}[each] for each in found)
        return found

    def _is_settled(self, node: ast.expr) -> bool:
        """Whether a condition is the same for all models: nothing of a match is in it."""
        options = {
            n.value: n.attr
            for n in ast.walk(node)
            if isinstance(n, ast.Attribute)
            and isinstance(n.value, ast.Name)
            and n.value.id == "self"
        }
        names = {n: n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
        return bool(names) and all(
            options[n] not in self._changed if n in options else name in self._fixed
            for n, name in names.items()
        )

    def _miss(self, node: ast.expr, word: str, test: str = "") -> None:
        text = ast.unparse(node)
        text = text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."
        said = f"{text} was never {word}"
        self.missed[Miss(node.lineno, node.lineno, said, test or self._place(node))] = None


def _changed(tree: ast.AST) -> set[str]:
    """Return attributes that functions set, but for initialisers, and outer names."""
    found = set()
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef) and function.name != "__init__":
            for node in ast.walk(function):
                if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
                    found.add(node.attr)
                elif isinstance(node, ast.Nonlocal | ast.Global):
                    found.update(node.names)
    return found


def _own_nodes(function: Any) -> Iterator[ast.AST]:
    """Yield the nodes of a function without those of functions in it."""
    fringe = [*function.body]
    while fringe:
        node = fringe.pop()
        yield node
        if not isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            fringe.extend(ast.iter_child_nodes(node))


def _silent(statement: ast.stmt) -> bool:
    """Whether no instruction is made for a statement."""
    constant = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    bare = isinstance(statement, ast.AnnAssign) and statement.value is None
    return constant or bare or isinstance(statement, ast.Pass | ast.Global | ast.Nonlocal)


def _is_literal(node: ast.expr) -> bool:
    """Whether an expression is a number, a text, or a list of such, or an opset: a default."""
    match node:
        case ast.Call(
            func=ast.Attribute(value=ast.Attribute(attr="opset_imports"), attr="get")
        ):
            return True  # a graph imports what its nodes use
    with contextlib.suppress(ValueError):
        ast.literal_eval(node)
        return True
    return False


def _accepting(value: ast.expr | None) -> bool:
    """Whether a function that returns this does not refuse, as far as the text says."""
    match value:
        case None | ast.Constant(value=None | False):
            return False
        case ast.Call(func=ast.Attribute(attr="fail")):
            return False
        case ast.Constant(value=str(text)):
            return " " not in text  # a sentence says why not
        case ast.IfExp():
            return _accepting(value.body) or _accepting(value.orelse)
    return True


def _leads(body: Sequence[Any], then: bool, loop: bool) -> bool:
    """Whether a rewrite may follow some statements; ``loop``: if it may behind a break."""
    for place, statement in enumerate(body):
        rest = functools.partial(_leads, body[place + 1 :], then, loop)
        match statement:
            case ast.Raise():
                return False
            case ast.Return():
                return _accepting(statement.value)
            case ast.Break() | ast.Continue():
                return loop
            case ast.If():
                after = rest()
                return _leads(statement.body, after, loop) or _leads(
                    statement.orelse, after, loop
                )
            case ast.For() | ast.While():
                after = rest()
                return after or _leads(statement.body, after, after)
            case ast.With() | ast.Try() | ast.Match():
                after = rest()
                return after or any(_leads(b, after, loop) for b in _blocks(statement))
    return then


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """Yield the blocks of a With, Try or Match."""
    yield from (getattr(statement, k, []) for k in ("body", "orelse", "finalbody"))
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield part.body
