"""Reducing models with planted faults, beside Polygraphy's bisect and then linear mode.

Polygraphy is installed in an environment of its own, in the folder that the variable
``POLYGRAPHY_ENV`` names, or in one of the system's folder for temporary files.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
import venv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort

from benchmarks.models.builder import FLOAT, GraphBuilder
from onnx_passes.verify.saved import write_samples

PACKAGES = ("polygraphy==0.53.6", "onnx-graphsurgeon", "onnx", "onnxruntime", "numpy")
SIZES = (40, 600, 5000)
WIDTH = 16
BAR = 10
CHECK = """\
import sys, onnx

def fails(path):
    made, found = {}, False
    for node in onnx.load(path).graph.node:
        found |= node.op_type == "Elu" and any(made.get(i) == "Softsign" for i in node.input)
        made.update(dict.fromkeys(node.output, node.op_type))
    return found

if __name__ == "__main__":
    sys.exit(fails(sys.argv[1]))
"""


def faulty(nodes: int, *, pair: bool, wrong: float = 1.0) -> onnx.ModelProto:
    """Build residual blocks of two branches, ten nodes each, with something to be found.

    Args:
        nodes: Number of nodes, a multiple of ten.
        pair: Whether a Softsign is followed by an Elu, in a side branch of one block.
        wrong: Factor on one weight of a block, in its side branch.
    """
    b = GraphBuilder(0)
    x, blocks = "x", nodes // 10
    planted = blocks * 3 // 5
    for number in range(blocks):
        here = number == planted
        scale = b.normal(f"scale{number}", WIDTH, mean=1.0, std=0.1)
        shift = b.normal(f"shift{number}", WIDTH, std=0.1)
        gain = np.full(WIDTH, wrong if here else 1.0, np.float32)
        main = b.node("Add", b.node("Mul", x, scale), shift)
        main = b.node("Tanh", main)
        side = b.node("Softsign" if pair and here else "Abs", x)
        side = b.node("Elu" if pair and here else "Sigmoid", side)
        side = b.node("Mul", side, b.initializer(f"gain{number}", gain))
        main = b.node("Sub", main, side)
        main = b.node("Tanh", main)
        main = b.node("Add", main, x)
        x = b.node("Tanh", main, output="y" if number == blocks - 1 else None)
    shape = (1, WIDTH)
    return b.model("faulty", [("x", FLOAT, shape)], [("y", FLOAT, shape)], 17)


@dataclass(frozen=True)
class Reduced:
    """What a tool made of a model: nodes left, wall time, and number of checks."""

    nodes: int
    seconds: float
    checks: int


class Bench:
    """The tools on planted faults, in a folder."""

    def __init__(self, folder: Path, polygraphy: Path) -> None:
        self.folder, self.polygraphy = folder, polygraphy

    def pair(self, nodes: int) -> str:
        """Reduce a model that holds two operators one behind the other."""
        onnx.save(faulty(nodes, pair=True), self.folder / "model.onnx")
        (self.folder / "check.py").write_text(CHECK)
        command = (sys.executable, "check.py")
        theirs = self._polygraphy(*command, "polygraphy_debug.onnx")
        ours = self._own("--check", shlex.join(command) + " {model}")
        called = self._own("--check-function", "check:fails")
        return _row("a connected pair of nodes", nodes, theirs, ours, called)

    def numeric(self, nodes: int) -> str:
        """Reduce a model of which one weight is off by 1 %, against golden values."""
        right, wrong = faulty(nodes, pair=False), faulty(nodes, pair=False, wrong=1.01)
        onnx.save(wrong, self.folder / "model.onnx")
        feeds = {"x": np.random.default_rng(0).standard_normal((1, WIDTH), np.float32)}
        golden = _layers(right, feeds)
        write_samples(self.folder / "golden.json", [golden], kind="results")
        write_samples(self.folder / "layers.json", [feeds | golden])
        data = "--load-inputs layers.json --load-outputs golden.json --atol 1e-4 --rtol 1e-4"
        run, rest = [str(self.polygraphy), "run"], ["--onnxrt", *data.split()]
        theirs = self._polygraphy(*run, "polygraphy_debug.onnx", *rest, data="layers.json")
        command = shlex.join([*run, "{model}", *rest])
        same = self._own("--check", command, "--load-inputs", "layers.json")
        own = self._own(
            *("--engine", "onnxruntime", "--against", "golden", "--rtol", "1e-4"),
            *("--atol", "1e-4", "--load-inputs", "layers.json"),
        )
        return _row("a weight 1 % off, by values", nodes, theirs, same, own)

    def _polygraphy(self, *check: str, data: str | None = None) -> Reduced:
        given = ["--load-inputs", data] if data else []
        start, checks = time.perf_counter(), 0
        for mode, source, target in (
            ("bisect", "model.onnx", "first.onnx"),
            ("linear", "first.onnx", "small.onnx"),
        ):
            words = ["debug", "reduce", source, "-o", target, f"--mode={mode}", *given]
            told = self._run([str(self.polygraphy), *words, "--check", *check])
            checks += told.count("RUNNING | Iteration")
        return self._reduced(time.perf_counter() - start, checks)

    def _own(self, *words: str) -> Reduced:
        start = time.perf_counter()
        told = self._run(
            [
                *(sys.executable, "-m", "onnx_passes", "reduce", "model.onnx"),
                *("-o", "small.onnx", "--no-shrink", "--json", "-q", *words),
            ]
        )
        return self._reduced(time.perf_counter() - start, json.loads(told)["checks"])

    def _reduced(self, seconds: float, checks: int) -> Reduced:
        small = self.folder / "small.onnx"
        nodes = len(onnx.load(small).graph.node)
        small.unlink()
        return Reduced(nodes, seconds, checks)

    def _run(self, words: list[str]) -> str:
        done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(
                f"{shlex.join(words)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
            )
        return done.stdout


def environment() -> Path:
    """Return the program ``polygraphy``, installed if it is not there yet."""
    place = os.environ.get("POLYGRAPHY_ENV")
    folder = Path(place) if place else Path(tempfile.gettempdir()) / "polygraphy-0.53.6"
    program = folder / "bin" / "polygraphy"
    if not program.exists():
        venv.create(folder, with_pip=True)
        install = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q", *PACKAGES]
        subprocess.run(install, check=True)
    return program


def _layers(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    every = onnx.ModelProto()
    every.CopyFrom(model)
    del every.graph.output[:]
    names = [name for node in model.graph.node for name in node.output]
    every.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    session = ort.InferenceSession(every.SerializeToString())
    return dict(zip(names, session.run(names, feeds), strict=True))


def _row(fault: str, nodes: int, theirs: Reduced, same: Reduced, own: Reduced) -> str:
    def cells(one: Reduced) -> list[str]:
        ratio = theirs.seconds / one.seconds
        return [f"{one.nodes}", f"{one.checks}", f"{one.seconds:.1f}", f"{ratio:.1f}"]

    first = [f"{theirs.nodes}", f"{theirs.checks}", f"{theirs.seconds:.1f}"]
    return " | ".join([f"| {fault}", str(nodes), *first, *cells(same), *cells(own)]) + " |"


def tables() -> list[str]:
    """Return the table."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), environment())
        for size in SIZES:
            rows += [bench.pair(size), bench.numeric(size)]
    return [
        f"## Reducing a model that fails (single runs; the bar is {BAR} times faster)",
        "",
        "| fault | nodes | Polygraphy, bisect + linear: nodes left | checks | s "
        "| onnx-passes, the same command: nodes left | checks | s | ratio "
        "| onnx-passes, its own check: nodes left | checks | s | ratio |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
        *rows,
    ]
