from typing import ClassVar, Literal

import pytest

from onnx_passes.errors import OptionError
from onnx_passes.passes.base import Transformation
from onnx_passes.passes.options import MIB, Size, validate_options
from tests.tables import each_of


class Configurable(Transformation):
    limit: Size = 1 * MIB
    mode: Literal["fast", "slow"] = "fast"
    version: int
    not_an_option: ClassVar[int] = 3

    def call(self, model):
        raise AssertionError


def test_options_become_attributes_of_the_pass():
    pass_ = Configurable(version=3, limit="2 MiB")
    assert (pass_.version, pass_.limit, pass_.mode) == (3, 2 * MIB, "fast")


@each_of(
    "text, size", ("64", 64), ("64 KiB", 65536), ("1.5 GB", 1_500_000_000), ("2mb", 2000000)
)
def test_sizes(text, size):
    assert validate_options(Configurable, {"version": 1, "limit": text})["limit"] == size


@each_of(
    "options, message",
    ({"version": 1, "limt": 3}, "has no option 'limt'"),
    ({"version": "three"}, "option 'version'"),
    ({"version": 1, "mode": "medium"}, "option 'mode'"),
    ({"version": 1, "limit": "7 bananas"}, "a size is a number with an optional unit"),
    ({"version": 1, "limit": "1" * 5000}, "a size is a number with an optional unit"),
    ({"version": 1, "limit": "1" + " " * 100_000 + "!"}, "a size is a number"),
    ({}, "option 'version': field required"),
)
def test_wrong_options_are_named(options, message):
    with pytest.raises(OptionError, match=message):
        Configurable(**options)
