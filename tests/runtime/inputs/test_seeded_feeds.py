from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnx_passes.errors import ReferenceDataError
from onnx_passes.ops.input_hints import ValueHint, between, exactly
from onnx_passes.runtime.inputs import (
    describe_feeds,
    edge_samples,
    generate,
    make_samples,
    seeded_feeds,
)
from onnx_passes.runtime.inputs.dimensions import size_of
from onnx_passes.runtime.inputs.seeded_feeds import Request, draw
from onnx_passes.runtime.inputs.substitutes import Alternatives
from onnx_passes.runtime.ort import OnnxRuntimeEngine
from tests.tables import each_of, each_row

SHAPES = st.lists(st.integers(0, 4), max_size=3).map(tuple)


def rng():
    return np.random.default_rng(0)


@given(st.sampled_from(list(ir.DataType)[1:]), SHAPES)
def test_every_type_has_its_shape_and_type(dtype, shape):
    array = draw(dtype, shape, ValueHint(), rng())
    assert array.shape == shape
    assert array.dtype == (object if dtype == ir.DataType.STRING else dtype.numpy())


def test_each_column_has_its_bound():
    array = draw(ir.DataType.INT64, (200, 2), between(0, np.array([1, 5])), rng())
    assert array.max(0).tolist() == [1, 5]
    # A layout that the bounds do not fit gets the strictest of them.
    assert draw(ir.DataType.INT64, (200,), between(0, np.array([1, 5])), rng()).max() == 1


@each_of("axis", 0, 1, -1)
def test_distinct_integers_do_not_repeat_along_their_axis(axis):
    array = draw(ir.DataType.INT64, (4, 5), ValueHint(low=2, high=7, distinct=axis), rng())
    assert (np.diff(np.sort(array, axis), axis=axis) > 0).all()
    assert array.min() >= 2
    assert array.max() <= 7


def test_the_one_value_takes_the_shape_it_can():
    assert draw(ir.DataType.INT64, (1,), exactly(5), rng()).tolist() == [5]
    assert draw(ir.DataType.INT64, (3,), exactly(5), rng()).tolist() == [5, 5, 5]
    assert draw(ir.DataType.INT64, (2, 2), exactly([1, 2, 3, 4]), rng()).tolist() == [
        [1, 2],
        [3, 4],
    ]
    assert draw(ir.DataType.INT64, (9,), exactly([1, 2]), rng()).tolist() == [1, 2]


@each_of("hint", ValueHint(), between(-3, 4), ValueHint(nonzero=True))
@each_of("name", "FLOAT", "FLOAT16", "INT32", "UINT8", "BOOL")
def test_a_large_tensor_is_drawn_in_pieces_that_make_the_whole(hint, name, monkeypatch):
    whole = draw(ir.DataType[name], (7, 30), hint, rng())
    monkeypatch.setattr(seeded_feeds, "_PIECE", 64)
    assert np.array_equal(draw(ir.DataType[name], (7, 30), hint, rng()), whole)


RELU = "g (float[N, 4] x) => (float[N, 4] y) { y = Relu(x) }"


def run_all(model: ir.Model, feeds):
    with OnnxRuntimeEngine().prepare(model) as session:
        return [session.run(sample) for sample in feeds]


def test_the_same_seed_gives_the_same_feeds(parse):
    first, second = generate(parse(RELU)), generate(parse(RELU))
    other = generate(parse(RELU), seed=1)
    for a, b, c in zip(first, second, other, strict=True):
        np.testing.assert_array_equal(a["x"], b["x"])
        assert not np.array_equal(a["x"], c["x"])


def test_dynamic_dimensions_differ_from_sample_to_sample(parse):
    shapes = [feeds["x"].shape for feeds in generate(parse(RELU), samples=3)]
    assert len({shape[0] for shape in shapes}) == 3
    assert {shape[1] for shape in shapes} == {4}


def test_samples_share_nodes_and_each_shows_its_own_shapes(parse):
    first, second = make_samples(parse(RELU), seed=0, samples=2)
    for made in (first, second, first):
        shape = made.model.graph.outputs[0].shape
        assert tuple(shape) == made.feeds["x"].shape
    assert first.model is second.model


