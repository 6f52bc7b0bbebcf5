"""Options are spelled alike in all commands, and presets and commands are easy to find."""

import json
from pathlib import Path

import click

from onnx_passes.cli.main import COMMANDS, program
from onnx_passes.configs.pipeline_files import shipped_configs
from tests.tables import each_of


def leaves():
    for name in COMMANDS:
        command = program.get_command(click.Context(program), name)
        inner = getattr(command, "commands", None)
        yield from (
            {f"{name} {n}": c for n, c in inner.items()} if inner else {name: command}
        ).items()


LEAVES = dict(leaves())


def spellings(command):
    return {
        text
        for param in command.params
        if isinstance(param, click.Option)
        for text in param.opts
    }


@each_of("name", *LEAVES)
def test_one_thing_has_one_spelling(name):
    texts = [text for param in LEAVES[name].params for text in param.opts]
    assert len(texts) == len(set(texts))
    found = spellings(LEAVES[name])
    assert {"--quiet", "--verbose", "--color", "--no-progress"} <= found
    for short, long in {
        "-e": "--engine",
        "-s": "--set",
        "-c": "--config",
        "-o": "--output",
    }.items():
        assert (short in found) == (long in found), long
    assert not found & {"--page", "--result"}
    debug = next(param for param in LEAVES[name].params if "--debug" in param.opts)
    assert debug.help == "Show Python's traceback of an error."


@each_of(
    "words",
    ("inspect", "model"),
    ("lint",),
    ("compare",),
    ("list", "gelu"),
    ids=lambda words: words[0],
)
def test_json_is_printed_or_written(cli, model, words):
    given = [*words] if words[0] == "list" else [*words, model]
    printed = cli(*given, "--json")
    written = cli(*given, "--json=found.json")
    assert written.code == printed.code
    assert not written.out
    kind = type(json.loads(printed.out))
    assert isinstance(json.loads(Path("found.json").read_text()), kind)


def test_presets_are_listed_and_named_where_they_are_asked_for(cli):
    rows = json.loads(cli("list", "--presets", "--json").out)
    assert [row["name"] for row in rows] == shipped_configs()
    assert all(20 < len(row["summary"]) < 120 for row in rows)
    assert ",".join(shipped_configs()) in "".join(cli("run", "--help").out.split())
