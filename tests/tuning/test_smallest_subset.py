import pytest

from onnx_passes.tuning.smallest_subset import find_smallest_subset


@pytest.mark.parametrize("needed", [{3}, {0, 31}, {4, 5, 6}, {1, 9, 17, 30}, set(range(32))])
def test_exactly_the_needed_are_found_in_few_tests(needed):
    tests = []

    def holds(items):
        tests.append(items)
        return needed <= set(items)

    assert set(find_smallest_subset(list(range(32)), holds)) == needed
    assert len(tests) <= 3 * len(needed) * 6


def test_what_is_needed_only_without_others_goes():
    # {0} alone holds, but so do 1 and 2 together with anything.
    def holds(items):
        return 0 in items or {1, 2} <= set(items)

    found = set(find_smallest_subset([0, 1, 2, 3], holds))
    assert found in ({0}, {1, 2})


def test_one_item():
    assert find_smallest_subset(["a"], lambda items: bool(items)) == ["a"]
