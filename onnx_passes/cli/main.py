"""The program: its commands, how each ends, and what it imports only when it is used."""

from __future__ import annotations

import atexit
import errno
import gc
import importlib
import logging
import os
import re
import sys
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from threading import RLock
from types import ModuleType
from typing import TYPE_CHECKING, NoReturn

import click

from onnx_passes import __version__, risky_runs
from onnx_passes.cli.common import adopt, forget_color, nearest_word, wants_color
from onnx_passes.cli.output import abandon_stdout, fitted, keep_stdout
from onnx_passes.cli.supervision import STARTED, interruptible, received, supervise
from onnx_passes.cli.word_syntax import names_a_model
from onnx_passes.errors import OnnxPassesError, UsageError
from onnx_passes.pipeline.garbage_collection import patient_collector

if TYPE_CHECKING:
    from importlib.abc import Loader
    from importlib.machinery import ModuleSpec


EXIT_CODES = {
    0: "done; what was checked holds. A run is VERIFIED, UNCHANGED or PARTLY VERIFIED",
    1: "a check failed: results differ, a rule is refuted, a model has errors",
    2: "the command line, the pipeline file or the data is wrong; nothing was run",
    3: "a model cannot be read, or an engine cannot run it, or is not on this machine",
    4: "no verdict: a run is NOT VERIFIED (or, with --strict, PARTLY), samples do not decide",
    5: "a part of a data set could not be evaluated",
    70: "a fault of onnx-passes itself; it names a file to report",
    130: "interrupted (143 terminated); it says what was written",
    141: "the reader of its output went away",
}


SYMBOLIC = ("sympy", "onnx_ir._symbolic_shapes")
"""What onnx-ir imports to calculate with symbolic dimensions, half of its own start-up."""
REFERENCE = ("onnx.reference", "onnx.reference.ops")
"""Where onnxscript folds constants: onnx's operators, two hundred modules."""
SCRIPTED = ("onnxscript", "onnxscript.optimizer", "onnxscript.rewriter")
"""Packages that import onnxscript's compiler, its operators and its own rules: ninety modules.
Passes need ten modules inside of them, which are imported without what is around them."""
TEXTUAL = (
    *("google.protobuf.json_format", "google.protobuf.text_format"),
    "google.protobuf.internal.python_message",
)
"""Protobuf's text and JSON forms, and its messages without C, which onnx imports."""
TOOLS = ("onnx.compose", "onnx.gen_proto", "onnx.utils")
"""What onnx offers beside models, with archives and command lines."""

_loading = RLock()


_PUBLIC = ("__all__", "__version__")
"""Names with underscores that a module sets itself, and users ask for."""


class _Late(ModuleType):
    """A module before its first use."""

    def __getattribute__(self, name: str) -> object:
        """Load the module, once, unless it is the import system that asks.

        The modules inside a package that waits are imported without it.
        """
        if not name.startswith("__") or name in _PUBLIC:
            with _loading:
                if "__late__" in self.__dict__ and _is_inside(self, name):
                    return import_module(f"{self.__name__}.{name}")
                loader = self.__dict__.pop("__late__", None)
                if loader is not None:
                    loader.exec_module(self)
                    object.__setattr__(self, "__class__", ModuleType)
        return ModuleType.__getattribute__(self, name)  # it may no longer be one of these


def _is_inside(package: ModuleType, name: str) -> bool:
    """Whether a name of a package is that of a module inside of it."""
    if "__path__" not in package.__dict__ or name in _PUBLIC:
        return False
    return find_spec(f"{package.__name__}.{name}") is not None


