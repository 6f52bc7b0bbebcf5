"""``onnx-passes new-pass``: a pass and its test from a template."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path
from string import Template

import click

from onnx_passes.cli.output import echo_line

HELP = """\
Write NAME (merge-relus, say) as a pass that runs, and a test that passes.

\b
Examples:
  onnx-passes new-pass merge-relus
  onnx-passes new-pass fold-my-scales -d my_passes
"""


@click.command("new-pass", help=HELP)
@click.argument("name")
@click.option(
    "-d",
    "--directory",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    help="Folder of the two files. Default: the working folder.",
)
def command(name: str, directory: Path) -> None:
    """Write NAME (merge-relus, say) as a pass that runs, and a test that passes."""
    from onnx_passes.errors import UsageError
    from onnx_passes.passes.registry import all_passes

    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", name):
        dashed = re.sub(r"[^A-Za-z0-9]+|(?<=[a-z0-9])(?=[A-Z])", "-", name).strip("-").lower()
        meant = f"did you mean {dashed!r}?"
        if not dashed[:1].isalpha():
            meant = "write words with dashes, such as merge-relus"
        raise UsageError(f"{name!r} is not a pass name", help=meant)
    if any(cls.name == name for cls in all_passes()):
        raise UsageError(
            f"there is a pass {name!r} already", help=f"onnx-passes explain {name}"
        )
    words = name.split("-")
    values = {
        "cls": "".join(word.capitalize() for word in words),
        "module": "_".join(words),
        "summary": " ".join(words).capitalize() + ".",
    }
    test = directory / f"test_{values['module']}.py"
    files = {directory / f"{values['module']}.py": "pass.py.txt", test: "test.py.txt"}
    for path in files:
        if path.exists():
            raise UsageError(f"{path} exists already", help="choose another name or directory")
    templates = resources.files("onnx_passes.cli") / "templates"
    directory.mkdir(parents=True, exist_ok=True)
    for path, template in files.items():
        text = (templates / template).read_text(encoding="utf-8")
        path.write_text(Template(text).substitute(values), encoding="utf-8")
        echo_line(f"wrote {path}")
    click.echo(f"try:   python -m pytest {test}")
    click.echo(
        f"use:   imports: [{_imported(directory / values['module'])}]   passes: [{name}]"
    )


def _imported(path: Path) -> str:
    """Return the name that a pipeline file beside the working folder imports."""
    if path.is_absolute() or not all(part.isidentifier() for part in path.parts):
        return path.name  # only a pipeline file in that folder finds it
    return ".".join(path.parts)
