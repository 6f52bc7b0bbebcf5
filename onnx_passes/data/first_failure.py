"""The first sample of a data set on which an engine, or what passes made of a model, fails."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import onnx_ir as ir

from onnx_passes.bench.reducing.checks import is_finite
from onnx_passes.contracts import Equality, Tolerance
from onnx_passes.data.dataset import DataSet
from onnx_passes.data.plan import IncompleteDataError, ShardPlan
from onnx_passes.errors import (
    EngineError,
    EngineUnavailableError,
    ReferenceDataError,
    UsageError,
)
from onnx_passes.runtime.engine_base import Engine, Feeds
from onnx_passes.verify.judge import Promise


def find_failing(
    plan: ShardPlan,
    doubted: tuple[Engine, ir.Model],
    right: tuple[Engine, ir.Model] | None,
    contract: Equality | Tolerance,
) -> tuple[str, Feeds]:
    """Return the name of the first sample that fails, and what a model is run on for it.

    It does not run, or differs from what is right; without that it gets NaN or Inf of finite
    inputs. Raises UsageError if no sample fails, and IncompleteDataError for one that is not
    run where it is right.
    """
    data = DataSet(plan)
    engine, model = doubted
    with ExitStack() as stack:
        expected = None if right is None else stack.enter_context(right[0].prepare(right[1]))
        try:
            session = stack.enter_context(engine.prepare(model))
        except EngineUnavailableError:
            raise
        except EngineError:
            return first_sample(plan)
        for name, feeds in _samples(data, plan):
            try:
                wanted = None if expected is None else expected.run(feeds)
            except EngineError as error:
                raise IncompleteDataError(
                    f"a part of the data set could not be evaluated: {name} does not run "
                    f"where it is right: {error.message}",
                    help="leave it out of the data",
                ) from error
            try:
                found = session.run(feeds)
            except EngineError:
                return name, feeds
            if wanted is None:
                fails = _all_finite(feeds) and not _all_finite(found)
            else:
                fails = bool(Promise(contract).broken(wanted, found))
            if fails:
                return name, feeds
    what = "makes no NaN or Inf" if right is None else "differs on none"
    raise UsageError(
        f"{engine.name} runs all {plan.used:,} samples and {what}: there is nothing to reduce",
        help="--against ENGINE compares it with another one" if right is None else None,
    )


def _samples(data: DataSet, plan: ShardPlan) -> Iterator[tuple[str, Feeds]]:
    """Yield each sample with its name; raise IncompleteDataError for one that is broken."""
    try:
        for number in range(plan.shards):
            shard = data.shard(number)
            for batch in shard.batches():
                (feeds,) = batch.feeds
                yield data.name(int(shard.rows[batch.start])), feeds
    except ReferenceDataError as error:
        raise IncompleteDataError(
            f"a part of the data set could not be evaluated: {error.message}",
            where=error.where,
            help=error.help,
        ) from error


def first_sample(plan: ShardPlan) -> tuple[str, Feeds]:
    """Return the first sample of a data set, as :func:`find_failing` does."""
    data = DataSet(plan)
    first = int(data.rows(0, 1)[0])
    return data.name(first), data.feeds(first)


def _all_finite(values: Feeds) -> bool:
    return all(map(is_finite, values.values()))
