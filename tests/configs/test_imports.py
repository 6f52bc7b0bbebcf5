import subprocess
import sys
import textwrap

import pytest

from onnx_passes.configs.imports import import_modules, search_path
from onnx_passes.configs.pipeline_files import config_from_data, load_config
from onnx_passes.configs.resolve import resolve
from onnx_passes.errors import ConfigError
from tests.tables import each_of

PASS = """\
from onnx_passes import passes
from onnx_passes.passes import Transformation
from {helper} import MARK

@passes.register()
class {name}(Transformation):
    mark = MARK

    def call(self, model): ...
"""

NULL_BYTES = "SyntaxError" if sys.version_info >= (3, 11, 4) else "ValueError"


@pytest.fixture
def folder(tmp_path):
    def make(name, files, text):
        path = tmp_path / name
        for file, content in files.items():
            (path / file).parent.mkdir(parents=True, exist_ok=True)
            (path / file).write_text(content)
        (path / "cfg.yaml").write_text(text)
        return load_config(path / "cfg.yaml")

    return make


@pytest.fixture(autouse=True)
def same_process(own_passes):
    path, modules = list(sys.path), set(sys.modules)
    yield
    assert sys.path == path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def test_modules_are_found_from_the_configs_folder(folder):
    files = {
        "cfg_mine.py": PASS.format(helper="cfg_parts.marks", name="CfgMine"),
        "cfg_parts/__init__.py": "",
        "cfg_parts/marks.py": "MARK = 'mine'",
    }
    (step,) = resolve(folder("a", files, "imports: [cfg_mine]\npasses: [cfg-mine]")).steps
    assert step.cls.mark == "mine"


def test_modules_are_found_from_the_working_folder(folder, tmp_path, monkeypatch):
    (tmp_path / "cfg_in_cwd.py").write_text("")
    monkeypatch.chdir(tmp_path)
    import_modules(folder("a", {"cfg_other.py": ""}, "imports: [cfg_in_cwd, json.tool]"))
    assert "cfg_in_cwd" in sys.modules


def test_modules_of_one_name_in_two_folders_do_not_mix(folder):
    configs = {
        name: folder(
            name,
            {
                "cfg_same.py": PASS.format(helper="cfg_marks", name="CfgSame"),
                "cfg_marks.py": f"MARK = {name!r}",
            },
            "imports: [cfg_same]\npasses: [cfg-same]",
        )
        for name in ("a", "b")
    }
    found = [resolve(configs[name]).steps[0].cls for name in ("a", "b", "a", "a")]
    assert [cls.mark for cls in found] == ["a", "b", "a", "a"]
    assert found[2] is found[3]


def test_an_environment_below_the_folder_is_not_taken_for_the_folder(folder):
    files = {"cfg_user.py": "import cfg_lib", "venv/cfg_lib.py": ""}
    config = folder("a", files, "imports: [cfg_user]")
    sys.path.append(str(config.folder / "venv"))
    try:
        import_modules(config)
        library = sys.modules["cfg_lib"]
        import_modules(folder("b", {"cfg_user.py": "import cfg_lib"}, "imports: [cfg_user]"))
    finally:
        sys.path.remove(str(config.folder / "venv"))
    assert sys.modules["cfg_lib"] is library
    assert sys.modules["cfg_user"].__file__.endswith("b/cfg_user.py")


def test_a_module_that_is_imported_during_the_run(folder):
    files = {"cfg_late.py": "def late():\n  import cfg_part\n  return cfg_part.X"}
    first = folder("a", {**files, "cfg_part.py": "X = 'a'"}, "imports: [cfg_late]")
    second = folder("b", {**files, "cfg_part.py": "X = 'b'"}, "imports: [cfg_late]")
    for config, mark in ((first, "a"), (second, "b")):
        with search_path(config.folder):
            import_modules(config)
            assert sys.modules["cfg_late"].late() == mark


def test_nothing_is_imported_that_is_not_named(folder):
    folder("a", {"cfg_unnamed.py": "raise SystemExit('imported')"}, "passes: []")
    assert "cfg_unnamed" not in sys.modules


def complaint(config):
    with pytest.raises(ConfigError) as caught:
        import_modules(config)
    return caught.value


@each_of(
    "code, message",
    ("x = 1\nundefined_name", "NameError: name 'undefined_name' is not defined (FILE:2)"),
    ("def f(:\n  pass", "SyntaxError: invalid syntax (FILE:1)"),
    ("import cfg_not_there", "ModuleNotFoundError: No module named 'cfg_not_there' (FILE:1)"),
    ("raise SystemExit(3)", "SystemExit: 3 (FILE:1)"),
    ("def f():\n  1 / 0\nf()", "ZeroDivisionError: division by zero (FILE:2)"),
    ("from onnx_passes import passes\npasses.register()(3)", "3 is not a pass"),
    ("\0", f"{NULL_BYTES}: source code string cannot contain null bytes"),
)
def test_a_module_that_fails_to_import(folder, tmp_path, code, message):
    error = complaint(folder("a", {"cfg_bad.py": code}, "imports:\n  - cfg_bad"))
    expected = message.replace("FILE", str(tmp_path / "a" / "cfg_bad.py"))
    assert error.message.startswith(f"module 'cfg_bad' fails to import: {expected}")
    assert "cfg.yaml:2:5\n" in error.where
    assert "cfg_bad" not in sys.modules


def test_two_passes_of_one_name(folder):
    files = {
        "cfg_clash.py": PASS.format(helper="cfg_m", name="CfgFold"),
        "cfg_m.py": "MARK = 1",
    }
    error = complaint(folder("a", files, "imports: [cfg_clash]"))
    assert "two passes are named 'cfg-fold'" in error.message


@each_of(
    "name, message, help_",
    ("cfg_min", "there is no module 'cfg_min'", "did you mean 'cfg_mine'?"),
    ("zzz", "there is no module 'zzz'", "nor in the environment"),
    ("cfg_mine.inner", "there is no module 'cfg_mine.inner'", ""),
    ("cfg_mine.py", "there is no module 'cfg_mine.py'", "write cfg_mine"),
    ("sub/mod.py", "is not the name of a module", "write sub.mod"),
    (".mod", "is not the name of a module", "write mod"),
    ("../mod.py", "is not the name of a module", "beside the pipeline file"),
    ("/mod.py", "is not the name of a module", "PYTHONPATH"),
    ("a b", "is not the name of a module", "letters"),
    ("''", "is not the name of a module", ""),
)
def test_a_module_that_is_not_there(folder, name, message, help_):
    error = complaint(folder("a", {"cfg_mine.py": ""}, f"imports: [json, {name}]"))
    assert message in error.message
    assert help_ in error.help
    assert "cfg.yaml:1:17\n" in error.where


def test_a_module_hidden_by_one_already_imported(folder):
    error = complaint(folder("a", {"json.py": ""}, "imports: [json]"))
    assert "json.py is hidden by the module 'json' that is already imported" in error.message
    assert error.help == "rename the file"


def test_data_without_a_file_imports_from_the_working_folder(tmp_path, monkeypatch):
    (tmp_path / "cfg_from_data.py").write_text("")
    monkeypatch.chdir(tmp_path)
    import_modules(config_from_data({"imports": ["cfg_from_data"]}))
    assert "cfg_from_data" in sys.modules


def test_loading_the_configs_of_the_package_imports_no_engine():
    code = """\
        import sys
        from onnx_passes.configs.pipeline_files import load_config
        load_config("optimize")
        assert not {"onnxruntime", "z3", "hypothesis"} & set(sys.modules)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True)