class _LateLoader:
    # Not importlib's LazyLoader: before Python 3.11.9 it hands a second thread, which comes
    # while a first one loads, a module without what has not run yet.
    def __init__(self, loader: Loader) -> None:
        self.loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """Return what the loader would."""
        return self.loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Put off what the loader would do."""
        module.__dict__["__late__"] = self.loader
        object.__setattr__(module, "__class__", _Late)


class _Finder:
    def __init__(self, names: Sequence[str]) -> None:
        self.names = set(names)

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module as others do, and have it loaded later."""
        del path, target
        if name not in self.names:
            return None
        self.names.remove(name)  # so that the next line does not end up here again
        spec = find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader = _LateLoader(spec.loader)  # type: ignore[assignment]  # a duck of one
        return spec


def defer(names: Sequence[str] = SYMBOLIC + REFERENCE + SCRIPTED + TEXTUAL + TOOLS) -> None:
    """Put off importing modules, those excepted that are there already.

    A command that never needs them is spared their start-up; whoever uses an attribute of
    them imports them then. This is for the program, which knows what it will do: a library
    must not change how its users import.
    """
    # Pydantic looks for plugins of its own in the metadata of every package that is installed.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    # Threads of numpy sleep when there is no work, and do not first keep a core busy each.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    left = [name for name in names if name not in sys.modules]
    if left:
        sys.meta_path.insert(0, _Finder(left))


GROUPS = {
    "Optimise": {
        "run": "run a pipeline of verified passes over a model (the default)",
        "tune": "choose the precision of each part of a model",
        "build": "compile a model with TensorRT, with or without a GPU",
    },
    "Verify and debug": {
        "compare": "run models on engines side by side, and compare what they give",
        "bisect": "find the first bad pass and rewrite",
        "reduce": "find the smallest model that still fails",
        "lint": "list all that is wrong about a model",
    },
    "Inspect": {
        "inspect": "print what a model, or saved data, hold",
        "view": "write the graph of a model as a page for a browser",
        "diff": "list how two models differ, whatever their inner names are",
        "data": "join and convert saved inputs and outputs",
    },
    "Edit": {
        "sanitize": "tidy a model: fold, clean up, other shapes or outputs",
        "extract": "cut a part out of a model, at values that are named",
        "insert": "replace a part by one node",
        "rename": "give values and nodes other names",
        "strip-weights": "remove the weights of a model, to share it without them",
        "restore-weights": "put weights back, or random ones like them, into a model",
    },
    "Write passes": {
        "list": "list the passes, or the presets",
        "explain": "explain a pass",
        "new-pass": "write a new pass and its test from a template",
        "certify": "test and prove rewrite rules on their own",
        "config": "check or print a pipeline file",
    },
}
"""The commands, and what each does, by what people come for."""
COMMANDS = {name: told for group in GROUPS.values() for name, told in group.items()}
_TOGETHER = {
    "debug": "bisect reduce",
    "edit": "sanitize extract insert rename strip_weights restore_weights",
    "inspect": "inspect diff lint view",
    "pass": "list explain new_pass config",
}
"""Commands that share a module; each other one has a module of its own."""

INTERNAL, CLOSED = 70, 141