def test_samples_share_the_nodes_of_bodies(parse, monkeypatch):
    text = """g (bool c, float[N, 4] x) => (float[N, 4] y) { y = If(c) <
        then_branch = t () => (float[N, 4] s) { s = Relu(x) },
        else_branch = e () => (float[N, 4] r) { r = Neg(x) }> }"""
    model, read, read_model = parse(text), [], ir.from_proto
    monkeypatch.setattr(ir, "from_proto", lambda proto: read.append(1) or read_model(proto))
    first, second = make_samples(model, seed=0, samples=2)
    assert first.feeds["x"].shape != second.feeds["x"].shape
    for made in (first, second, first):
        body = made.model.graph.node("0").attributes["then_branch"].as_graph()
        assert tuple(body.outputs[0].shape) == made.feeds["x"].shape
    assert len(read) == 1


def test_floats_are_normal_and_integers_moderate(parse):
    text = """g (float[2000] a, float16[2000] b, int32[2000] c, uint64[2000] d, int8[2000] e,
        bool[2000] f, int4[2000] h, string[200] s) => (float[2000] y) { y = Relu(a) }"""
    (feeds,) = generate(parse(text), samples=1)
    for name in "ab":
        assert abs(feeds[name].astype(np.float64).mean()) < 0.2
        assert 0.8 < feeds[name].astype(np.float64).std() < 1.2
    assert {name: (feeds[name].min(), feeds[name].max()) for name in "cde"} == {
        "c": (-10, 10),
        "d": (0, 20),
        "e": (-128, 127),
    }
    assert set(np.unique(feeds["f"])) == {False, True}
    assert set(feeds["h"].astype(int)) == set(range(-8, 8))
    assert len(set(feeds["s"])) > 3
    declared = {value.name: value.dtype for value in parse(text).graph.inputs}
    for name, data in feeds.items():
        assert ir.DataType.from_numpy(data.dtype) == declared[name]


@each_row("""node | same
- MatMul(x, z) | x[1] == z[0]
- Add(x, z) | x == z
- Concat<axis=0>(x, z) | =None
""")
def test_unnamed_dimensions_fit_the_operators(parse, node, same):
    model = parse(f"g (float[?, ?] x, float[?, ?] z) => (float[a, b] y) {{ y = {node} }}")
    feeds = generate(model)
    run_all(model, feeds)
    for sample in feeds:
        x, z = sample["x"].shape, sample["z"].shape
        if same == "x == z":
            assert x == z
        elif same:
            assert x[1] == z[0]
            assert len({*x, *z}) == 3  # no more alike than they must be


def test_sums_of_dimensions_are_kept(parse):
    text = """g (float[B, past_len, 8] past, float[B, seq_len, 8] now,
               float[B, total_len, 8] all) => (float[a, b, c] y) {
        k = Concat<axis = 1>(past, now)  y = Add(k, all) }"""
    model = parse(text)
    feeds = generate(model)
    run_all(model, feeds)
    for sample in feeds:
        past, now = sample["past"].shape[1], sample["now"].shape[1]
        assert past != now
        assert sample["all"].shape[1] == past + now


