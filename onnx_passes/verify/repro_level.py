"""Ask NVIDIA's compiler about before.onnx and after.onnx, and print what it says.

Exit code 1: after.onnx still gets less far. 0: it gets as far. 2: the compiler is not here.
Needs tensorrt-rtx, or tensorrt and a GPU, and nothing else. Nothing is executed.
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
LEVELS = ["rejected", "parsed", "built"]
CRASHED = "the compiler ended its process"


def main() -> int:
    """Ask about both models, each in a process of its own; return the exit code."""
    settings = json.loads((HERE / "check.json").read_text("utf-8"))["levels"]
    if len(sys.argv) > 1:
        print(json.dumps(ask(settings, HERE / sys.argv[1])))
        return 0
    try:
        trt = importlib.import_module(settings["module"])
    except (ImportError, OSError) as error:
        print(f"{settings['module']} cannot be loaded: {error}")
        return 2
    print(f"{settings['module']} {trt.__version__}")
    ranks = []
    for name in ("before.onnx", "after.onnx"):
        command = [sys.executable, str(Path(__file__).resolve()), name]
        done = subprocess.run(command, capture_output=True, text=True)
        lines = done.stdout.splitlines()
        level, reasons = json.loads(lines[-1]) if lines else (LEVELS[0], [CRASHED])
        print("\n  ".join([f"{name}: {level}", *reasons]))
        ranks.append(LEVELS.index(level))
    return int(ranks[1] < ranks[0])


def ask(settings: dict[str, Any], path: Path) -> tuple[str, list[str]]:
    """Parse and build a model; return how far it got, and what was said against it."""
    trt: Any = importlib.import_module(settings["module"])
    said: list[str] = []

    class Listener(trt.ILogger):  # type: ignore[misc]  # the bindings are known at run time
        def __init__(self) -> None:
            trt.ILogger.__init__(self)

        def log(self, severity: Any, message: str) -> None:
            if severity.name in ("ERROR", "INTERNAL_ERROR"):
                said.append(message)

    listener = Listener()
    builder = trt.Builder(listener)
    flag = getattr(trt.NetworkDefinitionCreationFlag, "STRONGLY_TYPED", None)
    network = builder.create_network(0 if flag is None else 1 << int(flag))
    parser = trt.OnnxParser(network, listener)
    if not parser.parse(path.read_bytes()):
        return LEVELS[0], [str(parser.get_error(i)) for i in range(parser.num_errors)]
    config = builder.create_builder_config()
    if not settings["tf32"]:
        config.clear_flag(trt.BuilderFlag.TF32)
    capabilities = settings["compute_capabilities"]
    if capabilities:
        config.num_compute_capabilities = len(capabilities)
    for index, one in enumerate(capabilities):
        name = f"SM{one.replace('.', '')}"
        config.set_compute_capability(trt.ComputeCapability.__members__[name], index)
    add_profile(builder, network, config, settings["profiles"])
    plan = builder.build_serialized_network(network, config)
    return (LEVELS[1], said) if plan is None else (LEVELS[2], [])


def add_profile(builder: Any, network: Any, config: Any, known: dict[str, Any]) -> None:
    """Give dynamic inputs the least, usual and greatest shape or values that they had."""
    inputs = [network.get_input(i) for i in range(network.num_inputs)]
    wanting = [t for t in inputs if t.is_shape_tensor or -1 in tuple(t.shape)]
    if not wanting:
        return
    profile = builder.create_optimization_profile()
    for tensor in wanting:
        sizes = [known[tensor.name][key] for key in ("min", "opt", "max")]
        setter = profile.set_shape_input if tensor.is_shape_tensor else profile.set_shape
        setter(tensor.name, *sizes)
    config.add_optimization_profile(profile)


if __name__ == "__main__":
    sys.exit(main())
