"""The result of a run over a data set as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from onnx_passes.data.evaluation_result import RunTiming
from onnx_passes.plain import Plain, PlainMapping
from onnx_passes.report.text import percent

_NAMED = 5


def result_lines(
    data: PlainMapping,
    timing: RunTiming,
    notes: Sequence[str] = (),
    *,
    verbose: bool = False,
) -> Iterator[str]:
    """Yield a result as lines for a terminal."""
    counts = data["counts"]
    yield f"{data['outcome'].upper()}  {_counts(counts)}"
    for entry in counts["broken"]:
        yield f"  left out: {entry['name']}: {entry['reason']}"
    shown = counts["left_out"][: None if verbose else _NAMED]
    for entry in shown:
        yield (
            f"  left out: shard {entry['shard']}, samples {entry['first']} to "
            f"{entry['stop'] - 1}: {entry['reason']}"
        )
    if more := len(counts["left_out"]) - len(shown):
        yield f"  left out: {more:,} more shards; -v and --json name them"
    for pair in data["pairs"]:
        yield from _pair(pair, data["samples"], _NAMED if not verbose else 100)
    speed = timing.samples / timing.seconds if timing.seconds else 0.0
    if speed:
        again = f", {timing.resumed} shards from the journal" if timing.resumed else ""
        told = f"{timing.seconds:.1f} s {timing.executor}, {speed:,.0f} samples a second"
        yield f"{told}{again}"
    elif timing.resumed:
        yield f"all {timing.resumed} shards are from the journal"
    for note in notes:
        yield f"note: {note}"


def verdict_text(data: PlainMapping) -> str:
    """Return the verdict of a run with one candidate, in one sentence."""
    (pair,) = data["pairs"]
    found, counts = pair["verdict"].get("accuracy"), data["counts"]
    told = f"over {counts['evaluated']:,} samples of the data set "
    if found is None:
        told += f"{pair['found']['failing_samples']:,} are too far from the original"
    else:
        told += f"{found['drop']:.3%} of accuracy are lost, and {found['limit']:.3%} may be"
        if found["low"] is not None:
            told += (
                f"; it is at least {found['low']:.3%} and at most {found['high']:.3%}, each "
                f"with {percent(found['confidence'], 6)} confidence"
            )
    if counts["quarantined"] or counts["broken"]:
        left = [entry["reason"] for entry in (*counts["left_out"], *counts["broken"])]
        told += f"; {counts['quarantined']:,} samples could not be evaluated: {left[0]}"
    return told


def _counts(counts: PlainMapping) -> str:
    text = f"{counts['evaluated']:,} of {counts['samples']:,} samples evaluated"
    if counts["not_needed"]:
        text += f", the rest was not needed to decide ({counts['not_needed']:,})"
    if counts["quarantined"]:
        text += f", {counts['quarantined']:,} could not be"
    if counts["broken"]:
        text += f"; files that cannot be read: {len(counts['broken'])}"
    return text


def _pair(pair: PlainMapping, names: Mapping[str, str], most: int) -> Iterator[str]:
    verdict, found = pair["verdict"], pair["found"]
    alone = pair["alone"]
    yield pair["candidate"] if alone else f"{pair['candidate']} against {pair['reference']}"
    yield from _accuracy(verdict)
    yield from _metrics(verdict)
    yield from _classes(found["classes"], verdict["statistics"], alone=alone)
    if alone:
        return
    for missing, count in found["missing"].items():
        yield f"  output {missing} in {count:,} samples"
    for name, output in found["outputs"].items():
        yield f"  {name}: {_output(output)}"
        for reason, count in output["reasons"].items():
            yield f"    {reason}, in {count:,} samples"
        if output["failing"]:
            listed = [names[str(row)] for _, row in output["failing"][:most]]
            yield f"    worst: {', '.join(listed)}"
    share = verdict["statistics"].get("failing_samples")
    if share is not None:
        sure = percent(verdict["statistics"]["confidence"], 6)
        yield (
            f"  samples that differ: {found['failing_samples']:,}; at most "
            f"{share['high']:.3%} of such data, with {sure} confidence"
        )


def _accuracy(verdict: PlainMapping) -> Iterator[str]:
    accuracy = verdict.get("accuracy")
    if accuracy is None:
        return
    sure = percent(accuracy["confidence"], 6)
    low, high = accuracy["low"], accuracy["high"]
    text = f"  accuracy drop {accuracy['drop']:.3%}, limit {accuracy['limit']:.3%}"
    if low is not None:
        text += f"; at least {low:.3%} and at most {high:.3%}, each with {sure} confidence"
    yield text
    yield (
        f"  of {accuracy['samples']:,} samples {accuracy['lost']:,} were lost and "
        f"{accuracy['gained']:,} gained"
    )
    if (needed := accuracy.get("samples_needed")) is not None:
        yield f"  not decided: about {needed:,} samples would be needed if the drop stays"


def _metrics(verdict: PlainMapping) -> Iterator[str]:
    for name, metric in verdict.get("metrics", {}).items():
        text = f"  {name} {_number(metric['value'])}"
        yield f"{text}, range {_number(metric['low'])} to {_number(metric['high'])}"


def _classes(
    classes: PlainMapping | None, statistics: PlainMapping, *, alone: bool
) -> Iterator[str]:
    if classes is None:
        return
    if classes["labelled"]:
        sides = ("right",) if alone else ("left", "right")
        told = []
        for side in sides:
            share = statistics.get(f"accuracy_{side}")
            text = f"{classes[f'accuracy_{side}']:.3%}"
            if share is not None:
                text += f" ({share['low']:.3%} to {share['high']:.3%})"
            told.append(text)
        yield f"  accuracy {' -> '.join(told)}"
    if not alone:
        yield f"  decisions that changed: {classes['flips']:,} of {classes['rows']:,}"


def _output(output: PlainMapping) -> str:
    parts = [f"{output['failing_samples']:,} of {output['samples']:,} samples differ"]
    if output["rmse"] is not None:
        parts += [
            f"max error {_number(output['max_abs'])}",
            f"RMSE {_number(output['rmse'])}",
            f"SQNR {_number(output['sqnr_db'])} dB",
        ]
    return ", ".join(parts)


def _number(value: Plain) -> str:
    return value if isinstance(value, str) else f"{value:.4g}"
