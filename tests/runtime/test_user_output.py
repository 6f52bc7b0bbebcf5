"""What a user's hook prints in a child process reaches the stderr of the parent."""

import subprocess
import sys

from onnx_passes.runtime.processes import VARIABLE, forward_output

CHILD = """
import sys
from onnx_passes.runtime.processes import forward_output
print("a compiler says much")
with forward_output():
    print("the hook")
    print("its warning", file=sys.stderr)
print("and more", file=sys.stderr)
"""
PARENT = f"""
import os, subprocess, sys
from onnx_passes.runtime.processes import VARIABLE, own_stderr
given = own_stderr()
subprocess.run(
    [sys.executable, "-c", {CHILD!r}], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    pass_fds=given, env={{**os.environ, VARIABLE: " ".join(map(str, given))}}, check=True,
)
"""


def test_a_child_whose_output_is_a_file_is_heard_where_it_asks_to_be():
    done = subprocess.run([sys.executable, "-c", PARENT], capture_output=True, text=True)
    assert done.returncode == 0
    assert done.stdout == ""
    assert done.stderr == "the hook\nits warning\n"


def test_in_this_process_nothing_is_redirected(monkeypatch, capsys):
    monkeypatch.delenv(VARIABLE, raising=False)
    with forward_output():
        print("here")
    assert capsys.readouterr().out == "here\n"
