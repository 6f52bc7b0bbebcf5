"""What ``-h`` shows of each command, and what it takes to show it."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import click

from onnx_passes.cli.main import COMMANDS, program
from tests.tables import each_of

ROOT = Path(__file__).parents[2]
# Of the issue of the debugging bench: each says what it found as JSON.
JSON = {
    *("inspect", "lint", "compare", "sanitize", "extract", "insert", "rename"),
    *("strip-weights", "restore-weights", "diff", "reduce", "data"),
}


def all_commands():
    for name in COMMANDS:
        command = program.get_command(click.Context(program), name)
        yield name, command
        for inner, sub in getattr(command, "commands", {}).items():
            yield f"{name} {inner}", sub


ALL = dict(all_commands())
LEAVES = {name: c for name, c in ALL.items() if not isinstance(c, click.Group)}


def examples(command):
    """Return the lines under Examples, continued ones joined."""
    help_ = (command.help or "").replace("\\\n", " ")
    _, found, rest = help_.partition("\nExamples:\n")
    assert found, "no Examples"
    block = rest.partition("\n\n")[0]
    return [line.strip() for line in block.splitlines() if line.strip()]


@each_of("name", *ALL)
def test_no_line_of_it_is_wider_than_80_columns(name, cli, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert [line for line in cli(*name.split(), "-h").out.splitlines() if len(line) > 80] == []


@each_of("name", *ALL)
def test_the_examples_are_commands_that_there_are(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for line in examples(ALL[name]):
        words = shlex.split(line.partition(" > ")[0], comments=True)
        assert words.pop(0) == "onnx-passes"
        command, path = program, []
        context = click.Context(program)
        while isinstance(command, click.Group):
            named = words and command.get_command(context, words[0]) is not None
            path.append(words.pop(0) if named else "run")
            command = command.get_command(context, path[-1])
        assert " ".join(path).startswith(name)
        # Options and arguments are read as they would be; nothing is done.
        command.make_context(" ".join(path), words)


def test_help_imports_click_and_nothing_else_from_outside():
    code = (
        "import sys\n"
        "known = set(sys.modules)\n"
        "from onnx_passes.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - known}\n"
        "print(*sorted(new - sys.stdlib_module_names), file=sys.stderr)"
    )
    assert imported(code) == {"click", "onnx_passes"}


@each_of("name", *LEAVES)
def test_help_of_a_command_imports_no_model_library(name):
    heavy = ("numpy", "onnx", "onnx_ir", "onnxruntime", "onnxscript", "sympy", "z3")
    code = (
        "import sys\n"
        "from onnx_passes.cli import main\n"
        f"try: main({[*name.split(), '-h']!r})\n"
        "except SystemExit: pass\n"
        f"print(*sorted(set({heavy!r}) & set(sys.modules)), file=sys.stderr)"
    )
    assert imported(code) == set()


def imported(code):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    return set(done.stderr.split())


# A shell asks by the environment, and gets what a half typed word may become.


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
