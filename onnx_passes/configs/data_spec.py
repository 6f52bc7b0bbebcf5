"""What a user says about a data set, as plain data for workers, and shares such as 10%."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from onnx_passes.errors import UsageError


def read_share(given: object, what: str) -> float:
    """Read ``0.5 %``, ``0.5%`` or ``0.005``. UsageError names `what`."""
    match = re.fullmatch(r"([0-9.]+(?:[eE]-?\d+)?)\s*(%?)", str(given).strip())
    try:
        assert match is not None
        value = float(match[1]) / (100 if match[2] else 1)
    except (ValueError, AssertionError):
        raise UsageError(
            f"{what} {given!r} is not a share", help="write 0.5 %, or 0.005"
        ) from None
    return value


SHARD_SAMPLES = 8192
"""Samples in a shard, unless the user says; a shard is what one worker evaluates at once."""

EARLY_SAMPLES = 512
"""The same for a run that may stop early: that is decided after each shard."""

SHARD_BYTES = 64 << 20
"""Bytes of data in a shard, unless the user says."""


@dataclass(frozen=True)
class DataSpec:
    """A data set, and how it is fed to a model.

    `sources` are folders, files, patterns, or one ``module:function``; `named` has files
    by the column that they hold in their place. `columns` are by input name, the same name by
    default. `labels` is a column of a usual name by default. `prepare` is a
    ``module:function`` from sample to sample, both mappings of columns to values.

    `batch` is by default what the model demands, else 1. `shuffle` is a seed; None keeps the
    order of the files. The first `limit` samples of that order are used. A run that may stop
    `early` has smaller shards; `shard` is rounded up to whole batches. Relative paths start
    from `base`.
    """

    sources: tuple[str, ...] = ()
    named: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    labels: str | None = None
    prepare: str | None = None
    batch: int | None = None
    shuffle: int | None = None
    limit: int | None = None
    shard: int | None = None
    early: bool = False
    allow_nan: bool = False
    base: str = ""

    def __post_init__(self) -> None:
        """Check the numbers; UsageError if one is out of range, or without a source."""
        if bool(self.sources) == bool(self.named):
            raise UsageError(
                "a data set has no source"
                if not self.sources
                else "a data set is named twice",
                help="give paths, or a mapping of columns to files",
            )
        if any(not source.strip() for source in (*self.sources, *self.named.values())):
            raise UsageError("a source of the data set is empty", help="give a path")
        for name in ("batch", "limit", "shard"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise UsageError(f"{name} of a data set must be at least 1, not {value}")
        if self.shuffle is not None and self.shuffle < 0:
            raise UsageError(f"the seed of a shuffled data set is at least 0: {self.shuffle}")

    def selected(self, total: int) -> int:
        """Return how many of ``total`` samples are used."""
        return total if self.limit is None else min(total, self.limit)
