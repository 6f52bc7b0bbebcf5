"""What a shell offers when a word of the command line is half typed."""

from __future__ import annotations

from collections.abc import Iterable

import click
from click.shell_completion import CompletionItem, get_completion_class

VARIABLE = "_ONNX_PASSES_COMPLETE"
SHELLS = ("bash", "zsh", "fish")
_PLACES = {"config": "pipelines", "passes": "passes", "name": "passes", "names": "passes"}


def script(program: click.Command, shell: str) -> str:
    """Return the script by which a shell asks this program.

    Args:
        program: The command that is completed.
        shell: The name of the shell, as click knows it.
    """
    found = get_completion_class(shell)
    assert found is not None
    return found(program, {}, "onnx-passes", VARIABLE).source()


def complete(program: click.Command, instruction: str) -> bool:
    """Answer a shell that asks, on standard output.

    Args:
        program: The program.
        instruction: What the shell put into the variable: ``bash_complete``, ...

    Returns:
        Whether it was understood.
    """
    shell, _, what = instruction.partition("_")
    found = get_completion_class(shell)
    if found is None or what != "complete":
        return False
    click.echo(found(program, {}, "onnx-passes", VARIABLE).complete())
    return True


def teach(command: click.Command) -> None:
    """Let a command complete pipelines and passes where its parameters name them."""
    for param in command.params:
        kind = _PLACES.get(str(param.name))
        if kind == "pipelines":
            param._custom_shell_complete = _pipelines
        elif kind == "passes" and isinstance(param, click.Argument):
            param._custom_shell_complete = _passes


def _pipelines(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    del ctx, param
    from onnx_passes.configs.shipped import shipped_configs

    names = [CompletionItem(name) for name in _starting(shipped_configs(), incomplete)]
    return [*names, CompletionItem(incomplete, type="file")]


def _passes(
    ctx: click.Context, param: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    del ctx, param
    name, brace, given = incomplete.partition("{")
    if not brace:
        from onnx_passes.cli.pass_rows import group_names, pass_rows

        known = {row["name"]: row["summary"] for row in pass_rows()}
        known |= dict.fromkeys(group_names(), "a group of passes")
        return [CompletionItem(n, help=known[n]) for n in _starting(known, incomplete)]
    from onnx_passes.errors import OnnxPassesError
    from onnx_passes.passes.options import option_fields
    from onnx_passes.passes.registry import lookup

    before, comma, last = given.rpartition(",")
    try:
        (cls,) = lookup(name)
    except (OnnxPassesError, ValueError):
        return []
    head = f"{name}{{{before}{comma}"
    return [
        CompletionItem(f"{head}{option}=") for option in _starting(option_fields(cls), last)
    ]


def _starting(names: Iterable[str], begin: str) -> list[str]:
    return sorted(name for name in names if name.startswith(begin))
