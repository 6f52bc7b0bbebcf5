"""Keys of definitions: what a verdict on a pass depends on, without how it is written.

A key is made of syntax trees. Comments, docstrings, positions, names of locals, annotations of
functions and texts of messages do not count, and neither does the module of a definition. What
a definition refers to counts by its own key: a call of another helper changes the key.
Names are followed, ``getattr`` is not, and the framework that runs all passes ends the path.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

FRAMEWORK = tuple(
    f"onnx_passes.{name}"
    for name in (
        *("arrays", "configs", "contracts", "errors", "plain", "report", "risky_runs"),
        *("runtime", "verify"),
        *("ops.families", "passes.base", "passes.compose", "passes.context"),
        *("passes.hints", "passes.kinds", "passes.options", "passes.patterns"),
        *("passes.registry", "passes.replace", "passes.rewriting", "passes.verify"),
    )
)
"""What runs and judges all passes alike: it counts by name, and by the number ``VERIFIER``."""

_MARK = "\N{SECTION SIGN}"
"""What stands on both sides of a reference in a text."""

_WHOLE = "*"
"""The name of all definitions of a module together, where it is used as a value."""

_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_CAPTURE = (ast.ExceptHandler, ast.MatchAs, ast.MatchStar, ast.MatchMapping)
_COMPREHENSION = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

Import = tuple[int, str, str]
"""Level and module of an import, and the name in it: "" for the module itself."""

Parts = list[str]
"""Text and references in turns: each odd one refers to a name of the module."""


@dataclass(frozen=True, slots=True)
class Module:
    """The imports of a module, and the text and references of each definition."""

    imports: Mapping[str, Import]
    definitions: Mapping[str, Parts]


T = TypeVar("T", bound=ast.AST)

Place = tuple[str, str]
"""A module and a name that it defines."""


@dataclass(frozen=True, slots=True)
class _Target:
    """What a reference means: a definition or a text, with attributes of it."""

    place: Place | None
    text: str


@dataclass
class Definitions:
    """The definitions of some packages, and their keys.

    Modules outside `folders` and `files` are strangers. Definitions of `framework` modules and
    their submodules count by name.
    """

    folders: Mapping[str, Path]
    files: Mapping[str, Path] = field(default_factory=dict)
    framework: Sequence[str] = FRAMEWORK
    _modules: dict[str, tuple[Module, bool] | None] = field(default_factory=dict)
    _links: dict[Place, tuple[list[_Target], list[Place]]] = field(default_factory=dict)
    _keys: dict[Place, str] = field(default_factory=dict)

    def key(self, module: str, name: str) -> str:
        """Return the key of a definition; LookupError, OSError or SyntaxError for none."""
        target = self._resolve(module, [name])
        if target.place is None:
            raise LookupError(f"{module} does not define {name}")
        self._settle(target.place)
        return self._keys[target.place]

    def _settle(self, start: Place) -> None:
        """Find the keys of a definition and of what it refers to, circle by circle."""
        number: dict[Place, int] = {}
        low: dict[Place, int] = {}
        open_: list[Place] = []
        path: list[tuple[Place, Iterator[Place]]] = []

        def enter(place: Place) -> None:
            number[place] = low[place] = len(number)
            open_.append(place)
            path.append((place, iter(self._linked(place)[1])))

        if start not in self._keys:
            enter(start)
        while path:
            place, below = path[-1]
            for other in below:
                if other in self._keys:
                    continue
                if other not in number:
                    enter(other)
                    break
                low[place] = min(low[place], number[other])
            else:
                path.pop()
                if path:
                    low[path[-1][0]] = min(low[path[-1][0]], low[place])
                if low[place] == number[place]:
                    at = open_.index(place)
                    self._close(open_[at:])
                    del open_[at:]

    def _close(self, circle: list[Place]) -> None:
        """Find the keys of definitions that refer to each other, whatever their names."""
        keys = dict.fromkeys(circle, "@")
        for _ in circle:
            keys = {place: self._digest(place, keys) for place in circle}
        self._keys |= keys

    def _digest(self, place: Place, circle: Mapping[Place, str]) -> str:
        parts = []
        for text, target in zip(
            self._definition(place)[0::2], [*self._linked(place)[0], None], strict=True
        ):
            parts.append(text)
            if target is not None and target.place is not None:
                parts.append(circle.get(target.place) or self._keys[target.place])
            if target is not None:
                parts.append(target.text)
        return _hash("\0".join(parts))

    def _linked(self, place: Place) -> tuple[list[_Target], list[Place]]:
        """Return what the references of a definition mean, and the definitions among it."""
        if place not in self._links:
            targets = [
                self._resolve(place[0], reference.split("."))
                for reference in self._definition(place)[1::2]
            ]
            found = [target.place for target in targets if target.place is not None]
            self._links[place] = targets, list(dict.fromkeys(found))
        return self._links[place]

    def _definition(self, place: Place) -> Parts:
        module, name = place
        source = self._source(module)
        assert source is not None
        if name != _WHOLE:
            return list(source.definitions[name])
        return [part for each in sorted(source.definitions) for part in ("", each)] + [""]

    def _resolve(self, module: str, chain: list[str], depth: int = 0) -> _Target:
        source = self._source(module)
        first, rest = chain[0], chain[1:]
        if source is None or depth > 20:
            return _Target(None, ".".join([module, *chain]))
        if first in source.definitions:
            text = "".join(f".{name}" for name in rest)
            if self._is_framework(module):
                return _Target(None, first + text)
            return _Target((module, first), text)
        if first not in source.imports:
            return _Target(None, ".".join(chain))
        level, base, name = source.imports[first]
        base = self._absolute(module, level, base)
        if not name:
            return self._inside(base, rest, depth)
        if (base, name) == (module, first):
            return self._inside(f"{base}.{name}", rest, depth)
        return self._inside(base, [name, *rest], depth)

    def _inside(self, module: str, chain: list[str], depth: int) -> _Target:
        """Return what a path of names means that begins at a module."""
        source = self._source(module)
        if source is None:
            return _Target(None, ".".join([module, *chain]))
        if chain and (chain[0] in source.definitions or chain[0] in source.imports):
            return self._resolve(module, chain, depth + 1)
        if chain and self._source(f"{module}.{chain[0]}") is not None:
            return self._inside(f"{module}.{chain[0]}", chain[1:], depth)
        if chain or self._is_framework(module):
            return _Target(None, ".".join([module.rpartition(".")[2], *chain]))
        return _Target((module, _WHOLE), "")

    def _is_framework(self, module: str) -> bool:
        return any(module == part or module.startswith(f"{part}.") for part in self.framework)

    def _absolute(self, module: str, level: int, base: str) -> str:
        if not level:
            return base
        found = self._modules[module]
        parts = module.split(".")
        kept = parts[: len(parts) - level + (1 if found is not None and found[1] else 0)]
        return ".".join([*kept, *filter(None, [base])])

    def _source(self, module: str) -> Module | None:
        """Return what a module holds; None for one that is not of these packages."""
        if module not in self._modules:
            path = self._path(module)
            self._modules[module] = None
            if path is not None:
                self._modules[module] = self._read(path), path.stem == "__init__"
        known = self._modules[module]
        return None if known is None else known[0]

    def _read(self, path: Path) -> Module:
        return read_module(path.read_text("utf-8"))

    def _path(self, module: str) -> Path | None:
        if module in self.files:
            return self.files[module]
        top, *parts = module.split(".")
        if top not in self.folders:
            return None
        path = self.folders[top].joinpath(*parts)
        files = (path.with_name(f"{path.name}.py") if parts else path, path / "__init__.py")
        return next((file for file in files if file.is_file()), None)


def package_folder(top: str) -> Path | None:
    """Return the folder of a package by its name; None for a script or a stranger."""
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        return None  # a script
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations)))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]


@lru_cache(2048)
def read_module(text: str) -> Module:
    """Return the definitions of a module; SyntaxError if it is not Python."""
    tree = ast.parse(text)
    imports: dict[str, Import] = {}
    for node in _own_nodes(tree.body):
        if isinstance(node, ast.Import | ast.ImportFrom):
            imports |= _imports(node)
    makers: dict[str, list[ast.stmt]] = {}
    for statement in tree.body:
        for name in _bound([statement], imports=False) | _changed(statement):
            makers.setdefault(name, []).append(statement)
    for name in [name for name in makers if name in imports]:
        imports[_imported(name)] = imports.pop(name)
    writer = _Writer(imports, frozenset(makers) | frozenset(imports))
    found = {name: writer.definition(name, made) for name, made in makers.items()}
    for name, parts in found.items():
        if _imported(name) in imports:
            found[name] = [*parts, _imported(name), ""]
    return Module(imports, found)


def _imported(name: str) -> str:
    """Return what an import is called whose name the module defines or changes as well."""
    return f"{name}@"


def _imports(node: ast.Import | ast.ImportFrom) -> dict[str, Import]:
    if isinstance(node, ast.ImportFrom):
        base = node.module or ""
        return {a.asname or a.name: (node.level, base, a.name) for a in node.names}
    return {
        a.asname or a.name.partition(".")[0]: (0, a.name if a.asname else top, "")
        for a in node.names
        for top in [a.name.partition(".")[0]]
    }


def _own_nodes(nodes: Sequence[ast.AST]) -> Iterator[ast.AST]:
    """Yield the nodes of one scope, without those of scopes in it."""
    for node in nodes:
        yield node
        if isinstance(node, _COMPREHENSION):
            yield from (n for n in ast.walk(node) if isinstance(n, ast.NamedExpr))
        elif not isinstance(node, (*_FUNCTION, ast.ClassDef)):
            yield from _own_nodes(list(ast.iter_child_nodes(node)))


def _bound(statements: Sequence[ast.stmt], *, imports: bool = True) -> set[str]:
    """Return the names that a scope binds, those that it imports among them if asked."""
    found: set[str] = set()
    outer: set[str] = set()
    for node in _own_nodes(statements):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                found.add(name)
            case ast.NamedExpr(target=ast.Name(id=name)):
                found.add(name)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                found.add(node.name)
            case ast.Import() | ast.ImportFrom() if imports:
                found |= _imports(node).keys()
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
                found.add(name)
            case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
                found.add(name)
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                outer |= set(names)
    return found - outer


def _changed(statement: ast.stmt) -> set[str]:
    """Return the names whose value a statement of a module changes in place."""
    found = set()
    for node in _own_nodes([statement]):
        match node:
            case ast.Attribute(ctx=ast.Store()) | ast.Subscript(ctx=ast.Store() | ast.Del()):
                found.add(_root(node))
            case ast.Expr(value=ast.Call(func=ast.Attribute() as function)):
                found.add(_root(function))
    return {name for name in found if name}


def _root(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute | ast.Subscript | ast.Call):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _is_text(node: ast.expr) -> bool:
    """Whether an expression is the text of a message, written there."""
    match node:
        case ast.Constant(value=str()) | ast.JoinedStr():
            return True
        case ast.BinOp(left=left):
            return _is_text(left)
        case ast.Call(func=ast.Attribute(value=value)):
            return _is_text(value)
        case ast.IfExp(body=body, orelse=other):
            return _is_text(body) and _is_text(other)
    return False


@dataclass
class _Scope:
    """The names of a function, class or comprehension, and how they are written.

    Functions in a class do not see its names. `names` gives how each is written; empty for a
    local that has not been met. `imports` are by the name that the module knows.
    """

    is_class: bool
    names: dict[str, str]
    imports: dict[str, str] = field(default_factory=dict)
    met: int = 0


class _Writer:
    """Writes definitions of a module as text, with marks around references."""

    def __init__(self, imports: dict[str, Import], names: Collection[str]) -> None:
        self._imports, self._names = imports, names
        self._scopes: list[_Scope] = []
        self._own = ""

    def definition(self, name: str, statements: Sequence[ast.stmt]) -> Parts:
        """Write what makes a name of the module."""
        self._own = name
        # Equal functions are alike, equal classes and values are not.
        named = "" if all(isinstance(s, _FUNCTION) for s in statements) else name
        return re.split(f"{_MARK}(.*?){_MARK}", named + self._text(statements))

    def _text(self, node: object) -> str:
        match node:
            case list() | tuple():
                return f"[{' '.join(filter(None, map(self._text, node)))}]"
            case ast.Expr(value=ast.Constant(value=str())) | ast.Global() | ast.Nonlocal():
                return ""  # a docstring is nothing, nor is where a name lives
            case ast.Import() | ast.ImportFrom():
                return self._import(node)
            case ast.Name(id=name):
                return self._name(name, stored=isinstance(node.ctx, ast.Store))
            case ast.Attribute(value=value, attr=attr):
                return self._path(value, attr)
            case ast.AnnAssign():
                in_class = bool(self._scopes) and self._scopes[-1].is_class
                if node.value is None and not in_class:
                    return ""
                made = ast.Assign([node.target], node.value) if node.value else node.target
                return self._text([made, _annotation(node)] if in_class else made)
            case ast.Assert(test=test):
                return f"(Assert {self._text(test)})"
            case ast.Raise(exc=ast.Call() as made):
                return self._fields(_with(node, exc=_without_texts(made)))
            case ast.Call(func=ast.Attribute(attr="fail")):
                return self._fields(_without_texts(node))
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                return self._function(node)
            case ast.ClassDef(name=name, body=body):
                around = self._text([*node.decorator_list, *node.bases, *node.keywords])
                names = {each: f".{each}" for each in _bound(body)}
                inside = self._inside(_Scope(True, names), body)
                return f"(Class {self._name(name, stored=True)} {around} {inside})"
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                first, *rest = node.generators
                around = self._text(first.iter)  # in the scope around it
                targets = [n for g in node.generators for n in ast.walk(g.target)]
                stored = {n.id for n in targets if isinstance(n, ast.Name) and _is_stored(n)}
                own = _with(node, generators=[_with(first, iter=ast.Pass()), *rest])
                return around + self._inside(_Scope(False, dict.fromkeys(stored, "")), own)
            case ast.AST():
                return self._fields(node)
        return repr(node)

    def _fields(self, node: ast.AST) -> str:
        """Write a node with its fields; empty ones differ from Python to Python."""
        captures = ("name", "rest") if isinstance(node, _CAPTURE) else ()
        parts = (
            f"{name}={self._name(v, stored=True) if name in captures else self._text(v)}"
            for name, v in ast.iter_fields(node)
            if name not in ("ctx", "kind", "type_comment") and v not in (None, [])
        )
        return f"({type(node).__name__} {' '.join(parts)})"

    def _inside(self, scope: _Scope, node: ast.AST | Sequence[ast.AST]) -> str:
        self._scopes.append(scope)
        text = self._fields(node) if isinstance(node, ast.AST) else self._text(node)
        self._scopes.pop()
        return text

    def _path(self, value: ast.expr, path: str) -> str:
        while isinstance(value, ast.Attribute):
            path, value = f"{value.attr}.{path}", value.value
        if isinstance(value, ast.Name):
            return self._name(value.id, path)
        return f"{self._text(value)}.{path}"

    def _name(self, name: str, path: str = "", *, stored: bool = False) -> str:
        written, known = self._lookup(name)
        if not written and stored and not self._scopes:
            return "other"  # beside the name that is defined
        text = ".".join(filter(None, [written or known, path]))
        return text if written else f"{_MARK}{text}{_MARK}"

    def _lookup(self, name: str) -> tuple[str, str]:
        """Return how a name is written, or what it is called in the module."""
        inner = len(self._scopes) - 1
        for depth, scope in reversed(list(enumerate(self._scopes))):
            if scope.is_class and depth != inner:
                continue
            if name in scope.imports:
                return "", scope.imports[name]
            if name in scope.names:
                if not scope.names[name]:
                    scope.names[name] = f"v{depth}.{scope.met}"
                    scope.met += 1
                return scope.names[name], ""
        if name == self._own:
            return "@", ""
        return ("", name) if name in self._names else (f"builtins.{name}", "")

    def _import(self, node: ast.Import | ast.ImportFrom) -> str:
        for name, what in _imports(node).items() if self._scopes else ():
            known = f"{_imported(name)}{len(self._imports)}"
            self._imports[known] = what
            self._scopes[-1].imports[name] = known
        return ""

    def _function(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> str:
        """Write a function: what it is called with counts by name, its locals by order."""
        given = node.args
        around = [
            *getattr(node, "decorator_list", ()),
            "",
            *given.defaults,
            "",
            *given.kw_defaults,
        ]
        stars = [a.arg for a in (given.vararg, given.kwarg) if a is not None]
        names = [a.arg for a in [*given.posonlyargs, *given.args]]
        named = [a.arg for a in given.kwonlyargs]
        form = [
            len(given.posonlyargs),
            given.vararg is None,
            given.kwarg is None,
            names,
            named,
        ]
        slots = {name: f"={name}" for name in (*names, *named)}
        slots |= {name: f"*{place}" for place, name in enumerate(stars)}
        body = [ast.Return(node.body)] if isinstance(node, ast.Lambda) else node.body
        called = "" if isinstance(node, ast.Lambda) else self._name(node.name, stored=True)
        text = f"{type(node).__name__} {called} {self._text(around)} {form}"
        scope = _Scope(False, dict.fromkeys(_bound(body), "") | slots)
        return f"({text} {self._inside(scope, body)})"


def _with(node: T, **fields: object) -> T:
    """Return a copy of a node with other fields."""
    return type(node)(**{**dict(ast.iter_fields(node)), **fields})


def _without_texts(call: ast.Call) -> ast.Call:
    """Return a call without messages, which are written there."""
    kept = [keyword for keyword in call.keywords if not _is_text(keyword.value)]
    return _with(call, args=[a for a in call.args if not _is_text(a)], keywords=kept)


def _annotation(node: ast.AnnAssign) -> ast.expr:
    """Return an annotation, read if it is quoted."""
    match node.annotation:
        case ast.Constant(value=str(quoted)):
            return ast.parse(quoted, mode="eval").body
    return node.annotation


def _is_stored(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)
