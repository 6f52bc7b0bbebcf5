"""``onnx-passes build``: an engine from a model, with NVIDIA's compiler."""

from __future__ import annotations

from pathlib import Path

import click

from onnx_passes.cli.destinations import check_destinations
from onnx_passes.errors import UsageError

# click keeps the lines of a paragraph that begins with a backspace.
HELP = """\
Compile MODEL into a TensorRT engine.

TensorRT for RTX builds for named compute capabilities on any machine; TensorRT builds for the
GPU of this one. Nothing is executed, and nothing verified: run a pipeline first.

\b
Exit codes:
  0  the engine is written
  2  bad usage
  3  the model cannot be read, or is not compiled, or the compiler is not on this machine

\b
Examples:
  onnx-passes build model.onnx -o model.engine
  onnx-passes build model.onnx -o model.engine --compute-capabilities 8.6,8.9 --tf32
"""


@click.command("build", help=HELP)
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="The engine."
)
@click.option(
    "--engine",
    type=click.Choice(["tensorrt-rtx", "tensorrt"]),
    default="tensorrt-rtx",
    show_default=True,
    help="Whose compiler.",
)
@click.option(
    "--compute-capabilities",
    "capabilities",
    metavar="X.Y,...",
    help="GPUs to build for. Default: that of this machine, or 8.9 where there is none.",
)
@click.option(
    "--profile",
    "profiles",
    multiple=True,
    metavar="INPUT=MIN:OPT:MAX",
    help="Shapes of a dynamic input, such as image=1x3x8x8:4x3x8x8:8x3x8x8, or one shape for "
    "all three. Inputs left out get the shapes that generated inputs have.",
)
@click.option("--tf32", is_flag=True, help="Let float32 products be rounded to TF32.")
@click.option("--optimization-level", type=click.IntRange(0, 5), help="Effort of the builder.")
@click.option("--workspace", metavar="SIZE", help="Scratch memory of layers: 512MiB.")
@click.option("--timing-cache", metavar="FILE", help="Measured kernels, read and written.")
@click.option("--network-hook", metavar="MODULE:FUNCTION", help="Called on the network.")
@click.option("--config-hook", metavar="MODULE:FUNCTION", help="Called on the config.")
@click.option("--time-limit", type=float, default=600.0, show_default=True, metavar="SECONDS")
@click.option("--debug", is_flag=True, hidden=True)
def command(
    model: Path,
    output: Path,
    engine: str,
    capabilities: str | None,
    profiles: tuple[str, ...],
    tf32: bool,
    optimization_level: int | None,
    workspace: str | None,
    timing_cache: str | None,
    network_hook: str | None,
    config_hook: str | None,
    time_limit: float,
    debug: bool,
) -> None:
    """Compile; the options are those of the engine in a pipeline."""
    del debug
    from onnx_passes.io.load import load_model
    from onnx_passes.report.text import size
    from onnx_passes.runtime.engines import engine_from_config
    from onnx_passes.runtime.inputs import generate
    from onnx_passes.runtime.tensorrt.engine import compiler_of, fitted

    given = {
        "compute_capabilities": capabilities.split(",") if capabilities else None,
        "profiles": dict(map(_profile, profiles)) or None,
        "tf32": tf32 or None,
        "optimization_level": optimization_level,
        "workspace": workspace,
        "timing_cache": timing_cache and str(Path(timing_cache).absolute()),
        "network_hook": network_hook,
        "config_hook": config_hook,
    }
    options: dict[str, object] = {k: v for k, v in given.items() if v is not None}
    options |= {"save": str(output.absolute()), "time_limit": time_limit}
    made = engine_from_config(engine, options, folders=[str(Path.cwd())])
    inner = compiler_of(made)
    assert inner is not None
    loaded = load_model(model)
    inputs = {"MODEL": [model], "the weights of MODEL": [*loaded.external]}
    check_destinations(None, {"-o": output}, inputs)
    if inner.missing is not None:
        raise inner.missing
    if any(v.shape is None or not v.shape.is_static() for v in loaded.model.graph.inputs):
        made = fitted(made, loaded.model, generate(loaded.model, samples=1))
    with made.prepare(loaded.model):
        told = f"wrote {output}, {size(output.stat().st_size)}, built for {inner.target}"
        click.echo(f"{told}; not executed: {inner.not_executed or 'build only builds'}")


def _profile(text: str) -> tuple[str, dict[str, list[int]]]:
    name, equals, shapes = text.rpartition("=")
    try:
        sizes = [[int(part) for part in one.split("x") if part] for one in shapes.split(":")]
    except ValueError:
        sizes = []
    if not equals or not name or len(sizes) not in (1, 3):
        raise UsageError(
            f"--profile {text!r} cannot be read",
            help="write input=min:opt:max, such as image=1x3x8x8:4x3x8x8:8x3x8x8",
        )
    least, best, most = sizes * 3 if len(sizes) == 1 else sizes
    return name, {"min": least, "opt": best, "max": most}
