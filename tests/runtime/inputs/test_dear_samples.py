"""What a run costs is known from shapes."""

from onnx_passes.runtime.inputs import edge_samples, make_samples, seeded_feeds
from tests.tables import each_of

PRODUCT = "g (float[batch, 8] x, float[8, 4] w) => (float[batch, 4] y) { y = MatMul(x, w) }"


@each_of("limit, samples", (1 << 30, 3), (160, 1))
def test_what_is_dear_is_made_once(parse, monkeypatch, limit, samples):
    monkeypatch.setattr(seeded_feeds, "EXPENSIVE", limit)
    made = make_samples(parse(PRODUCT), seed=0, samples=None)
    assert len(made) == samples
    assert made[0].feeds["x"].shape == (2, 8)
    assert len(make_samples(parse(PRODUCT), seed=0, samples=4)) == 4


@each_of("limit, rows", (1 << 30, 2), (100, 1))
def test_values_at_edges_have_the_least_size_where_others_are_dear(
    parse, monkeypatch, limit, rows
):
    monkeypatch.setattr("onnx_passes.runtime.inputs.boundary_values.EXPENSIVE", limit)
    found = {feeds.kind: feeds["x"].shape for feeds in edge_samples(parse(PRODUCT))}
    assert found["size 1"] == (1, 8)
    assert found["multiples of 1/2"] == (rows, 8)


def test_no_values_at_edges_where_all_sizes_are_dear(parse, monkeypatch):
    monkeypatch.setattr("onnx_passes.runtime.inputs.boundary_values.EXPENSIVE", 1)
    kinds = {feeds.kind for feeds in edge_samples(parse(PRODUCT))}
    assert kinds == {"size 1", "size 0"}
