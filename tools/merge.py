"""Merge modules into one, and rename what a plan says, in every file of the project.

    python tools/merge.py PLAN.yaml TABLE.json [ROOM ...]

The plan names new modules, their parts and names that change::

    merge:
      package.new: {doc: What it is., parts: [package.a, package.b]}
    rename: {"package.a:name": other}

Nothing but names and imports is changed; ``tools/bindings.py`` proves it from TABLE.json.
"""

from __future__ import annotations

import ast
import builtins
import io
import json
import subprocess
import sys
import textwrap
import tokenize
from collections import defaultdict
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import yaml

sys.path.insert(0, str(Path(__file__).parent))
from bindings import (
    TREES,
    Definition,
    Module,
    Scope,
    Table,
    Tree,
    is_import,
    is_type_checking,
    scope_of,
    walk,
)

TESTS = 1000
"""The most lines of a file of tests that is merged."""


class Edits:
    """Changes of a text by places in it."""

    def __init__(self, text: str) -> None:
        self.data = text.encode()
        self.starts = [0]
        for line in self.data.splitlines(keepends=True):
            self.starts.append(self.starts[-1] + len(line))
        self.found: dict[tuple[int, int], str] = {}

    def place(self, line: int, column: int) -> int:
        return self.starts[line - 1] + column

    def span(self, node: ast.AST) -> tuple[int, int]:
        end = self.place(node.end_lineno, node.end_col_offset)
        return self.place(node.lineno, node.col_offset), end

    def replace(self, node: ast.AST, text: str) -> None:
        self.found[self.span(node)] = text

    def remove_lines(self, node: ast.AST) -> str:
        """Remove the lines of a statement, and return the comment at their end."""
        start, end = self.starts[node.lineno - 1], self.starts[node.end_lineno]
        _, last = self.span(node)
        self.found[start, end] = ""
        return self.data[last:end].decode().strip()

    def result(self) -> str:
        data = self.data
        spans = sorted(self.found)
        kept = [
            s for i, s in enumerate(spans) if not any(inside(s, t) for t in spans if t != s)
        ]
        for start, end in reversed(kept):
            data = data[:start] + self.found[start, end].encode() + data[end:]
        return data.decode()


def inside(inner: tuple[int, int], outer: tuple[int, int]) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]


