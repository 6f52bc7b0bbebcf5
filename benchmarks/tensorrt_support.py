"""Which of onnx's operator models NVIDIA's compiler parses and builds, and a GPU executes.

    python -m benchmarks.tensorrt_support [JOBS] > docs/maintainers/tensorrt-support.md

Needs the extra ``tensorrt-rtx``. Each model is built with profiles from its own test data, in
a child process with a time limit. Beside a GPU each is built for it, executed on that data,
and compared with what it expects; without one nothing is executed.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

import onnx

from onnx_passes.contracts import Tolerance
from onnx_passes.errors import OnnxPassesError
from onnx_passes.model.load import deserialize
from onnx_passes.model.walk import operator_histogram
from onnx_passes.runtime.engine_base import Finding, Level, examine
from onnx_passes.runtime.engines import engine_from_config
from onnx_passes.runtime.tensorrt.bindings import installed_version
from onnx_passes.runtime.tensorrt.cuda import device, gpu_missing
from onnx_passes.runtime.tensorrt.engine import with_profiles_of
from onnx_passes.verify.judge import compare
from tests.corpus.backend_models import BackendModel, ids, load

CAPABILITY = "8.9"
SECONDS = 60.0
SETS = ("node", "simple", "pytorch-converted", "pytorch-operator")
LONGEST = 70


@dataclass(frozen=True)
class Outcome:
    """What became of one model.

    Attributes:
        name: The model.
        kind: The set of models that it is from.
        operators: Its operators.
        static: Whether the shapes of all its inputs are fixed.
        reached: How far it got; None where it cannot be loaded.
        reason: Why not further.
        differs: Whether it was executed, and gave other numbers than its data expects.
    """

    name: str
    kind: str
    operators: tuple[str, ...]
    static: bool
    reached: Level | None
    reason: str
    differs: bool = False

    @property
    def level(self) -> str:
        if self.differs:
            return "differs"
        return "not loaded" if self.reached is None else str(self.reached)


def outcome(identity: str) -> Outcome:
    """Return what becomes of the model of an id of ``tests.corpus.backend_models``."""
    executes = gpu_missing() is None
    options: dict[str, object] = {"time_limit": SECONDS}
    if not executes:
        options["compute_capabilities"] = [CAPABILITY]
    engine = engine_from_config("tensorrt-rtx", options)
    kind, _, name = identity.partition("/")
    case = load(identity)
    try:
        model = deserialize(case.model)
    except OnnxPassesError as error:
        return Outcome(name, kind, (), True, None, error.message)
    static = all(v.shape is not None and v.shape.is_static() for v in model.graph.inputs)
    operators = tuple(operator_histogram(model))
    feeds = [feeds for feeds, _ in case.samples]
    try:
        ready = with_profiles_of(engine, model, feeds)
        found = examine(ready, model, feeds if executes else ())
    except OnnxPassesError as error:
        found = Finding(Level.PARSED, error.message)
    wrong = _wrong(case, found)
    reason = wrong or found.reason
    return Outcome(name, kind, operators, static, found.level, reason, bool(wrong))


def _wrong(case: BackendModel, found: Finding) -> str:
    limit = Tolerance(max(case.rtol, 1e-3), max(case.atol, 1e-4))
    for (_, expected), outputs in zip(case.samples, found.outputs, strict=False):
        for check in compare(expected, outputs, limit):
            if not check.passed:
                return f"{check.output}: {check.reason}"
    return ""


def page(found: list[Outcome]) -> Iterator[str]:
    """Yield the lines of the page."""
    version = installed_version("tensorrt-rtx")
    yield "# What TensorRT for RTX parses and builds"
    yield ""
    here = device()
    where = f"for compute capability {CAPABILITY}, without a GPU"
    if here is not None:
        where = f"on {here.name} (compute capability {here.capability}, CUDA {here.driver})"
    told = "Nothing was executed: "
    if here is not None:
        told = "Those *executed* gave the numbers that their data expects, others *differ*; "
    yield (
        f"Made by `python -m benchmarks.tensorrt_support`: tensorrt-rtx {version}, onnx "
        f"{onnx.__version__}, {where}. {told}"
        "*built* says that NVIDIA's compiler took the model, not that its numbers are right."
    )
    yield ""
    levels = ("built", "parsed", "rejected", "not loaded")
    if here is not None:
        levels = ("executed", "differs", *levels)
    yield f"| models | all | {' | '.join(levels)} |"
    yield f"|---|---|{'---|' * len(levels)}"
    groups = {kind: [o for o in found if o.kind == kind] for kind in SETS}
    groups["all"] = found
    groups["of these static"] = [o for o in found if o.static]
    for name, chosen in groups.items():
        count = Counter(o.level for o in chosen)
        yield f"| {name} | {len(chosen)} | " + " | ".join(str(count[x]) for x in levels) + " |"
    yield ""
    broken = [o for o in found if "crashed" in o.reason or "did not end" in o.reason]
    yield f"Crashes and hangs of the compiler: {len(broken)}."
    yield from (f"- {o.name}: {o.reason[:LONGEST]}" for o in broken)
    yield ""
    yield "## By operator"
    yield ""
    yield "Models of one operator only. The reason is that of the first that got less far."
    yield ""
    yield "| models | reason | operators |\n|---|---|---|"
    rows: dict[tuple[str, str], list[str]] = defaultdict(list)
    for operator in sorted({o.operators[0] for o in found if len(o.operators) == 1}):
        chosen = [o for o in found if o.operators == (operator,)]
        count = Counter(o.level for o in chosen)
        reason = next((o.reason for o in chosen if o.level != levels[0]), "")
        mixed = ", ".join(f"{count[level]} {level}" for level in levels if count[level])
        reached = mixed if len(count) > 1 else chosen[0].level
        rows[reached, _short(reason)].append(operator)
    for (reached, reason), names in rows.items():
        yield f"| {reached} | {reason} | {', '.join(names)} |"


def _short(reason: str) -> str:
    _, mark, rest = reason.partition("): ")
    text = (rest if mark and reason.startswith("node ") else reason).replace("|", "\\|")
    text = text.removeprefix("Assertion failed: ")
    text = " ".join(text.split())
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def main() -> None:
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    wanted = [identity for kind in SETS for identity in ids(kind)]
    found = []
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        for number, one in enumerate(pool.map(outcome, wanted), 1):
            found.append(one)
            if number % 100 == 0:
                print(f"{number} models", file=sys.stderr)
    print("\n".join(page(found)))


if __name__ == "__main__":
    main()
