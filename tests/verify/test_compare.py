import math

import ml_dtypes
import numpy as np
import pytest

from onnx_passes.contracts.contract import Equality, Tolerance
from onnx_passes.verify.compare import compare, identical

F = np.float32


def one(expected, actual, contract=None, **options):
    (check,) = compare({"y": expected}, {"y": actual}, contract or Equality(), **options)
    return check


def test_equal_outputs_pass():
    x = np.arange(6, dtype=F).reshape(2, 3)
    check = one(x, x.copy())
    assert check.passed
    assert (check.max_abs, check.max_rel, check.worst, check.size) == (0, 0, None, 6)


def test_tells_the_worst_element():
    expected = np.array([[1, 2, 4], [3, 4, 5]], F)
    actual = np.array([[1, 2.5, 4], [3, 4, 6]], F)
    check = one(expected, actual)
    assert not check.passed
    assert check.reason == "2 of 6 elements differ, by up to 1"
    assert (check.max_abs, check.max_rel, check.worst) == (1, 0.25, (1, 2))
    assert (check.expected, check.actual, check.mismatched) == ("5.0", "6.0", 2)


def test_never_broadcasts():
    check = one(np.ones((2, 3), F), np.ones(3, F), Tolerance())
    assert not check.passed
    assert check.reason == "shape is [3], expected [2,3]"
    assert not one(np.ones((1,), F), np.ones((), F)).passed
    assert not one(np.ones((0, 3), F), np.ones((0, 2), F)).passed


def test_a_dtype_is_not_cast():
    check = one(np.ones(2, F), np.ones(2), Tolerance())
    assert check.reason == "dtype is float64, expected float32"
    assert not check.passed
    assert one(np.array([1, 2], ">f4"), np.array([1, 2], "<f4")).passed


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3)])
def test_rank_0_and_empty_tensors(shape):
    check = one(np.ones(shape, F), np.ones(shape, F), Tolerance())
    assert check.passed
    assert check.size == math.prod(shape)


def test_a_wrong_scalar_has_an_empty_index():
    check = one(F(1), F(2))
    assert (check.passed, check.worst, check.max_abs) == (False, (), 1)


NAN_PAYLOAD = np.array([0x7FC00001], np.uint32).view(F)[0]


@pytest.mark.parametrize("contract", [Equality(), Tolerance(), Tolerance(1e9, 1e9)])
def test_nan_and_infinities_agree_with_themselves_only(contract):
    x = np.array([np.nan, np.inf, -np.inf, 1], F)
    assert one(x, np.array([NAN_PAYLOAD, np.inf, -np.inf, 1], F), contract).passed
    for index, wrong in [(0, 1), (0, np.inf), (1, -np.inf), (1, 1), (2, np.nan), (3, np.nan)]:
        bad = x.copy()
        bad[index] = wrong
        check = one(x, bad, contract)
        assert not check.passed
        assert (check.mismatched, check.worst) == (1, (index,))
        assert f"at [{index}] {bad[index]} is not {x[index]}" in check.reason
        assert check.max_abs == 0


def test_a_nan_is_worse_than_any_difference():
    check = one(np.array([1, 1], F), np.array([1e30, np.nan], F), Tolerance())
    assert check.worst == (1,)
    assert check.max_abs == pytest.approx(1e30)


def test_negative_zero_counts_on_request_only():
    plus, minus = np.zeros(2, F), np.array([0, -0.0], F)
    assert one(plus, minus).passed
    check = one(plus, minus, negative_zero=True)
    assert check.reason == "1 of 2 elements differ, at [1] -0.0 is not 0.0"
    assert one(minus, minus.copy(), negative_zero=True).passed
    assert one(plus, minus, Tolerance(), negative_zero=True).passed
    assert one(np.array([np.nan], F), np.array([-np.nan], F), negative_zero=True).passed