class Merge:
    """A plan, applied to a tree."""

    def __init__(self, tree: Tree, plan: dict) -> None:
        self.tree = tree
        self.docs = {new: told.get("doc") for new, told in plan["merge"].items()}
        self.modules = {
            part: new for new, told in plan["merge"].items() for part in told["parts"]
        }
        self.names: dict[tuple[str, str], str] = {
            (*each.split(":"),): new for each, new in (plan.get("rename") or {}).items()
        }
        self.problems: list[str] = []
        self.notes: list[str] = []
        self.dropped: dict[tuple[str, str], str] = {}
        self.bound: dict[tuple[str, str], str] = {}
        self.groups: dict[str, list[str]] = defaultdict(list)
        for new, told in plan["merge"].items():
            self.groups[new] = self._ordered(told["parts"])
        for name in tree.modules:
            if name not in self.modules:
                self.groups[name] = [name]
        for new, parts in self.groups.items():
            self._name_definitions(new, parts)
        self.table = Table(
            {
                "modules": self.modules,
                "names": {f"{m}:{n}": new for (m, n), new in self.names.items()},
            }
        )
        packages = [new for new in self.groups if self._is_package(new)]
        for new in [*packages, *(each for each in self.groups if each not in packages)]:
            self._name_imports(new, self.groups[new])

    def _is_package(self, new: str) -> bool:
        return new in self.tree.modules and self.tree.modules[new].is_package

    def new(self, module: str) -> str:
        return self.modules.get(module, module)

    def _ordered(self, parts: list[str]) -> list[str]:
        """Return parts in the order told, but each after those that it needs to start."""
        needs = {}
        for part in parts:
            module = self.tree.modules[part]
            top = [n for n in module.tree.body if isinstance(n, ast.ImportFrom | ast.Import)]
            read = set()
            for node in top:
                source = getattr(node, "module", "") or ""
                for each in node.names:
                    read |= {source, f"{source}.{each.name}", each.name}
            needs[part] = sorted(read & {*parts} - {part}, key=parts.index)
        sorter = TopologicalSorter({part: needs[part] for part in parts})
        sorter.prepare()
        order: list[str] = []
        ready: list[str] = []
        while sorter.is_active():
            ready += sorter.get_ready()
            ready.sort(key=parts.index)
            order.append(ready.pop(0))
            sorter.done(order[-1])
        return order

    def _name_definitions(self, new: str, parts: list[str]) -> None:
        taken: dict[str, tuple[str, str]] = {}
        for part in parts:
            scope = self.tree.modules[part].scope
            for name in sorted(scope.names - scope.imports.keys() - {"__all__"}):
                want = self.names.get((part, name), name)
                if want in taken:
                    other = taken[want]
                    if self._same(other, (part, name)):
                        self.dropped[part, name] = new
                        self.notes.append(f"{new}: {want} of {part} is that of {other[0]}")
                        continue
                    is_own = not want.startswith("_") and not new.startswith(
                        ("tests", "bench")
                    )
                    if is_own:
                        self.problems.append(f"{new}: {want} of {part} and of {other[0]}")
                    leaf = part.rpartition(".")[2].removeprefix("test_").lstrip("_")
                    was, want = want, f"{want}_{leaf.upper() if want.isupper() else leaf}"
                    if (
                        was.startswith("_")
                        and was.strip("_")[:1].isupper()
                        and not was.isupper()
                    ):
                        want = f"_{leaf.title().replace('_', '')}{was.strip('_')}"
                    self.notes.append(f"{new}: {was} of {part} is called {want}")
                taken[want] = (part, name)
                if want != name:
                    self.names[part, name] = want
        for key in [k for k in self.names if k[0] in parts]:
            if key[1] not in self.tree.modules[key[0]].scope.names:
                self.problems.append(f"{key[0]} has no {key[1]} to rename")

    def _same(self, one: tuple[str, str], other: tuple[str, str]) -> bool:
        texts = []
        for module, name in (one, other):
            found = [
                n
                for n in self.tree.modules[module].statements
                if name in {x.id for x in ast.walk(n) if isinstance(x, ast.Name)}
                and isinstance(n, ast.Assign | ast.AnnAssign)
                and name
                in [
                    getattr(t, "id", "")
                    for t in getattr(n, "targets", [n.__dict__.get("target")])
                ]
            ]
            if len(found) != 1:
                return False
            free = {
                self.tree.bound(x, s, "")
                for x, s in walk(found[0], self.tree.modules[module].scope)
                if isinstance(x, ast.Name) and x.id != name
            }
            if any(f and not f[0] for f in free):
                return False
            texts.append((ast.dump(found[0]), sorted(map(str, free))))
        return texts[0] == texts[1]

    def target(self, module: str, name: str) -> tuple[str, str]:
        """Return where something that is imported is now."""
        if not name:
            return self.new(module), ""
        name = self.names.get((module, name)) or self.bound.get((module, name), name)
        return self.new(module), name

    def source(self, module: str, name: str) -> tuple[str, str]:
        """Return the module that an import names, and the name; ``""`` for a module."""
        found = self.tree.modules.get(module)
        if (
            found
            and name in found.scope.imports
            and (module in self.modules or found.is_package)
        ):
            real = self.tree.follow(module, name)
            if module in self.modules or not real[1]:
                return real
            return module, name
        if name and f"{module}.{name}" in self.tree.modules:
            return f"{module}.{name}", ""
        return module, name

    def _name_imports(self, new: str, parts: list[str]) -> None:
        taken: dict[str, object] = {}
        for part in parts:
            scope = self.tree.modules[part].scope
            for name in scope.names - scope.imports.keys():
                taken[self.names.get((part, name), name)] = "definition"
        for part in parts:
            scope = self.tree.modules[part].scope
            for name, origin in scope.imports.items():
                module, there = self.source(*origin)
                found = self.target(module, there)
                last = (
                    (there or module.rpartition(".")[2]) if module in self.tree.modules else ""
                )
                if (
                    found[0] == new
                    and found[1]
                    and module.partition(".")[0] in TREES
                    and new != module
                ):
                    self.bound[part, name] = found[1]
                    continue
                if found[0] == new and module in parts:
                    self.bound[part, name] = found[1] or name
                    continue
                want = name
                if last == name and module in self.tree.modules:
                    want = found[1] or found[0].rpartition(".")[2]
                real = self.tree.follow(module, there)
                key = self.target(*real)
                everywhere = self._local_names(part) if want != name else set()
                if taken.get(want, key) != key or want in everywhere:
                    alternative = (
                        name
                        if taken.get(name, key) == key
                        else f"{found[0].rpartition('.')[2]}_{name}"
                    )
                    self.notes.append(f"{new}: {part} imports {want} as {alternative}")
                    want = alternative
                taken[want] = key
                self.bound[part, name] = want
        for part in parts:
            self._check_builtins(part, taken, new)

    def _local_names(self, part: str) -> set[str]:
        module = self.tree.modules[part]
        if not hasattr(module, "local_names"):
            scopes = {id(s): s for _, s in walk(module.tree, module.scope)}
            module.local_names = set().union(*(s.names for s in scopes.values() if s.above))
        return module.local_names

    def _check_builtins(self, part: str, taken: dict[str, object], new: str) -> None:
        module = self.tree.modules[part]
        for node, scope in walk(module.tree, module.scope):
            if (
                isinstance(node, ast.Name)
                and node.id in taken
                and scope_of(node.id, scope) is None
            ) and hasattr(builtins, node.id):
                self.problems.append(
                    f"{new}: {part} uses the builtin {node.id}, a name of another part"
                )

    def global_name(self, part: str, name: str) -> str:
        return self.bound.get((part, name)) or self.names.get((part, name), name)

    def rewritten(self, part: str, new: str, *, collect: bool) -> tuple[str, list]:
        """Return the text of a module with new names, and the imports that were taken out."""
        module = self.tree.modules[part]
        edits = Edits(module.text)
        imports: list[tuple[str, str, str, bool, str]] = []
        local: dict[tuple[int, str], str] = {}
        nodes = [*walk(module.tree, module.scope)]
        tops = {id(n): n for n in module.tree.body}
        if collect and module.docstring:
            edits.remove_lines(module.docstring)
        for node in module.tree.body:
            if collect and is_import(node):
                is_late = is_type_checking(node)
                for each in node.body if is_late else [node]:
                    comment = edits.remove_lines(each)
                    imports += [
                        (*one, is_late, comment)
                        for one in self._imported(each, part, new, module.scope, local)
                    ]
                edits.remove_lines(node)
            elif (
                collect
                and isinstance(node, ast.Assign)
                and getattr(node.targets[0], "id", "") == "__all__"
            ):
                edits.remove_lines(node)
            elif (
                isinstance(node, ast.Assign)
                and getattr(node.targets[0], "id", "") == "__all__"
            ):
                self._rewrite_all(edits, node, part)
            elif isinstance(node, Definition) and (part, node.name) in self.names:
                self._rename_definition(edits, node, self.names[part, node.name])
        for node, scope in nodes:
            if isinstance(node, ast.Import | ast.ImportFrom) and not (
                collect and id(node) in tops
            ):
                self._rewrite_import(edits, node, part, new, scope, local)
        for node, scope in nodes:
            if isinstance(node, ast.Name):
                self._rewrite_name(edits, node, scope, part, local)
            elif isinstance(node, ast.Attribute):
                self._rewrite_attribute(edits, node, scope, part, new)
            elif isinstance(node, ast.Global):
                renamed = [self.global_name(part, each) for each in node.names]
                if renamed != node.names:
                    edits.replace(node, "global " + ", ".join(renamed))
            elif isinstance(node, ast.Call):
                self._rewrite_patch(edits, node, scope, part)
        for part_, name in self.dropped:
            if part_ == part:
                self._drop(edits, module, name)
        self._rewrite_texts(edits, module.text)
        return edits.result(), imports

    def _rewrite_all(self, edits: Edits, node: ast.Assign, part: str) -> None:
        if isinstance(node.value, ast.List | ast.Tuple):
            names = [each for each in node.value.elts if isinstance(each, ast.Constant)]
            new = {self.global_name(part, each.value) for each in names}
            if new != {each.value for each in names}:
                others = [ast.unparse(e) for e in node.value.elts if e not in names]
                told = [*others, *(f'"{each}"' for each in sorted(new))]
                edits.replace(node.value, "[" + ", ".join(told) + ",]")

    def _drop(self, edits: Edits, module: Module, name: str) -> None:
        body = module.tree.body
        for i, node in enumerate(body):
            targets = getattr(node, "targets", [getattr(node, "target", None)])
            if isinstance(node, ast.Assign | ast.AnnAssign) and name in [
                getattr(t, "id", "") for t in targets
            ]:
                edits.remove_lines(node)
                if (
                    i + 1 < len(body)
                    and isinstance(body[i + 1], ast.Expr)
                    and isinstance(body[i + 1].value, ast.Constant)
                ):
                    edits.remove_lines(body[i + 1])

    def _rename_definition(self, edits: Edits, node: ast.AST, name: str) -> None:
        start = edits.place(node.lineno, node.col_offset)
        at = edits.data.index(node.name.encode(), start + len("def"))
        edits.found[at, at + len(node.name.encode())] = name

    def _rewrite_name(
        self, edits: Edits, node: ast.Name, scope: Scope, part: str, local: dict
    ) -> None:
        found = scope_of(node.id, scope)
        if found is None:
            return
        if found.above is None:
            name = self.global_name(part, node.id)
        else:
            name = local.get((id(found), node.id), node.id)
        if name != node.id:
            self._check_free(name, scope, part, node)
            edits.replace(node, name)

    def _check_free(self, name: str, scope: Scope, part: str, node: ast.AST) -> None:
        each: Scope | None = scope
        while each is not None and each.above is not None:
            if (
                name in each.names
                and not (isinstance(each.node, ast.ClassDef) and each is not scope)
                and name not in each.imports
            ):
                self.problems.append(f"{part}:{node.lineno}: {name} is a local name there")
            each = each.above

    def _rewrite_attribute(
        self, edits: Edits, node: ast.Attribute, scope: Scope, part: str, new: str
    ) -> None:
        value = (
            self.tree.bound(node.value, scope, part)
            if isinstance(node.value, ast.Name | ast.Attribute)
            else None
        )
        if not value or value[1] or value[0] not in self.tree.modules:
            return
        if f"{value[0]}.{node.attr}" in self.tree.modules:
            return
        name = self.names.get((value[0], node.attr)) or self.bound.get(
            (value[0], node.attr), node.attr
        )
        if self.new(value[0]) == new and part != value[0]:
            self._check_free(name, scope, part, node)
            edits.replace(node, name)
        elif name != node.attr:
            _, end = edits.span(node)
            edits.found[end - len(node.attr.encode()), end] = name

    def _rewrite_patch(self, edits: Edits, node: ast.Call, scope: Scope, part: str) -> None:
        """Rename the text of ``setattr(module, "name", ...)``."""
        function = getattr(node.func, "attr", getattr(node.func, "id", ""))
        if function not in ("setattr", "delattr", "getattr", "object") or len(node.args) < 2:
            return
        what, name = node.args[:2]
        is_text = isinstance(name, ast.Constant) and isinstance(name.value, str)
        if is_text and isinstance(what, ast.Name | ast.Attribute):
            value = self.tree.bound(what, scope, part)
            if value and not value[1] and value[0] in self.tree.modules:
                new = self.names.get((value[0], name.value)) or self.bound.get(
                    (value[0], name.value), name.value
                )
                if new != name.value:
                    self.notes.append(
                        f"{part}:{node.lineno}: the text {name.value!r} is {new!r}"
                    )
                    edits.replace(name, f'"{new}"')

    def _imported(
        self, node: ast.AST, part: str, new: str, scope: Scope, local: dict
    ) -> Iterator[tuple[str, str, str]]:
        """Yield what a statement imports now: a module, a name of it, what it is bound to."""
        if isinstance(node, ast.Import):
            for each in node.names:
                yield "", self.new(each.name), each.asname or ""
            return
        if node.level:
            self.problems.append(f"{part}:{node.lineno}: relative import")
            return
        for each in node.names:
            bound = each.asname or each.name
            module, there = self.source(node.module, each.name)
            to, name = self.target(module, there)
            if scope.above is None:
                want = self.global_name(part, bound)
            else:
                want = bound
                if not each.asname and module in self.tree.modules:
                    want = name or to.rpartition(".")[2]
                    if (
                        want != bound
                        and want in scope.names
                        and not self._is_same_import(scope, want, to)
                    ):
                        want = bound
                local[id(scope), bound] = want
            if to == new and module != part and (name or module in self.modules):
                if name and scope.above is not None:
                    local[id(scope), bound] = name
                continue
            if to == new and not name:
                continue
            if name:
                is_door = each.asname == each.name  # says that others may import it from here
                yield to, name, ("" if want == name and not is_door else want)
            else:
                package, _, leaf = to.rpartition(".")
                yield package, leaf, ("" if want == leaf else want)

    def _is_same_import(self, scope: Scope, name: str, to: str) -> bool:
        origin = scope.imports.get(name)
        return bool(origin) and self.new(self.source(*origin)[0]) == to

    def _rewrite_import(
        self, edits: Edits, node: ast.AST, part: str, new: str, scope: Scope, local: dict
    ) -> None:
        found = [*self._imported(node, part, new, scope, local)]
        if isinstance(node, ast.Import):
            before = [("", each.name, each.asname or "") for each in node.names]
        else:
            before = [(node.module, each.name, each.asname or "") for each in node.names]
        if found == before:
            return
        if not found:
            edits.remove_lines(node)
            self._fill(edits, node, part)
            return
        edits.replace(node, ("\n" + " " * node.col_offset).join(import_lines(found)))

    def _fill(self, edits: Edits, node: ast.AST, part: str) -> None:
        for each in ast.walk(self.tree.modules[part].tree):
            for field in ("body", "orelse", "finalbody"):
                if getattr(each, field, None) == [node]:
                    self.problems.append(
                        f"{part}:{node.lineno}: a block has nothing but this import"
                    )

    def _rewrite_texts(self, edits: Edits, text: str) -> None:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type in (tokenize.STRING, tokenize.COMMENT):
                new = self.table.text(token.string)
                if new != token.string:
                    lines = text.splitlines()
                    start = edits.place(
                        token.start[0],
                        len(lines[token.start[0] - 1][: token.start[1]].encode()),
                    )
                    end = edits.place(
                        token.end[0], len(lines[token.end[0] - 1][: token.end[1]].encode())
                    )
                    edits.found.setdefault((start, end), new)