class Program(click.Group):
    """Commands are imported when they are called; without one, ``run`` is meant."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        shared = next((m for m, names in _TOGETHER.items() if name in names.split()), None)
        file, found = (
            (f"{shared}_commands", f"{name}_command")
            if shared
            else (f"{name}_command", "command")
        )
        return adopt(getattr(importlib.import_module(f"onnx_passes.cli.{file}"), found))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in {*COMMANDS, "-h", "--help", "--version"}:
            known = args[0].startswith("-") or os.path.lexists(args[0])
            known &= not args[0].endswith((".yaml", ".yml"))
            if not known and args[0] in ("help", "version"):
                args = [*args[1:2], f"--{args[0]}"]
            else:
                if not known:
                    _refuse_word(args[0])
                args = ["run", *args]
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl(list(commands.items()))

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Exit codes of all commands"):
            formatter.write_dl([(str(code), told) for code, told in EXIT_CODES.items()])
        super().format_epilog(ctx, formatter)

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[COMMAND]", "[OPTIONS]", "MODEL", "[PASS]..."]


def _refuse_word(word: str) -> None:
    """Answer a first word that is neither a command nor a model, if it is known otherwise."""
    from onnx_passes.configs.pipeline_files import shipped_configs

    presets = shipped_configs()
    if word.endswith((".yaml", ".yml")):
        raise UsageError(
            f"{word!r} is a pipeline file", help=f"write: onnx-passes -c {word} MODEL -o OUT"
        )
    if near := nearest_word(word, [*COMMANDS, *presets]):
        meant = f"-c {near} MODEL -o OUT" if near in presets else near
        raise UsageError(
            f"there is no command or model {word!r}", help=f"did you mean '{meant}'?"
        )
    from onnx_passes.passes import registry

    if not names_a_model(word) and registry.is_known(word.partition("{")[0]):
        raise UsageError(
            f"{word!r} is a pass, and the first word is the model",
            help=f"write: onnx-passes MODEL {word!r} -o OUT",
        )


@click.command(
    cls=Program,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    no_args_is_help=True,
    epilog="Start with:  onnx-passes model.onnx -o out.onnx",
)
@click.version_option(__version__, prog_name="onnx-passes")
def program() -> None:
    """Transform ONNX models with passes that are verified one by one."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the program with the words after its name; end the process with its exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    defer()
    if arguments is None and (asked := os.environ.get(_COMPLETE)):
        raise SystemExit(_completed(asked))
    # onnx-ir warns of each value without a type; what is wrong with a model is said by checks.
    logging.getLogger("onnx_ir").setLevel(logging.ERROR)
    # What is left when Python ends goes with the process: looking through all of it for what
    # refers to itself takes half a second after a model of thousands of nodes.
    atexit.unregister(gc.freeze)
    atexit.register(gc.freeze)
    with interruptible(), patient_collector():
        code = _guarded(words, debug="--debug" in words, kept=_is_program())
        for note in risky_runs.take_notes():
            _tell(f"note: {note}")
        risky_runs.announce(code)
        if arguments is None:
            gc.freeze()  # before the collector is as eager as ever again
    raise SystemExit(code)


_COMPLETE = "_ONNX_PASSES_COMPLETE"
"""The variable by which a shell asks for its script, and how a word may go on."""


def _completed(instruction: str) -> int:
    """Answer a shell that asks; return the exit code."""
    from click.shell_completion import shell_complete

    try:
        return shell_complete(program, {}, "onnx-passes", _COMPLETE, instruction)
    except Exception:  # a shell that completes a word wants no words of ours
        return 1


def _is_program() -> bool:
    """Whether Python runs this program, on a system that forks, and not a program that calls.

    The script that is installed imports ``main``, as ``python -m onnx_passes`` does.
    """
    script = sys.modules.get("__main__")
    return hasattr(os, "fork") and getattr(script, "main", None) is main


def _guarded(words: list[str], *, debug: bool, kept: bool) -> int:
    """Call the program, and put whatever it raises into words."""
    forget_color()
    try:
        if kept:
            keep_stdout()
            supervise()
        return _call(words)
    except click.exceptions.NoArgsIsHelpError as error:
        _tell(error.format_message())
        return 2
    except click.UsageError as error:
        usage = f"\n  = help: {error.ctx.command_path} --help" if error.ctx else ""
        _tell(f"error[usage]: {error.format_message()}{usage}")
        return 2
    except click.ClickException as error:
        _tell(f"error[usage]: {error.format_message()}")
        return 2
    except (KeyboardInterrupt, click.Abort):
        return _interrupted()
    except BrokenPipeError:
        # The reader has gone: nobody is left to read a message.
        abandon_stdout()
        return CLOSED
    except OnnxPassesError as error:
        if debug:
            traceback.print_exc()
        _tell(f"error[{error.code}]: {error}")
        return error.exit_code
    except SystemExit as error:
        _tell(
            f"error[usage]: code that the command called ended the program ({error.code!r})\n"
            "  = help: let your function, plugin or hook return or raise an error instead"
        )
        return 2
    except Exception as error:
        if received.number is not None:
            # What an interrupted import or callback makes of it has any type.
            return _interrupted()
        if debug:
            traceback.print_exc()
        return _unforeseen(error, words)


