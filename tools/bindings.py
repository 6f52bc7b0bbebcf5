"""What every name of a tree of Python files is bound to, and a proof that two trees agree.

    python tools/bindings.py OLD NEW TABLE.json

Each statement at the top of a module is written as a syntax tree in which names of the project
are the definitions that they are bound to, through imports, aliases and attributes of modules.
TABLE.json says where modules and names of OLD went. The statements of NEW have to be those of
OLD, texts, annotations and docstrings included, in the same order for each part of a module.
"""

from __future__ import annotations

import ast
import builtins
import json
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

TREES = ("onnx_passes", "tests", "benchmarks", "examples", "docs", "tools")
"""Folders whose files are read."""
SKIPPED = ("templates", ".venv", "__pycache__", "tools")
Scoped = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
Comprehension = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
Definition = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


class Scope:
    """Names that a function, class or comprehension binds; the module has none above it."""

    def __init__(self, node: ast.AST, above: Scope | None) -> None:
        self.node, self.above = node, above
        self.imports: dict[str, tuple[str, str]] = {}
        self.names: set[str] = set()
        self.outer: set[str] = set()
        self._read()
        self.names -= self.outer

    def _read(self) -> None:
        node = self.node
        if isinstance(node, ast.Module):
            self._statements(node.body)
        elif isinstance(node, Comprehension):
            for each in node.generators:
                self._statements([each.target])
        else:
            if not isinstance(node, ast.ClassDef):
                args = node.args
                every = [
                    *args.posonlyargs,
                    *args.args,
                    *args.kwonlyargs,
                    args.vararg,
                    args.kwarg,
                ]
                self.names |= {each.arg for each in every if each}
            self._statements(node.body if isinstance(node.body, list) else [node.body])

    def _statements(self, nodes: list[ast.AST]) -> None:
        left = list(reversed(nodes))
        while left:
            node = left.pop()
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                for each in node.names:
                    self._import(each.asname or each.name, node.module, each.name)
            elif isinstance(node, ast.Import):
                for each in node.names:
                    top = each.name.partition(".")[0]
                    self._import(each.asname or top, each.name if each.asname else top, "")
            elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                self.names.add(node.id)
            elif isinstance(node, ast.Global | ast.Nonlocal):
                self.outer |= {*node.names}
            elif (
                isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name
            ):
                self.names.add(node.name)
            elif isinstance(node, ast.MatchMapping) and node.rest:
                self.names.add(node.rest)
            elif isinstance(node, ast.TypeAlias) if hasattr(ast, "TypeAlias") else False:
                self.names.add(node.name.id)
            if isinstance(node, Definition):
                self.names.add(node.name)
            if isinstance(node, Comprehension):
                walrus = (n for n in ast.walk(node) if isinstance(n, ast.NamedExpr))
                self.names |= {n.target.id for n in walrus}
            if not isinstance(node, (*Scoped, *Comprehension)):
                left.extend(reversed([*ast.iter_child_nodes(node)]))

    def _import(self, bound: str, module: str, name: str) -> None:
        self.names.add(bound)
        self.imports[bound] = module, name


def walk(node: ast.AST, scope: Scope) -> Iterator[tuple[ast.AST, Scope]]:
    """Yield each node below one, with the scope that its names are looked up in."""
    yield node, scope
    if isinstance(node, Scoped):
        inner = Scope(node, scope)
        for field, value in ast.iter_fields(node):
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, ast.AST):
                    if field == "args":
                        yield from _arguments(each, scope)
                    else:
                        yield from walk(each, inner if field == "body" else scope)
    elif isinstance(node, Comprehension):
        inner = Scope(node, scope)
        yield from walk(node.generators[0].iter, scope)
        for child in ast.iter_child_nodes(node):
            if child is not node.generators[0]:
                yield from walk(child, inner)
        first = node.generators[0]
        for child in (first.target, *first.ifs):
            yield from walk(child, inner)
    else:
        for child in ast.iter_child_nodes(node):
            yield from walk(child, scope)


def _arguments(args: ast.arguments, scope: Scope) -> Iterator[tuple[ast.AST, Scope]]:
    for child in ast.iter_child_nodes(args):
        yield from walk(child, scope)


def scope_of(name: str, scope: Scope) -> Scope | None:
    """Return the scope that binds a name, None if no scope does."""
    found: Scope | None = scope
    while found is not None:
        hidden = isinstance(found.node, ast.ClassDef) and found is not scope
        if name in found.names and not hidden:
            return found
        if name in found.outer and found.node.__class__ is not ast.Module:
            top = found
            while top.above:
                top = top.above
            if any(
                isinstance(n, ast.Global) and name in n.names for n in ast.walk(found.node)
            ):
                return top
        found = found.above
    return None


