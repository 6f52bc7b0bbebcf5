"""Write scripts that do what a command does, for users to edit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from string import Template

from onnx_passes.cli.output import check_destinations, echo_line
from onnx_passes.errors import UsageError
from onnx_passes.plain import PlainMapping

_FROM_FILE = "return runner.from_file({file!r}, model)"
_FROM_LOADER = "return runner.from_loader({function!r})"
_GENERATED = "return runner.read_generate({texts!r}).make(model)"


def write_compare_script(
    path: Path,
    models: Sequence[Path],
    engines: Sequence[str],
    results: Sequence[Path],
    given: PlainMapping,
    *,
    isolate: bool = False,
    save_outputs: Path | None = None,
) -> None:
    """Write a script that compares as the options of ``compare`` say; or raise UsageError."""
    if given["data"]:
        raise UsageError("--write-script and --data do not go together", help="see --result")
    wanted = given["outputs"]
    save = ""
    if save_outputs is not None:
        save = f"\n    save_results(found, Path({str(save_outputs)!r}))"
    values = {
        "models": [str(model) for model in models],
        "engines": list(engines or ("onnxruntime",)),
        "results": [str(file) for file in results],
        "isolate": True if isolate else None,
        "tolerance": given["tolerance"],
        "rtol": given["rtol"],
        "atol": given["atol"],
        "outputs": "all" if wanted == ("all",) else list(wanted) or None,
        "judge": given["judge"],
        "postprocess": given["postprocess"],
        "validate": given["validate"],
        "fail_fast": given["fail_fast"],
        "iterations": given["iterations"] or 1,
        "warm_up": given["warm_up"] or 0,
        "keep": save_outputs is not None,
    }
    imports = "" if save_outputs is None else "from pathlib import Path\n\n"
    plain = {"inputs": _inputs(given), "save": save, "imports": imports}
    read: dict[str, list[Path]] = {"a model": list(models), "results": list(results)}
    _write(path, "compare.py.txt", values, plain, read)


def write_build_script(
    path: Path, model: Path, output: Path, engine: str, options: Mapping[str, object]
) -> None:
    """Write a script that builds as the options of ``build`` say."""
    own = {
        k: v for k, v in options.items() if k not in ("save", "network_hook", "config_hook")
    }
    values = {"model": str(model), "output": str(output), "engine": engine, "options": own}
    _write(path, "build.py.txt", values, {}, {"MODEL": [model], "-o": [output]})


def _inputs(given: PlainMapping) -> str:
    if given["data_loader"]:
        return _FROM_LOADER.format(function=given["data_loader"])
    if given["inputs"]:
        return _FROM_FILE.format(file=given["inputs"])
    return _GENERATED.format(texts=given["generate"])


def _write(
    path: Path,
    template: str,
    values: Mapping[str, object],
    plain: Mapping[str, str],
    read: Mapping[str, Sequence[Path]],
) -> None:
    check_destinations(None, {"--write-script": path}, {k: list(v) for k, v in read.items()})
    source = resources.files("onnx_passes.cli") / "templates" / template
    text = Template(source.read_text(encoding="utf-8"))
    literals = {name: repr(value) for name, value in values.items()}
    try:
        path.write_text(text.substitute(literals | dict(plain)), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--write-script {path}: {error.strerror or error}") from error
    echo_line(f"wrote {path}: python {path}")
