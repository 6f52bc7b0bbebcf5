"""``onnx-passes build``: an engine from a model, with NVIDIA's compiler."""

from __future__ import annotations

from pathlib import Path

import click

from onnx_passes.cli.common import FILE, file, option, several
from onnx_passes.cli.output import check_destinations, echo_line
from onnx_passes.errors import UsageError, did_you_mean

_COMPILERS = ("tensorrt-rtx", "tensorrt")


@click.command("build")
@click.argument("model", type=FILE)
@file("-o --output", "The file.", required=True)
@option(
    "-e --engine ENGINE",
    "Compiler to use, tensorrt-rtx or tensorrt, with its options in braces.",
    default="tensorrt-rtx",
    show_default=True,
)
@option(
    "--compute-capabilities capabilities X.Y,...",
    "GPUs to build for. Default: that of this machine, or 8.9 without a GPU.",
)
@several(
    "--profile profiles INPUT=MIN:OPT:MAX",
    "Shapes of a dynamic input, such as image=1x3x8x8:4x3x8x8:8x3x8x8, or one shape for "
    "all three. Inputs left out get the shapes that generated inputs have. An input given "
    "several times has several profiles.",
)
def command(
    model: Path, output: Path, engine: str, capabilities: str | None, profiles: tuple[str, ...]
) -> None:
    """Compile MODEL into a TensorRT engine.

    TensorRT for RTX builds for named compute capabilities on any machine; TensorRT builds for
    the GPU of this one. Its options stand in braces, as those of any engine. Nothing is
    executed, and nothing verified: run a pipeline first.

    Examples:
      onnx-passes build model.onnx -o model.engine
      onnx-passes build model.onnx -o model.engine --compute-capabilities 8.6,8.9
      onnx-passes build m.onnx -o m.engine -e 'tensorrt{workspace=512MiB}'
    """
    from onnx_passes.configs.engine_text import read_engine
    from onnx_passes.model.load import load_model
    from onnx_passes.report.text import size
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
    name, options = read_engine(engine)
    if name not in _COMPILERS:
        raise UsageError(f"--engine {engine} does not compile", help="tensorrt-rtx does")
    if capabilities is not None:
        options["compute_capabilities"] = capabilities.split(",")
    if grouped:
        options["profiles"] = grouped
    options = {"time_limit": 600.0, **options, "save": str(output.absolute())}
    made = engine_from_config(name, options, folders=[str(Path.cwd())])
    inner = compiler_of(made)
    assert inner is not None, "it compiles"
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
