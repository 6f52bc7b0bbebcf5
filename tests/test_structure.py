"""The structure of the package, counted: what is left to improve may only become less."""

import ast
import re
from collections import defaultdict
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import onnx_passes

ROOT = Path(onnx_passes.__file__).parent
LINES = 300
LONG = 1
"""Modules of more than 300 lines: the script of a reproducer, which is one file."""
TWICE = 0
"""Names of classes that two modules define."""
ANY = 154
"""Uses of ``typing.Any``."""
MODULES = 1
"""Names of modules that two packages have: ``qonnx``, which the seed system imports."""
MUTABLE = 0
"""Defaults of options that are shared by all passes: ``Field(default_factory=...)`` is not."""
CYCLES = 0
"""Groups of modules that import each other, in annotations included."""
LEAST = 0.95
"""Share of an allowed count from which on it is to be lowered."""


@cache
def trees():
    """Return the syntax tree of each module by its name, without templates of new files."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        if "templates" not in path.parts:
            parts = ("onnx_passes", *path.relative_to(ROOT).with_suffix("").parts)
            name = ".".join(parts).removesuffix(".__init__")
            found[name] = (path, ast.parse(path.read_text("utf-8")))
    return found


def check(found, allowed, what):
    assert len(found) <= allowed, f"{len(found)} {what}: {found}"
    least = LEAST * allowed - 2
    assert len(found) >= least, f"only {len(found)} {what}: lower the count"


def imported(tree):
    """Yield the modules of the package that a module imports anywhere in its text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in trees() else node.module


def test_long_modules():
    sizes = {n: len(p.read_text("utf-8").splitlines()) for n, (p, _) in trees().items()}
    check({n: size for n, size in sizes.items() if size > LINES}, LONG, "modules are long")


def test_a_class_name_stands_once():
    places = defaultdict(list)
    for name, (_, tree) in trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(name)
    check({k: v for k, v in places.items() if len(v) > 1}, TWICE, "names stand twice")


def test_a_module_name_stands_once():
    places = defaultdict(list)
    for name, (path, _) in trees().items():
        if path.name != "__init__.py":
            places[path.stem].append(name)
    check({k: v for k, v in places.items() if len(v) > 1}, MODULES, "module names stand twice")


def test_types_are_told():
    uses = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, tree in trees().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and node.id == "Any"
    ]
    check(uses, ANY, "uses of Any")


def test_defaults_are_not_shared():
    text = {name: path.read_text("utf-8") for name, (path, _) in trees().items()}
    check(
        [name for name, t in text.items() for _ in re.findall("noqa: RUF012", t)],
        MUTABLE,
        "defaults are mutable",
    )


def test_modules_import_in_one_direction():
    edges = {n: {*imported(tree)} - {n} for n, (_, tree) in trees().items()}
    cycles = []
    while True:
        try:
            TopologicalSorter(edges).prepare()
        except CycleError as error:
            cycle = error.args[1]
            cycles.append(cycle)
            for reader, read in zip(cycle[1:], cycle, strict=False):
                edges[reader] -= {read}
        else:
            break
    check(cycles, CYCLES, "cycles of imports")
