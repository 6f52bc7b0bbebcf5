"""A pass, and those that analyse, annotate or transform a model.

Every pass is an :class:`onnx_ir.passes.PassBase` and runs inside anyone's
``ir.passes.PassManager``; in a pipeline of ours it is verified as well. Typed fields of the
class are its options (see :mod:`onnx_passes.passes.options`).
"""

import abc
from collections.abc import Iterable, Sequence
from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import onnx_ir as ir

from onnx_passes.contracts import READS_ONLY, Contract, contracts_of
from onnx_passes.passes.context import Application, InterfaceMap, PassContext
from onnx_passes.passes.options import is_class_variable, pipeline_name, validate_options
from onnx_passes.plain import Plain, PlainDict, PlainMapping

ALL: Literal["all"] = "all"

_LIBRARY = "onnx_passes.passes."


class Pass(ir.passes.PassBase, abc.ABC):
    """A named unit of work over a model.

    Class attributes that a subclass may set:

    Attributes:
        name: Pipeline name, made from the class name.
        needs: Names of passes whose results must hold before this one runs; the pipeline
            runs those that do not.
        requires: The older name of ``needs``. (A *method* of this name is onnx-ir's
            pre-condition.)
        preserves: Names of passes whose results still hold after this one changed the model;
            ``"all"`` for every one.
        precedes: Names of passes that come after this one in a group of both.
        followed_by: Names of passes that the pipeline runs after this one changed the model.
        interface_changes: What this pass may change of the model's interface: any of
            "inputs", "outputs", "types", "dims", or "metadata" if it drops what the model says
            of itself. Everything else belongs to the user.
        repeats_itself: Whether what it does depends on the model and its options alone, so
            that a pipeline need not run it again on a model that it did not change. So it is
            with the library's passes; one of yours may share state, unless it says so.
        needed_operators: Domains and operators. The pass does nothing to a model without any
            of them, so that a pipeline skips it there. Empty if that is not known. Not needed
            for rewrite passes, whose rules say it; read if ``repeats_itself``.
        always_pays: Whether the model costs less, or as much, after each of its rewrites. If
            not, and a run has an objective, each is measured, and undone unless it pays.
        example: Options for tests of the pass by itself; needed where one has no default.
        in_place_of: The library's pass whose name this one has in the pipelines that import
            it; empty for none. Set when it is registered.
        tested_on: Kinds of random models (``recipes_on`` of ``certifying.models.recipe``) that
            hold what this pass looks for; empty for any. With it, certification asks for 200
            models that the pass changes.
        tested_after: Names of passes that run before this one in tests of it by itself.
        config: The whole pipeline file as plain data, shared by all passes.
        state_dict: Free for passes to share things in, one per run.
        context: What the pipeline passes to the pass, and the pass to the pipeline.
        settled: Whether the last run would find nothing more if it ran once again, so that a
            pipeline need not. Set by the pass while it runs.
    """

    name: ClassVar[str] = "pass"
    needs: ClassVar[Sequence[str]] = ()
    preserves: ClassVar[Sequence[str]] = ()
    precedes: ClassVar[Sequence[str]] = ()
    followed_by: ClassVar[Sequence[str]] = ()
    interface_changes: ClassVar[frozenset[str]] = frozenset()
    repeats_itself: ClassVar[bool] = False
    needed_operators: ClassVar[frozenset[tuple[str, str]]] = frozenset()
    always_pays: ClassVar[bool] = True
    example: ClassVar[PlainMapping] = MappingProxyType({})
    tested_on: ClassVar[Sequence[str]] = ()
    tested_after: ClassVar[Sequence[str]] = ()
    required_passes: ClassVar[tuple[str, ...]] = ()
    in_place_of: ClassVar[str] = ""
    if TYPE_CHECKING:
        requires: ClassVar[Any]  # a tuple of names, or onnx-ir's pre-condition method

    def __init__(
        self, config: PlainDict | None = None, state: PlainDict | None = None, **options: Any
    ) -> None:
        """Create the pass with its options.

        ``options`` are values of the typed fields of the class; an OptionError names one that
        is unknown or of another type.
        """
        self.config = {} if config is None else config
        self.state_dict = {} if state is None else state
        self.context = self._alone = PassContext()
        self.settled = False
        self.options = validate_options(type(self), options)
        for key, value in self.options.items():
            setattr(self, key, value)

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        cls.name = pipeline_name(cls.__name__)
        if "repeats_itself" not in vars(cls):
            # Not inherited: a subclass of ours elsewhere may do anything.
            cls.repeats_itself = is_shipped(cls)
        requires, needs = vars(cls).get("requires"), vars(cls).get("needs")
        if requires is not None and not callable(requires):
            # onnx-ir calls `requires` as the pre-condition: keep the names apart from it.
            cls.required_passes = _names(requires)
            del cls.requires
        hint = vars(cls).get("__annotations__", {}).get("needs", ClassVar)
        if needs is not None and is_class_variable(hint):  # and is not an option of this name
            cls.required_passes = _names(needs)

    @classmethod
    def needed_opset(cls, options: PlainMapping) -> int:
        """Return the least opset that the pass works in; a pipeline raises an older one."""
        return 0

    @classmethod
    def holds_after(cls, rewrites: Sequence[Application]) -> bool:
        """Whether what this pass found of a model still holds after some rewrites of it."""
        return False

    def __call__(
        self, model_or_result: ir.Model | ir.passes.PassResult, /
    ) -> ir.passes.PassResult:
        """Run the pass, and say so in the report if it has the name of another one.

        Outside of a pipeline it checks itself if ``config["verify"]`` is set: see
        ``compat.checks``.
        """
        if self.in_place_of:
            cls = type(self)
            self.context.notes.append(
                f"this is {cls.__module__}.{cls.__qualname__}, which the pipeline imports, "
                f"in place of {self.in_place_of}"
            )
        unchanged = False
        try:
            result = self._run_alone(model_or_result)
            unchanged = not result.modified and is_shipped(type(self))
        finally:
            if not unchanged:
                self.context.rewrites.index = None
                if not self.keeps_shapes:
                    self.context.refined.clear()
        return result

    def _run_alone(self, given: ir.Model | ir.passes.PassResult) -> ir.passes.PassResult:
        run = partial(super().__call__, given)
        # A pipeline compares by itself, and passes a context of its own.
        if self.context is not self._alone or not self.config.get("verify"):
            return run()
        model = given.model if isinstance(given, ir.passes.PassResult) else given
        check: Plain = import_module("onnx_passes.compat.checks")
        result: ir.passes.PassResult = check.run_checked(self, model, run)
        return result

    def operator_sets(self) -> frozenset[frozenset[tuple[str, str]]]:
        """Return sets of operators: a model that lacks one of each set stays as it is."""
        found = {frozenset({operator}) for operator in self.needed_operators}
        return frozenset(found or {frozenset()})

    @property
    def keeps_shapes(self) -> bool:
        """Whether values that are left have the shapes that they had before the pass."""
        return "shape-inference" in self.preserves or ALL in (self.preserves, *self.preserves)

    @classmethod
    def contracts(cls) -> tuple[Contract, ...]:
        """Return what the pass promises."""
        return contracts_of(cls)

    @classmethod
    def lacks_contract(cls) -> str:
        """Return why what it promises is not known."""
        return "the pass declares no contract"

    @classmethod
    def promise(cls) -> str:
        """Return what the pass promises, as text."""
        declared = ", ".join(map(str, cls.contracts()))
        return declared or (READS_ONLY if issubclass(cls, Analysis) else "none declared")

    @classmethod
    def example_for(cls, model: ir.Model) -> PlainMapping:
        """Return options for a test of the pass on a model; by default ``example``.

        For passes whose options name parts of a model, which no fixed example can. The model
        stays as it is.
        """
        return cls.example

    def interface_map(self, before: ir.Model) -> InterfaceMap | None:
        """Return how inputs and outputs of a model become those of the result.

        Only needed where names, types or layouts change; verification then continues with the
        user's samples.
        """
        return None

    @property
    def id(self) -> str:
        """Name of this application of the pass, unique in the run."""
        return f"{self.state_dict.get('counter', 0):08d}-{type(self).__name__}"


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def is_shipped(cls: type[Pass]) -> bool:
    """Whether a pass is one of the library's, whose tests hold it to what it says."""
    return cls.__module__.startswith(_LIBRARY)


