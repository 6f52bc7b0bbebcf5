"""What happened in one pass: its rewrites, checks, costs, and what a failure was traced to."""

from __future__ import annotations

from dataclasses import dataclass, field

from onnx_passes.contracts import READS_ONLY
from onnx_passes.verify.evidence import Evidence
from onnx_passes.verify.result import Check, OutputCheck, Verdict


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


@dataclass
class Blame:
    """What a failure was traced to: one rewrite, or the first nodes that differ.

    Attributes:
        step: Index of its pass in the run; None where no single pass is to blame.
        name: Pipeline name of that pass.
        how: How it was found: "by its own error", "by bisection", ...
        number: Number of the rewrite in the whole pipeline; None if it is not a rewrite.
        rule: Name of the rule; None where it is not a rewrite.
        nodes: The nodes before, as text.
        new_nodes: The nodes after, as text.
        value: The value in which the two differ; None where none was measured.
        score: Its error relative to the largest element; None where none was measured.
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
    score: float | None = None
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
        index: Position in the run, from 0.
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
        resumed: Whether an earlier run has done it, from whose state this one went on.
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
    resumed: bool = False

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
