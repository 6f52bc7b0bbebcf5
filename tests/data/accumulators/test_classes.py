import json

import numpy as np
import pytest

from onnx_passes.contracts.classification import accuracy, top_k_accuracy
from onnx_passes.data.accumulators.classes import MOST_CLASSES, Classes
from onnx_passes.errors import ReferenceDataError


def drawn(classes, count=200, seed=0):
    rng = np.random.default_rng(seed)
    old = rng.normal(size=(count, classes)).astype(np.float32)
    new = (old + rng.normal(size=old.shape) * 0.3).astype(np.float32)
    return old, new, rng.integers(0, classes, count)


def counted(old, new, labels, cuts=()):
    parts = []
    rows = np.arange(len(old))
    for chosen in np.split(rows, cuts):
        part = Classes()
        part.update(
            chosen, old[chosen], new[chosen], None if labels is None else labels[chosen]
        )
        parts.append(part)
    return parts


@pytest.mark.parametrize("classes", [2, 7, MOST_CLASSES + 20])
def test_counts_are_those_of_the_metrics(classes):
    old, new, labels = drawn(classes)
    (found,) = counted(old, new, labels)
    told = found.finish()
    assert told["accuracy_left"] == accuracy([old], [labels])
    assert told["accuracy_right"] == accuracy([new], [labels])
    assert told["flips"] == (old.argmax(1) != new.argmax(1)).sum()
    if classes > 5:
        assert told["top"]["right5"] == round(200 * top_k_accuracy(5, [new], [labels]))


@pytest.mark.parametrize("classes", [4, MOST_CLASSES + 1])
def test_parts_merge_to_the_whole_through_json(classes):
    old, new, labels = drawn(classes)
    first, *rest = counted(old, new, labels, (3, 50, 120))
    for part in rest:
        kept = Classes()
        kept.load(json.loads(json.dumps(part.to_json())))
        first.merge(kept)
    (whole,) = counted(old, new, labels)
    one, other = first.to_json(), whole.to_json()
    del one["divergence"], other["divergence"]  # each block is rounded by itself
    assert one == other
    assert first.finish()["mean_kl"] == pytest.approx(whole.finish()["mean_kl"])


def test_tables_hold_labels_and_decisions():
    old = np.array([[1, 0], [0, 1], [0, 1]], np.float32)
    new = np.array([[1, 0], [1, 0], [0, np.nan]], np.float32)
    (found,) = counted(old, new, np.array([0, 1, 1]))
    told = found.to_json()
    assert told["tables"]["right"] == [[0, 1], [3, 1], [5, 1]]  # the last column is "none"
    assert told["paired"] == {"both": 1, "only_left": 2, "only_right": 0, "neither": 0}
    assert [row for _, row in told["lost"]] == [1, 2]


def test_places_of_an_image_are_rows_of_their_sample():
    old = np.zeros((2, 3, 4, 4), np.float32)
    labels = np.zeros((2, 4, 4), np.int64)
    new = old.copy()
    new[1, 2, 0, 0] = 1
    (found,) = counted(old, new, labels)
    assert (found.rows, found.flips) == (32, 1)
    assert found.flipped.samples[0][1] == 1


def test_a_label_beyond_the_classes_is_refused():
    old, new, labels = drawn(3)
    with pytest.raises(ReferenceDataError, match="none of the 3 classes"):
        counted(old, new, labels + 1)
