"""What changes the key of a definition, and what does not."""

import ast
import re
from pathlib import Path

import pytest

import onnx_passes
from onnx_passes.certifying.definitions import Definitions, read_module
from onnx_passes.ops.operator_class import operators
from onnx_passes.passes.registry import all_passes

PACKAGE = Path(onnx_passes.__file__).parent

PROJECT = {
    "__init__.py": "",
    "made.py": '''"""A pass."""
from __future__ import annotations
from typing import ClassVar, Literal
import numpy as np
from project.near import Helped, constant_of as constant, limit
from project import near

class Made(Helped):
    """Double."""

    mode: Literal["a", "b"] = "a"
    count: ClassVar[int] = 3
    """How often."""

    def check(self, context, x: ir.Value, w: ir.Value) -> bool:
        found, other = constant(w), near.shape_of(x)
        if found is None:
            return context.fail(f"{w} is not a constant", w)
        try:
            total = [each * 2 for each in found if each > limit()]
        except ValueError as error:
            raise TypeError(f"no {error}") from error
        return total == other and len(total) > self.count
''',
    "near.py": """from project.far import LIMIT, TABLE

class Helped:
    def rank(self): return len(TABLE)

def constant_of(value):
    if value is None:
        raise ValueError("no value", help="give one")
    return value.array

def shape_of(value):
    return list(value.shape)

def unused(value):
    return value

def limit():
    from . import far
    return far.scaled(LIMIT)
""",
    "far.py": """LIMIT = 1
TABLE = {}
TABLE["one"] = 1

def scaled(number: int, by: int = 1) -> int:
    if number < 0: return bounced(-number)
    return number * by

def bounced(number):
    return scaled(number) if number > 1 else 0
""",
}


def key(tmp_path, **changes):
    """Return the key of the pass with texts exchanged: ``near=(old, new)``."""
    folder = tmp_path / str(len(list(tmp_path.iterdir())))
    folder.mkdir()
    for name, text in PROJECT.items():
        old, new = changes.get(name.removesuffix(".py"), ("", ""))
        assert not old or text.count(old) == 1, (name, old)
        (folder / name).write_text(text.replace(old, new) if old else text)
    return Definitions({"project": folder}).key("project.made", "Made")


def pairs(text):
    """Read ``FILE: OLD => NEW``, or no file; a line that begins with spaces continues one."""
    found = []
    for line in text.strip("\n").replace("\n  ", " ").splitlines():
        file, old, new = re.fullmatch(r"(?:(\w+): )?(.*) => (.*)", line).groups()
        texts = (part.replace(r"\n", "\n") for part in (old, new))
        found.append(pytest.param(*([file] if file else []), *texts, id=line[:40]))
    return found


@pytest.mark.parametrize(
    ("file", "old", "new"),
    pairs(r'''
made: found, other = constant(w), near => found, other = constant(\n    w), near
made: """Double.""" => """Triple.\n\n    Thrice.\n    """
made: """How often.""" => # How often.
made: x: ir.Value, w: ir.Value) -> bool => x: object, w) -> 'bool | None'
made: f"{w} is not a constant" => "constants are asked for: " + str(w)
made: f"no {error}" => "nothing"
made: mode: Literal["a", "b"] => mode: "Literal['a', 'b']"
made: error:\n            raise TypeError(f"no {error}") from error
  => e:\n            raise TypeError(f"no {e}") from e
made: [each * 2 for each in found if each > limit()] => [n * 2 for n in found if n > limit()]
made: constant_of as constant, limit => constant_of as constant, limit, unused
near: "no value", help="give one" => "nothing there", help="say what"
near: def unused(value):\n    return value => def unused(value):\n    return 1
far: number: int, by: int = 1) -> int => number, by=1)
'''),
)
def test_how_code_is_written_does_not_count(tmp_path, file, old, new):
    assert key(tmp_path, **{file: (old, new)}) == key(tmp_path)


def test_the_module_of_a_function_does_not_count(tmp_path):
    moved = "\ndef shape_of(value):\n    return list(value.shape)\n"
    there = key(
        tmp_path,
        near=(moved, "from project.far import shape_of\n"),
        far=("LIMIT = 1\n", f"LIMIT = 1\n{moved}"),
    )
    assert there == key(tmp_path)


