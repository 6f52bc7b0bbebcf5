"""What somebody sees who runs an analysis."""

from pathlib import Path

DIGITS = Path(__file__).parents[2] / "examples/digits/model.onnx"


def test_an_analysis_tells_what_it_found_without_being_asked_twice(cli):
    done = cli(DIGITS, "cost{dims={batch: 1}}", "-o", "o.onnx")
    assert done.code == 0
    assert "Conv '/conv2/Conv': " in done.err
    assert "FLOP" in done.err


def test_a_model_of_pytorch_is_printed_though_its_constants_have_slashes_in_their_names(cli):
    done = cli("-o", "-", DIGITS, "cost")
    assert done.code == 0, done.err
    assert "main_graph (float[batch,1,8,8] image)" in done.out
