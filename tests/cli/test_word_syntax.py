"""Shapes, element types and lists of names, as every command of the bench reads them."""

import click
import pytest

from onnx_passes.cli.word_syntax import (
    ManyWords,
    Several,
    SeveralFiles,
    read_dtype,
    read_shape,
)
from onnx_passes.errors import UsageError
from tests.tables import each_of


@each_of(
    "text, shape",
    ("1x3x224x224", (1, 3, 224, 224)),
    ("7", (7,)),
    ("[]", ()),
    ("[batch, 3, past + 1]", ("batch", 3, "past + 1")),
)
def test_shapes_have_two_spellings(text, shape):
    assert read_shape(text, f"x:{text}", "--inputs") == shape


def test_types_have_the_names_of_numpy_and_of_onnx():
    assert read_dtype("float32", "", "") == read_dtype("FLOAT", "", "")
    assert read_dtype("float64", "", "") == read_dtype("double", "", "")
    with pytest.raises(UsageError, match="did you mean 'float32'"):
        read_dtype("flaot32", "y:flaot32", "--outputs")


def parsed(*words):
    @click.command(cls=ManyWords)
    @click.argument("models", nargs=-1)
    @click.option("--names", cls=Several, multiple=True)
    @click.option("--show", cls=Several, multiple=True, type=click.Choice(["a", "b"]))
    @click.option("--data", cls=SeveralFiles, multiple=True)
    @click.option("--flag", is_flag=True)
    def command(**given):
        return given

    return command.main(list(words), standalone_mode=False)


def test_words_belong_to_an_option_up_to_the_next_one():
    given = parsed("m.onnx", "--names", "x", "y", "--flag", "--names", "z")
    assert given["names"] == ("x", "y", "z")
    assert given["models"] == ("m.onnx",)
    assert given["flag"]


def test_a_file_that_there_is_is_an_argument(tmp_path):
    file = tmp_path / "m.onnx"
    file.touch()
    given = parsed("--names", "x", "y", str(file))
    assert (given["names"], given["models"]) == (("x", "y"), (str(file),))


def test_files_of_data_are_no_arguments_but_models_are(tmp_path):
    files = [str(tmp_path / name) for name in ("0.npz", "1.npz", "m.onnx")]
    for file in files:
        open(file, "w").close()
    given = parsed("--data", *files, "n.onnx")
    assert given["data"] == tuple(files[:2])
    assert given["models"] == (files[2], "n.onnx")


def test_choices_end_at_the_first_word_that_is_none():
    given = parsed("--show", "a", "b", "m.onnx", "--show", "a,b")
    assert (given["show"], given["models"]) == (("a", "b", "a", "b"), ("m.onnx",))
    with pytest.raises(click.BadParameter):
        parsed("--show", "c")


def test_words_after_two_dashes_are_arguments():
    assert parsed("--names", "x", "--", "--names")["models"] == ("--names",)


def test_an_option_without_a_word_is_told():
    with pytest.raises(click.UsageError, match="requires an argument"):
        parsed("--names")
