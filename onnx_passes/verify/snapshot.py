"""The model before a pass, and what the pass really changed.

A snapshot shares weights with the model. So that a pass cannot change them behind its back,
tensors that can be written to are replaced by ones that cannot. An edit in place raises inside
the pass, and arrays that the pass has kept for itself are no longer the model's.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from functools import cached_property

import onnx_ir as ir

from onnx_passes.model.copy import copy_model
from onnx_passes.model.digest import Key, canonical_hash
from onnx_passes.model.walk import make_immutable, node_count, weight_bytes
from onnx_passes.verify.content_key import differ_in_notes, exact_key, read_notes


class Change(StrEnum):
    """What differs between two states of a model.

    NONE: nothing. NAMES: only names, order, metadata or how weights are stored. ANNOTATIONS:
    also types and shapes of inner values. COMPUTATION: nodes, weights, or the interface.
    """

    NONE = "none"
    NAMES = "names"
    ANNOTATIONS = "annotations"
    COMPUTATION = "computation"


class Snapshot:
    """A copy of a model that nothing can change.

    The copy is made at once, or when it is asked for: until :meth:`let_go` the model itself is
    used.
    """

    def __init__(
        self,
        model: ir.Model,
        *,
        after: Snapshot | None = None,
        hold: bool = True,
        untouched: bool = False,
    ) -> None:
        """Copy ``model``; its weights are shared, and cannot be written to from now on.

        Args:
            model: The model, changed only in how its weights are held.
            after: A snapshot that ``model`` was compared with. Where it is still the same,
                its hashes are not computed again.
            hold: Whether to copy at once. Without, call :meth:`hold` or :meth:`let_go` before
                the model changes.
            untouched: Whether nothing can have touched the model since that comparison, so
                that it need not be looked at again if it was the last that was compared.
        """
        # What was compared last, until a snapshot of it is made.
        self._compared: tuple[Key, dict[bool, str], ir.Model] | None = None
        compared = None
        if after is not None:
            compared, after._compared = after._compared, None
        same = compared is not None and untouched and compared[2] is model
        self._key: Key = compared[0] if same and compared is not None else exact_key(model)
        self._hashes = dict[bool, str]()
        if compared is not None and (same or compared[0] == self._key):
            self._hashes = compared[1]  # it was made immutable to be compared
        elif make_immutable(model, layout="same"):
            self._key = exact_key(model)
        self._live: ir.Model | None = model
        self._copy: ir.Model | None = None
        if hold:
            self.hold()

    @property
    def model(self) -> ir.Model:
        """The copy, or the model that it would be of; do not hand it to a pass."""
        model = self._copy if self._copy is not None else self._live
        assert model is not None, "it was let go of"
        return model

    @property
    def lost(self) -> bool:
        """Whether the model has changed and there is no copy."""
        return self._copy is None and self._live is None

    def is_alike(self, other: Snapshot) -> bool:
        """Whether the models are known to be equal: to the byte, or by canonical hashes.

        Annotations count.

        Args:
            other: A snapshot of earlier. If it is lost and has no hash, this one gets its
                hash, which a later one can be compared with.
        """
        if self._key == other._key:
            return True
        hashed = True in self._hashes and True in other._hashes
        if not hashed and self._counts != other._counts:
            return False
        own = self.hash
        return (True in other._hashes or not other.lost) and own == other.hash

    def count(self) -> None:
        """Count what :meth:`is_alike` compares first, as long as the model is there."""
        _ = self._counts

    def hold(self) -> None:
        """Copy the model, unless that is done."""
        if self._copy is None:
            self._copy, self._live = copy_model(self.model), None

    def let_go(self) -> None:
        """Say that the model may change from now on: without a copy it is lost."""
        if self._copy is None:
            _ = self.nodes, self.weight_bytes  # reports still ask for these
            self._live = None

    @property
    def hash(self) -> str:
        """Canonical hash of the copy, annotations included."""
        return self._hash(annotations=True)

    def _hash(self, *, annotations: bool) -> str:
        if annotations not in self._hashes:
            self._hashes[annotations] = canonical_hash(self.model, annotations=annotations)
        return self._hashes[annotations]

    @cached_property
    def _counts(self) -> Key:
        return _census(self.model)

    @cached_property
    def nodes(self) -> int:
        """Number of nodes, those in subgraphs and functions included."""
        return node_count(self.model)

    @cached_property
    def weight_bytes(self) -> int:
        """Bytes of all tensors, each counted once."""
        return weight_bytes(self.model)

    def restore(self) -> ir.Model:
        """Return a model equal to the one that was copied, bit for bit."""
        self.hold()
        return copy_model(self.model)

    def differs(self, model: ir.Model) -> bool:
        """Say whether ``model`` differs from what was copied, and not in what.

        Its weights cannot be written to from now on, so that its key stays what it is.

        Raises:
            ModelError: Weights cannot be read.
        """
        self._compared = None
        key = exact_key(model)
        same = key == self._key
        if not same and make_immutable(model, layout="same"):
            key = exact_key(model)
            same = key == self._key
        if same:
            self.is_still(model)
            return False
        self._compared = (key, {}, model)
        return True

    def is_still(self, model: ir.Model) -> None:
        """Use a model that is known to be the same instead of the copy again."""
        if self._copy is None:
            self._live = model

    def change(self, model: ir.Model) -> Change:
        """Say in what ``model`` differs from the copy, by comparing.

        Its weights cannot be written to from now on, so that its key stays what it is.

        Raises:
            ModelError: The graph has a cycle, or weights cannot be read.
        """
        if not self.differs(model):
            return Change.NONE
        assert self._compared is not None, "it was compared just now"
        key, hashes, _ = self._compared
        if _census(model) != self._counts:
            return Change.COMPUTATION  # no hashes could be equal, and they take longer
        in_notes = differ_in_notes(self._key, key)
        if in_notes and read_notes(self.model, self._key, key) != read_notes(
            model, self._key, key
        ):
            return Change.ANNOTATIONS  # no hashes could be equal
        for noted, larger in ((False, Change.COMPUTATION), (True, Change.ANNOTATIONS)):
            if not noted and in_notes:
                continue  # these hashes are equal, and take longer than the rest
            hashes[noted] = canonical_hash(model, annotations=noted)
            if hashes[noted] != self._hash(annotations=noted):
                return larger
        return Change.NAMES


def _census(model: ir.Model) -> Key:
    """Count what models of equal canonical hashes have as many of."""
    graph = model.graph
    operators = Counter((node.domain, node.op_type, node.overload) for node in graph)
    return (operators, len({*graph.inputs, *graph.initializers.values()}), len(graph.outputs))