@pytest.mark.parametrize(
    ("dtype", "inside", "outside"),
    [
        (np.float64, 1 + 1e-7, 1 + 3e-7),
        (np.float32, 1 + 1e-5, 1 + 1.3e-5),
        (np.float16, 1 + 2**-10, 1 + 2**-9),
        (ml_dtypes.bfloat16, 1 + 2**-6, 1 + 2**-5),
        (ml_dtypes.float8_e4m3fn, 1.125, 1.25),
        (ml_dtypes.float8_e5m2, 1.25, 1.5),
        (ml_dtypes.float4_e2m1fn, 1.5, 3.0),
        (ml_dtypes.float8_e8m0fnu, 1.0, 2.0),
        (np.complex64, 1 + 1e-5j, 1 + 2e-5j),
        (np.complex128, 1 + 1e-7j, 1 + 3e-7j),
    ],
)
def test_tolerance_by_dtype(dtype, inside, outside):
    expected = np.array([1], dtype)
    assert one(expected, np.array([inside], dtype), Tolerance()).passed
    assert not one(expected, np.array([outside], dtype), Tolerance()).passed
    if inside != 1:
        assert not one(expected, np.array([inside], dtype)).passed


def test_what_a_contract_leaves_open_is_the_dtypes_own():
    check = one(np.ones(1, F), np.full(1, 1.01, F), Tolerance(atol=0.1))
    assert check.passed
    assert (check.rtol, check.atol) == (1.3e-6, 0.1)


def test_the_limit_is_inclusive():
    assert one(np.array([1.0]), np.array([1.5]), Tolerance(0, 0.5)).passed
    assert one(np.array([2.0]), np.array([3.0]), Tolerance(0.5, 0)).passed


def test_the_worst_element_is_one_that_breaks_the_limit():
    expected, actual = np.array([1e6, 1.0]), np.array([1e6 + 1, 1.5])
    check = one(expected, actual, Tolerance(1e-5, 0))
    assert (check.mismatched, check.worst, check.max_abs) == (1, (1,), 1)


def test_an_override_stands_for_its_output_only():
    expected = {"a": np.ones(1), "b": np.ones(1)}
    actual = {"a": np.ones(1) + 0.1, "b": np.ones(1) + 0.1}
    override = {"a": Tolerance(atol=1)}
    a, b = compare(expected, actual, Tolerance(), overrides=override)
    assert (a.passed, b.passed) == (True, False)
    assert not compare(expected, actual, Equality(), overrides=override)[0].passed


def test_an_override_reaches_into_a_sequence():
    expected, actual = [np.ones(1), np.ones(1)], [np.ones(1) + 0.1, np.ones(1) + 0.1]
    for name, passes in (("y", [True, True]), ("y[1]", [False, True])):
        override = {name: Tolerance(atol=1)}
        checks = compare({"y": expected}, {"y": actual}, Tolerance(), overrides=override)
        assert [c.passed for c in checks] == passes


def test_integers_are_exact_unless_an_override_names_them():
    low, high = np.array([3], np.uint8), np.array([4], np.uint8)
    assert not one(low, high, Tolerance(1, 1)).passed
    assert one(low, high, Tolerance(), overrides={"y": Tolerance(atol=1)}).passed
    assert not one(low, high, Tolerance(), overrides={"y": Tolerance()}).passed


def test_an_integer_difference_does_not_overflow():
    info = np.iinfo(np.int64)
    check = one(np.array([info.min, 0]), np.array([info.max, 0]))
    assert check.max_abs == pytest.approx(2.0**64)
    # As floats these two are the same number.
    assert not one(np.array([2**62]), np.array([2**62 + 1])).passed


@pytest.mark.parametrize("dtype", [ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2])
def test_narrow_integers(dtype):
    x = np.array([0, 1], dtype)
    assert one(x, x.copy()).passed
    check = one(x, np.array([1, 1], dtype))
    assert (check.max_abs, check.expected, check.actual) == (1, "0", "1")


def test_booleans_have_no_difference_in_numbers():
    check = one(np.array([True, False]), np.array([True, True]), Tolerance())
    assert (check.passed, check.max_abs, check.mismatched) == (False, None, 1)


def test_strings_are_text_whatever_array_holds_them():
    expected = np.array(["a", "é"], object)
    assert one(expected, np.array(["a", "é"])).passed
    assert one(expected, np.array([b"a", "é".encode()], object)).passed
    check = one(expected, np.array(["a", "e"]), Tolerance())
    assert check.reason == "1 of 2 elements differ, at [1] 'e' is not 'é'"


