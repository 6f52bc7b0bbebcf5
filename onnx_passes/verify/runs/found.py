"""What was found by running models side by side. Plain data but for the values kept."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from onnx_passes.plain import PlainDict
from onnx_passes.runtime.engine_base import Level
from onnx_passes.verify.result import OutputCheck
from onnx_passes.verify.runs.spool import RecordedValues
from onnx_passes.verify.runs.timed import Latency, Timing

SAVED = "saved"
FAILED = "failed"
_TOLD = (
    *("name", "model", "engine", "details", "state", "reason"),
    *("names", "types", "batches", "model_hash", "makers"),
)


@dataclass
class Run:
    """One model on one engine, or results that were saved.

    Attributes:
        name: What it is called.
        model: Name of the model's file.
        engine: Name of the engine.
        details: What the engine says of itself: version, options.
        state: How far it got: "executed", "saved" by an earlier run, "failed" on the way, or
            a level of an engine that executes nothing ("built", "parsed", "rejected",
            "absent"). Only executed and saved runs are compared.
        reason: Why it was not executed.
        names: The values that it gave, in topological order.
        types: Their types, as text, where known: "float32[batch,10]".
        latency: Of runs of the model as it is; None where values inside were kept.
        batches: In how many parts its values were computed.
        model_hash: Hash of what the model computes; empty where nobody asked.
        makers: The node of each value, as text: operator and name.
        inputs: Digests of the inputs of saved results.
        values: What it gave, by sample, where that is kept.
    """

    name: str
    model: str
    engine: str
    details: dict[str, str | int | float | bool] = field(default_factory=dict)
    state: str = str(Level.EXECUTED)
    reason: str = ""
    names: list[str] = field(default_factory=list)
    types: dict[str, str] = field(default_factory=dict)
    latency: Latency | None = None
    batches: int = 1
    model_hash: str = ""
    makers: dict[str, str] = field(default_factory=dict)
    inputs: list[str] = field(default_factory=list)
    values: RecordedValues | None = None

    @property
    def compared(self) -> bool:
        """Whether it has values to compare."""
        return self.state in (Level.EXECUTED, SAVED)

    def as_dict(self) -> PlainDict:
        """Return all but the values, as plain data."""
        told = {name: getattr(self, name) for name in _TOLD}
        told["latency"] = None if self.latency is None else asdict(self.latency)
        return told


@dataclass(frozen=True)
class FirstDifference:
    """The first value, in topological order, that differs.

    Attributes:
        check: Its comparison, of the first sample in which it differs.
        sample: That sample.
        node: The node that computes it: operator, name and inputs; None where unknown.
    """

    check: OutputCheck
    sample: int
    node: str | None


@dataclass
class Pair:
    """A run held against the reference.

    Attributes:
        reference: Name of the one that is held to be right.
        candidate: Name of the other.
        judge: By what they were compared.
        outputs: Per value, the worst sample's comparison.
        samples: Number of samples compared.
        first: The first value that differs.
        only_reference: Values that only the reference has, and need not be in both.
        only_candidate: Values that only the candidate has.
        stopped: Whether the rest was left out after the first difference.
    """

    reference: str
    candidate: str
    judge: str
    outputs: list[OutputCheck] = field(default_factory=list)
    samples: int = 0
    first: FirstDifference | None = None
    only_reference: list[str] = field(default_factory=list)
    only_candidate: list[str] = field(default_factory=list)
    stopped: bool = False

    @property
    def passed(self) -> bool:
        """Whether something was compared, and all of it agreed."""
        return bool(self.outputs) and all(check.passed for check in self.outputs)


@dataclass(frozen=True)
class Invalid:
    """NaN or infinities in a value.

    Attributes:
        run: Name of the run.
        output: Name of the value.
        sample: The first sample that has any.
        nan: Number of NaN in it.
        inf: Number of infinities in it.
        first: Index of the first of them.
    """

    run: str
    output: str
    sample: int
    nan: int
    inf: int
    first: tuple[int, ...]


@dataclass
class Found:
    """Everything that a comparison found.

    Attributes:
        runs: Every model on every engine, the reference first.
        pairs: The others, each against the reference.
        invalid: NaN and infinities, where they were looked for.
        samples: Number of samples.
        inputs: Digest of each sample's inputs, where results are saved or were.
        notes: What a reader has to know, a sentence each.
        timings: Times of runs and layers, where somebody asked for them.
    """

    runs: list[Run] = field(default_factory=list)
    pairs: list[Pair] = field(default_factory=list)
    invalid: list[Invalid] = field(default_factory=list)
    samples: int = 0
    inputs: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    timings: list[Timing] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether every run was executed, and each pair agrees."""
        return self.exit_code == 0 and bool(self.pairs)

    @property
    def exit_code(self) -> int:
        """1 if values differ or are not finite, 3 if a run is missing, else 0."""
        if self.invalid or not all(pair.passed for pair in self.pairs):
            return 1
        return 0 if all(run.compared for run in self.runs) else 3