def import_lines(found: list[tuple[str, str, str]]) -> list[str]:
    """Return the statements that import modules and names, by the module they are from."""
    by: dict[str, list[str]] = defaultdict(list)
    lines = []
    for module, name, bound in dict.fromkeys(found):
        told = f"{name} as {bound}" if bound else name
        if module:
            by[module].append(told)
        else:
            lines.append(f"import {told}")
    return [
        *lines,
        *(f"from {module} import {', '.join(names)}" for module, names in by.items()),
    ]


def merged(merge: Merge, new: str, parts: list[str]) -> str:
    """Return the text of a new module."""
    chunks, now, late, kept = [], [], [], []
    for part in parts:
        text, imports = merge.rewritten(part, new, collect=True)
        chunks.append(text.strip("\n"))
        for module, name, bound, is_late, comment in imports:
            if comment:
                kept.append(f"{import_lines([(module, name, bound)])[0]}  {comment}")
            elif module == "__future__":
                now.insert(0, (module, name, bound))
            else:
                (late if is_late else now).append((module, name, bound))
    now, late = one_import_each(now), one_import_each(late)
    future = [each for each in now if each[0] == "__future__"]
    now = [each for each in now if each not in future]
    bound = {each[2] or each[1] for each in now}
    late = [each for each in late if (each[2] or each[1]) not in bound]
    doc = merge.docs.get(new) or ""
    doc = doc.strip()
    head = []
    if doc:
        first, _, rest = doc.partition("\n")
        paragraphs = [textwrap.fill(" ".join(p.split()), 95) for p in rest.split("\n\n")]
        lines = [first, *("\n\n".join(["", *filter(None, paragraphs)]).splitlines()[1:])]
        head.append(
            f'"""{lines[0]}"""' if len(lines) == 1 else '"""' + "\n".join(lines) + '\n"""'
        )
    head.append("\n".join(import_lines(future)))
    head.append("\n".join([*import_lines(now), *kept]))
    if late:
        head.append(
            "if TYPE_CHECKING:\n" + "\n".join("    " + line for line in import_lines(late))
        )
    return "\n\n".join(each for each in head if each) + "\n\n\n" + "\n\n\n".join(chunks) + "\n"


