"""The first page: its numbers are those of the benchmarks, and its commands can be typed."""

import doctest
import re
import shlex
from pathlib import Path

import click

from onnx_passes.cli.main import program
from tests.tables import each_of, each_row

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
BENCHMARKS = (ROOT / "docs" / "benchmarks.md").read_text("utf-8")


def rows(text):
    for line in text.splitlines():
        if line.startswith("| "):
            yield [cell.strip().strip("*") for cell in line.strip("|").split("|")]


def table(header):
    """Return the rows of the table with these columns, by their first cell."""
    found, names = {}, []
    for row in rows(BENCHMARKS):
        if set(header) <= set(row):
            names = row
        elif names and len(row) == len(names):
            found.setdefault(row[0], dict(zip(names, row, strict=True)))
        else:
            names = []
    return found


NODES = table(["original", "onnxslim", "onnxsim", "`optimize`"])
COSTS = table(["inference", "the original again", "size"])
PUBLISHED = table(["nodes", "`optimize`", "onnxsim", "onnxslim", "verdict"])
SHOWN = [row for row in rows(README.partition("## What it looks like")[0]) if row[1].isdigit()]


@each_of("row", *SHOWN, ids=lambda row: row[0])
def test_numbers_are_those_of_the_benchmarks(row):
    name, original, slim, sim, ours, size, time = row
    known = PUBLISHED.get(name) or NODES[name]
    assert original == known.get("nodes", known.get("original"))
    assert known.get("verdict", "VERIFIED") == "VERIFIED"
    assert (size, time) == (COSTS[name]["size"], COSTS[name]["inference"])
    assert [slim, sim, ours] == [known[n] for n in ("onnxslim", "onnxsim", "`optimize`")]


def test_there_are_language_models_and_a_published_one():
    names = {row[0] for row in SHOWN}
    assert len(names) >= 5
    assert len(names & set(PUBLISHED)) == 2


def test_what_is_said_of_planted_faults_is_measured():
    caught = re.search(
        r"Of (\d+) wrong .*?, (\d+) are .*? (\d+) with .*? (\d+) of (\d+)\.", README
    )
    measured = re.search(
        r"All (\d+) on small models: (\d+) by default .*?, (\d+) by default or .*? "
        r"named in (\d+) of (\d+)\.",
        BENCHMARKS,
    )
    assert caught.groups() == measured.groups()


PACKAGES = [
    path
    for pattern in ("*.md", "docs/*.md", "action.yml", "examples/**/*", "onnx_passes/**/*.*")
    for path in sorted(ROOT.glob(pattern))
    if path.suffix in {".md", ".yml", ".yaml", ".py", ".ipynb", ".html", ".toml", ".txt"}
]
BY_NAME = re.compile(
    r"\b(?:pip3?|pipx|uvx?|conda|poetry)\b[^\n]*?\b(?:install|add|run)\b"
    r"[^\n]*?(?<![/\w.-])onnx[-_]passes\b(?! @)"
)


def test_nothing_says_to_install_the_program_that_has_the_name_on_the_index():
    assert len(PACKAGES) > 500
    assert [p for p in PACKAGES if BY_NAME.search(p.read_text("utf-8", "ignore"))] == []


@each_row("""text | is_named
- pip install onnx-passes | =True
- python -m pip install -U 'onnx-passes[prove]' | =True
- uv add onnx_passes | =True
- pip install '.[prove]' | =False
- pip install 'onnx-passes @ git+https://github.com/OWNER/onnx-passes' | =False
- pip install ./onnx-passes | =False
""")
def test_a_hint_that_names_the_package_is_found(text, is_named):
    assert bool(BY_NAME.search(text)) is is_named


def test_a_package_of_ones_own_depends_on_this_one_by_address():
    told = '"onnx-passes @ git+https://github.com/OWNER/onnx-passes"'
    assert told in (ROOT / "docs" / "write-a-pass.md").read_text("utf-8")


TEXT = "\n".join(p.read_text("utf-8") for p in (ROOT / "README.md", *ROOT.glob("docs/*.md")))
COMMAND = r"(onnx-passes (?!@|[\w-]+ \[OPTIONS)\S+ [^`\n]+?)"
LINES = re.findall(
    rf"^(?:    |\$ )?{COMMAND}(?: 2>&1.*| \| head.*)?$|`{COMMAND}`",
    TEXT.replace("\\\n", "").replace("\\|", "|"),
    re.M,
)


@each_of("line", *sorted({"".join(pair) for pair in LINES}))
def test_commands_are_those_that_there_are(line, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = shlex.split(line, comments=True)[1:]
    context = click.Context(program)
    name = words[0] if program.get_command(context, words[0]) else "run"
    words = words[name == words[0] :]
    # Options and arguments are read as they would be; nothing is done.
    program.get_command(context, name).make_context(name, words)


def test_the_examples_of_the_page_on_python_give_what_it_shows(monkeypatch):
    monkeypatch.chdir(ROOT / "examples" / "digits")
    found = doctest.testfile(str(ROOT / "docs" / "python.md"), module_relative=False)
    assert found.attempted > 10
    assert found.failed == 0
