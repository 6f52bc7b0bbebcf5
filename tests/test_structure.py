"""The structure of the package, counted: what is left to improve may only become less.

A count rises only with a decision: docs/maintainers/decisions/0018-counts-of-the-house.md.
"""

import ast
import re
import subprocess
import sys
from collections import Counter, defaultdict
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import onnx_passes
from tests.tables import each_of

ROOT = Path(onnx_passes.__file__).parent
OUTSIDE = ("tests", "benchmarks")
"""Folders beside the package that are rooms as well."""


class Size(NamedTuple):
    """How large a room is.

    A fragment is a module outside of ``passes`` that only one module imports, from the same
    folder: it is a part of that module. What an ``__init__`` imports has readers elsewhere.
    """

    lines: int
    modules: int
    fragments: int


ROOMS = {
    "__init__": Size(30, 1, 0),
    "__main__": Size(3, 1, 0),
    "api": Size(393, 4, 0),
    "arrays": Size(26, 1, 0),
    "bench": Size(3781, 14, 0),
    "certifying": Size(9122, 27, 3),
    "cli": Size(3878, 18, 1),
    "compat": Size(640, 5, 0),
    "configs": Size(2105, 12, 0),
    "contracts": Size(525, 4, 0),
    "data": Size(3010, 11, 0),
    "errors": Size(76, 1, 0),
    "library_index": Size(86, 1, 0),
    "risky_runs": Size(151, 1, 0),
    "model": Size(3553, 14, 0),
    "ops": Size(7970, 34, 4),
    "optional": Size(77, 1, 0),
    "passes": Size(20193, 246, 0),
    "pipeline": Size(9924, 29, 3),
    "plain": Size(14, 1, 0),
    "report": Size(1919, 10, 0),
    "runtime": Size(6722, 28, 2),
    "surgery": Size(1024, 5, 0),
    "testing": Size(103, 1, 0),
    "tuning": Size(2292, 8, 0),
    "verify": Size(6437, 20, 0),
    "benchmarks": Size(8990, 69, 0),
    "tests": Size(48721, 556, 0),
}
"""The most that each room may have: lines of code, modules, fragments.

A room is a folder or a module at the top of the package. Lines are counted that are not blank,
and are neither a comment nor in a docstring.
"""
SLACK = Size(30, 2, 2)
"""How much less there may be before the table has to be lowered, or 1 % if that is more."""
PASS_LINES = 300
"""Lines of a file of a pass, past which it is split."""
CLASSES = 0
"""Names of classes that two modules of a room define."""
MODULES = 0
"""Names of modules that a room has twice."""
ANY = 168
"""Uses of ``typing.Any``."""
MUTABLE = 0
"""Defaults of options that are shared by all passes: ``Field(default_factory=...)`` is not."""
CYCLES = 0
"""Groups of modules that import each other, in annotations included."""
GATE = ("pipeline", "verify")
FLOORS = 9
"""How deep imports of modules of the gate go, those for annotations aside."""
LEAST = 0.95
"""Share of an allowed count from which on it is to be lowered."""
BY_NAME = {
    "onnx_passes": "names of the Python API",
    "onnx_passes.cli.main": "commands, and modules inside of a package that is loaded late",
    "onnx_passes.cli.run_command": "forms of a report, which are slow to import",
    "onnx_passes.compat": "modules of its own folder, whose names it serves",
    "onnx_passes.configs.imports": "modules of the user",
    "onnx_passes.data.evaluation_job": "modules of the user",
    "onnx_passes.ops": "operators as functions of onnxscript, which is slow to import",
    "onnx_passes.ops.operator_class": "families of operators, which import it",
    "onnx_passes.optional": "libraries that may be missing, and functions of the user",
    "onnx_passes.passes": "names of the seed system, whose module imports passes",
    "onnx_passes.passes.base": "the same",
    "onnx_passes.passes.compose": "the same",
    "onnx_passes.passes.kinds": "the check of a bare pass, whose module imports passes",
    "onnx_passes.passes.registry": "passes of the library, all and by its index",
    "onnx_passes.pipeline.run": "what compares over whole data sets, an annex",
    "onnx_passes.runtime.isolated_child": "what the parent process names",
    "onnx_passes.runtime.ort": "libraries that may be missing",
    "onnx_passes.runtime.tensorrt.bindings": "one of two libraries",
    "onnx_passes.runtime.tensorrt.engine": "a function of the user",
    "onnx_passes.verify.repro_level": "one of two libraries",
    "onnx_passes.certifying.rewrite_rule": "an object of the user",
    "onnx_passes.bench.runs": "names of this folder",
}
"""Modules that import by a text, and what: passes, commands and users' modules are found by
their names. An import that a contract forbids must not hide there."""