def one_import_each(found: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Return imports without those of a name that another binds to the same thing."""
    by_name: dict[str, tuple[str, str, str]] = {}
    for each in found:
        name = each[2] or each[1]
        if name not in by_name or each[0] < by_name[name][0]:
            by_name[name] = each
    return [*by_name.values()]


def path_of(root: Path, module: str) -> Path:
    return root / (module.replace(".", "/") + ".py")


def fixtures(module: Module) -> set[str]:
    return {
        node.name
        for node in module.tree.body
        if isinstance(node, ast.FunctionDef)
        and any("fixture" in ast.unparse(each) for each in node.decorator_list)
    }


def plan_of_tests(tree: Tree, plan: dict) -> dict:
    """Return the merges of tests that follow merges of what they test."""
    found = {}
    taken = set()
    for new, told in plan.items():
        if not new.startswith("onnx_passes."):
            continue
        room, _, leaf = new.removeprefix("onnx_passes.").rpartition(".")
        target = ".".join(filter(None, ("tests", room, f"test_{leaf.lstrip('_')}")))
        if target in taken:
            continue
        parts: list[str] = []
        for part in told["parts"]:
            folder, _, name = part.removeprefix("onnx_passes.").rpartition(".")
            test = ".".join(filter(None, ("tests", folder, f"test_{name.lstrip('_')}")))
            if test in tree.modules and test not in taken and mergeable(tree, [*parts, test]):
                parts.append(test)
        if target in tree.modules and target not in parts:
            continue
        if parts and parts != [target]:
            found[target] = {"parts": parts}
            taken |= {target, *parts}
    return found


def mergeable(tree: Tree, parts: list[str]) -> bool:
    modules = [tree.modules[part] for part in parts]
    if sum(len(each.text.splitlines()) for each in modules) > TESTS and len(parts) > 1:
        return False
    for each in modules:
        if len(parts) > 1 and (
            "pytestmark" in each.scope.names
            or "autouse" in each.text
            or "importorskip" in each.text
        ):
            return False
        if any(isinstance(n, ast.ImportFrom) and n.level for n in ast.walk(each.tree)):
            return False
        if "__file__" in each.text:
            return False
    for each in modules:
        for other in modules:
            if each is not other:
                asked = {
                    arg.arg
                    for n in ast.walk(other.tree)
                    if isinstance(n, ast.FunctionDef)
                    for arg in [*n.args.args, *n.args.kwonlyargs]
                }
                if fixtures(each) & (asked | other.scope.names):
                    return False
    return True


def main() -> int:
    plan_path, table_path, *rooms = sys.argv[1:]
    plan = yaml.safe_load(Path(plan_path).read_text("utf-8"))
    if rooms:
        plan["merge"] = {n: t for n, t in plan["merge"].items() if n.startswith((*rooms,))}
        parts = {p for t in plan["merge"].values() for p in t["parts"]}
        plan["rename"] = {
            k: v for k, v in (plan.get("rename") or {}).items() if k.partition(":")[0] in parts
        }
    root = Path()
    tree = Tree(root)
    plan["merge"] |= plan_of_tests(tree, plan["merge"])
    merge = Merge(tree, plan)
    results: dict[Path, str] = {}
    gone: set[Path] = set()
    for new, parts in merge.groups.items():
        if parts == [new] and not merge.docs.get(new):
            text, _ = merge.rewritten(new, new, collect=False)
            if text != tree.modules[new].text:
                results[tree.modules[new].path] = text
        elif len(parts) == 1 and not merge.docs.get(new):
            text, _ = merge.rewritten(parts[0], new, collect=False)
            gone.add(tree.modules[parts[0]].path)
            results[path_of(root, new)] = text
        else:
            gone |= {tree.modules[part].path for part in parts}
            results[path_of(root, new)] = merged(merge, new, parts)
    for note in merge.notes:
        print("note:", note)
    for problem in dict.fromkeys(merge.problems):
        print("PROBLEM:", problem)
    if merge.problems:
        return 1
    listed = subprocess.run(
        ["git", "ls-files"], capture_output=True, text=True, check=True
    ).stdout
    for name in listed.splitlines():
        path = Path(name)
        if (
            path.suffix in (".md", ".json", ".toml", ".yaml", ".yml", ".pyi", "")
            and path.is_file()
        ) and (
            path.parts[0] not in ("tools", "certificates")
            and path.name != "CHANGELOG.md"
            and "decisions" not in path.parts
        ):
            text = path.read_text("utf-8")
            if (new_text := merge.table.text(text)) != text:
                results[path] = new_text
    for path in gone - results.keys():
        path.unlink()
    for path, text in results.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    table = {
        "modules": merge.modules,
        "names": {f"{m}:{n}": new for (m, n), new in sorted(merge.names.items())},
        "dropped": sorted(f"{part}:{name}" for part, name in merge.dropped),
    }
    Path(table_path).write_text(json.dumps(table, indent=1) + "\n", "utf-8")
    print(f"{len(merge.modules)} modules became {len({*merge.modules.values()})}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
