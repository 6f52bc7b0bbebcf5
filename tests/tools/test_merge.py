"""Modules are merged, and the proof sees what a merge must not change."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"
FILES = {
    "onnx_passes/__init__.py": '"""The package."""\n',
    "onnx_passes/far.py": '''"""What counts."""
from onnx_passes import near
from onnx_passes.near import _limit as bound


def count(values):
    """Count values below the limit."""
    near = [v for v in values if v < bound()]
    return len(near)


def total(values):
    return near.added(values) + count(values)


def _shown():
    return "far"
''',
    "onnx_passes/near.py": '''"""What adds."""

LIMIT = 3


def _limit():
    return LIMIT


def added(values):
    from onnx_passes.far import count

    return sum(values) if count(values) else 0


def _shown():
    return "near"


def both():
    from onnx_passes import far

    return _shown(), far._shown()
''',
    "tests/use.py": '''"""A user."""
from onnx_passes import far, near

TEXT = "onnx_passes.near.added and onnx_passes/near.py"


def test():
    assert (far.total([1, 5]), near.both()) == (7, ("near", "far"))
''',
}
PLAN = """merge:
  onnx_passes.sums: {doc: Sums., parts: [onnx_passes.near, onnx_passes.far]}
rename: {"onnx_passes.near:added": add}
"""


@pytest.fixture
def merged(tmp_path):
    for root in ("old", "new"):
        for name, text in FILES.items():
            path = tmp_path / root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    (tmp_path / "plan.yaml").write_text(PLAN)
    new = tmp_path / "new"
    subprocess.run(["git", "init", "-q"], cwd=new, check=True)
    words = [sys.executable, TOOLS / "merge.py", "../plan.yaml", "../table.json"]
    done = subprocess.run(words, cwd=new, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return new


def proof(new):
    words = [sys.executable, TOOLS / "bindings.py", "old", "new", "table.json"]
    return subprocess.run(words, cwd=new.parent, capture_output=True, text=True)


def test_modules_become_one_that_does_the_same(merged):
    assert not (merged / "onnx_passes" / "near.py").exists()
    text = (merged / "onnx_passes" / "sums.py").read_text()
    assert "import" not in text
    assert text.count("def _shown(") == 1
    code = "from tests.use import test, TEXT; test(); print(TEXT)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=merged, capture_output=True, text=True
    )
    assert done.stdout == "onnx_passes.sums.add and onnx_passes/sums.py\n", done.stderr
    assert json.loads((merged.parent / "table.json").read_text())["modules"]
    done = proof(merged)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("v < _limit()", "v < LIMIT"),
        ("count(values) else", "add(values) else"),
        ('"""Count values below the limit."""', '"""Count values."""'),
        ("return _shown(), ", "return _shown_far(), "),
        ("LIMIT = 3\n", "LIMIT = 3\nprint(LIMIT)\n"),
        ("def add(values):", "def add(values: int):"),
    ],
)
def test_the_proof_sees_what_else_changed(merged, before, after):
    path = merged / "onnx_passes" / "sums.py"
    text = path.read_text()
    assert before in text, text
    path.write_text(text.replace(before, after, 1))
    done = proof(merged)
    assert done.returncode == 1
    assert (
        "onnx_passes.sums: 1 statements are gone" in done.stdout
        or "0 statements" in done.stdout
    )


def test_a_name_that_would_be_bound_otherwise_stops_the_merge(tmp_path):
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("return sum(values)", "return max(values)"))
    far = tmp_path / "onnx_passes" / "far.py"
    far.write_text(far.read_text().replace("def count", "def max").replace("count(", "max("))
    (tmp_path / "tests" / "use.py").unlink()
    near = tmp_path / "onnx_passes" / "near.py"
    near.write_text(near.read_text().replace("    from onnx_passes.far import count\n", ""))
    near.write_text(near.read_text().replace("count(values)", "values"))
    (tmp_path / "plan.yaml").write_text(PLAN)
    words = [sys.executable, TOOLS / "merge.py", "plan.yaml", "table.json"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 1
    assert "uses the builtin max" in done.stdout
    assert near.exists()
