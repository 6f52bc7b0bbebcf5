"""The notebook runs, cell by cell, as Jupyter would run it."""

import ast
import json
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "examples" / "notebook"


def shown(source, names):
    """Run a cell; return what its last line is, if it is an expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    return (
        None
        if last is None
        else eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    )


def test_each_cell_runs(monkeypatch, capsys):
    monkeypatch.chdir(FOLDER)
    cells = json.loads((FOLDER / "optimise.ipynb").read_text())["cells"]
    names = {}
    values = [shown("".join(c["source"]), names) for c in cells if c["cell_type"] == "code"]
    assert "input image: FLOAT[batch,1,8,8]" in repr(values[0])
    assert values[1]._repr_html_().startswith("<iframe")
    printed = capsys.readouterr().out
    assert "VERIFIED" in printed
    assert "26 -> 1 node" in printed
    assert "BatchNormalization" in repr(values[-1])
