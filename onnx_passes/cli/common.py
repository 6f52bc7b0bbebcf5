"""What commands share: options, suggestions, and edits of a model."""

from __future__ import annotations

import inspect
import io
import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import click
from click import _textwrap

from onnx_passes.cli.output import check_destinations, echo_lines, ticking
from onnx_passes.errors import UsageError, nearest
from onnx_passes.plain import Plain, PlainDict
from onnx_passes.report.text import asked_color

if TYPE_CHECKING:
    import onnx_ir as ir
    from click.parser import _OptionParser as _Parser


# A word with a hyphen, such as the name of a pass, stays whole in the help of an option.
_textwrap.TextWrapper.wordsep_re = _textwrap.TextWrapper.wordsep_simple_re
_Parsed: TypeAlias = "tuple[PlainDict, list[str], list[click.Parameter]]"
_DEBUG, _QUIET = "onnx_passes.debug", "onnx_passes.quiet"
_PRINTED = "-"
_COLORS = {"always": True, "never": False, "auto": None}
_asked: list[bool | None] = [None]
"""What --color of the command says, for what is printed after its context has ended."""


def adopt(command: click.Command) -> click.Command:
    """Give a command, and those in it, the options that all have; once."""
    command.help = _keep_lines(command.help or "")
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            adopt(inner)
        return command
    if any(param.name == "no_progress" for param in command.params):
        return command
    for param in command.params:
        if param.name == "as_json":
            _let_write(param)
    own = {text for param in command.params for text in param.opts}
    shared = [each for each in _options() if own.isdisjoint(each.opts)]
    command.params.extend(shared)
    invoke = command.invoke

    def invoke_ticking(ctx: click.Context) -> object:
        with ticking(ctx.command_path):
            return invoke(ctx)

    command.invoke = invoke_ticking  # type: ignore[method-assign]
    make = command.make_parser
    prints = any(param.name == "as_json" for param in command.params)
    command.make_parser = lambda ctx: _refusing(  # type: ignore[method-assign]
        make(ctx), prints=prints
    )
    return command


def _keep_lines(text: str) -> str:
    """Keep the lines of indented paragraphs, which click does behind a backspace."""
    parts = re.split(r"\n{2,}", inspect.cleandoc(text))
    lists = [re.search("^  ", part, re.M) and "\b" not in part for part in parts]
    return "\n\n".join(f"\b\n{p}" if kept else p for p, kept in zip(parts, lists, strict=True))


def _let_write(param: click.Parameter) -> None:
    """Let a flag that prints JSON take a file as well: ``--json=FILE``."""
    assert isinstance(param, click.Option)
    param.is_flag, param.type, param.default = False, click.STRING, None
    param.metavar, param.callback = "[=FILE]", _to_file


def _to_file(ctx: click.Context, param: click.Parameter, value: str | None) -> bool:
    """Send what a command prints to a file, if one is named; return whether it is JSON."""
    from onnx_passes.report.report_files import write_text

    if value is not None and value != _PRINTED:
        check_destinations(None, {"--json": Path(value)}, {})
        printed = io.StringIO()
        ctx.with_resource(redirect_stdout(printed))

        def write() -> None:
            if text := printed.getvalue():
                write_text(text, value)

        ctx.call_on_close(write)
    return value is not None


def _options() -> list[click.Parameter]:
    every = partial(option, expose_value=False)
    command = click.Command("shared")
    for add in (
        every("-q --quiet", "Print results and errors only.", is_flag=True, callback=_quiet),
        every(
            "-v --verbose",
            "Print versions and the time taken as well.",
            count=True,
            callback=_verbose,
        ),
        every(
            "--color",
            "Colours: auto, if the output is a terminal [default], always or never.",
            type=click.Choice(list(_COLORS)),
            callback=_color,
        ),
        every("--no-progress", "Draw no progress.", is_flag=True, callback=_no_progress),
        every(
            "--debug", "Show Python's traceback of an error.", is_flag=True, callback=_debug
        ),
    ):
        add(command)
    return command.params