class Module(NamedTuple):
    """What is counted of a module."""

    path: Path
    text: str
    lines: int
    imports: list[tuple[str, str]]
    by_name: list[str]
    classes: list[str]
    uses_of_any: list[int]


def read(path):
    text = path.read_text("utf-8")
    tree = ast.parse(text)
    nodes = [*ast.walk(tree)]
    return Module(
        path,
        text,
        lines_of_code(text, nodes),
        [*imports(nodes)],
        [*imports_by_name(nodes)],
        [node.name for node in tree.body if isinstance(node, ast.ClassDef)],
        [n.lineno for n in nodes if isinstance(n, ast.Name) and n.id == "Any"],
    )


@cache
def modules():
    """Return each module of the package by its name, without templates of new files."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        if "templates" not in path.parts:
            parts = ("onnx_passes", *path.relative_to(ROOT).with_suffix("").parts)
            found[".".join(parts).removesuffix(".__init__")] = read(path)
    return found


def lines_of_code(text, nodes):
    """Return how many lines are not blank, and neither a comment nor in a docstring."""
    said = {
        number
        for node in nodes
        if isinstance(node, ast.Expr) and is_text(node.value)
        for number in range(node.lineno, node.end_lineno + 1)
    }
    lines = enumerate(map(str.strip, text.splitlines()), 1)
    return sum(bool(li) and not li.startswith("#") and n not in said for n, li in lines)


def is_text(node):
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def imports(nodes):
    """Yield what is imported anywhere in a module: another one, and a name of it."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names)


def imports_by_name(nodes):
    """Yield what is imported by a text that is not the name of another package."""
    for node in nodes:
        if isinstance(node, ast.Call) and node.args:
            function = getattr(node.func, "attr", getattr(node.func, "id", ""))
            what = node.args[0]
            is_other = is_text(what) and not what.value.startswith("onnx_passes")
            if function in ("import_module", "__import__") and not is_other:
                yield ast.unparse(what)


@cache
def edges():
    """Return the modules of the package that each module imports."""
    known = modules().keys()
    return {
        name: {inner if (inner := f"{m}.{n}") in known else m for m, n in each.imports}
        - {name}
        for name, each in modules().items()
    }


def room(path):
    """Return the folder or module at the top of the package that a path is in."""
    return path.relative_to(ROOT).parts[0].removesuffix(".py")


def fragments():
    """Return the modules that are parts of their only reader, as the table defines them."""
    readers = defaultdict(list)
    for name, found in edges().items():
        for each in found & modules().keys():
            readers[each].append(modules()[name].path)
    for name, (path, *_) in modules().items():
        if path.name != "__init__.py" and room(path) != "passes" and len(readers[name]) == 1:
            (reader,) = readers[name]
            if reader.parent == path.parent and reader.name != "__init__.py":
                yield name


def sizes():
    """Return the size of each room as it is."""
    lines, count = Counter(), Counter()
    for each in modules().values():
        lines[room(each.path)] += each.lines
        count[room(each.path)] += 1
    for folder in OUTSIDE:
        for path in (ROOT.parent / folder).rglob("*.py"):
            lines[folder] += read(path).lines
            count[folder] += 1
    parts = Counter(room(modules()[name].path) for name in fragments())
    return {name: Size(lines[name], count[name], parts[name]) for name in sorted(lines)}


def check(found, allowed, what):
    assert len(found) <= allowed, f"{len(found)} {what}: {found}"
    least = LEAST * allowed - 2
    assert len(found) >= least, f"only {len(found)} {what}: lower the count"


