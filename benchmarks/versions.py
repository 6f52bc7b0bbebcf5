"""Which versions of Python and of the packages below this one work, tried one by one.

    python -m benchmarks versions                     # each Python that is found
    python -m benchmarks versions --python python3.13 --only oldest
    python -m benchmarks versions --folder /tmp/environments

For each Python it makes an environment with the oldest versions of onnx, ONNX Runtime,
onnxscript and onnx-ir that ``pyproject.toml`` admits, and one with the newest ones. In each it
runs the tests of engines and of the gate, and optimises the digits model. What a Python, a
package or an index lacks is reported as not tried.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHONS = ("python3.11", "python3.12", "python3.13", "python3.14")
KINDS = ("oldest", "newest")
TESTS = (
    *("tests/runtime/test_ort.py", "tests/runtime/test_ort_session.py"),
    *("tests/runtime/test_reference.py", "tests/pipeline/test_gate.py"),
    "tests/bench/runs/test_compare.py",
)
HELD = ("onnx>", "onnx-ir>", "onnxruntime>", "onnxscript>")
"""What is taken at its oldest. The rest follows from what these need, and has wheels."""
MORE = ("pytest", "pytest-timeout", "z3-solver")
TOLD = ("onnx", "onnx-ir", "onnxruntime", "onnxscript", "numpy", "ml_dtypes", "pydantic")
SECONDS = 900.0
_INSTALL = ("-m", "pip", "install", "-q", "--disable-pip-version-check")


@dataclass(frozen=True)
class Row:
    """What became of one environment.

    Attributes:
        python: Version of Python.
        kind: "oldest" or "newest".
        versions: Versions that were installed, by package.
        tests: What the tests ended with.
        demo: What optimising the digits model ended with.
        failed: Names of tests that failed.
    """

    python: str
    kind: str
    versions: dict[str, str]
    tests: str
    demo: str
    failed: tuple[str, ...] = ()


def oldest() -> list[str]:
    """Return the dependencies, those of ``HELD`` at the least version that is admitted."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return [
        re.sub(r">=([\d.]+)", _at_least, one) if one.startswith(HELD) else one
        for one in project["dependencies"]
    ]


def _at_least(found: re.Match[str]) -> str:
    # 1.19 is any 1.19.x: what a first release broke, the next ones mended.
    return f"=={found[1]}.*" if found[1].count(".") < 2 else f"=={found[1]}"


def newest() -> list[str]:
    """Return the dependencies without upper bounds."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return list(project["dependencies"])


def environment(python: str, kind: str, folder: Path) -> tuple[Path | None, str]:
    """Make an environment; return its Python, or why there is none."""
    place = folder / f"{Path(python).name}-{kind}"
    own = place / "bin" / "python"
    wanted = oldest() if kind == "oldest" else newest()
    commands = (
        [python, "-m", "venv", str(place)],
        [str(own), *_INSTALL, "--only-binary", ":all:", *wanted, *MORE],
    )
    for command in commands:
        done = _run(command)
        if done.returncode:
            return None, _last(done)
    return own, ""


def try_one(python: str, kind: str, folder: Path) -> Row:
    """Try one Python with the oldest or the newest packages."""
    number = _version(python)
    own, why = environment(python, kind, folder)
    if own is None:
        return Row(number, kind, {}, f"not tried: {why}", "-")
    told = _run([str(own), "-m", "pip", "list", "--format=json"])
    installed = {one["name"].lower(): one["version"] for one in json.loads(told.stdout)}
    versions = {name: installed.get(name, "?") for name in TOLD}
    done = _run([str(own), "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS])
    failed = tuple(re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE))
    words = [str(own), "-m", "onnx_passes", "-c", "optimize", "-o", str(folder / "out.onnx")]
    demo = _run([*words, str(ROOT / "examples" / "digits" / "model.onnx")])
    verdict = re.search(
        r"\b(VERIFIED|UNCHANGED|FAILED|NOT VERIFIED)\b", demo.stdout + demo.stderr
    )
    said = verdict[0] if verdict and not demo.returncode else _last(demo)
    return Row(number, kind, versions, _last(done), said, failed)


def tables(words: list[str]) -> list[str]:
    """Return the lines of the report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks versions")
    parser.add_argument(
        "--python", action="append", help="Python to try; by default all found"
    )
    parser.add_argument("--only", choices=KINDS)
    parser.add_argument("--folder", type=Path, help="where environments go, and stay")
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory(prefix="onnx-passes-versions-") as scratch:
        folder = given.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        rows = [
            try_one(found, kind, folder)
            for python in given.python or PYTHONS
            if (found := shutil.which(python)) is not None
            for kind in ((given.only,) if given.only else KINDS)
        ]
    missing = [p for p in given.python or PYTHONS if shutil.which(p) is None]
    return [*_table(rows), "", *(f"- not tried: {name} is not here" for name in missing)]


def _table(rows: Sequence[Row]) -> Iterator[str]:
    yield f"| Python | packages | {' | '.join(TOLD)} | tests | digits |"
    yield "|" + "---|" * (4 + len(TOLD))
    for row in rows:
        cells = " | ".join(row.versions.get(name, "-") for name in TOLD)
        yield f"| {row.python} | {row.kind} | {cells} | {row.tests} | {row.demo} |"
    for row in rows:
        yield from (f"- {row.python}, {row.kind}: {name} fails" for name in row.failed)


def _version(python: str) -> str:
    return _run(
        [python, "-c", "import platform; print(platform.python_version())"]
    ).stdout.strip()


def _last(done: subprocess.CompletedProcess[str]) -> str:
    lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    return (lines[-1] if lines else f"exit code {done.returncode}").strip("= ")[:120]


def _run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    try:
        return subprocess.run(
            command, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", f"it did not end in {SECONDS:g} s")
