"""Every candidate that was judged, in a folder of good ones and one of bad ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import onnx_ir as ir

from onnx_passes.verify.reduce.ledger import Trial
from onnx_passes.verify.reduce.outcome import Status
from onnx_passes.verify.reduce.store import CandidateStore, writing


@dataclass
class Artifacts:
    """Keeps candidates and what the check printed.

    Attributes:
        model: The model whose weights they share; large ones are written once a folder.
        folder: Gets the folders ``good``, ``bad`` and, for what could not be judged,
            ``unjudged``.
    """

    model: ir.Model
    folder: Path
    _stores: dict[Status, CandidateStore] = field(default_factory=dict)

    def keep(self, trial: Trial) -> None:
        """Write a candidate, named after its number.

        Raises:
            ModelError: There is no room, or it may not be written.
        """
        if trial.candidate is None:
            return
        status = trial.outcome.status
        folder = self.folder / status.value
        with writing(folder, "--artifacts"):
            folder.mkdir(parents=True, exist_ok=True)
            if status not in self._stores:
                self._stores[status] = CandidateStore(
                    self.model, folder, keep=True
                ).__enter__()
            stem = f"{trial.number:04d}-{trial.nodes}-nodes"
            self._stores[status].write(trial.candidate, folder / f"{stem}.onnx")
            if trial.outcome.log:
                (folder / f"{stem}.log").write_bytes(trial.outcome.log)
