import pytest


def graph(body, shape, target=(-1, 4)):
    numbers = ", ".join(map(str, target))
    fixed = f"int64[{len(target)}] s = {{{numbers}}}"
    dims = ",".join("?" * len(target))
    return f"(float[{shape}] x) => (float[{dims}] y) <{fixed}> {{ {body} }}"


@pytest.mark.parametrize(
    ("shape", "perm"),
    [
        ("2,1,8,4", "<perm = [0, 2, 1, 3]>"),
        ("N,1,8,4", "<perm = [1, 0, 2, 3]>"),
        ("1,1,8,4", "<perm = [2, 1, 0, 3]>"),
        ("1,1,8,1", ""),
    ],
)
def test_fires(shape, perm, rewrites):
    before = graph(f"t = Transpose{perm}(x) y = Reshape(t, s)", shape)
    rewrites(before, graph("y = Reshape(x, s)", shape))


def test_a_target_may_copy_an_axis_that_stays(rewrites):
    """The windows of a small Swin stayed four nodes where there is only one."""
    shape, target = "N,1,8,4", (0, 32)
    before = graph("t = Transpose<perm = [0, 2, 1, 3]>(x) y = Reshape(t, s)", shape, target)
    after = graph("y = Reshape(x, s)", shape, target)
    rewrites(before, after)


@pytest.mark.parametrize(
    ("shape", "perm", "target"),
    [
        pytest.param("2,3,8,4", "<perm = [0, 2, 1, 3]>", (-1, 4), id="moves"),
        pytest.param("2,N,8,4", "<perm = [0, 2, 1, 3]>", (-1, 4), id="unknown"),
        pytest.param("2,1,8,4", "<perm = [0, 2, 1, 3]>", (2, 0, 4), id="copies"),
        pytest.param("2,1,8,4", "<perm = [1, 0, 2, 3]>", (0, -1), id="copies-first"),
    ],
)
def test_leaves_alone(shape, perm, target, leaves_alone):
    text = graph(f"t = Transpose{perm}(x) y = Reshape(t, s)", shape, target)
    leaves_alone(text)


def test_leaves_computed_targets_alone(leaves_alone):
    text = graph("t = Transpose(x) u = Abs(s) y = Reshape(t, u)", "1,8", (2, 4))
    leaves_alone(text)