@pytest.mark.parametrize(
    ("file", "old", "new"),
    pairs(r"""
made: is None => is not None
made: each * 2 => each * 3
made: from project.near import Helped, constant_of => from project.near import Helped, unused
made: constant(w), near.shape_of(x) => near.shape_of(w), constant(x)
made: near.shape_of(x) => near.unused(x)
made: Literal["a", "b"] => Literal["a"]
made: count: ClassVar[int] => count: int
made: x: ir.Value, w => w: ir.Value, x
made: total == other => other == found
made: class Made(Helped) => class Made
made: raise TypeError => raise KeyError
made: from project import near\n => from project import near\nlimit = 3\n
near: len(TABLE) => len(TABLE) + 1
near: far.scaled(LIMIT) => far.bounced(LIMIT)
near: value.array => value.arrays
far: LIMIT = 1 => LIMIT = 2
far: TABLE["one"] = 1 => TABLE["one"] = 2
far: by: int = 1 => by: int = 2
far: number > 1 => number > 2
far: scaled(number) if => bounced(number) if
"""),
)
def test_what_code_does_counts(tmp_path, file, old, new):
    assert key(tmp_path, **{file: (old, new)}) != key(tmp_path)


@pytest.mark.parametrize(
    ("one", "other"),
    pairs(r"""
A = object()\nB = object()\ndef f(): return A => A = object()\nB = object()\ndef f(): return B
class A: pass\nclass B: pass\ndef f(): return A
  => class A: pass\nclass B: pass\ndef f(): return B
A, B = 1, 2\ndef f(): return A => A, B = 1, 2\ndef f(): return B
def f(x):\n a = x\n b = a\n return a => def f(x):\n a = x\n b = a\n return b
def f(x): return [x for y in x] => def f(x): return [y for y in x]
def f(x):\n def g(y): return x\n return g => def f(x):\n def g(x): return x\n return g
def f(a, b): return g(a=1) => def f(b, a): return g(a=1)
def f(*, a): return a => def f(a): return a
def f(x):\n match x:\n  case [a, *b]: return b
  => def f(x):\n match x:\n  case [a, *b]: return a
def f(): return 1 => def f(): return True
def f(): return 1.0 => def f(): return 1
def f(x): return x[:1] => def f(x): return x[1:]
def f(x):\n if x: return 1\n return 2 => def f(x):\n if x:\n  return 1\n  return 2
x = 1\ndef f():\n x = 2 => x = 1\ndef f():\n global x\n x = 2
def f(x): return x.fail('a', 1) => def f(x): return x.failed('a', 1)
class f:\n def a(self): 1\n def b(self): 2 => class f:\n def b(self): 1\n def a(self): 2
from numpy import add as g\ndef f(): return g => from numpy import sub as g\ndef f(): return g
def f(x):\n try: g()\n except A as e: x(e) => def f(x):\n try: g()\n except A as e: x(x)
def f(x): return (y := x) + y => def f(x): return (y := x) + x
import a\nimport b\ndef f(): return a.g => import a\nimport b\ndef f(): return b.g
"""),
)
def test_texts_that_mean_other_things_have_other_keys(tmp_path, one, other):
    keys = []
    for number, text in enumerate((one, other)):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "__init__.py").write_text(text)
        keys.append(Definitions({"p": tmp_path / str(number)}).key("p", "f"))
    assert keys[0] != keys[1]


def test_the_form_of_keys_is_the_same_on_each_python():
    """A change of this form makes all certificates stale: change the text, then renew them."""
    text = (
        "from a.b import c as d\n"
        "class K:\n    x: 'int' = 1\n    def f(self, y): return [d(z) for z in y]\n"
    )
    assert read_module(text).definitions["K"] == [
        "K[(Class @ [] [[(Assign targets=[.x] value=(Constant value=1)) builtins.int] "
        "(FunctionDef .f ['' ''] [0, True, True, ['self', 'y'], []]"
        " [(Return value==y(ListComp elt=(Call func=",
        "d",
        " args=[v2.0]) generators=[(comprehension target=v2.0 iter=(Pass ) is_async=0)]))])"
        "])]",
    ]