def test_rooms_only_become_smaller():
    found, nothing = sizes(), Size(0, 0, 0)
    names = sorted(found.keys() | ROOMS.keys())
    pairs = {n: (found.get(n, nothing), ROOMS.get(n, nothing)) for n in names}
    larger = {
        name: (now, most)
        for name, (now, most) in pairs.items()
        if any(a > b for a, b in zip(now, most, strict=True))
    }
    assert not larger, f"larger than the table says: {larger}"
    smaller = {
        name: now
        for name, (now, most) in pairs.items()
        if any(a < b - max(c, b // 100) for a, b, c in zip(now, most, SLACK, strict=True))
    }
    assert not smaller, f"lower the table to {smaller}"


def test_what_is_a_line_of_code():
    text = '''"""A module."""

LIMIT = 3
"""What it
limits."""
if LIMIT:
    pass
else:
    # a comment
    def f():
        """One line."""
        return """not
        a docstring"""  # and a comment
'''
    assert lines_of_code(text, [*ast.walk(ast.parse(text))]) == 7


def test_files_of_passes_are_split():
    sizes = {
        name: len(each.text.splitlines())
        for name, each in modules().items()
        if room(each.path) == "passes" and each.path.parent.parent != ROOT
        if not each.path.name.startswith("_")
    }
    assert len(sizes) > 100
    assert {n: size for n, size in sizes.items() if size > PASS_LINES} == {}


def twice(names):
    """Return the names that stand twice in a room, each with the modules."""
    places = defaultdict(list)
    for path, name in names:
        places[room(path), name].append(str(path.relative_to(ROOT)))
    return {name: where for (_, name), where in places.items() if len(where) > 1}


def test_a_class_name_stands_once_in_a_room():
    found = twice((each.path, name) for each in modules().values() for name in each.classes)
    check(found, CLASSES, "names stand twice")


def test_a_module_name_stands_once_in_a_room():
    paths = [each.path for each in modules().values() if each.path.name != "__init__.py"]
    check(twice((path, path.stem) for path in paths), MODULES, "module names stand twice")


def test_no_import_hides_in_a_text():
    found = {name: each.by_name for name, each in modules().items() if each.by_name}
    assert found.keys() == BY_NAME.keys(), found


@each_of(
    "text, found",
    ('import_module("onnx_passes.ops")', ["'onnx_passes.ops'"]),
    ('importlib.import_module(f"{__name__}.x")', ["f'{__name__}.x'"]),
    ("__import__(name)", ["name"]),
    ('import_module("openvino")', []),
    ("import_modules(config)", []),
)
def test_what_is_an_import_by_a_text(text, found):
    assert [*imports_by_name(ast.walk(ast.parse(text)))] == found


def test_types_are_told():
    uses = [
        f"{each.path.relative_to(ROOT)}:{line}"
        for each in modules().values()
        for line in each.uses_of_any
    ]
    check(uses, ANY, "uses of Any")


def test_defaults_are_not_shared():
    found = [
        name for name, each in modules().items() for _ in re.findall("noqa: RUF012", each.text)
    ]
    check(found, MUTABLE, "defaults are mutable")


def test_modules_import_in_one_direction():
    left = {name: {*read} for name, read in edges().items()}
    cycles = []
    while True:
        try:
            TopologicalSorter(left).prepare()
        except CycleError as error:
            cycle = error.args[1]
            cycles.append(cycle)
            for reader, read in zip(cycle[1:], cycle, strict=False):
                left[reader] -= {read}
        else:
            break
    check(cycles, CYCLES, "cycles of imports")


def test_the_gate_has_few_floors():
    found = {name: each for name, each in modules().items() if room(each.path) in GATE}
    read = {
        name: [s.module for s in ast.parse(each.text).body if isinstance(s, ast.ImportFrom)]
        for name, each in found.items()
    }

    @cache
    def floor(name):
        return 1 + max((floor(other) for other in read[name] if other in read), default=0)

    assert max(map(floor, read)) == FLOORS


ANNEXES = ("bench", "certifying", "data", "surgery", "tuning")
LOADED = """
import sys
from onnx_passes.cli.main import main
from onnx_passes.pipeline import run
sys.argv[:] = ["onnx-passes", sys.argv[1], "-o", sys.argv[2], "cleanup"]
try:
    main()
finally:
    print("loaded", *(name for name in sys.modules if name.startswith("onnx_passes.")))
"""


def test_a_run_of_cleanup_loads_no_annex(tmp_path):
    model, out = ROOT.parent / "examples/digits/model.onnx", tmp_path / "out.onnx"
    command = [sys.executable, "-c", LOADED, str(model), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert out.exists(), done.stderr
    loaded = done.stdout.splitlines()[-1].split()[1:]
    assert "onnx_passes.pipeline.run" in loaded
    annexes = tuple(f"onnx_passes.{name}" for name in ANNEXES)
    assert [name for name in loaded if name.startswith(annexes)] == []
