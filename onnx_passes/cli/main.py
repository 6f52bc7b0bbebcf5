"""The program: its commands, and how each ends."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
from types import FrameType
from typing import NoReturn

import click

from onnx_passes import __version__
from onnx_passes.errors import OnnxPassesError

COMMANDS = {
    "run": "run a pipeline of verified passes over a model (the default)",
    "report": "show a saved run, and judge it by other thresholds",
    "bisect": "find the first bad pass and rewrite",
    "certify": "test and prove rewrite rules on their own",
    "list": "list the passes",
    "explain": "explain a pass",
    "new-pass": "write a new pass and its test from a template",
    "config": "check a pipeline file, or print its JSON Schema",
}

INTERRUPTED, INTERNAL = 130, 70
PATIENCE = 5.0
"""Seconds after Ctrl-C in which the program may end by itself."""


class Program(click.Group):
    """Commands are imported when they are called; without one, ``run`` is meant."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        name = cmd_name.replace("-", "_")
        module = importlib.import_module(f"onnx_passes.cli.{name}_command")
        command: click.Command = module.command
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = {"-h", "--help", "--version"}
        if args and args[0] not in COMMANDS and args[0] not in own:
            args = ["run", *args]
        return super().parse_args(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return ["[COMMAND]", "[OPTIONS]", "MODEL", "[PASS]..."]


@click.command(
    cls=Program,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    no_args_is_help=True,
    epilog="Start with:  onnx-passes -c optimize -o out.onnx model.onnx",
)
@click.version_option(__version__, prog_name="onnx-passes")
def program() -> None:
    """Transform ONNX models with passes that are verified one by one."""


def main() -> NoReturn:
    """Run the program and end the process with its exit code."""
    debug = "--debug" in sys.argv
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, _interrupt)
    try:
        code = program.main(standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as error:
        code = error.exit_code
    except click.Abort:
        code = _interrupted()
    except click.ClickException as error:
        error.show()
        code = 2
    except KeyboardInterrupt:
        code = _interrupted()
    except BrokenPipeError:
        # The reader has gone: there is nobody left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except OnnxPassesError as error:
        if debug:
            raise
        click.echo(f"error[{error.code}]: {error}", err=True)
        code = error.exit_code
    except Exception as error:
        if debug:
            raise
        click.echo(
            f"internal error: {type(error).__name__}: {error}\n"
            "  = help: a fault of onnx-passes itself; --debug shows the traceback",
            err=True,
        )
        code = INTERNAL
    raise SystemExit(code if isinstance(code, int) else 0)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt, and end the process if that gets lost.

    An exception raised while a compiled module is imported, or in a finalizer, is printed or
    swallowed there.
    """

    def end() -> None:
        click.echo("interrupted: nothing was written", err=True)
        os._exit(INTERRUPTED)

    timer = threading.Timer(PATIENCE, end)
    timer.daemon = True
    timer.start()
    raise KeyboardInterrupt


def _interrupted() -> int:
    click.echo("interrupted: nothing was written", err=True)
    return INTERRUPTED
