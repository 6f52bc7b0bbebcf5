import pytest

from onnx_passes.passes.cleanup.remove_unused_outputs import RemoveUnusedOutputs


def test_drops_a_trailing_output(rewrites):
    rewrites(
        RemoveUnusedOutputs(),
        "(float[1,1,4] x) => (float[1,1,2] y) { y, i = MaxPool<kernel_shape = [3]>(x) }",
        "(float[1,1,4] x) => (float[1,1,2] y) { y = MaxPool<kernel_shape = [3]>(x) }",
    )


def test_leaves_a_gap_where_a_later_output_is_read(rewrites):
    model = rewrites(
        RemoveUnusedOutputs(),
        """(float[2,1,3] x, float[1,8,3] w, float[1,8,2] r) => (float[1,1,2] c)
        { y, h, c = LSTM<hidden_size = 2>(x, w, r) }""",
    )
    assert [v.name for v in model.graph[0].outputs] == ["", "", "c"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("(float[4] x) => (float[2] y) { y, z = Split<num_outputs = 2>(x) }"),
        pytest.param(
            """(float[1,2,3] x) => (float[1,2,3] y) <float[2] s = {1, 1}, float[2] m = {0, 0}>
            { y, a, b = BatchNormalization<training_mode = 1>(x, s, m, m, s) }""",
            id="training",
        ),
        pytest.param(
            "(float[4] x) => (float[2] v, int64[2] i) <int64[1] k = {2}> "
            "{ v, i = TopK(x, k) }",
            id="both-returned",
        ),
        pytest.param(
            "(float[4] x) => (float[2] v) <int64[1] k = {2}> { v, i = TopK(x, k) }",
            id="required-by-the-schema",
        ),
        pytest.param(
            """<ir_version: 11, opset_import: ["" : 23]>
            g (float[1,2,3,4] q, float[1,2,3,4] k, float[1,2,3,4] v,
               float[1,2,1,4] pk, float[1,2,1,4] pv) => (float[1,2,3,4] y, float[1,2,4,4] b)
            { y, a, b = Attention(q, k, v, , pk, pv) }""",
            id="attention-whose-present-keys-onnx-runtime-wants-where-past-ones-are-given",
        ),
    ],
)
def test_leaves_alone(text, leaves_alone):
    leaves_alone(RemoveUnusedOutputs(), text)