def in_order(members: Iterable[type[Pass]]) -> list[type[Pass]]:
    """Return passes in their order, but each before those that it ``precedes``."""
    left, ordered = list(members), []
    while left:
        waiting = {name for cls in left for name in cls.precedes}
        first = next((cls for cls in left if cls.name not in waiting), left[0])
        left.remove(first)
        ordered.append(first)
    return ordered


class Analysis(Pass):
    """A pass that reads the model and changes nothing.

    Implement :meth:`analyse`, whose result other passes find in ``context.analysis(name)`` as
    long as it holds; or :meth:`call`, as in onnx-ir, where there is none.
    """

    @property
    def in_place(self) -> Literal[True]:
        """Return the model it was given."""
        return True

    @property
    def changes_input(self) -> Literal[False]:
        """Leave that model as it was."""
        return False

    def analyse(self, model: ir.Model) -> Any:
        """Return what the analysis finds."""
        raise NotImplementedError(f"{type(self).__name__} defines neither analyse nor call")

    def call(self, model: ir.Model) -> ir.passes.PassResult:
        """Store the result of :meth:`analyse` for the passes that require it."""
        self.context.analyses[self.name] = self.analyse(model)
        return ir.passes.PassResult(model, modified=False)


class Annotation(Pass, ir.passes.InPlacePass):
    """A pass that adds to the model (types, shapes, metadata) and leaves its computation."""

    @property
    def keeps_shapes(self) -> bool:
        """What is computed has the shape that it had."""
        return True


class Transformation(Pass, ir.passes.InPlacePass):
    """A pass that changes the model's nodes or weights."""
