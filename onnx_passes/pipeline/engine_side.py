"""One engine beside the original, and what it gave for the samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace

import onnx_ir as ir

from onnx_passes.errors import (
    EngineError,
    InputsRefusedError,
    UnsupportedModelError,
)
from onnx_passes.model.digest import Key
from onnx_passes.model.walk import all_nodes, named_type
from onnx_passes.risky_runs import ENGINES, label, running
from onnx_passes.runtime.engine_base import (
    Engine,
    Feeds,
    Outputs,
    concurrent,
    run_each,
    run_one,
)
from onnx_passes.runtime.inputs import AdversarialFeeds
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from onnx_passes.verify.content_key import exact_key

KEPT = 2
"""Models whose outputs a bench remembers: the last one, and the one before it."""


@dataclass
class Bench:
    """One engine, and what it gave for the reference samples.

    Attributes:
        engine: The engine that runs.
        when: "each", "checkpoint" or "end"; "never" where another bench has the same engine,
            or the engine cannot run the original.
        fallback_for: Why it stands in for the engine asked for, as a sentence.
        original: Outputs of the original model, by sample; empty until it ran.
        ran: Whether the original was run.
        doubted: Whether the original was run again, to see whether it repeats itself.
        note: What a user should know of the runs, as a sentence.
    """

    engine: Engine
    when: str
    fallback_for: str | None = None
    original: list[Outputs] = field(default_factory=list)
    ran: bool = False
    doubted: bool = False
    note: str | None = None
    _known: list[tuple[Sequence[Feeds], Key, list[Outputs]]] = field(default_factory=list)
    _ahead: tuple[Sequence[Feeds], Key, Future[list[Outputs]]] | None = None

    def run(self, model: ir.Model, samples: Sequence[Feeds]) -> list[Outputs]:
        """Return the outputs of ``model`` for every sample.

        A model that was run on the same samples just before is not run again: what it gave is
        the same, weights by identity included.

        Args:
            model: The model.
            samples: Inputs by name, one mapping a sample.
        """
        key = exact_key(model)
        for others, other, outputs in self._known:
            if others is samples and other == key:
                return list(outputs)
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[0] is samples and ahead[1] == key:
            try:
                found = ahead[2].result()
            except EngineError:  # what fails beside other runs is asked again, alone
                found = self.run_anew(model, samples)
        else:
            found = self.run_anew(model, samples)
        self._known = [*self._known[1 - KEPT :], (samples, key, list(found))]
        return found

    def begin(
        self, model: ir.Model, samples: Sequence[Feeds], name: str = "a run ahead"
    ) -> None:
        """Run ``model`` on a thread of its own, for a :meth:`run` that is going to ask.

        Passes are Python, and leave the other cores idle. An engine that would compete for
        them is skipped, as is one that is at it already.

        Args:
            model: The model.
            samples: Inputs by name, one mapping a sample.
            name: What the run is called, should it end the process.
        """
        if self._ahead is None and samples and concurrent(self.engine):
            pool = ThreadPoolExecutor(1, "onnx-passes-ahead")
            future = pool.submit(self._run_serially, model, list(samples), name)
            pool.shutdown(wait=False)
            self._ahead = (samples, exact_key(model), future)

    def settle(self) -> None:
        """Wait for what :meth:`begin` began, where nobody asked."""
        if self._ahead is not None:
            wait([self._ahead[2]])
            self._ahead = None

    def _run_serially(
        self, model: ir.Model, samples: Sequence[Feeds], name: str
    ) -> list[Outputs]:
        with running(name), self.engine.prepare(model) as session:
            return [run_one(session, feeds) for feeds in samples]

    def run_anew(self, model: ir.Model, samples: Sequence[Feeds]) -> list[Outputs]:
        """Return the outputs of ``model`` for every sample, by running it.

        Args:
            model: The model.
            samples: Inputs by name, one mapping a sample.
        """
        try:
            with self.engine.prepare(model) as session:
                return run_each(self.engine, session, samples)
        except EngineError as refused:
            gentler = gentler_engine(self.engine, model)
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
        """Remember what a model gave, where it was run together with its inner values.

        Args:
            model: The model.
            samples: The samples that it ran on.
            outputs: Its outputs, one mapping a sample.
        """
        known = (samples, exact_key(model), list(outputs))
        self._known = [*self._known[1 - KEPT :], known]

    def take(self, outputs: list[Outputs]) -> None:
        """Take these outputs for those of the original."""
        self.original, self.ran = outputs, True


def no_engine(
    error: EngineError, engine: str, stand_in: str, second: EngineError
) -> EngineError:
    """Return the error of an original that the engine cannot run, nor the one in its place.

    Args:
        error: What the engine said.
        engine: The engine, as text.
        stand_in: The engine in its place, as text.
        second: What that one said.
    """
    if isinstance(error, InputsRefusedError):
        return error
    if not isinstance(error, UnsupportedModelError):
        return EngineError(
            f"{engine} cannot run the original model: {error.message}",
            where=error.where,
            help=error.help
            or "no pass has a part in it: correct the model, or name other "
            "engines under 'engines'",
        )
    return UnsupportedModelError(
        f"{error.message}; nor does {stand_in} run it: {second.message}",
        where=error.where,
        help="results of this model cannot be compared; --no-verify goes on without, "
        "and the report says so",
    )


def left_out(bench: Bench, special: Sequence[tuple[AdversarialFeeds, EngineError]]) -> str:
    """Return the note on adversarial samples that the original does not run on.

    Args:
        bench: The engine.
        special: The samples, each with what the engine said.
    """
    kinds = Counter(feeds.kind for feeds, _ in special)
    counted = ", ".join(f"{count} of {kind}" for kind, count in kinds.items())
    first, error = special[0]
    return (
        f"the original does not run on {len(special)} of the adversarial inputs on "
        f"{bench.engine.name}, and they were left out: {counted}; {first.name}: "
        f"{error.message}"
    )


_NARROW = frozenset((ir.DataType.INT4, ir.DataType.UINT4, ir.DataType.INT2, ir.DataType.UINT2))


def gentler_engine(engine: Engine, model: ir.Model) -> Engine | None:
    """Return the engine that runs a model which another one refuses by its own fault.

    ONNX Runtime removes DequantizeLinear and QuantizeLinear around nodes such as MaxPool. It
    has no kernels of these for integers below 8 bits, so that a valid model does not load.

    Args:
        engine: The engine that does not run the model.
        model: The model.

    Returns:
        The same engine without these rewrites; None if they are not the reason.
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
