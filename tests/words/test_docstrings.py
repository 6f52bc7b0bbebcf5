"""Public docstrings say what arguments are: ``Args`` from two of them, and shapes of arrays.

Counted are functions and methods without an underscore, in classes without one, that have a
docstring. Commands are not: their docstring is what ``--help`` prints. A folder that is not
named in a table below has none, and a number may only fall.
"""

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

import onnx_passes

ROOT = Path(onnx_passes.__file__).parent
ARRAY = re.compile(r"\b(ndarray|NDArray|ArrayLike|Array|Values)\b")
FORM = re.compile(
    r"\[[^\]]*\]|shape|scalar|element|integers|bool|u?int\d+|b?float\d+|double|any type",
    re.IGNORECASE,
)
"""Words that say the shape or the type of an array."""

STEPS = ["scope", "rng"]
"""Arguments of each step of a random model, which ``Step`` of the recipes describes."""
OVERRIDDEN = {"is_idle", "judge"}
"""Methods whose arguments are those of the base class, which describes them."""
SEE = re.compile(r"; see ``(\w+\.\w+)``")
"""How a method names the one of its base class that describes its arguments."""

ARGS: dict[str, int] = {}
"""Functions of two parameters or more whose docstring has no ``Args``."""
FORMS: dict[str, int] = {"passes": 4, "verify": 1}
"""Arguments that are arrays, and whose entry says neither shape nor type."""


@cache
def functions():
    """Return the public functions with their folder, place, parameters and docstring."""
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).parts
        folder = parts[0] if len(parts) > 1 else ""
        tree = ast.parse(path.read_text("utf-8"))
        found += [(folder, path, *each) for each in _public(tree, method=False)]
    return found


def _public(tree, *, method):
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from _public(node, method=True)
        elif isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            text = ast.get_docstring(node)
            names = {ast.unparse(each).partition("(")[0] for each in node.decorator_list}
            if text is None or any(name.endswith(".command") for name in names):
                continue
            given = node.args
            parameters = [*given.posonlyargs, *given.args, *given.kwonlyargs]
            bound = method and "staticmethod" not in names
            yield node, [p for p in parameters[bound:] if not p.arg.startswith("_")], text


def entry(text, name):
    """Return what a docstring says of one argument."""
    found = re.search(rf"^ +\*{{0,2}}{name}: (.*?)(?=^ {{4}}\S|^\S|\Z)", text, re.M | re.S)
    return found[1] if found else ""


def compare(found, allowed):
    counts = Counter(folder for folder, _ in found)
    more = {folder for folder, count in counts.items() if count > allowed.get(folder, 0)}
    places = [place for folder, place in found if folder in more]
    assert not more, "\n".join([str(dict(counts)), *places])
    gone = {name: counts[name] for name, most in allowed.items() if counts[name] < most - 5}
    assert not gone, f"fewer are left: lower the numbers to {gone}"


@cache
def described():
    """Return the methods that have ``Args``, as ``Class.method``."""
    return {
        f"{outer.name}.{inner.name}"
        for path in ROOT.rglob("*.py")
        for outer in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(outer, ast.ClassDef)
        for inner in outer.body
        if isinstance(inner, ast.FunctionDef)
        and re.search(r"^Args:$", ast.get_docstring(inner) or "", re.M)
    }


def is_elsewhere(node, text):
    """Whether a docstring names a method of the same name that describes the arguments."""
    named = SEE.search(text)
    return bool(named) and named[1].endswith(f".{node.name}") and named[1] in described()


def without_args():
    return [
        (folder, f"{path.relative_to(ROOT)}:{node.lineno}: {node.name}")
        for folder, path, node, parameters, text in functions()
        if len(parameters) > 1
        and node.name not in OVERRIDDEN
        and [p.arg for p in parameters] != STEPS
        and not re.search(r"^Args:$", text, re.M)
        and not is_elsewhere(node, text)
    ]


def without_form():
    return [
        (folder, f"{path.relative_to(ROOT)}:{node.lineno}: {node.name}: {p.arg}")
        for folder, path, node, parameters, text in functions()
        for p in parameters
        if p.annotation is not None
        and not is_elsewhere(node, text)
        and ARRAY.search(ast.unparse(p.annotation))
        and not FORM.search(entry(text, p.arg) or ("" if len(parameters) > 1 else text))
    ]


def test_functions_of_two_parameters_describe_them():
    compare(without_args(), ARGS)


def test_arguments_that_are_arrays_have_shapes_or_types():
    compare(without_form(), FORMS)


def test_what_is_counted():
    text = '''
class Shown:
    def first(self, a: "np.ndarray", b: int):
        """Add.

        Args:
            a: Any shape,
                of float32.
            b: A number.
        """
    def second(self, a): """One."""
    def _hidden(self, a, b): """None."""
@click.command()
def third(a, b): """Help."""
'''
    found = list(_public(ast.parse(text), method=False))
    assert [(node.name, len(given)) for node, given, _ in found] == [
        ("first", 2),
        ("second", 1),
    ]
    assert entry(found[0][2], "a").split() == ["Any", "shape,", "of", "float32."]
    assert entry(found[0][2], "b") == "A number."
