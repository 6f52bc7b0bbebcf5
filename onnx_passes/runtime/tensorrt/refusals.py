"""Which nodes the parser of TensorRT rejects, found in a child process."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType

import onnx_ir as ir

from onnx_passes.errors import (
    EngineCrashedError,
    EngineUnavailableError,
    UnsupportedModelError,
)
from onnx_passes.model.load import load_model
from onnx_passes.model.save import save_model
from onnx_passes.runtime.isolated_calls import call
from onnx_passes.runtime.isolated_process import Child, Home
from onnx_passes.runtime.tensorrt.binding_types import TrtParserError
from onnx_passes.runtime.tensorrt.bindings import (
    Package,
    install_help,
    installed_version,
    load_bindings,
    network_flags,
)
from onnx_passes.runtime.tensorrt.cuda_driver import gpu_count
from onnx_passes.runtime.tensorrt.log import BuildLog
from onnx_passes.runtime.tensorrt.parse import errors_of, parse, reason_of


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
        seconds: How long each may take; None for no limit.

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
    child: Child | None = None
    with tempfile.TemporaryDirectory(prefix="onnx-passes-") as folder:
        path = Path(folder, "asked.onnx")
        try:
            for model in models:
                save_model(model, path)
                if child is None or not child.alive:
                    child = Child(Home(package))
                found.append(_ask(child, package, path, seconds))
        finally:
            if child is not None:
                child.end()
    return found


def _ask(child: Child, package: Package, path: Path, seconds: float | None) -> list[Refused]:
    words = package, str(path)
    try:
        answers = call(child, read_refusals, *words, while_="parsing", seconds=seconds)
    except EngineCrashedError as error:
        return [Refused("", error.message)]
    return [Refused(**each) for each in answers]


def read_refusals(package: Package, path: str) -> list[dict[str, str]]:
    """Ask the parser in this process about a file; see :func:`parser_refusals`.

    Args:
        package: Whose parser it is.
        path: The file of the model.
    """
    trt = load_bindings(package)
    return [asdict(each) for each in _find_refusals(trt, load_model(path).model)]


def _find_refusals(trt: ModuleType, model: ir.Model) -> list[Refused]:
    log = BuildLog(trt, "error")
    builder = trt.Builder(log.listener)
    network = builder.create_network(network_flags(trt))
    parser = trt.OnnxParser(network, log.listener)
    try:
        parse(parser, model)
    except UnsupportedModelError as error:
        names = {node.name for node in model.graph}
        found = [_read_error(each, names) for each in errors_of(parser)]
        return list(dict.fromkeys(found)) or [Refused("", error.message)]
    return []


def _read_error(error: TrtParserError, names: set[str | None]) -> Refused:
    # What is wrong in a subgraph or a function is that of the node that holds it, which the
    # stack begins with: "name (Operator)".
    stack = list(error.local_function_stack())
    node = stack[0].rpartition(" (")[0] if stack else error.node_name()
    where = " > ".join(stack[1:]) or "its body"
    inside = f"{error.node_operator()} in {where}: " if stack else ""
    return Refused(node if node in names else "", f"{inside}{reason_of(error)}")
