"""The original model on every engine: what passes are compared with.

A bench is one engine with the original and its results. The baseline holds the benches and
shares the results.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import ParamSpec, TypeVar

import onnx_ir as ir

from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.errors import (
    EngineError,
    EngineUnavailableError,
    InputsRefusedError,
    UnsupportedModelError,
)
from onnx_passes.model.digest import Key
from onnx_passes.model.walk import all_nodes, captured_values, named_type, subgraphs_of
from onnx_passes.ops.node_queries import (
    RISKY_IF_EMPTY,
    TAKES_NO_ROWS,
    may_draw,
    may_vary,
)
from onnx_passes.risky_runs import ENGINES, avoided, label, running
from onnx_passes.runtime.engine_base import (
    Engine,
    Feeds,
    Outputs,
    Session,
    run_each,
    run_one,
)
from onnx_passes.runtime.inputs import (
    RANDOM_VALUES,
    AdversarialFeeds,
    InputSearch,
    is_empty,
    name_of,
)
from onnx_passes.runtime.inputs.seeded_feeds import elements_of
from onnx_passes.runtime.ort import OnnxRuntimeEngine, runs_on_cpu, skipped_optimizations
from onnx_passes.runtime.reference import ReferenceEngine
from onnx_passes.verify.judge import Promise, identical
from onnx_passes.verify.snapshot import exact_key

KEPT = 2
"""Models whose outputs a bench remembers: the last one, and the one before it."""


_REPEATS = 4
"""How often an engine repeats the original that adds in an order of its own, as GPUs do."""


class SamplesLeftOutError(Exception):
    """Raised where samples are left out while outputs are compared."""


_P = ParamSpec("_P")
_T = TypeVar("_T")


def ask_again(check: Callable[_P, _T]) -> Callable[_P, _T]:
    """Return a check that is made again where samples were left out on the way."""

    @wraps(check)
    def asked(*args: _P.args, **options: _P.kwargs) -> _T:
        try:
            return check(*args, **options)
        except SamplesLeftOutError:
            return check(*args, **options)

    return asked


@dataclass(eq=False)
class EngineBaseline:
    """One engine, and what it gave for the reference samples.

    ``when`` is "each", "checkpoint" or "end"; "never" if another bench has the same engine, or
    if the engine cannot run the original. ``fallback_for`` and ``note`` are sentences.
    ``doubted`` says that the original ran again, to see whether it repeats itself.
    """

    engine: Engine
    when: str
    fallback_for: str | None = None
    original: list[Outputs] = field(default_factory=list)
    ran: bool = False
    doubted: bool = False
    note: str | None = None
    _known: list[tuple[Sequence[Feeds], Key, list[Outputs]]] = field(default_factory=list)

    def run(self, model: ir.Model, samples: Sequence[Feeds]) -> list[Outputs]:
        """Return the outputs of ``model`` for every sample.

        A model that was run on the same samples just before is not run again: what it gave is
        the same, weights by identity included.
        """
        key = exact_key(model)
        for others, other, outputs in self._known:
            if others is samples and other == key:
                return list(outputs)
        found = self.run_anew(model, samples)
        self._known = [*self._known[1 - KEPT :], (samples, key, list(found))]
        return found

    def run_anew(self, model: ir.Model, samples: Sequence[Feeds]) -> list[Outputs]:
        """Return the outputs of ``model`` for every sample, by running it."""
        try:
            with self.engine.prepare(model) as session:
                return run_each(self.engine, session, samples)
        except EngineError as refused:
            gentler = find_fallback_engine(self.engine, model)
            if gentler is None:
                raise
            try:
                with gentler.prepare(model) as session:
                    found = run_each(gentler, session, samples)
            except EngineError:
                raise refused from None
            self.note = (
                f"{self.engine.name} breaks models with integers below 8 bits "
                f"({refused.message}); they ran on {gentler.name}, and whoever runs "
                "them has to set session.disable_quant_qdq of ONNX Runtime"
            )
            return found

    @property
    def node_by_node(self) -> bool:
        """Whether each node runs as written, so that keeping a value changes no other."""
        return bool(getattr(self.engine, "node_by_node", False))

    @property
    def label(self) -> str:
        """What a run of the original is called, should it end the process."""
        return label(ENGINES, self.engine.name)

    @property
    def key(self) -> str:
        """Identifies it among the other engines of a pipeline, from run to run."""
        return f"{self.engine.name} {self.when}"

    def learn(
        self, model: ir.Model, samples: Sequence[Feeds], outputs: Sequence[Outputs]
    ) -> None:
        """Remember what a model gave, where it was run together with its inner values."""
        known = (samples, exact_key(model), list(outputs))
        self._known = [*self._known[1 - KEPT :], known]

    def take(self, outputs: list[Outputs]) -> None:
        """Take these outputs for those of the original."""
        self.original, self.ran = outputs, True


def no_engine(
    error: EngineError, engine: str, stand_in: str, second: EngineError
) -> EngineError:
    """Return the error of an original that neither the engine nor its substitute can run."""
    if isinstance(error, InputsRefusedError):
        return error
    if not isinstance(error, UnsupportedModelError):
        return EngineError(
            f"{engine} cannot run the original model: {error.message}",
            where=error.where,
            help=error.help
            or "no pass has a part in it: give inputs (--inputs), correct the model, or name "
            "other engines under 'engines'",
        )
    return UnsupportedModelError(
        f"{error.message}; nor does {stand_in} run it: {second.message}",
        where=error.where,
        help="results of this model cannot be compared; --no-verify goes on without, "
        "and the report says so",
    )


def left_out(
    bench: EngineBaseline, special: Sequence[tuple[AdversarialFeeds, EngineError]]
) -> str:
    """Return the note on adversarial samples that the original does not run on."""
    kinds = Counter(feeds.kind for feeds, _ in special)
    counted = ", ".join(f"{count} of {kind}" for kind, count in kinds.items())
    first, error = special[0]
    return (
        f"the original does not run on {len(special)} of the adversarial inputs on "
        f"{bench.engine.name}, and they were left out: {counted}; {first.name}: "
        f"{error.message}"
    )


_NARROW = frozenset((ir.DataType.INT4, ir.DataType.UINT4, ir.DataType.INT2, ir.DataType.UINT2))


def find_fallback_engine(engine: Engine, model: ir.Model) -> Engine | None:
    """Return the engine that runs a model which another one refuses by its own fault.

    ONNX Runtime removes DequantizeLinear and QuantizeLinear around nodes such as MaxPool. It
    has no kernels of these for integers below 8 bits, so that a valid model does not load.
    Returns None if these rewrites are not the reason.
    """
    if not isinstance(engine, OnnxRuntimeEngine) or engine.optimization == "none":
        return None
    if not engine.fuse_qdq or not any(map(_is_narrow, all_nodes(model))):
        return None
    return replace(engine, fuse_qdq=False)


def _is_narrow(node: ir.Node) -> bool:
    """Whether a node reads or makes integers below 8 bits."""
    if node.domain:
        return False
    given = (node.attributes.get(name) for name in ("to", "output_dtype"))
    types = set(map(named_type, given))
    for value in (*node.inputs, *node.outputs):
        if value is not None:
            tensor = ir.convenience.get_const_tensor(value)
            types |= {value.dtype, None if tensor is None else tensor.dtype}
    return not _NARROW.isdisjoint(types)


MOST_DRAWN = 4
"""Number of samples that are added because a part differs on their values."""


@dataclass
class Baseline:
    """The engines at work, the samples, and what cannot be compared.

    Nothing is run until an engine's results are asked for: see :meth:`ready`. If the user gave
    the samples (``given``), one that does not run is an error. Of generated ones it is left
    out. ``unstable`` are outputs in which two runs of the original differ.
    """

    model: ir.Model
    benches: list[EngineBaseline]
    samples: list[Feeds]
    given: bool = False
    unstable: frozenset[str] = frozenset()
    notes: list[str] = field(default_factory=list)
    unheard: list[str] = field(default_factory=list)
    assumptions: list[str] = field(default_factory=list)
    substitutes: InputSearch | None = None

    def __post_init__(self) -> None:
        """Look for operators whose results may differ from run to run."""
        suspects = [node for node in self.model.graph if self.is_random(node)]
        self.deterministic = not suspects
        drawing = [node for node in suspects if any(map(may_draw, _with_bodies(node)))]
        self.unstable |= _dependents(self.model, drawing)
        unknown = {f"{n.domain}::{n.op_type}" for n in suspects if n not in drawing}
        if unknown:
            self.notes.append(
                f"{', '.join(sorted(unknown))} may keep state: two runs of the original show "
                "whether it computes the same each time"
            )

    @property
    def usual_samples(self) -> list[Feeds]:
        """The samples that are not there for their special values."""
        return [sample for sample in self.samples if not isinstance(sample, AdversarialFeeds)]

    def is_random(self, node: ir.Node) -> bool:
        """Whether a node may compute something else in another run, seeds or not."""
        functions = self.model.functions
        called = functions.get(node.op_identifier())
        if called is not None and any(self.is_random(n) for n in called.graph):
            return True
        return any(may_vary(n, functions) for n in _with_bodies(node))

    def distrust_random(self, *models: ir.Model) -> None:
        """Leave out the outputs that depend on random numbers: their nodes are other ones."""
        for model in models:
            drawing = [n for n in model.graph if any(map(may_draw, _with_bodies(n)))]
            self.unstable |= _dependents(model, drawing)

    def ready(self, *moments: str) -> None:
        """Run the original on the engines of some moments, unless that was done.

        An engine that cannot run it is replaced by onnx's reference evaluator if that can, and
        the notes say so. Else it is left out if it is not the one that checks each pass and
        another engine ran the original: the result is then not verified on it. Raises
        EngineError if neither can run it, and EngineUnavailableError if an engine is not on
        this machine, for which there is no substitute.
        """
        for bench in self.benches:
            if bench.when in moments and not bench.ran:
                self._start(bench)

    def doubt(self, bench: EngineBaseline) -> bool:
        """Ask the original to repeat itself on an engine; whether outputs newly differ."""
        if bench.doubted or not self.samples:
            return False
        bench.doubted = True
        # What is known of it may be translated to another interface: run it anew, both times.
        first = bench.run_anew(self.model, self.samples)
        unstable: frozenset[str] = frozenset()
        for _ in range(1 if runs_on_cpu(bench.engine) else _REPEATS):
            unstable |= self._differing(bench, first) - self.unstable
        if unstable:
            self.deterministic = False
            self.unstable |= unstable
        return bool(unstable)

    def _start(self, bench: EngineBaseline) -> None:
        try:
            self._first_run(bench)
        except EngineUnavailableError:
            raise
        except EngineError as error:
            reason = f"{bench.engine.name} cannot run the original: {error.message}"
            asked = bench.engine.name
            bench.engine, bench.fallback_for = ReferenceEngine(), reason
            if any(b.ran and b.engine == bench.engine for b in self.benches):
                bench.when = "never"  # the other checks each pass already, and so the end
                return
            self._keep_small()
            try:
                self._first_run(bench)
            except EngineError as second:
                if bench.when != "each" and any(other.ran for other in self.benches):
                    bench.when = "never"
                    self.unheard.append(f"the result: {reason}")
                    return
                raise no_engine(error, asked, bench.engine.name, second) from None
            self.notes.append(f"{reason}; {bench.engine.name} stands in for it")
        self.notes += skipped_optimizations(bench.engine, self.model)
        if not self.deterministic:
            bench.doubted = True
            self.unstable |= self._differing(bench, bench.original)

    def _keep_small(self) -> None:
        """Leave out what was generated larger than needed: an evaluator in Python is slow."""
        sizes = [elements_of(feeds) for feeds in self.samples]
        ordinary = [n for n, s in zip(sizes, self.samples, strict=True) if name_of(s) is None]
        if ordinary and not self.given and not any(bench.ran for bench in self.benches):
            self.keep([i for i, size in enumerate(sizes) if size <= min(ordinary)])

    def _first_run(self, bench: EngineBaseline) -> None:
        if why := avoided(bench.label):
            raise EngineError(why)
        try:
            with running(bench.label):
                bench.take(bench.run(self.model, self.samples) if self.samples else [])
        except EngineError as error:
            unsupported = isinstance(error, UnsupportedModelError)
            if unsupported and all(name_of(feeds) is None for feeds in self.samples):
                raise
            self._drop_failing(bench, error)

    def _drop_failing(self, bench: EngineBaseline, error: EngineError) -> None:
        """Keep the generated samples that the original runs on."""
        with running(bench.label), bench.engine.prepare(self.model) as session:
            if found := self.sift(bench, session):
                bench.take(found)
            else:
                self._substitute(bench, session, error)

    def sift(
        self, bench: EngineBaseline, session: Session, names: Sequence[str] | None = None
    ) -> list[Outputs]:
        """Return outputs of the generated samples that the original runs on; drop the others.

        Nothing is dropped, and the result is empty, if only special samples would remain.
        Raises EngineError if the engine does not know the model, or the user gave the samples.
        """
        found: dict[int, Outputs] = {}
        notes = []
        special: list[tuple[AdversarialFeeds, EngineError]] = []
        for index, feeds in enumerate(self.samples):
            try:
                found[index] = run_one(session, feeds, names)
            except EngineError as failure:
                if isinstance(feeds, AdversarialFeeds):
                    # A traceback would keep all that was recorded on the way.
                    special.append((feeds, EngineError(failure.message)))
                    continue
                if isinstance(failure, UnsupportedModelError):
                    raise
                if self.given:
                    raise InputsRefusedError(
                        f"{bench.engine.name} cannot run the original model on the "
                        f"reference inputs: {failure.message}",
                        help="correct the inputs under 'reference', or the model",
                    ) from failure
                notes.append(
                    f"generated sample {index} does not run on {bench.engine.name}: "
                    f"{failure.message}"
                )
        if all(name_of(self.samples[index]) is not None for index in found):
            return []
        self.notes += notes
        self._note_left_out(bench, special)
        self.keep(list(found))
        return list(found.values())

    def _substitute(self, bench: EngineBaseline, session: Session, error: EngineError) -> None:
        """Replace generated samples if the original runs on none of them."""
        others = self.substitutes
        # What another engine gave is for the samples that it ran on.
        if others is None or any(other.ran for other in self.benches):
            found, tried = None, ""
        else:
            found, tried = others.search(session), f"; {others.failure}"
        if found is None:
            raise InputsRefusedError(
                f"{bench.engine.name} cannot run the original model on generated inputs: "
                f"{error.message}",
                help="give inputs that it can take (--inputs FILE, or 'reference.inputs'), or "
                f"sizes under 'reference.dims'{tried}",
            ) from error
        self.samples = found.samples
        self.notes.append(found.note)
        bench.take(found.outputs)

    def _note_left_out(
        self, bench: EngineBaseline, special: Sequence[tuple[AdversarialFeeds, EngineError]]
    ) -> None:
        """Note the special samples that the original does not run on."""
        if asked := [pair for pair in special if pair[0].asked]:
            self.notes.append(left_out(bench, asked))

    def keep(self, kept: Sequence[int]) -> None:
        """Keep only some of the samples, and what is known of them."""
        self.samples = [self.samples[i] for i in kept]
        for bench in self.benches:
            if bench.ran:
                bench.original = [bench.original[i] for i in kept]

    def leave_out_empty(self, bench: EngineBaseline, model: ir.Model, said: str) -> bool:
        """Leave out samples with a size of 0 if a model is refused, or wrong, on these alone.

        Kernels refuse empty tensors that the standard admits, or give them other shapes. On
        onnx's evaluator both models agree then. It is noted as an assumption.
        """
        empty = [feeds for feeds in self.samples if is_empty(feeds)]
        kept = [k for k, feeds in enumerate(self.samples) if not is_empty(feeds)]
        if not empty or not kept:
            return False
        try:
            bench.run_anew(model, [self.samples[k] for k in kept])
        except EngineError:
            return False
        if not self._agrees_on(model, empty):
            return False
        names = ", ".join(str(name_of(feeds)).partition(": ")[2] for feeds in empty)
        self.assumptions.append(f"{bench.engine.name}, {names}: {said}")
        self.keep(kept)
        return True

    def _agrees_on(self, model: ir.Model, empty: Sequence[Feeds]) -> bool:
        """Whether onnx's evaluator finds no difference to the original on empty samples.

        It need not take them where operators are new for which nobody defines that.
        """
        sides: list[list[Outputs]] = []
        try:
            for one in (self.model, model):
                with ReferenceEngine().prepare(one) as session:
                    sides.append([run_one(session, feeds) for feeds in empty])
        except EngineError:
            old, new = ({node.op_type for node in all_nodes(m)} for m in (self.model, model))
            return not (new - old).isdisjoint(RISKY_IF_EMPTY - TAKES_NO_ROWS)
        rows = zip(*sides, strict=True)
        return not any(Promise(Tolerance()).broken(old, new) for old, new in rows)

    def add(self, values: Feeds) -> bool:
        """Add a sample if it is a new one, few were added, and the original runs on it."""
        drawn = [
            s
            for s in self.samples
            if isinstance(s, AdversarialFeeds) and s.kind == RANDOM_VALUES
        ]
        if len(drawn) >= MOST_DRAWN or any(
            all(identical(s[name], value) for name, value in values.items()) for s in drawn
        ):
            return False
        sample = AdversarialFeeds(
            {**self.samples[0], **values},
            RANDOM_VALUES,
            f"in {', '.join(values)}",
            asked=False,
        )
        if not sample.may_run:
            return False
        found: list[tuple[EngineBaseline, Outputs]] = []
        for bench in self.benches:
            if bench.ran:
                try:
                    (outputs,) = bench.run_anew(self.model, [sample])
                except EngineError:
                    return False
                found.append((bench, outputs))
        self.samples = [*self.samples, sample]
        for bench, outputs in found:
            bench.original = [*bench.original, outputs]
        return True

    def _differing(self, bench: EngineBaseline, known: Sequence[Outputs]) -> frozenset[str]:
        """Return the outputs in which another run of the original differs."""
        again = bench.run_anew(self.model, self.samples) if self.samples else []
        return frozenset(
            check.output.partition("[")[0]
            for first, second in zip(known, again, strict=True)
            for check in Promise(Equality()).broken(first, second)
        )


def _with_bodies(node: ir.Node) -> list[ir.Node]:
    return [node, *(n for graph in subgraphs_of(node) for n in graph.all_nodes())]


def _dependents(model: ir.Model, suspects: Sequence[ir.Node]) -> frozenset[str]:
    """Return the outputs that depend on some nodes."""
    random: set[ir.Value] = set()
    for node in model.graph:
        read = (*node.inputs, *captured_values(node))
        if node in suspects or any(value in random for value in read):
            random.update(node.outputs)
    return frozenset(str(v.name) for v in model.graph.outputs if v in random)
