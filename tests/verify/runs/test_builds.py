"""Good and bad builds of one model, and the layers in which they differ."""

from onnx_passes.report.timings import builds_lines
from onnx_passes.runtime.layers import EngineLayer
from onnx_passes.verify.runs.builds import Build, Builds


def layer(name, how="a"):
    return EngineLayer(name, "conv", how, seconds=0.5)


def test_layers_that_only_bad_builds_have_are_suspect():
    builds = Builds(
        "m on e",
        [
            Build("1", True, layers=[layer("x"), layer("y")]),
            Build("2", False, "scores differ", [layer("x", "b"), layer("y")]),
            Build("3", False, "scores differ", [layer("x", "b"), layer("y", "c")]),
        ],
    )
    assert builds.suspects == [layer("x", "b")]
    assert builds.as_dict()["suspects"][0]["how"] == "b"
    lines = list(builds_lines(builds))
    assert lines[-2:] == [
        "    layers that each bad build has, and no good one:",
        "        conv x by b",
    ]


def test_without_bad_builds_what_varies_is_told():
    builds = Builds("m", [Build("1", True, layers=[layer("x")]), Build("2", True, layers=[])])
    assert (builds.suspects, builds.varying) == ([], {})
    assert list(builds_lines(builds))[-1].endswith("the engine does not list them here")
    builds.builds[1].layers = [layer("x", "b"), layer("z")]
    assert builds.varying == {"1": [layer("x")], "2": [layer("x", "b"), layer("z")]}
    builds.builds[1].layers = [EngineLayer("x", "conv", "a")]
    assert list(builds_lines(builds))[-1] == "    no layer differs"


def test_builds_are_kept_in_folders_by_what_the_check_said(tmp_path):
    paths = []
    for number in range(3):
        path = tmp_path / f"{number}.engine"
        path.write_bytes(bytes([number]))
        paths.append(str(path))
    kinds = (True, False, None)
    builds = Builds("m", [Build(p, k, path=p) for p, k in zip(paths, kinds, strict=True)])
    builds.builds.append(Build("gone", True, path=str(tmp_path / "none.engine")))
    builds.keep(tmp_path / "kept")
    kept = sorted(p.relative_to(tmp_path).as_posix() for p in tmp_path.rglob("*.engine"))
    assert kept == ["kept/bad/1.engine", "kept/good/0.engine", "kept/unchecked/2.engine"]
    assert builds.builds[-1].path is None