def _debug(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    del param
    ctx.meta[_DEBUG] = value


def is_debugging() -> bool:
    """Whether the command shows Python's traceback of an error."""
    return bool(click.get_current_context().meta.get(_DEBUG))


def _quiet(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    del param
    if value:
        ctx.meta[_QUIET] = True
        # What ends the command is printed after its context, and so after this.
        ctx.with_resource(_hide_stderr())


@contextmanager
def _hide_stderr() -> Iterator[None]:
    with open(os.devnull, "w") as nowhere, redirect_stderr(nowhere):
        yield


def _verbose(ctx: click.Context, param: click.Parameter, value: int) -> None:
    del param
    if value:
        begin = time.perf_counter()
        ctx.call_on_close(lambda: _print_versions(ctx, time.perf_counter() - begin))


def _print_versions(ctx: click.Context, seconds: float) -> None:
    if _QUIET in ctx.meta:
        return
    from importlib.metadata import version

    from onnx_passes import __version__

    used = [name for name in ("onnx", "onnxruntime", "onnxscript") if name in sys.modules]
    versions = [f"onnx-passes {__version__}", *(f"{name} {version(name)}" for name in used)]
    click.echo(f"{seconds:.2f} s, {', '.join(versions)}", err=True)


def _color(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    del param
    if value is None or _COLORS[value] is None:
        return
    wanted = _asked[0] = _COLORS[value]
    here: click.Context | None = ctx
    while here is not None:
        here.color, here = wanted, here.parent
    # What prints a run reads these; so do programs that a command starts.
    _for_now(ctx, "FORCE_COLOR" if wanted else "NO_COLOR", "1")
    _for_now(ctx, "NO_COLOR" if wanted else "FORCE_COLOR", None)


def forget_color() -> None:
    """Forget what an earlier command of this process asked for."""
    _asked[0] = None


def wants_color() -> bool | None:
    """Return what --color and the environment say; None leaves it to the stream."""
    return asked_color() if _asked[0] is None else _asked[0]


def _no_progress(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    del param
    if value:
        # A terminal that cannot move its cursor: no line of progress is drawn.
        _for_now(ctx, "TERM", "dumb")


def _for_now(ctx: click.Context, name: str, value: str | None) -> None:
    """Set a variable of the environment until a command ends."""
    before = os.environ.get(name)

    def put(text: str | None) -> None:
        if text is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = text

    put(value)
    ctx.call_on_close(lambda: put(before))


def _refusing(parser: _Parser, *, prints: bool) -> _Parser:
    """Make a parser refuse a single option that is given twice: the last would win unseen.

    ``prints`` says whether ``--json`` prints without a value.
    """
    parse = parser.parse_args

    def parse_args(args: list[str]) -> _Parsed:
        end = args.index("--") if "--" in args else len(args)
        if prints:
            args = [
                f"--json={_PRINTED}" if word == "--json" else word for word in args[:end]
            ] + args[end:]
        found = parse(args=args)
        seen: set[click.Parameter] = set()
        for param in found[2]:
            single = isinstance(param, click.Option) and not (
                param.multiple or param.count or param.is_flag
            )
            if single and param in seen:
                raise UsageError(f"{max(param.opts, key=len)} is given twice", help="give one")
            seen.add(param)
        return found

    parser.parse_args = parse_args  # type: ignore[method-assign]
    return parser


def nearest_word(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that one is mistyped for; None if it may be a file."""
    return next(iter(nearest(word, known, cutoff=0.7)), None)


class Family(click.Group):
    """A group of commands: a mistyped one is met by the nearest one.

    Without a ``default``, the first word has to be a command.
    """

    default: str | None = None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the first word names."""
        word = args[0]
        if self.get_command(ctx, word) is None:
            names = self.list_commands(ctx)
            near = nearest_word(word, names)
            meant = self.default
            if meant is None or (near is not None and not os.path.lexists(word)):
                raise UsageError(
                    f"{ctx.info_name} has no command {word!r}",
                    help=f"did you mean {near!r}?" if near else f"known: {', '.join(names)}",
                )
            args = [meant, *args]
        return super().resolve_command(ctx, args)


Command = TypeVar("Command", bound=Callable[..., object])

FILE = click.Path(path_type=Path)


def option(spec: str, help: str, **rest: Plain) -> Callable[[Command], Command]:
    """Return what gives a command an option, and its help.

    The words of `spec` are the names of the option, that of the parameter if it has its own,
    and the word for its value in the help: ``-e --engine engines ENGINE``.
    """
    words = spec.split()
    names = [w for w in words if w.startswith("-") or (w.isidentifier() and w.islower())]
    metavar = next((word for word in words if word not in names), None)
    return click.option(*names, metavar=metavar, help=help, **rest)


flag, several = partial(option, is_flag=True), partial(option, multiple=True)
file = partial(option, type=FILE)
OVERRIDES = several("-s --set overrides KEY=VALUE", "Override a key.")


def edits(command: Command) -> Command:
    """Give a command the argument and the options that all of them have."""
    output = file("-o --output", "Where to write the model.", required=True)
    as_json = flag("--json as_json", "Print JSON, or write it to FILE.")
    return output(as_json(command))


def edit(
    model: Path,
    output: Path,
    change: Callable[[ir.Model], tuple[PlainDict, str]],
    *,
    as_json: bool,
    read: Sequence[Path] = (),
) -> None:
    """Read a model, change it, write it, and print what was done.

    ``change`` returns what there is to print, as data and in words. ``read``
    are other files that are read. OnnxPassesError if the model cannot be read, changed, or
    written.
    """
    from onnx_passes.model.load import load_model
    from onnx_passes.model.save import save_model

    check_destinations(output, {}, {"the model": [model], "another model": list(read)})
    loaded = load_model(model)
    done, told = change(loaded.model)
    files = save_model(loaded.model, output, source=loaded)
    done["written"] = [str(file) for file in files]
    if as_json:
        click.echo(json.dumps(done, indent=2))
        return
    echo_lines((*told.split("\n"), str(files[-1])))


def pairs(texts: Sequence[str], what: str) -> dict[str, str]:
    """Read ``OLD=NEW`` texts; ``what`` is that form, for the UsageError about others."""
    found: dict[str, str] = {}
    for text in texts:
        one, sign, other = text.partition("=")
        if not (one and sign):
            raise UsageError(f"{text!r} is not in the form {what}")
        if one in found:
            raise UsageError(f"{one!r} is given twice")
        found[one] = other
    return found