class Module:
    """A file, its tree, and the names that are bound at its top."""

    def __init__(self, name: str, path: Path, *, is_package: bool) -> None:
        self.name, self.path, self.is_package = name, path, is_package
        self.text = path.read_text("utf-8")
        self.tree = ast.parse(self.text)
        self.scope = Scope(self.tree, None)

    @cached_property
    def statements(self) -> list[ast.stmt]:
        """Statements at the top that are neither imports nor the docstring."""
        body = self.tree.body[1:] if self.docstring else self.tree.body
        return [node for node in body if not is_import(node)]

    @cached_property
    def docstring(self) -> ast.stmt | None:
        """The statement that is the docstring."""
        return next((node for node in self.tree.body[:1] if is_text(node)), None)


def is_text(node: ast.AST) -> bool:
    value = getattr(node, "value", None)
    is_string = isinstance(value, ast.Constant) and isinstance(value.value, str)
    return isinstance(node, ast.Expr) and is_string


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


def is_import(node: ast.AST) -> bool:
    if is_type_checking(node):
        return all(is_import(each) for each in node.body) and not node.orelse
    return isinstance(node, ast.Import | ast.ImportFrom)


class Tree:
    """All modules below a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.modules: dict[str, Module] = {}
        for top in TREES:
            for path in sorted((root / top).rglob("*.py")):
                inner = path.relative_to(root)
                if not any(part in SKIPPED for part in inner.parts):
                    name = ".".join(inner.with_suffix("").parts)
                    is_package = name.endswith(".__init__")
                    name = name.removesuffix(".__init__")
                    self.modules[name] = Module(name, path, is_package=is_package)

    def follow(self, module: str, name: str) -> tuple[str, str]:
        """Return the module that defines a name, and its name there; ``""`` for a module."""
        for _ in range(20):
            if not name:
                return module, ""
            found = self.modules.get(module)
            origin = found.scope.imports.get(name) if found else None
            if origin is None or origin == (module, name):
                inner = f"{module}.{name}"
                return (inner, "") if inner in self.modules else (module, name)
            module, name = origin
        raise ValueError(f"{module}:{name} is imported in a circle")

    def bound(self, node: ast.AST, scope: Scope, module: str) -> tuple[str, str] | None:
        """Return what a name or an attribute of a module is bound to, None if it is local."""
        if isinstance(node, ast.Name):
            found = scope_of(node.id, scope)
            if found is None:
                return ("builtins" if hasattr(builtins, node.id) else "nowhere"), node.id
            if node.id in found.imports:
                return self.follow(*found.imports[node.id])
            return (module, node.id) if found.above is None else None
        if isinstance(node, ast.Attribute) and isinstance(
            node.value, ast.Name | ast.Attribute
        ):
            value = self.bound(node.value, scope, module)
            known = value and not value[1] and value[0].partition(".")[0] in TREES
            if known and {value[0], f"{value[0]}.{node.attr}"} & self.modules.keys():
                return self.follow(value[0], node.attr)
        return None


class Resolved(ast.NodeTransformer):
    """Writes a statement with names in the place of what they are bound to."""

    def __init__(self, tree: Tree, module: Module, table: Table) -> None:
        self.tree, self.module, self.table = tree, module, table
        self.scopes: dict[int, Scope] = {}

    def dump(self, statement: ast.stmt) -> str:
        self.scopes = {id(n): s for n, s in walk(statement, self.module.scope)}
        return ast.dump(self.visit(statement))

    def _identity(self, module: str, name: str) -> ast.AST:
        return ast.Name(id=self.table.identity(module, name), ctx=ast.Load())

    def _bound(self, node: ast.AST) -> ast.AST:
        found = self.tree.bound(node, self.scopes[id(node)], self.module.name)
        if found is None:
            return self.generic_visit(node)
        return self._identity(*found)

    visit_Name = visit_Attribute = _bound

    def _imports(self, node: ast.AST) -> ast.AST | None:
        names = sorted({self.table.modules.get(n.name, n.name) for n in node.names})
        source = getattr(node, "module", None)
        if source and source.partition(".")[0] in TREES:
            return None
        return ast.Expr(ast.Constant(f"import {source} {names}"))

    visit_Import = visit_ImportFrom = _imports

    def _definition(self, node: ast.AST) -> ast.AST:
        scope = self.scopes[id(node)]
        is_top = scope.above is None
        name = node.name
        self.generic_visit(node)
        if is_top:
            node.name = self.table.identity(self.module.name, name)
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_ClassDef = _definition

    def visit_Global(self, node: ast.Global) -> ast.AST:
        node.names = [self.table.identity(self.module.name, each) for each in node.names]
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, str):
            return ast.Constant(self.table.text(node.value))
        return node


class Table:
    """Where modules and names went."""

    def __init__(self, told: dict[str, dict[str, str]] | None = None) -> None:
        told = told or {}
        self.modules = told.get("modules", {})
        self.names = told.get("names", {})
        self.dropped = {*told.get("dropped", ())}

    def identity(self, module: str, name: str) -> str:
        new = self.names.get(f"{module}:{name}", name)
        return f"{self.modules.get(module, module)}:{new}"

    def text(self, text: str) -> str:
        """Return a text in which names and paths of modules are the new ones."""
        if not self.modules:
            return text
        return self._named.sub(self._renamed, text)

    @cached_property
    def _named(self) -> re.Pattern[str]:
        """Match ``package.module``, with a name after a dot or a colon, and paths."""
        moved = sorted({*self.modules, *(each.partition(":")[0] for each in self.names)})
        dotted = "|".join(re.escape(each) for each in reversed(moved))
        paths = "|".join(re.escape(short_path(each)) for each in reversed(moved))
        return re.compile(
            rf"(?<![\w.])(?P<module>{dotted})(?:(?P<sign>[.:])(?P<name>\w+))?(?![\w])"
            rf"|(?<![\w/-])(?P<top>onnx_passes/)?(?P<path>{paths})(?![\w/])"
        )

    def _renamed(self, found: re.Match[str]) -> str:
        if path := found["path"]:
            name = path.removesuffix(".py").replace("/", ".")
            name = name if name.partition(".")[0] in TREES else f"onnx_passes.{name}"
            return (found["top"] or "") + short_path(self.modules.get(name, name))
        module, name = found["module"], found["name"] or ""
        new = self.names.get(f"{module}:{name}", name)
        return self.modules.get(module, module) + (found["sign"] or "") + new


def short_path(module: str) -> str:
    """Return the path of a module, from the package on."""
    return module.removeprefix("onnx_passes.").replace(".", "/") + ".py"


def written(tree: Tree, table: Table, twice: list[str]) -> dict[str, list[list[str]]]:
    """Return the resolved statements of each module of the new tree, by the part it came from.

    Without ``__all__``: what is imported from elsewhere is checked where it is read.
    Statements that the table drops, because an equal one stays, are added to ``twice``.
    """
    found: dict[str, list[list[str]]] = defaultdict(list)
    for name, module in tree.modules.items():
        writer = Resolved(tree, module, table)
        lines, skips = [], False
        for node in module.statements:
            target = getattr(node, "target", None) or [*getattr(node, "targets", ()), None][0]
            bound = getattr(target, "id", "")
            if bound == "__all__" or (skips and is_text(node)):
                continue
            skips = f"{name}:{bound}" in table.dropped
            line = writer.dump(node)
            (twice if skips else lines).append(line)
        found[table.modules.get(name, name)].append(lines)
    return found


def is_subsequence(part: list[str], whole: list[str]) -> bool:
    left = iter(whole)
    return all(any(line == other for other in left) for line in part)


def main() -> int:
    old, new, table = sys.argv[1:4]
    told = json.loads(Path(table).read_text("utf-8"))
    twice: list[str] = []
    before = written(Tree(Path(old)), Table(told), twice)
    after = written(Tree(Path(new)), Table(), [])
    kept = {line for parts in before.values() for part in parts for line in part}
    wrong = sum(line not in kept for line in twice)
    for name in sorted(before.keys() | after.keys()):
        parts, wholes = before.get(name, []), after.get(name, [])
        whole = [line for each in wholes for line in each]
        lost = Counter(line for part in parts for line in part) - Counter(whole)
        added = Counter(whole) - Counter(line for part in parts for line in part)
        if lost or added:
            wrong += 1
            print(
                f"{name}: {sum(lost.values())} statements are gone, {sum(added.values())} new"
            )
            for sign, lines in (("-", lost), ("+", added)):
                for line in lines:
                    print("   ", sign, line[:400])
        elif not all(is_subsequence(part, whole) for part in parts):
            wrong += 1
            print(f"{name}: statements have changed their order")
    count = sum(len(part) for parts in before.values() for part in parts)
    print(f"{count} statements of {len(before)} modules, {wrong} modules differ")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