def _call(words: list[str]) -> int:
    try:
        # Not click's own main(): it has other exit codes for a closed pipe and Ctrl-C.
        started = STARTED if _is_program() else time.perf_counter()
        with program.make_context("onnx-passes", list(words), obj=started) as context:
            context.color = wants_color()
            program.invoke(context)
        if sys.stdout is not None:
            sys.stdout.flush()
    except click.exceptions.Exit as end:
        if sys.stdout is not None:
            sys.stdout.flush()
        return end.exit_code
    return 0


def _interrupted() -> int:
    received.ending = True
    _tell(received.message)
    return received.exit_code


def _unforeseen(error: Exception, words: Sequence[str]) -> int:
    if isinstance(error, MemoryError):
        _tell(
            "error[memory]: the memory of this machine does not suffice\n"
            "  = help: close other programs, or set reference.samples=1 and a smaller "
            "verify.memory_limit"
        )
        return 3
    if isinstance(error, OSError) and str(error).startswith("Not enough free space"):
        # numpy's own, without a number; its files here are temporary ones.
        _tell(f"error[system]: {error}\n  = help: make room, or set TMPDIR to another folder")
        return 2
    if isinstance(error, OSError) and error.strerror:
        at = f": {error.filename}" if error.filename else ""
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        way = "make room there, or write elsewhere" if full else "--debug shows the traceback"
        if error.errno == errno.ENOENT and not at:  # os.getcwd()
            way = "the working folder was removed: change to another one"
        _tell(f"error[system]: {error.strerror}{at}\n  = help: {way}")
        if full and not error.filename:
            abandon_stdout()  # or Python writes it once more at the end
        return 2
    file = _write_fault(error, words)
    _tell(
        f"internal error: {type(error).__name__}: {error}\n"
        "  = help: a fault of onnx-passes itself; please report it"
        + (f" with {file}, which names the words of your command" if file else "")
    )
    return INTERNAL


def _write_fault(error: BaseException, words: Sequence[str]) -> str | None:
    """Write versions, command and traceback to a temporary file; return its path, if any."""
    import platform
    import tempfile

    from onnx_passes.runtime.environment import versions

    used = [f"{name} {version}" for name, version in versions().items()]
    lines = [
        ", ".join([platform.platform(), *used]),
        f"words: {list(words)!r}",
        "",
        *traceback.format_exception(error),
    ]
    with suppress(OSError):
        with tempfile.NamedTemporaryFile(
            "w",
            encoding="utf-8",
            errors="backslashreplace",
            prefix="onnx-passes-fault-",
            suffix=".txt",
            delete=False,
        ) as file:
            file.write("\n".join(line.rstrip("\n") for line in lines) + "\n")
        return file.name
    return None


def _tell(text: str) -> None:
    """Print on stderr, if there is one; names of a model may hold control characters."""
    from onnx_passes.report.text import annotation, printable

    with suppress(OSError, ValueError, AttributeError):
        shown = printable(text, getattr(sys.stderr, "encoding", None) or "utf-8")
        lines: list[str] = []
        for line in shown.split("\n"):
            # An excerpt of a file stays as it is: a caret below it points at a column.
            excerpt = re.match(r" *(\d+ )?\||-->", line)
            lines += [line] if excerpt else fitted(line, sys.stderr)
        head, colon, rest = "\n".join(lines).partition(":")
        error = head.startswith("error[")
        told = click.style(head, fg="red", bold=True) if error else head
        click.echo(f"{told}{colon}{rest}", err=True, color=wants_color())
        if error and os.environ.get("GITHUB_ACTIONS") == "true":
            click.echo(annotation(head, rest.strip()), err=True)
