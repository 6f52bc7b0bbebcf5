"""Reducing models with planted faults, beside Polygraphy's bisect and then linear mode.

Polygraphy is installed in an environment of its own, in the folder that the variable
``POLYGRAPHY_ENV`` names, or in one of the system's folder for temporary files.
"""

from __future__ import annotations

import json
import os
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import time
import venv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort

from benchmarks.models.builder import FLOAT, GraphBuilder
from onnx_passes.verify.saved import write_samples

PACKAGES = ("polygraphy==0.53.6", "onnx-graphsurgeon", "onnx", "onnxruntime", "numpy")
SIZES = (40, 600, 5000)
WIDTH = 16
BAR = 10
LIMIT = 120.0
"""Seconds after which a reduction is given up, and counts as having taken that long."""
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

APART = """\
import sys, onnx

def fails(path):
    return {"Softsign", "Elu"} <= {node.op_type for node in onnx.load(path).graph.node}

if __name__ == "__main__":
    sys.exit(fails(sys.argv[1]))
"""

HEAVY = """\
import sys, onnx
from onnx import numpy_helper

def fails(path):
    weights = onnx.load(path).graph.initializer
    gains = [numpy_helper.to_array(w) for w in weights if w.name.startswith("gain")]
    return any(gain.max() > 1.05 for gain in gains)

if __name__ == "__main__":
    sys.exit(fails(sys.argv[1]))
"""
# By name: what holds the fault, its check, and how the model is made.
FAULTS: dict[str, tuple[str, dict[str, Any]]] = {
    "a connected pair of nodes": (CHECK, {"apart": False}),
    "two nodes far apart": (APART, {"apart": True}),
    "a weight that only the check tells": (HEAVY, {"wrong": 1.1}),
}


def faulty(nodes: int, *, apart: bool | None = None, wrong: float = 1.0) -> onnx.ModelProto:
    """Build residual blocks of two branches, ten nodes each, with something to be found.

    Args:
        nodes: Number of nodes, a multiple of ten.
        apart: Whether a Softsign and an Elu are in blocks that are far apart, or one behind
            the other in a side branch of one block; None for none.
        wrong: Factor on one weight of a block, in its side branch.
    """
    b = GraphBuilder(0)
    x, blocks = "x", nodes // 10
    # Tanh after Tanh takes an error away: one has to be in the last block to be seen.
    planted = blocks * 3 // 5 if wrong == 1 else blocks - 1
    for number in range(blocks):
        here = number == planted
        scale = b.normal(f"scale{number}", WIDTH, mean=1.0, std=0.1)
        shift = b.normal(f"shift{number}", WIDTH, std=0.1)
        gain = np.full(WIDTH, wrong if here else 1.0, np.float32)
        main = b.node("Add", b.node("Mul", x, scale), shift)
        main = b.node("Tanh", main)
        first = here if apart is False else apart and number == blocks // 5
        side = b.node("Softsign" if first else "Abs", x)
        side = b.node("Elu" if apart is not None and here else "Sigmoid", side)
        side = b.node("Mul", side, b.initializer(f"gain{number}", gain))
        main = b.node("Sub", main, side)
        main = b.node("Tanh", main)
        main = b.node("Add", main, x)
        x = b.node("Tanh", main, output="y" if number == blocks - 1 else None)
    shape = (1, WIDTH)
    return b.model("faulty", [("x", FLOAT, shape)], [("y", FLOAT, shape)], 17)


@dataclass(frozen=True)
class Reduced:
    """What a tool made of a model: nodes left, time, number of checks; or no result."""

    nodes: int
    seconds: float
    cpu: float
    checks: int
    ended: bool = True


