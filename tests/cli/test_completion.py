"""A shell asks by the environment, and gets what a half typed word may become."""

import os
import subprocess
import sys

from tests.tables import each_of


def ask(instruction, **words):
    done = subprocess.run(
        [sys.executable, "-m", "onnx_passes"],
        env={**os.environ, "_ONNX_PASSES_COMPLETE": instruction, **words},
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    return done.stdout


@each_of(
    "words, offered",
    ("ex", ["plain,extract", "plain,explain"]),
    ("compare --toler", ["plain,--tolerance"]),
    ("diff --color al", ["plain,always"]),
)
def test_a_word_is_completed(words, offered):
    count = str(len(words.split()))
    found = ask("bash_complete", COMP_WORDS=f"onnx-passes {words}", COMP_CWORD=count)
    assert found.split() == offered


@each_of("shell", "bash", "zsh", "fish")
def test_each_shell_has_a_script(shell):
    assert "_ONNX_PASSES_COMPLETE" in ask(f"{shell}_source")
