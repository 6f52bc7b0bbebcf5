"""``onnx-passes build``: an engine from a model, with NVIDIA's compiler."""

from __future__ import annotations

from pathlib import Path

import click

from onnx_passes.cli.common import FILE
from onnx_passes.cli.output import check_destinations, echo_line
from onnx_passes.errors import UsageError

# click keeps the lines of a paragraph that begins with a backspace.
HELP = """\
Compile MODEL into a TensorRT engine.

TensorRT for RTX builds for named compute capabilities on any machine; TensorRT builds for the
GPU of this one. Nothing is executed, and nothing verified: run a pipeline first.

\b
Examples:
  onnx-passes build model.onnx -o model.engine
  onnx-passes build model.onnx -o model.engine --compute-capabilities 8.6,8.9
"""


@click.command("build", help=HELP)
@click.argument("model", type=FILE)
@click.option("-o", "--output", type=FILE, required=True, help="The file.")
@click.option(
    "-e",
    "--engine",
    type=click.Choice(["tensorrt-rtx", "tensorrt"]),
    default="tensorrt-rtx",
    show_default=True,
    help="Compiler to use.",
)
@click.option(
    "--compute-capabilities",
    "capabilities",
    metavar="X.Y,...",
    help="GPUs to build for. Default: that of this machine, or 8.9 without a GPU.",
)
@click.option(
    "--profile",
    "profiles",
    multiple=True,
    metavar="INPUT=MIN:OPT:MAX",
    help="Shapes of a dynamic input, such as image=1x3x8x8:4x3x8x8:8x3x8x8, or one shape for "
    "all three. Inputs left out get the shapes that generated inputs have. An input given "
    "several times has several profiles.",
)
@click.option("--tf32", is_flag=True, help="Let float32 products be rounded to TF32.")
@click.option("--optimization-level", type=click.IntRange(0, 5), help="Effort of the builder.")
@click.option("--workspace", metavar="SIZE", help="Scratch memory of layers: 512MiB.")
@click.option(
    "--plugin",
    "plugins",
    multiple=True,
    type=FILE,
    help="Library of plugins. Repeat for several.",
)
@click.option(
    "--verbosity",
    type=click.Choice(["error", "warning", "info", "verbose"]),
    help="How much of the compiler's log a failure shows.",
)
@click.option("--cache", metavar="DIR", help="Engines built before, read and written.")
@click.option("--timing-cache", metavar="FILE", help="Measured kernels, read and written.")
@click.option("--network-hook", metavar="MODULE:FUNCTION", help="Called with the network.")
@click.option("--config-hook", metavar="MODULE:FUNCTION", help="Called with the config.")
@click.option(
    "--time-limit",
    type=float,
    default=600.0,
    show_default=True,
    metavar="SECONDS",
    help="Seconds for a build.",
)
def command(
    model: Path,
    output: Path,
    engine: str,
    capabilities: str | None,
    profiles: tuple[str, ...],
    tf32: bool,
    optimization_level: int | None,
    workspace: str | None,
    plugins: tuple[Path, ...],
    verbosity: str | None,
    cache: str | None,
    timing_cache: str | None,
    network_hook: str | None,
    config_hook: str | None,
    time_limit: float,
) -> None:
    """Compile; the options are those of the engine in a pipeline."""
    from onnx_passes.model.load import load_model
    from onnx_passes.report.text import size
    from onnx_passes.runtime.engine_base import did_you_mean
    from onnx_passes.runtime.engines import engine_from_config
    from onnx_passes.runtime.inputs import generate
    from onnx_passes.runtime.tensorrt.engine import compiler_of, with_profiles_of

    loaded = load_model(model)
    known = [str(value.name) for value in loaded.model.graph.inputs]
    grouped = _profiles(profiles)
    for name in dict.fromkeys(name for profile in grouped for name in profile):
        if name not in known:
            raise UsageError(
                f"--profile: there is no input {name!r}", help=did_you_mean(name, known)
            )
    given = {
        "compute_capabilities": capabilities.split(",") if capabilities else None,
        "profiles": grouped or None,
        "tf32": tf32 or None,
        "optimization_level": optimization_level,
        "workspace": workspace,
        "plugins": [str(path.absolute()) for path in plugins] or None,
        "verbosity": verbosity,
        "cache": cache and str(Path(cache).absolute()),
        "timing_cache": timing_cache and str(Path(timing_cache).absolute()),
        "network_hook": network_hook,
        "config_hook": config_hook,
    }
    options: dict[str, object] = {k: v for k, v in given.items() if v is not None}
    options |= {"save": str(output.absolute()), "time_limit": time_limit}
    made = engine_from_config(engine, options, folders=[str(Path.cwd())])
    inner = compiler_of(made)
    assert inner is not None
    inputs = {"MODEL": [model], "the weights of MODEL": [*loaded.external]}
    check_destinations(None, {"-o": output}, inputs)
    if inner.missing is not None:
        raise inner.missing
    if any(v.shape is None or not v.shape.is_static() for v in loaded.model.graph.inputs):
        made = with_profiles_of(made, loaded.model, generate(loaded.model, samples=1))
    with made.prepare(loaded.model):
        done = f"wrote {output}, {size(output.stat().st_size)}, built for {inner.target}"
        echo_line(f"{done}; not executed: {inner.not_executed or 'build only builds'}")


def _profiles(texts: tuple[str, ...]) -> list[dict[str, dict[str, list[int]]]]:
    """Group sizes into profiles; an input that is given once has them in all."""
    given: dict[str, list[dict[str, list[int]]]] = {}
    for text in texts:
        name, sizes = _profile(text)
        given.setdefault(name, []).append(sizes)
    count = max(map(len, given.values()), default=0)
    for name, all_sizes in given.items():
        if len(all_sizes) not in (1, count):
            raise UsageError(
                f"--profile is given {len(all_sizes)} times for {name!r}, and {count} times "
                "for another input",
                help="give each input once, or once for each profile",
            )
    return [
        {name: sizes[index % len(sizes)] for name, sizes in given.items()}
        for index in range(count)
    ]


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
