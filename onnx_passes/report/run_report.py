"""What happened in a run and in each of its passes: dataclasses that writers read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from onnx_passes.contracts import READS_ONLY
from onnx_passes.report.text import plural
from onnx_passes.verify.evidence import Check, EngineSpread, Evidence, OutputCheck, Verdict


@dataclass
class RewriteSummary:
    """One application of a rewrite rule.

    Attributes:
        number: Its number in the whole pipeline, from 1.
        rule: Name of the rule.
        nodes: The nodes matched, as text.
        replaced: Pairs of value names, old and new.
        new_nodes: The nodes put in their place, as text.
    """

    number: int
    rule: str
    nodes: list[str]
    replaced: list[tuple[str, str]]
    new_nodes: list[str]


LOSES = "the layer that loses the most"
"""How a layer was found, where all of them may lose something."""


@dataclass
class Blame:
    """What a failure was traced to: one rewrite, or the first nodes that differ.

    Attributes:
        step: Number of its pass in the run, from 1; None where no single pass is to blame.
        name: Pipeline name of that pass.
        how: How it was found: "by its own error", "by bisection", ...
        number: Number of the rewrite in the whole pipeline; None if it is not a rewrite.
        rule: Name of the rule; None where it is not a rewrite.
        nodes: The nodes before, as text.
        new_nodes: The nodes after, as text.
        value: The value in which the two differ; None where none was measured.
        sample: The reference sample on which that was measured.
    """

    step: int | None
    name: str
    how: str
    number: int | None = None
    rule: str | None = None
    nodes: list[str] = field(default_factory=list)
    new_nodes: list[str] = field(default_factory=list)
    value: OutputCheck | None = None
    sample: int | None = None


@dataclass
class PaysReport:
    """What a rewrite that does not always pay costs, and what the nodes that it replaced did.

    Attributes:
        rules: Names of its rules, or of the pass.
        keys: Keys of the rewrites measured together: rule and values replaced.
        objective: "nodes", "time" or "size".
        unit: "nodes", "s" or "bytes".
        without: The cost without the rewrites.
        with_it: The cost with them.
        scope: What was measured: "region", or the whole "model".
        kept: Whether they cost less, so that they were kept.
        engine: The engine that ran both; None where none did.
        noise: How far two measurements of the same were apart; None where nothing was run.
    """

    rules: str
    keys: list[str]
    objective: str
    unit: str
    without: float
    with_it: float
    scope: str
    kept: bool
    engine: str | None = None
    noise: float | None = None


@dataclass
class PassReport:
    """One pass of the pipeline.

    Attributes:
        index: Number of the pass in the run, from 1.
        name: Pipeline name, with options as text: ``fold-constants{size_limit=1MiB}``.
        contract: What it promises, as text; "reads only" for an analysis.
        verdict: The outcome.
        action: "kept", "rolled back", "warned", "waived" or "stopped".
        changed: Whether the model differs from before, measured by comparing.
        claimed: What the pass itself said (``PassResult.modified``).
        nodes_before: Number of nodes before.
        nodes_after: Number of nodes after.
        bytes_before: Size of the weights before, in bytes.
        bytes_after: Size of the weights after, in bytes.
        rewrites: Every rewrite applied, in order.
        checks: Every check made.
        evidence: What vouches for each application, one entry for each connected part.
        pass_seconds: Wall time of the pass.
        verify_seconds: Wall time of its checks.
        notes: Things a user should know, a sentence each.
        error: The error that the pass or its check ended with, as text.
        group: Path of the groups it ran in (``cleanup#2`` is its second round).
        culprits: Numbers of the rewrites that a failure was traced to.
        reproducer: Folder of the reproducer that a failure left.
        blame: What a failure was traced to, with the value that went wrong, the worst first.
        budget_spent: Share of the error budget used up after this pass, 1 being all of it.
        pays: What rewrites that do not always pay cost, where the run has an objective.
    """

    index: int
    name: str
    contract: str
    verdict: Verdict = Verdict.UNCHANGED
    action: str = "kept"
    changed: bool = False
    claimed: bool = False
    nodes_before: int = 0
    nodes_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    rewrites: list[RewriteSummary] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)
    evidence: list[Evidence] = field(default_factory=list)
    pass_seconds: float = 0.0
    verify_seconds: float = 0.0
    notes: list[str] = field(default_factory=list)
    error: str | None = None
    group: str = ""
    culprits: list[int] = field(default_factory=list)
    reproducer: str | None = None
    blame: list[Blame] = field(default_factory=list)
    budget_spent: float | None = None
    pays: list[PaysReport] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Wall time of the pass and of its checks."""
        return self.pass_seconds + self.verify_seconds

    @property
    def findings(self) -> list[str]:
        """What an analysis found, a sentence each; empty for passes that may change models."""
        return self.notes if self.contract == READS_ONLY else []

    @property
    def max_abs(self) -> float | None:
        """Largest absolute error that any of its checks saw."""
        errors = [c.max_abs for c in self.checks if c.max_abs is not None]
        return max(errors, default=None)


SCHEMA_VERSION = 1


@dataclass
class ModelSummary:
    """A model in numbers.

    Attributes:
        nodes: Number of nodes, those in subgraphs and functions included.
        operators: Number of nodes by operator ("domain::Type", the default domain without).
        initializers: Number of initializers.
        weight_bytes: Their size in bytes.
        opsets: Version by domain.
        hash: Canonical hash. It takes as long as many passes do: where a run does not need
            it, it is computed when it is first asked for.
        file_bytes: Size of its file, with that of external data; None if there is no file.
    """

    nodes: int
    operators: dict[str, int]
    initializers: int
    weight_bytes: int
    opsets: dict[str, int]
    hash: str
    file_bytes: int | None = None

    def put_off_hash(self, compute: Callable[[], str]) -> None:
        """Replace the hash by one that is computed when it is first asked for.

        Args:
            compute: Returns it; the model must not change until then.
        """
        vars(self).pop("hash")
        vars(self)["_compute"] = compute

    def __getattr__(self, name: str) -> Any:
        """Compute the hash, once."""
        if name != "hash" or "_compute" not in vars(self):
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
        self.hash = vars(self).pop("_compute")()
        return self.hash


@dataclass
class EngineReport:
    """An engine that took part, and when.

    Attributes:
        name: Its name.
        when: "each", "checkpoint" or "end".
        details: Version, provider, options: what is needed to repeat the numbers.
        fallback_for: The engine it stands in for, and why, as one sentence.
        noise: Largest difference between two runs of the original on it; None if not measured.
        spreads: Per output, how far runs of the original on it are apart: two of the same, and
            those with other optimizations; empty where nobody needed it.
        level: How far the result got on an engine that compiles ("executed", "built",
            "parsed", "rejected", "absent"); None for other engines.
        level_reason: The same as one sentence.
    """

    name: str
    when: str
    details: dict[str, str | int | float | bool]
    fallback_for: str | None = None
    noise: float | None = None
    spreads: list[EngineSpread] = field(default_factory=list)
    level: str | None = None
    level_reason: str | None = None


@dataclass
class ReferenceReport:
    """The inputs that the checks ran on.

    Attributes:
        source: "generated (seed 0)", "inputs.npz", ...
        samples: Number of samples.
        inputs: Per input of the first sample, dtype, shape and range as text.
        names: Per sample, what is special about it ("adversarial: NaN in x"), or nothing;
            empty where nothing is special about any.
    """

    source: str
    samples: int
    inputs: dict[str, str] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        told = f"{self.source}, {plural(self.samples, 'sample')}"
        if self.source.startswith("generated") or len(self.inputs) != 1:
            return told
        # What a user gives may be one sample of many pictures.
        (first,) = self.inputs.values()
        return f"{told} of {first.partition(' in ')[0]}"


@dataclass
class WaiverReport:
    """A waiver of the pipeline file, and whether it was needed.

    Attributes:
        what: "rule NAME" or "pass NAME".
        model: Pattern of the names of model files.
        reason: Why it is accepted.
        expires: The last day on which it counts, ISO 8601; None for no end.
        used: Whether it has accepted anything in this run.
        expired: Whether its last day was over, so that it did not count.
    """

    what: str
    model: str
    reason: str
    expires: str | None = None
    used: bool = False
    expired: bool = False

    def __str__(self) -> str:
        end = f"until {self.expires}" if self.expires else "without an end"
        became = f"{'used' if self.used else 'not used'}, {end}"
        if self.expired:
            became = f"expired {self.expires}, and does not count"
        on = "" if self.model == "*" else f" on {self.model}"
        return f"waiver of {self.what}{on}, {became}: {self.reason}"


@dataclass
class ReadBackReport:
    """What reading the written file again has shown.

    Attributes:
        result: "equal", "differs", or "not done".
        reason: Where it differs, or why it was not done; None if it is equal.
        parts: Number of parts compared: nodes, attributes, values, tensors.
        tensor_bytes: Size of the tensors compared, in bytes.
        seconds: Wall time, which is part of that of writing.
    """

    result: str
    reason: str | None = None
    parts: int = 0
    tensor_bytes: int = 0
    seconds: float = 0.0


@dataclass
class RunReport:
    """A whole run.

    Attributes:
        model: Path of the input.
        output: Path of the output; None where none was written.
        pipeline: The resolved pipeline as text that reads back to the same pipeline.
        verify: Whether verification was on.
        versions: Version by package.
        machine: Processor, cores, memory, operating system.
        before: The model before the first pass.
        after: The model after the last.
        engines: The engines that took part.
        reference: The inputs used.
        passes: Every pass, in the order run.
        final: Checks made at the end, of the result against the original.
        blame: What a failure of those was traced to.
        reproducer: Folder of the reproducer that such a failure left.
        not_verified: What was not verified and why, a sentence each.
        preconditions: What holds on the values that were seen, and not on others.
        waivers: The waivers of the pipeline file.
        waived: The sentences of both that a waiver accepts.
        notes: What the loader and the saver had to say, a sentence each.
        error: The error that ended the run, as text.
        seconds: Wall time of the whole run.
        times: The same by part: "starting", "reading", "preparing", "passes",
            "checks", "between passes", "cause" (of failures), "result", "writing".
        exit_code: As the command line returns it.
        started: When the run began, ISO 8601 with the offset from UTC.
        planned: Number of passes asked for, where that is known before they run.
        read_back: The output file, read again; None where no file was asked for.
        schema_version: Version of this layout.
    """

    model: str
    output: str | None
    pipeline: str
    verify: bool
    versions: dict[str, str] = field(default_factory=dict)
    machine: dict[str, str] = field(default_factory=dict)
    before: ModelSummary | None = None
    after: ModelSummary | None = None
    engines: list[EngineReport] = field(default_factory=list)
    reference: ReferenceReport | None = None
    passes: list[PassReport] = field(default_factory=list)
    final: list[Check] = field(default_factory=list)
    blame: list[Blame] = field(default_factory=list)
    reproducer: str | None = None
    not_verified: list[str] = field(default_factory=list)
    preconditions: list[str] = field(default_factory=list)
    waivers: list[WaiverReport] = field(default_factory=list)
    waived: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    error: str | None = None
    seconds: float = 0.0
    times: dict[str, float] = field(default_factory=dict)
    exit_code: int = 0
    started: str = ""
    planned: int | None = None
    read_back: ReadBackReport | None = None
    schema_version: int = SCHEMA_VERSION

    def settle(self) -> None:
        """Compute the hashes that were put off, so that the models may change, or go."""
        for summary in filter(None, (self.before, self.after)):
            _ = summary.hash

    def move_time(self, seconds: float, source: str, part: str) -> None:
        """Count a time that one part of the run has as that of another."""
        self.times[source] = self.times.get(source, 0.0) - seconds
        self.times[part] = self.times.get(part, 0.0) + seconds

    @property
    def pass_seconds(self) -> float:
        """Time spent in passes."""
        return sum(p.pass_seconds for p in self.passes)

    @property
    def verify_seconds(self) -> float:
        """Time spent checking, pass by pass."""
        return sum(p.verify_seconds for p in self.passes)
