"""Child processes: started, ended in time, and with all that they have started."""

import ast
import os
import signal
import sys
import time
from pathlib import Path

import pytest

import onnx_passes
from onnx_passes.errors import UsageError
from onnx_passes.runtime.processes import check_words, kill, run, start
from tests.tables import each_of

ROOT = Path(onnx_passes.__file__).parent
OWN = {
    "runtime/processes.py",
    "verify/repro_level.py",  # a script of a reproducer runs without this package
}
"""Modules that may start a process."""


def python(code):
    return [sys.executable, "-c", code]


def is_gone(number):
    """Whether a process ends within seconds; a zombie of init counts."""
    for _ in range(200):
        try:
            os.kill(number, 0)
            state = Path(f"/proc/{number}/stat")
            if state.exists() and state.read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.02)
    return False


def test_one_place_starts_processes():
    found = set()
    for path in ROOT.rglob("*.py"):
        text = path.read_text("utf-8")
        if "subprocess" not in text:
            continue
        calls = (n.func for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Call))
        names = {ast.unparse(func) for func in calls}
        if names & {"subprocess.Popen", "subprocess.run", "subprocess.check_output"}:
            found.add(path.relative_to(ROOT).as_posix())
    assert found == OWN


def test_what_a_process_prints_is_returned():
    ended = run(
        python("import sys; print('out'); print('a\\nb', file=sys.stderr); sys.exit(3)")
    )
    assert (ended.code, ended.out, ended.last_line) == (3, b"out\n", "b")


def test_a_process_that_takes_too_long_is_killed_with_those_it_started(tmp_path):
    number = tmp_path / "number"
    inner = "import time; time.sleep(60)"
    code = (
        "import subprocess, sys, time, pathlib\n"
        f"p = subprocess.Popen([sys.executable, '-c', {inner!r}])\n"
        f"pathlib.Path({str(number)!r}).write_text(str(p.pid)); time.sleep(60)"
    )
    assert run(python(code), 3).code is None
    assert is_gone(int(number.read_text()))


def test_what_a_process_leaves_behind_is_ended():
    inner = "import time; time.sleep(60)"
    quiet = "stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL"
    code = (
        "import subprocess, sys\n"
        f"print(subprocess.Popen([sys.executable, '-c', {inner!r}], {quiet}).pid)"
    )
    assert is_gone(int(run(python(code)).out))


@each_of(
    "command, message",
    ("'open {model}", "is not a command: no closing quotation"),
    ("", "--check is empty"),
    ([], "--check is empty"),
    ("no-such-command {model}", "there is no command 'no-such-command'"),
)
def test_a_check_that_cannot_be_a_command_is_refused(command, message):
    with pytest.raises(UsageError, match=message):
        check_words(command)


def test_a_script_that_may_not_be_executed_is_refused(tmp_path):
    script = tmp_path / "check.py"
    script.write_text("")
    with pytest.raises(UsageError, match="may not be executed"):
        check_words(f"{script} {{model}}")


def test_what_a_killed_process_has_started_is_killed_too(tmp_path):
    file = tmp_path / "pid"
    sleeper = (
        "import os, signal, sys, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
        f"open({str(file)!r} + sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"
    )
    code = (
        "import sys, time; from onnx_passes.runtime.processes import kill, start; "
        f"words = [sys.executable, '-c', {sleeper!r}]; "
        "kill(start([*words, '0'])); start([*words, '1']); start([*words, '2']); "
        "time.sleep(600)"
    )
    parent = start(python(code))
    files = [tmp_path / "pid1", tmp_path / "pid2"]
    for _ in range(500):
        if all(one.exists() and one.read_text() for one in files):
            break
        time.sleep(0.02)
    os.kill(parent.pid, signal.SIGKILL)
    try:
        assert all(is_gone(int(one.read_text())) for one in files)
    finally:
        kill(parent)
