"""Commands about passes and pipelines: list, explain, new-pass, config.

The list comes from the index of the library where that is enough, so that no pass is imported.
"""

from __future__ import annotations

import json
import keyword
import re
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from importlib import resources
from importlib.machinery import PathFinder
from importlib.metadata import entry_points
from pathlib import Path
from string import Template

import click

from onnx_passes.cli.common import OVERRIDES, Family, flag, option
from onnx_passes.cli.output import echo_line, echo_lines
from onnx_passes.errors import OnnxPassesError, UsageError
from onnx_passes.library_index import ENTRY_POINTS, library_index
from onnx_passes.plain import PlainMapping


def pass_rows(config: str | None = None) -> Sequence[Mapping[str, str]]:
    """Return name, group, contract and summary of every pass, also of ``config``."""
    if config is None and not entry_points(group=ENTRY_POINTS):  # no other package adds any
        index = library_index()
        if index is not None:
            return index.rows
    from onnx_passes.cli.pass_descriptions import describe_passes, import_from

    return describe_passes(import_from(config))


def preset_rows() -> list[Mapping[str, str]]:
    """Return name and summary of every shipped pipeline, in the form of rows of passes."""
    from onnx_passes.configs.pipeline_files import shipped_configs, shipped_summary

    return [
        {"name": n, "group": "presets", "contract": f"-c {n}", "summary": shipped_summary(n)}
        for n in shipped_configs()
    ]


@click.command("list")
@click.argument("words", nargs=-1, metavar="[WORD]...")
@option("-c --config", "Pipeline file whose imports are listed as well.")
@flag("--presets", "List the shipped pipelines, for -c.")
@flag("--json as_json", "Print JSON, or write it to FILE.")
def list_command(
    words: tuple[str, ...], config: str | None, presets: bool, as_json: bool
) -> None:
    """List the passes: group, contract, what they do. With WORDs, those that hold them all.

    Examples:
      onnx-passes list --presets
      onnx-passes list
      onnx-passes list fuse gelu --json
    """
    rows = [
        row
        for row in (preset_rows() if presets else pass_rows(config))
        if all(word.lower() in " ".join(map(str, row.values())).lower() for word in words)
    ]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    if not rows:
        raise UsageError(
            f"no pass has all of these words: {' '.join(words)}",
            help="onnx-passes list prints all passes, list --presets the presets",
        )
    for group in dict.fromkeys(row["group"] for row in rows):
        click.secho(group, bold=True)
        _table([row for row in rows if row["group"] == group])


def _table(rows: Sequence[PlainMapping]) -> None:
    name = max(len(row["name"]) for row in rows)
    contract = max(len(row["contract"]) for row in rows)
    for row in rows:
        echo_line(f"  {row['name']:<{name}}  {row['contract']:<{contract}}  {row['summary']}")


@click.command("explain")
@click.argument("name", metavar="PASS")
@option("-c --config", "Pipeline file whose imports are searched as well.")
def explain_command(name: str, config: str | None) -> None:
    """Explain a PASS, or each pass of a group: docstring, options, contract. Print a preset.

    Examples:
      onnx-passes explain optimize
      onnx-passes explain fuse-batch-normalization
      onnx-passes explain eliminate
    """
    from onnx_passes.cli.pass_descriptions import explanation, import_from
    from onnx_passes.configs.pipeline_files import shipped_configs, shipped_source
    from onnx_passes.passes.registry import is_known, lookup

    scope = import_from(config)
    if name in shipped_configs() and not is_known(name):
        click.echo(shipped_source(name).text.rstrip())
        return
    echo_lines("\n\n".join(map(explanation, lookup(name, scope=scope))).splitlines())


@click.command("new-pass")
@click.argument("name")
@option(
    "-d --directory",
    "Folder of the two files. Default: the working folder.",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
)
def new_pass_command(name: str, directory: Path) -> None:
    """Write NAME (merge-relus, say) as a pass that runs, and a test that passes.

    Examples:
      onnx-passes new-pass merge-relus
      onnx-passes new-pass fold-my-scales -d my_passes
    """
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
    _check_free(values["module"], name)
    templates = resources.files("onnx_passes.cli") / "templates"
    directory.mkdir(parents=True, exist_ok=True)
    for path, template in files.items():
        text = (templates / template).read_text(encoding="utf-8")
        path.write_text(Template(text).substitute(values), encoding="utf-8")
        echo_line(f"wrote {path}")
    module = _imported(directory / values["module"])
    click.echo(f"try:   python -m pytest {test}")
    click.echo(f"prove: onnx-passes certify --rules {module}:{values['cls']}")
    click.echo(f"use:   imports: [{module}]   passes: [{name}]")


def _check_free(module: str, name: str) -> None:
    installed = PathFinder.find_spec(module, [sysconfig.get_path("purelib")])
    if keyword.iskeyword(module) or module in sys.stdlib_module_names or installed:
        raise UsageError(
            f"Python has another use for the name {module!r}", help=f"add a word: my-{name}"
        )


def _imported(path: Path) -> str:
    """Return the name that a pipeline file beside the working folder imports."""
    if path.is_absolute() or not all(part.isidentifier() for part in path.parts):
        return path.name  # only a pipeline file in that folder finds it
    return ".".join(path.parts)


@click.group("config", cls=Family, no_args_is_help=True)
def config_command() -> None:
    """Check or print a pipeline file.

    Examples:
      onnx-passes config show optimize > pipeline.yaml
      onnx-passes config check optimize --set verify.memory_limit=2GiB
    """


@config_command.command("check")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@OVERRIDES
def check_command(files: tuple[str, ...], overrides: tuple[str, ...]) -> None:
    """Check each FILE (or shipped pipeline), and print the pipeline that results from it.

    Examples:
      onnx-passes config check pipelines/*.yaml
      onnx-passes config check optimize
    """
    from onnx_passes.configs.engine_configs import resolve_engines
    from onnx_passes.configs.pipeline_files import load_config
    from onnx_passes.configs.resolve import format_pipeline, resolve

    errors: list[OnnxPassesError] = []
    for file in files:
        try:
            config = load_config(file, overrides)
            pipeline = resolve(config)
            resolve_engines(config)
        except OnnxPassesError as error:
            errors.append(error)
            continue
        click.echo((f"{file}: " if len(files) > 1 else "") + format_pipeline(pipeline))
    for earlier in errors[:-1]:
        echo_lines(f"error[{earlier.code}]: {earlier}".split("\n"), err=True)
    if errors:
        raise errors[-1]


@config_command.command("show")
@click.argument("file")
@OVERRIDES
def show_command(file: str, overrides: tuple[str, ...]) -> None:
    """Print FILE (or a shipped pipeline) as YAML, with what it extends: a file to begin from.

    Examples:
      onnx-passes config show optimize > pipeline.yaml
      onnx-passes config show pipeline.yaml --set verify.scope=model
    """
    import yaml

    from onnx_passes.configs.pipeline_files import load_config

    data = dict(load_config(file, overrides).tree.data)
    data.pop("extends", None)  # it is all there
    shown = yaml.safe_dump(data, sort_keys=False, default_flow_style=None, width=72)
    click.echo(shown, nl=False)
