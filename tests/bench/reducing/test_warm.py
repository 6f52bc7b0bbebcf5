"""Scripts started from a warm process end as those that are started anew."""

import sys

import pytest

from onnx_passes.bench.reducing.checks import ForkServer, script_of


@pytest.fixture
def started(tmp_path):
    """Runs a script by its text, and returns its exit code and what it printed."""

    def start(text, *arguments, times=1, timeout=60):
        script = tmp_path / "script.py"
        script.write_text(text)
        warm = ForkServer(sys.executable, str(script))
        told = []
        for number in range(times):
            out, err = tmp_path / f"out{number}", tmp_path / f"err{number}"
            out.touch()
            err.touch()
            code = warm.run(arguments, str(out), str(err), timeout)
            told.append((code, out.read_text(), err.read_text()))
        return told

    return start


def test_arguments_output_and_codes_are_those_of_a_program(started):
    text = "import sys\nprint(__name__, sys.argv[1:], sys.stdin.read())\nsys.exit(7)"
    assert started(text, "a b", "{}") == [(7, "__main__ ['a b', '{}'] \n", "")]


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("pass", 0, ""),
        ("import sys; sys.exit('no')", 1, "no\n"),
        ("1 / 0", 1, "ZeroDivisionError"),
        ("this is no Python", 1, "SyntaxError"),
        ("import nowhere", 1, "No module named 'nowhere'"),
        ("import os; os.kill(os.getpid(), 11)", -11, ""),
        ("import atexit; atexit.register(print, 'late')", 0, ""),
    ],
)
def test_it_ends_as_a_program_does(started, text, code, said):
    [(got, _, err)] = started(text)
    assert got == code
    assert said in err


def test_runs_share_modules_and_nothing_of_the_script(started, tmp_path):
    (tmp_path / "counted.py").write_text("import os\npid = os.getpid()\nruns = []")
    text = (
        "import os\n"
        "def late():\n    import json.tool as found\n    return found\n"
        "import counted\ncounted.runs.append(1)\nlate()\n"
        "print(len(counted.runs), counted.pid == os.getpid())"
    )
    assert [out for _, out, _ in started(text, times=3)] == ["1 False\n"] * 3


def test_modules_that_only_a_run_imports_are_there_in_the_next(started, tmp_path):
    (tmp_path / "slow.py").write_text("import os\npid = os.getpid()")
    text = "import os\nname = 'slow'\nprint(__import__(name).pid == os.getpid())"
    assert [out for _, out, _ in started(text, times=3)] == ["True\n", "False\n", "False\n"]


def test_an_engine_is_imported_by_each_run(started):
    """Its threads would be gone in a process that was forked, and end it by a signal."""
    text = "import onnxruntime as ort, numpy\nprint(bool(ort.get_available_providers()))"
    assert started(text, times=3) == [(0, "True\n", "")] * 3


def test_so_is_a_module_that_imports_one(started, tmp_path):
    (tmp_path / "tools.py").write_text("import os, onnxruntime as ort\npid = os.getpid()")
    text = "import os, tools\nprint(tools.pid == os.getpid())"
    assert started(text, times=2) == [(0, "True\n", "")] * 2
    late = "import os\nprint(__import__('tools').pid == os.getpid())"
    assert started(late, times=3) == [(0, "True\n", "")] * 3


def test_a_script_that_hangs_is_ended(started):
    assert started("import time; time.sleep(600)", timeout=3)[0][0] is None


def test_scripts_are_told_from_other_commands(tmp_path):
    script = tmp_path / "tool"
    script.write_text(f"#!{sys.executable}\nprint(1)\n")
    script.chmod(0o755)
    assert script_of([str(script), "x"]) == (sys.executable, str(script), 1)
    assert script_of([sys.executable, str(script), "x"]) == (sys.executable, str(script), 2)
    assert script_of([sys.executable, "-c", "pass"]) is None
    assert script_of(["sh", str(script)]) is None
    assert script_of(["no-such-command"]) is None
