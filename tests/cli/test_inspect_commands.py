"""``view``: a model as a page, by itself, with a run, or with ranges that were seen."""

import json
import re


def data_of(path):
    found = re.search(r'id="data">(.*?)</script>', path.read_text(), re.S)
    return json.loads(found[1])


def values(data):
    return {value["n"]: value for value in data["values"]}


def test_a_page_is_written_beside_the_caller(cli, model, tmp_path):
    end = cli("view", model)
    assert (end.code, end.out) == (0, "wrote model.html\n")
    data = data_of(tmp_path / "model.html")
    assert [node["o"] for node in data["nodes"]] == ["Add", "Identity", "Relu"]
    # Shapes are inferred, and a Relu is not negative whatever goes in.
    assert values(data)["s"]["t"] == "float[N, 2]"
    assert values(data)["y"]["r"][0] == 0.0


def test_a_run_marks_what_it_has_changed(cli, model, tmp_path):
    assert cli("-c", "cleanup", "-o", "out.onnx", "--json", "run.json", model).code == 0
    assert cli("view", "out.onnx", "--report", "run.json", "-o", "p/page.html").code == 0
    data = data_of(tmp_path / "p" / "page.html")
    marked = [node for node in data["nodes"] if "e" in node]
    assert marked
    assert {node["e"] for node in marked} <= {"proved", "executed"}
