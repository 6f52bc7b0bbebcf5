"""Values of a model that were recorded, by sample."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from onnx_passes.runtime.engine_base import Data
from onnx_passes.verify.recording import Recording


@dataclass
class Recorded:
    """Values of one model, by sample. More of the same model may be added, none changed.

    Attributes:
        samples: The values of each sample.
        filled: Names of those that only the check at hand needs.
    """

    samples: list[Recording]
    filled: set[str] = field(default_factory=set)

    def following(
        self, values: Sequence[Mapping[str, Data]], names: Collection[str]
    ) -> Recorded:
        """Return what is known of the next model; see :meth:`Recording.following`.

        Args:
            values: Values that the change computes, by name, one mapping a sample.
            names: Names of the values of the next model.
        """
        rows = zip(self.samples, values, strict=True)
        return Recorded([old.following(new, names) for old, new in rows], self.filled)

    def holds(self, names: Collection[str]) -> bool:
        """Whether values are recorded for each sample."""
        wanted = frozenset(names)
        return all(wanted <= recording.keys() for recording in self.samples)