@each_of(
    "formula, size",
    ("n + 1", lambda n: n + 1),
    ("Min(6, n)", lambda n: min(6, n)),
    ("Max(6, 2*n - 4)", lambda n: max(6, 2 * n - 4)),
    ("(n + 1)//2", lambda n: (n + 1) // 2),
    ("n%4 + 1", lambda n: n % 4 + 1),
    ("floor(n/2) + 1", lambda n: n // 2 + 1),
)
def test_expressions_are_evaluated(parse, formula, size):
    model = parse("g (float[n] x, float[m] z) => (float[k] y) { y = Concat<axis = 0>(x, z) }")
    model.graph.inputs[1].shape = ir.Shape([formula])
    for feeds in generate(model):
        assert feeds["z"].shape[0] == size(feeds["x"].shape[0])
        assert size_of(formula, {"n": 9}) == ir.SymbolicDim(formula).evaluate({"n": 9})


POOLS = " ".join(
    f"a{i + 1} = MaxPool<kernel_shape=[2,2], strides=[2,2]>(a{i})" for i in range(5)
)


@each_of(
    "text",
    f"g (float[N, 3, H, W] a0) => (float[a, b, c, d] y) {{ {POOLS} y = Relu(a5) }}",
    """g (float[batch, 1, samples] x) => (float[a, b, c] y) {
        z = AveragePool<kernel_shape = [400], strides = [160]>(x)
        y = MaxPool<kernel_shape = [8]>(z) }""",
    """g (float[N, H, W, 3] x) => (float[a, b, c, d] y) {
        z = Transpose<perm = [0, 3, 1, 2]>(x)  y = MaxPool<kernel_shape = [9, 9]>(z) }""",
    """g (float[N, 3, H, W] x) => (float[a, b, c, d, e, f] y) {
        s = Constant<value_ints = [0, 0, -1, 7, 32, 7]>()
        p = MaxPool<kernel_shape = [1, 1]>(x)  y = Reshape(p, s) }""",
    ids=["halved", "a sound", "channels last", "windows that divide"],
)
def test_pictures_and_sounds_are_large_enough_for_their_windows(parse, text):
    model = parse(text)
    assert all(outputs["y"].size for outputs in run_all(model, generate(model)))


def test_inputs_with_an_initializer_are_left_to_it(parse):
    model = parse("g (float[2] x, float[2] w) => (float[2] y) { y = Add(x, w) }")
    model.graph.inputs[1].const_value = ir.tensor(np.float32([1, 2]))
    model.graph.register_initializer(model.graph.inputs[1])
    assert [set(feeds) for feeds in generate(model)] == [{"x"}] * 3


def test_a_default_settles_the_sizes_that_it_names(parse):
    model = parse("g (float[N, M] w, float[N, K] x) => (float[N] y) { y = Add(x, w) }")
    model.graph.inputs[0].const_value = ir.tensor(np.ones((6, 1), "f4"))
    model.graph.register_initializer(model.graph.inputs[0])
    model.graph.inputs[1].shape = ir.Shape(["N", "2*N"])
    assert [feeds["x"].shape for feeds in generate(model)] == [(6, 12)] * 3


def test_optionals_are_filled_and_empty_in_turn(parse):
    model = parse("g (optional(float[2]) x) => (bool y) { y = OptionalHasElement(x) }")
    assert [feeds["x"] is None for feeds in generate(model, samples=2)] == [False, True]


def test_both_branches_are_taken(parse):
    text = """g (bool c, float[2] x) => (float[2] y) {
        y = If (c) <then_branch = t () => (float[2] a) { a = Relu(x) },
                    else_branch = e () => (float[2] b) { b = Neg(x) }> }"""
    assert {bool(feeds["c"]) for feeds in generate(parse(text), samples=2)} == {True, False}


def test_masks_are_ones_then_zeros(parse):
    text = """g (int64[batch, seq] attention_mask) => (float[batch, seq] y) {
        y = Cast<to = 1>(attention_mask) }"""
    for feeds in generate(parse(text)):
        mask = feeds["attention_mask"]
        assert set(np.unique(mask)) <= {0, 1}
        assert (mask[:, 0] == 1).all()
        assert (np.diff(mask, axis=-1) <= 0).all()


def test_ranges_are_kept(parse):
    text = "g (float[100] x, int64[100] i, seq(float[3]) s) => (float[100] y) { y = Relu(x) }"
    ranges = {"x": (5.0, 6.0), "i": (3, 4), "s": (-1.0, 0.0)}
    for feeds in generate(parse(text), ranges=ranges):
        assert feeds["x"].min() >= 5
        assert feeds["x"].max() <= 6
        assert set(feeds["i"]) == {3, 4}
        assert all(item.max() <= 0 for item in feeds["s"])


@each_row("""node | rank
- Relu(x) | =2
- MatMul(x, w) | =3
- Conv(x, v) | =4
- MaxPool<kernel_shape = [3]>(x) | =3
- Transpose<perm = [1, 0, 3, 2, 4]>(x) | =5
- Shape(x) | =6
""")
def test_an_input_without_a_rank_has_that_which_its_readers_take(parse, node, rank):
    text = (
        f"g (float[n] x, float[2, 4, 3] w, float[8, 4, 3, 3] v) => (float y) {{ y = {node} }}"
    )
    model = parse(text)
    model.graph.inputs[0].shape = None
    model.graph.outputs[0].shape = ir.Shape([rank]) if node == "Shape(x)" else None
    assert all(feeds["x"].ndim == rank for feeds in generate(model))
    assert generate(model, dims={"x": [2, 3]})[0]["x"].shape == (2, 3)


@each_of(
    "arguments, message",
    ({"dims": {"M": 2}}, "no input has a dynamic dimension 'M'\n.*known: N, x"),
    ({"dims": {"N": -2}}, "'N' cannot have size -2"),
    ({"dims": {"N": []}}, r"'N' cannot have size \[\]"),
    ({"dims": {"x": [2, 5]}}, r"shape \[2, 5\] does not fit input 'x'"),
    ({"dims": {"x": 3}}, "'x' is an input"),
    ({"ranges": {"z": (0, 1)}}, "no input 'z'"),
    ({"ranges": {"x": (1, 0)}}, "range of 'x' is empty"),
)
def test_mistakes_are_named(parse, arguments, message):
    with pytest.raises(ReferenceDataError, match=message):
        generate(parse(RELU), **arguments)


def test_a_range_beyond_the_type_is_refused(parse):
    model = parse("g (uint8[2] x) => (uint8[2] y) { y = Identity(x) }")
    with pytest.raises(ReferenceDataError, match=r"not within uint8\n.*from 0 to 255"):
        generate(model, ranges={"x": (-1, 256)})


def test_strings_have_no_range(parse):
    model = parse("g (string[2] x) => (string[2] y) { y = Identity(x) }")
    with pytest.raises(ReferenceDataError, match="holds strings"):
        generate(model, ranges={"x": (0, 1)})


def test_no_values_are_made_of_a_sparse_tensor(parse):
    model = parse("g (float[2] x) => (float[2] y) { y = Identity(x) }")
    model.graph.inputs[0].type = ir.SparseTensorType(ir.DataType.FLOAT)
    with pytest.raises(ReferenceDataError, match="'x' is a sparse tensor"):
        generate(model)


@each_of("side, count", (8, 3), (512, 2), (6000, 1))
def test_the_more_a_run_computes_the_fewer_samples_are_made(side, count):
    text = (
        f"m (float[{side}, {side}] x) => (float[{side}, {side}] y) {{ t = Exp(x) y = Neg(t) }}"
    )
    model = ir.from_onnx_text('<ir_version: 10, opset_import: ["" : 20]> ' + text)
    assert len(generate(model)) == count


def test_no_guess_at_sizes_is_huge(parse):
    text = "g (float[a] x, int8[64, 64, 64, a, b, c, d] z, float[7] w) => (float[k] y) {"
    model = parse(text + " y = Add(x, w) }")
    assert all(feeds["z"].size < 1 << 26 for feeds in generate(model))
    alternatives = itertools.islice(Alternatives(model, ranges={}, dims={}), 40)
    made = [one.make(Request(model), 1)[0] for one in alternatives]
    assert made
    assert all(feeds["z"].size < 1 << 26 for feeds in made)


@each_of(
    "data, text",
    (np.float32([[-3.125, 2.875]]), "float32[1,2] in [-3.12, 2.88]"),
    (np.int64([3, 100000]), "int64[2] in [3, 1e+05]"),
    (np.float32([np.nan, 1, np.inf]), "float32[3] in [1, 1]"),
    (np.float32([np.nan]), "float32[1]"),
    (np.zeros((0, 2), np.float16), "float16[0,2]"),
    (np.array([True, False]), "bool[2] in [0, 1]"),
    (np.array([1, -2], ml_dtypes.int4), "int4[2] in [-2, 1]"),
    (np.array([1, -2], ml_dtypes.bfloat16), "bfloat16[2] in [-2, 1]"),
    (np.array(["a", "b"], object), "string[2]"),
    (np.ones(2, np.complex64), "complex64[2]"),
    (None, "empty optional"),
    ([], "sequence of 0"),
    ([np.ones(2), np.ones(2), np.ones(3)], "sequence of 3: float64[2], float64[3]"),
)
def test_feeds_in_words(data, text):
    assert describe_feeds({"x": data}) == {"x": text}


# What a run costs is known from shapes.


PRODUCT = "g (float[batch, 8] x, float[8, 4] w) => (float[batch, 4] y) { y = MatMul(x, w) }"


@each_of("limit, samples", (1 << 30, 3), (160, 1))
def test_what_is_dear_is_made_once(parse, monkeypatch, limit, samples):
    monkeypatch.setattr(seeded_feeds, "EXPENSIVE", limit)
    made = make_samples(parse(PRODUCT), seed=0, samples=None)
    assert len(made) == samples
    assert made[0].feeds["x"].shape == (2, 8)
    assert len(make_samples(parse(PRODUCT), seed=0, samples=4)) == 4


@each_of("limit, rows", (1 << 30, 2), (100, 1))
def test_values_at_edges_are_smallest_where_others_are_dear(parse, monkeypatch, limit, rows):
    monkeypatch.setattr("onnx_passes.runtime.inputs.boundary_values.EXPENSIVE", limit)
    found = {feeds.kind: feeds["x"].shape for feeds in edge_samples(parse(PRODUCT))}
    assert found["size 1"] == (1, 8)
    assert found["multiples of 1/2"] == (rows, 8)


def test_no_values_at_edges_where_all_sizes_are_dear(parse, monkeypatch):
    monkeypatch.setattr("onnx_passes.runtime.inputs.boundary_values.EXPENSIVE", 1)
    kinds = {feeds.kind for feeds in edge_samples(parse(PRODUCT))}
    assert kinds == {"size 1", "size 0"}