class Bench:
    """The tools on planted faults, in a folder."""

    def __init__(self, folder: Path, polygraphy: Path) -> None:
        self.folder, self.polygraphy = folder, polygraphy

    def scripted(self, fault: str, nodes: int) -> str:
        """Reduce a model that a script finds a fault in."""
        script, given = FAULTS[fault]
        onnx.save(faulty(nodes, **given), self.folder / "model.onnx")
        (self.folder / "check.py").write_text(script)
        command = (sys.executable, "check.py")
        theirs = self._polygraphy(*command, "polygraphy_debug.onnx")
        ours = self._own("-j", "2", "--check", shlex.join(command) + " {model}")
        warm = self._own("-j", "2", "--warm", "--check", shlex.join(command) + " {model}")
        called = self._own("--check-function", "check:fails")
        return _row(fault, nodes, theirs, ours, warm, called)

    def numeric(self, nodes: int) -> str:
        """Reduce a model with one weight that is off by 10 %, against golden values."""
        right, wrong = faulty(nodes), faulty(nodes, wrong=1.1)
        onnx.save(wrong, self.folder / "model.onnx")
        feeds = {"x": np.random.default_rng(0).standard_normal((1, WIDTH), np.float32)}
        golden = _layers(right, feeds)
        write_samples(self.folder / "golden.json", [golden], kind="results")
        write_samples(self.folder / "layers.json", [feeds | golden])
        data = "--load-inputs layers.json --load-outputs golden.json --atol 1e-4 --rtol 1e-4"
        run, rest = [str(self.polygraphy), "run"], ["--onnxrt", *data.split()]
        theirs = self._polygraphy(*run, "polygraphy_debug.onnx", *rest, data="layers.json")
        command = shlex.join([*run, "{model}", *rest])
        given = ("-j", "2", "--load-inputs", "layers.json")
        same = self._own(*given, "--check", command)
        warm = self._own(*given, "--warm", "--check", command)
        own = self._own(
            *("--engine", "onnxruntime", "--against", "golden", "--rtol", "1e-4"),
            *("--atol", "1e-4", "--load-inputs", "layers.json"),
        )
        return _row("a weight 10 % off, by values", nodes, theirs, same, warm, own)

    def _polygraphy(self, *check: str, data: str | None = None) -> Reduced:
        given = ["--load-inputs", data] if data else []
        start, cpu, checks = time.perf_counter(), _cpu(), 0
        log = self.folder / "polygraphy.log"
        for mode, source, target in (
            ("bisect", "model.onnx", "first.onnx"),
            ("linear", "first.onnx", "small.onnx"),
        ):
            words = ["debug", "reduce", source, "-o", target, f"--mode={mode}", *given]
            command = [str(self.polygraphy), *words, "--check", *check]
            left = start + LIMIT - time.perf_counter()
            ended = self._logged(command, log, left)
            checks += log.read_text(errors="replace").count("RUNNING | Iteration")
            if not ended:
                nodes = len(onnx.load(self.folder / source).graph.node)
                return Reduced(nodes, LIMIT, _cpu() - cpu, checks, ended=False)
        return self._reduced(time.perf_counter() - start, _cpu() - cpu, checks)

    def _logged(self, words: list[str], log: Path, seconds: float) -> bool:
        """Run a command with its children for a while; return whether it has ended."""
        with log.open("wb") as stream:
            process = subprocess.Popen(
                words, cwd=self.folder, stdout=stream, stderr=stream, start_new_session=True
            )
            try:
                code = process.wait(max(1.0, seconds))
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                # It would refuse to write over what it has left.
                (self.folder / "polygraphy_debug.onnx").unlink(missing_ok=True)
                return False
        if code:
            raise SystemExit(f"{shlex.join(words)}\n{log.read_text(errors='replace')[-3000:]}")
        return True

    def _own(self, *words: str) -> Reduced:
        start, cpu = time.perf_counter(), _cpu()
        told = self._run(
            [
                *(sys.executable, "-m", "onnx_passes", "reduce", "model.onnx"),
                *("-o", "small.onnx", "--no-shrink", "--json", "-q", *words),
            ]
        )
        seconds, cpu = time.perf_counter() - start, _cpu() - cpu
        return self._reduced(seconds, cpu, json.loads(told)["checks"])

    def _reduced(self, seconds: float, cpu: float, checks: int) -> Reduced:
        small = self.folder / "small.onnx"
        nodes = len(onnx.load(small).graph.node)
        small.unlink()
        return Reduced(nodes, seconds, cpu, checks)

    def _run(self, words: list[str]) -> str:
        done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(
                f"{shlex.join(words)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
            )
        return done.stdout


def _cpu() -> float:
    """Return the processor time of all that was run so far and has ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


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


def _row(fault: str, nodes: int, theirs: Reduced, *ours: Reduced) -> str:
    def cells(one: Reduced) -> list[str]:
        ratio = f"{more}{theirs.seconds / one.seconds:.1f} ({theirs.cpu / one.cpu:.1f})"
        return [f"{one.nodes}", f"{one.checks}", f"{one.seconds:.1f} ({one.cpu:.1f})", ratio]

    more = "" if theirs.ended else "> "
    left = f"{theirs.nodes}" if theirs.ended else f"({theirs.nodes})"
    first = [left, f"{theirs.checks}", f"{more}{theirs.seconds:.1f} ({theirs.cpu:.1f})"]
    rest = [cell for one in ours for cell in cells(one)]
    return " | ".join([f"| {fault}", str(nodes), *first, *rest]) + " |"


def tables() -> list[str]:
    """Return the table."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder), environment())
        for size in SIZES:
            rows += [*(bench.scripted(fault, size) for fault in FAULTS), bench.numeric(size)]
    return [
        f"## Reducing a model that fails (single runs; the bar is {BAR} times faster)",
        "",
        "A pair is two operators that occur nowhere else, one behind the other in a side "
        "branch, or far apart; a weight that only the check tells is off by 10 %, in a node "
        "like all others. The check is a Python script that reads the model with onnx; our "
        "own check is its function, called. A weight off by values is found by `polygraphy "
        "run` against golden values of all layers, and by `--engine onnxruntime --against "
        "golden`. Times are of whole processes, those of processors and their ratio in "
        "brackets; commands of ours run two at a time. Polygraphy was stopped if it had not "
        "ended after "
        f"{LIMIT:g} s: the nodes that it had left are in brackets then.",
        "",
        "| fault | nodes | Polygraphy, bisect + linear: nodes left | checks | s "
        "| onnx-passes, the same command: nodes left | checks | s | ratio "
        "| the same, `--warm`: nodes left | checks | s | ratio "
        "| onnx-passes, its own check: nodes left | checks | s | ratio |",
        "|---" * 17 + "|",
        *rows,
    ]
