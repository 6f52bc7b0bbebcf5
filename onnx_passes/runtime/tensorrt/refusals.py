"""Which nodes the parser of TensorRT refuses, asked in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import onnx_ir as ir

from onnx_passes.errors import (
    EngineError,
    EngineTimeoutError,
    EngineUnavailableError,
    UnsupportedModelError,
)
from onnx_passes.model.load import load_model
from onnx_passes.model.save import save_model
from onnx_passes.runtime.tensorrt.bindings import (
    Package,
    install_help,
    installed_version,
    load_bindings,
)
from onnx_passes.runtime.tensorrt.driver import gpu_count
from onnx_passes.runtime.tensorrt.log import Log
from onnx_passes.runtime.tensorrt.parse import parse

# Exit code of a child that says why it cannot start.
_UNAVAILABLE = 3
_CRASHED = "the parser ended its process"


@dataclass(frozen=True)
class Refused:
    """What the parser says against a model.

    Attributes:
        node: The node of the main graph that it is about; empty where it does not say.
        reason: Why, in its own words.
    """

    node: str
    reason: str


def parser_refusals(
    package: Package, models: Sequence[ir.Model], *, seconds: float | None = 600.0
) -> list[list[Refused]]:
    """Ask the parser about models; nothing is built.

    The answers of ``supports_operator`` and of the groups of ``supports_model_v2`` are not
    used: they differ from what ``parse`` does.

    Args:
        package: Whose parser.
        models: The models; nodes of their main graphs have names of their own.
        seconds: How long all of them may take; None for no limit.

    Returns:
        What is said against each model; nothing where it is taken. A model that ends the
        parser's process is refused without a node.

    Raises:
        EngineUnavailableError: The package is not on this machine, or needs a GPU.
        EngineTimeoutError: The time is up.
        EngineError: A model cannot be handed to the parser.
        ModelError: A model cannot be serialised.
    """
    if installed_version(package) is None:
        raise EngineUnavailableError(f"{package} is not installed", help=install_help(package))
    if package == "tensorrt" and not gpu_count():
        raise EngineUnavailableError(
            "tensorrt starts only beside a GPU, and this machine has none",
            help="use tensorrt-rtx, whose parser needs none",
        )
    found: list[list[Refused]] = []
    with tempfile.TemporaryDirectory(prefix="onnx-passes-") as folder:
        paths = [Path(folder, f"{index}.onnx") for index in range(len(models))]
        for model, path in zip(models, paths, strict=True):
            save_model(model, path)
        answers = Path(folder, "answers")
        while len(found) < len(paths):
            rest = paths[len(found) :]
            found += _child(package, rest, answers, seconds)
    return found


def _child(
    package: Package, paths: Sequence[Path], answers: Path, seconds: float | None
) -> Iterator[list[Refused]]:
    answers.write_text("")
    code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import main; main()"
    command = [sys.executable, "-P", "-c", code, package, str(answers), *map(str, paths)]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds
        )
    except subprocess.TimeoutExpired as error:
        raise EngineTimeoutError(
            f"the parser of {package} did not end within {seconds:g} s",
            help="raise the engine's time_limit if it should have",
        ) from error
    if done.returncode == _UNAVAILABLE:
        raise EngineUnavailableError(**json.loads(answers.read_text()))
    lines = answers.read_text().splitlines()
    if done.returncode == 1 and len(lines) < len(paths):
        # Not a crash: an exception of ours, in the last line of what Python printed.
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise EngineError(f"the parser of {package} cannot be asked: {' '.join(said[-1:])}")
    for line in lines:
        yield [Refused(**each) for each in json.loads(line)]
    if len(lines) < len(paths):
        yield [Refused("", f"{_CRASHED} (exit code {done.returncode})")]


def main() -> None:
    """Ask about models: the package, where answers go, and the models' paths are given."""
    package: Package = "tensorrt" if sys.argv[1] == "tensorrt" else "tensorrt-rtx"
    answers = Path(sys.argv[2])
    try:
        trt = load_bindings(package)
    except EngineUnavailableError as error:
        answers.write_text(json.dumps({"message": error.message, "help": error.help}))
        raise SystemExit(_UNAVAILABLE) from error
    with answers.open("a") as file:
        for path in sys.argv[3:]:
            told = _refused(trt, load_model(path).model)
            print(json.dumps([asdict(each) for each in told]), file=file, flush=True)


def _refused(trt: ModuleType, model: ir.Model) -> list[Refused]:
    log = Log(trt, "error")
    builder = trt.Builder(log.listener)
    flag = getattr(trt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)
    network = builder.create_network(0 if flag is None else 1 << int(flag))
    parser = trt.OnnxParser(network, log.listener)
    try:
        parse(parser, model)
    except UnsupportedModelError as error:
        names = {node.name for node in model.graph}
        errors = [parser.get_error(i) for i in range(parser.num_errors)]
        found = [_told(each, names) for each in errors]
        return list(dict.fromkeys(found)) or [Refused("", error.message)]
    return []


def _told(error: Any, names: set[str | None]) -> Refused:
    # What is wrong in a subgraph or a function is that of the node that holds it, which the
    # stack begins with: "name (Operator)".
    stack = list(error.local_function_stack())
    node = stack[0].rpartition(" (")[0] if stack else error.node_name()
    code = str(error.code()).rpartition(".")[2]
    where = " > ".join(stack[1:]) or "its body"
    inside = f"{error.node_operator()} in {where}: " if stack else ""
    return Refused(node if node in names else "", f"{inside}{error.desc().strip()} ({code})")
