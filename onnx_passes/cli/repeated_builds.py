"""Build a model several times, check each build, and say in which layers they differ."""

from __future__ import annotations

import shutil
from pathlib import Path

import onnx_ir as ir

from onnx_passes.cli.destinations import check_folder
from onnx_passes.cli.printing import echo_line
from onnx_passes.cli.ticker import advance
from onnx_passes.errors import EngineError, UsageError
from onnx_passes.report.timings import builds_lines
from onnx_passes.runtime import processes
from onnx_passes.runtime.engine_base import Engine
from onnx_passes.runtime.layers import layers_of, with_profiling
from onnx_passes.runtime.tensorrt.engine import with_options, without_cache
from onnx_passes.verify.runs.builds import Build, Builds

_LONGEST = 200


def build_again(
    engine: Engine,
    model: ir.Model,
    output: Path,
    repeat: int,
    command: str | None,
    folder: Path,
    seconds: float,
) -> int:
    """Build a model several times, keep what was built, and print what differs.

    Args:
        engine: What builds it.
        model: The model.
        output: Gets the first build that is not bad.
        repeat: Number of builds.
        command: Run on each build, whose path replaces ``{engine}``, or comes last; None for
            no check.
        folder: Where builds are kept: good and bad ones in folders of their own.
        seconds: Time limit of one run of the command.

    Returns:
        The exit code: 1 where a check is given and no build passes.

    Raises:
        EngineError: The model is not built.
        UsageError: The command cannot be run, or the folder not be written.
    """
    words = _words(command)
    check_folder("--keep-builds", folder)
    folder.mkdir(parents=True, exist_ok=True)
    own = with_profiling(without_cache(engine)) or engine
    found = Builds(f"{model.graph.name or 'the model'} on {engine.name}")
    for number in range(1, repeat + 1):
        advance(number - 1, repeat, "build")
        path = folder / f"{output.stem}-{number}{output.suffix}"
        with with_options(own, save=str(path.absolute())).prepare(model) as session:
            build = Build(f"build {number}", None, layers=layers_of(session), path=str(path))
        if words:
            build.good, build.reason = _check(words, path, seconds)
        found.builds.append(build)
    found.keep(folder)
    for line in builds_lines(found):
        echo_line(line)
    best = next((build for build in found.builds if build.good is not False), None)
    if best is None or best.path is None:
        echo_line(f"{output} is not written: no build passes the check")
        return 1
    try:
        shutil.copyfile(best.path, output)
    except OSError as error:
        raise UsageError(f"-o {output}: {error.strerror or error}") from error
    echo_line(f"wrote {output}: {best.name}")
    return 0


def _words(command: str | None) -> list[str]:
    if command is None:
        return []
    words = processes.check_words(command)
    if not any("{engine}" in word for word in words):
        words.append("{engine}")
    return words


def _check(words: list[str], path: Path, seconds: float) -> tuple[bool, str]:
    command = [word.replace("{engine}", str(path)) for word in words]
    try:
        ended = processes.run(command, seconds)
    except OSError as error:
        raise EngineError(f"--check cannot be run: {error.strerror or error}") from error
    if ended.code is None:
        return False, f"the check does not end within {seconds:g} s"
    if ended.code == 0:
        return True, ""
    aside = f": {ended.last_line[:_LONGEST]}" if ended.last_line else ""
    return False, f"the check ends with exit code {ended.code}{aside}"