def test_a_module_that_is_used_as_a_value_counts_whole(tmp_path):
    (tmp_path / "__init__.py").write_text("")
    (tmp_path / "table.py").write_text("A = 1\nB = 2\n")
    (tmp_path / "use.py").write_text("from p import table\ndef f(): return vars(table)\n")
    before = Definitions({"p": tmp_path}).key("p.use", "f")
    (tmp_path / "table.py").write_text("A = 1\nB = 3\n")
    assert Definitions({"p": tmp_path}).key("p.use", "f") != before


PASSES = {
    cls.name: (cls.__module__, cls.__qualname__)
    for cls in all_passes()
    if cls.__module__.startswith("onnx_passes.")
}
OPERATORS = {
    f"{operator.domain}:{type(operator).__name__}": (
        type(operator).__module__,
        type(operator).__name__,
    )
    for operator in operators()
}


def keys(definitions):
    found = PASSES | OPERATORS
    return {name: definitions.key(*place) for name, place in found.items()}


class Rename(ast.NodeTransformer):
    """Gives locals of functions without inner scopes other names."""

    renamed = 0

    def visit_FunctionDef(self, node):
        inner = (ast.FunctionDef, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp)
        nodes = [n for statement in node.body for n in ast.walk(statement)]
        odd = (*inner, ast.GeneratorExp, ast.Global, ast.Nonlocal, ast.ClassDef, ast.Import)
        odd += (ast.ImportFrom, ast.ExceptHandler, ast.MatchAs, ast.MatchStar)
        if any(isinstance(n, odd) for n in nodes):
            return self.generic_visit(node)
        names = [n for n in nodes if isinstance(n, ast.Name)]
        given = {a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)}
        local = {n.id for n in names if isinstance(n.ctx, ast.Store)} - given
        for name in names:
            if name.id in local:
                name.id = f"{name.id}_by_another_name"
                Rename.renamed += 1
        return node


class Rewritten(Definitions):
    """The package, with its modules written otherwise."""

    def _read(self, path):
        tree = Rename().visit(ast.parse(path.read_text("utf-8")))
        for node in ast.walk(tree):
            if isinstance(node, ast.arg):
                node.annotation = None
            elif isinstance(node, ast.FunctionDef):
                node.returns = ast.Constant("another")
        return read_module(ast.unparse(ast.fix_missing_locations(tree)))


@pytest.fixture(scope="module")
def today():
    definitions = Definitions({"onnx_passes": PACKAGE})
    return definitions, keys(definitions)


def test_no_key_of_the_library_changes_with_how_its_code_is_written(today):
    """All modules without comments, in another form, with other locals, unannotated."""
    assert keys(Rewritten({"onnx_passes": PACKAGE})) == today[1]
    assert Rename.renamed > 1000


def reached(definitions, module, name):
    """Return all definitions that one depends on, itself included."""
    found, waiting = set(), [definitions._resolve(module, [name]).place]
    while waiting:
        place = waiting.pop()
        if place not in found:
            found.add(place)
            waiting += definitions._linked(place)[1]
    return found


def test_what_a_condition_of_a_helper_decides_counts_for_all_who_ask(today):
    """As many passes are stale as ask ``constant_of`` by any path, and no fewer."""
    definitions, before = today
    module = "onnx_passes.passes.constants"
    text = (PACKAGE / "passes/constants.py").read_text("utf-8")
    assert text.count("value is None or value.is_graph_input()") == 1
    mutant = read_module(text.replace("value is None or value.is_graph_input()", "not value"))
    changed = Definitions({"onnx_passes": PACKAGE})
    changed._modules[module] = (mutant, False)
    after = keys(changed)
    stale = {name for name in before if after[name] != before[name]}
    asks = {
        name
        for name, place in (PASSES | OPERATORS).items()
        if (module, "constant_of") in reached(definitions, *place)
    }
    assert stale == asks
    assert len(stale) > 50
