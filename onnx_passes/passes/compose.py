"""Several passes under one name, and which of them can be skipped or must be measured.

A pass is skipped if the model has no operator that its rules begin at. A rewrite is measured,
where a run has an objective, if its pass does not always pay.
"""

import abc
from collections.abc import Hashable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar, TypeAlias
from weakref import WeakKeyDictionary

import onnx_ir as ir

from onnx_passes.contracts import Contract, weakest
from onnx_passes.errors import FixpointError
from onnx_passes.library_index import library_index
from onnx_passes.model.digest import canonical_hash
from onnx_passes.model.walk import all_graphs, node_operator, nodes_of
from onnx_passes.passes.base import Analysis, Pass
from onnx_passes.passes.patterns import Operator, is_asking
from onnx_passes.passes.registry import collect, imported_pass, scope_of
from onnx_passes.passes.replace import reserve_names

MAX_ROUNDS = 100


class ComposePass(Pass, abc.ABC):
    """A sequence of passes, once or until the model stops changing.

    In a pipeline each pass of the sequence is checked on its own, then the whole. Unless it
    declares a contract, it has the weakest of its parts.

    Attributes:
        __passes__: Names or classes, in order.
        __exhaustive__: Whether to repeat them until the model stops changing.
    """

    __passes__: ClassVar[Sequence[str | type[Pass]]] = ()
    __exhaustive__: ClassVar[bool] = False

    @classmethod
    def contracts(cls) -> tuple[Contract, ...]:
        """Return what it declares, or what its parts promise as one."""
        return super().contracts() or weakest(part.contracts() for part in cls._changing())

    @classmethod
    def lacks_contract(cls) -> str:
        """Return which of its parts declares no contract."""
        lacking = next((part for part in cls._changing() if not part.contracts()), None)
        name = "the pass" if lacking is None else f"its part {lacking.name}"
        return f"{name} declares no contract"

    @classmethod
    def _changing(cls) -> list[type[Pass]]:
        parts = collect(cls.__passes__, scope_of(cls, ()))
        return [part for part in parts if not issubclass(part, Analysis)]

    @property
    def in_place(self) -> bool:
        """Whether every pass of the sequence is."""
        return all(p.in_place for p in self.passes())

    @property
    def changes_input(self) -> bool:
        """Whether any pass of the sequence does."""
        return any(p.changes_input for p in self.passes())

    def passes(self) -> list[Pass]:
        """Return the passes of the sequence, sharing config, state and context."""
        scope = scope_of(type(self), self.config.get("imports") or ())
        classes = collect(self.__passes__, scope)
        found = [cls(self.config, self.state_dict) for cls in classes]
        for pass_ in found:
            pass_.context = self.context
        return found

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Run the sequence, outside of a pipeline."""
        with reserve_names(model):
            return self._run(model)

    def _run(self, model: ir.Model) -> ir.passes.PassResult:
        before = canonical_hash(model)
        seen = {before}
        for _ in range(MAX_ROUNDS):
            result: ir.passes.PassResult = ir.passes.PassResult(model, modified=False)
            for pass_ in self.passes():
                result = pass_(result)
            model = result.model
            now = canonical_hash(model)
            if not self.__exhaustive__ or now in seen:
                return ir.passes.PassResult(model, modified=now != before)
            seen.add(now)
        raise FixpointError(
            f"{self.name} still changes the model after {MAX_ROUNDS} rounds",
            help=f"run its passes one by one: {', '.join(p.name for p in self.passes())}",
        )


Operators: TypeAlias = frozenset[Operator]
"""Domains and operators."""

_SETS: WeakKeyDictionary[type[Pass], dict[Hashable, frozenset[Operators]]] = (
    WeakKeyDictionary()
)


def operators_of(model: ir.Model) -> Operators:
    """Return the operators of all nodes, in subgraphs and functions too."""
    return frozenset(
        operator
        for graph in all_graphs(model)
        for operator in map(node_operator, nodes_of(graph))
    )


def begins_nowhere(pass_: Pass, operators: Operators) -> bool:
    """Whether a model of these operators has nothing that the pass may change.

    Only a pass that depends on the model and its options alone (``Pass.repeats_itself``) is
    known that well. Building its rules takes longer than running them on a small model, so
    what they need is worked out once in a process. Whoever asks why a rule does not match has
    it tried.
    """
    if not pass_.repeats_itself or is_asking():
        return False
    return not any(operators >= one for one in _sets_of(pass_))


def _sets_of(pass_: Pass) -> frozenset[Operators]:
    cls = type(pass_)
    # The methods too: a rule that was put in for another, in a test, begins elsewhere.
    methods = [getattr(cls, name, None) for name in ("rules", "pattern", "operator_sets")]
    key = (*methods, repr(sorted(pass_.options.items())))
    known = _SETS.setdefault(cls, {})
    if key not in known:
        known[key] = pass_.operator_sets()
    return known[key]


def is_needless(name: str | type[Pass], operators: Operators) -> bool:
    """Whether the index of the library says the same, so that no pass need be imported.

    Once a pass is imported, a test may have put in another rule.
    """
    index = library_index()
    if index is None or not isinstance(name, str) or imported_pass(name) or is_asking():
        return False
    return not index.may_match(name, operators)


def may_not_pay(pass_: Pass, rule: str) -> bool:
    """Whether the rewrites of a rule do not always pay.

    The pass may have applied a rule of another pass. A rule has the name of its pass, with a
    number where that has several.
    """
    owner = imported_pass(rule.partition("[")[0])
    return not pass_.always_pays or (owner is not None and not owner.always_pays)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        return import_module("onnx_passes.compat").reexport(__name__, name)