def test_scale_by_max_measures_small_elements_by_the_large():
    expected, actual = np.array([1e4, 1.0], F), np.array([1e4, 1.005], F)
    assert not one(expected, actual, Tolerance()).passed
    assert one(expected, actual, Tolerance(), scale_by_max=True).passed
    with_nan = np.array([np.inf, np.nan, 1], F), np.array([np.inf, np.nan, 1.005], F)
    assert not one(*with_nan, Tolerance(), scale_by_max=True).passed


def test_names_count_and_order_come_first():
    x = np.ones(1)
    missing, extra = compare({"a": x}, {"b": x}, Equality())
    assert (missing.output, missing.passed) == ("a", False)
    assert missing.reason == "is missing; the candidate has b"
    assert (extra.output, extra.reason) == ("b", "is no output of the original")
    swapped = compare({"a": x, "b": x}, {"b": x, "a": x}, Equality())
    assert [c.passed for c in swapped] == [False, False]
    assert "is output 1" in swapped[0].reason


def test_nothing_in_common_is_a_failure():
    for expected, actual in (({}, {}), ({"a": np.ones(1)}, {}), ({}, {"a": np.ones(1)})):
        checks = compare(expected, actual, Tolerance())
        assert checks
        assert not any(c.passed for c in checks)


def test_sequences_and_maps_go_by_element():
    expected = [np.ones(2), [None, {"k": 1.0, 3: "a"}]]
    actual = [np.ones(2), [None, {"k": 2.0, 3: "a"}]]
    checks = compare({"y": expected}, {"y": actual}, Equality())
    assert [(c.output, c.passed) for c in checks] == [
        ("y[0]", True),
        ("y[1][0]", True),
        ("y[1][1]['k']", False),
        ("y[1][1][3]", True),
    ]


@pytest.mark.parametrize(
    ("expected", "actual", "reason"),
    [
        ([np.ones(1)], [], "has 0 elements, expected 1"),
        ([], [np.ones(1)], "has 1 elements, expected 0"),
        (None, np.ones(1), "is a tensor, expected an empty optional"),
        (np.ones(1), None, "is an empty optional, expected a tensor"),
        ([], None, "is an empty optional, expected a sequence"),
        ({"a": 1}, {}, "lacks the key 'a'"),
        ({}, {"a": 1}, "has the key 'a', which is not expected"),
        (np.ones(1), object(), "is of Python type object, expected a tensor"),
        (np.ones(1, "m8[s]"), np.ones(1, "m8[s]"), "dtype timedelta64[s] cannot be compared"),
    ],
)
def test_other_structure_is_a_failure(expected, actual, reason):
    checks = compare({"y": expected}, {"y": actual}, Tolerance())
    assert checks[0].reason == reason
    assert not checks[0].passed


@pytest.mark.parametrize("empty", [[], None, {}])
def test_two_empty_values_agree(empty):
    assert one(empty, empty).passed


@pytest.mark.parametrize("flip", [0, 1 << 18, (1 << 19) + 6])
def test_every_block_of_a_big_tensor_is_looked_at(flip):
    expected = np.zeros((1 << 19) + 7, np.float16)
    actual = expected.copy()
    actual[flip] = 1
    check = one(expected, actual, Tolerance())
    assert (check.passed, check.worst, check.mismatched) == (False, (flip,), 1)


def test_layout_in_memory_does_not_matter():
    expected = np.arange(12, dtype=F).reshape(3, 4)
    assert one(expected, np.asfortranarray(expected)).passed
    actual = np.asfortranarray(expected)
    actual[2, 1] = 100
    assert one(expected, actual).worst == (2, 1)


def test_complex_parts_are_told_apart():
    assert not one(np.array([1 + 2j]), np.array([2 + 1j])).passed
    assert not one(np.array([complex(np.inf, 0)]), np.array([complex(0, np.inf)])).passed
    assert one(np.array([complex(np.nan, 1)]), np.array([complex(np.nan, 1)])).passed


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        (np.float32([1, np.nan]), np.float32([1, np.nan]), True),
        (np.float32([0]), np.float32([-0.0]), False),
        (np.float32([1]), np.float64([1]), False),
        (np.int64([1]), np.int64([[1]]), False),
        ([np.float32([1])], [np.float32([1])], True),
        (None, np.float32([1]), False),
    ],
)
def test_identical_values_are_so_bit_for_bit(old, new, same):
    assert identical(old, new) is same
