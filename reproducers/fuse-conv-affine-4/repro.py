"""Run before.onnx and after.onnx on inputs.npz, and print where their outputs differ.

Exit code 1: they still differ. 0: they agree. 2: before.onnx itself does not run here.
Needs onnx, onnxruntime and numpy, openvino where that judged, and nothing else.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort

HERE = Path(__file__).resolve().parent
Feeds = dict[str, Any]
Settings = dict[str, Any]
BITS = {"INT4": 4, "UINT4": 4, "FLOAT4E2M1": 4, "INT2": 2, "UINT2": 2}


def main() -> int:
    """Compare the two models; return the exit code."""
    check = json.loads((HERE / "check.json").read_text("utf-8"))
    inputs = np.load(HERE / "inputs.npz", allow_pickle=False)
    feeds = {name: inputs[name] for name in inputs.files}
    feeds |= {name: assemble(form, inputs) for name, form in check["inputs"].items()}
    engine = check["engine"]
    version = version_of(engine["engine"])
    other = "" if version == engine["version"] else f", the check ran on {engine['version']}"
    say(f"{engine['name']}, version {version}{other}")
    if not (HERE / "after.onnx").exists():
        say(f"after.onnx could not even be written: {check['lost']}")
        return 1
    faults = static_faults(check["kind"])
    if faults:
        say(*faults)
        return 1
    if check["kind"] in ("structure", "interface") and not feeds:
        say("nothing is wrong with the structure of after.onnx")
        return 0
    found = []
    for code, file in ((2, "before.onnx"), (1, "after.onnx")):
        try:
            outputs = run(file, feeds, engine)
        except Exception as error:
            say(f"{file} does not run: {error}")
            return code
        found.append({k: v for k, v in outputs.items() if k not in check["ignored"]})
    expected, actual = found
    if list(expected) != list(actual):
        faults.append(f"the outputs are {list(actual)}, expected {list(expected)}")
    for name in [n for n in expected if n in actual]:
        faults += compare(name, name, expected[name], actual[name], check)
    say(*faults or ["the outputs agree"])
    return 1 if faults else 0


def version_of(engine: str) -> str:
    """Return the version of an engine here."""
    if engine == "openvino":
        return str(importlib.import_module("openvino").__version__)
    return str(onnx.__version__ if engine == "reference" else ort.__version__)


def say(*lines: str) -> None:
    """Print lines; what a terminal could take for a command is escaped, as are names."""
    for line in lines:
        shown = (c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
        encoding = sys.stdout.encoding or "ascii"
        print("".join(shown).encode(encoding, "backslashreplace").decode(encoding))


def assemble(form: Any, inputs: Any) -> Any:
    """Return a sequence or an empty optional from the arrays that it was taken apart into.

    ``form`` has names of arrays in the structure of the value; None for an empty optional.
    """
    if isinstance(form, list):
        return [assemble(item, inputs) for item in form]
    return None if form is None else inputs[form]


def static_faults(kind: str) -> list[str]:
    """Say what is wrong with after.onnx without running it, where that is what failed."""
    before, after = (onnx.load(HERE / name) for name in ("before.onnx", "after.onnx"))
    if kind == "interface":
        return [
            f"the {side}s are {told[1]}, expected {told[0]}"
            for side in ("input", "output")
            if (told := [describe(getattr(m.graph, side)) for m in (before, after)])[0]
            != told[1]
        ]
    if kind != "structure":
        return []
    found = [invalid(model) for model in (before, after)]
    return [f"after.onnx is not valid: {found[1]}"] if found[1] and not found[0] else []


def invalid(model: Any) -> str:
    """Return what onnx's checker says of a model; nothing where it is valid."""
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception as error:
        return str(error).strip()
    return ""


def describe(values: Any) -> str:
    """Return inputs or outputs as text."""
    told = []
    for value in values:
        tensor = value.type.tensor_type
        dims = [d.dim_param or str(d.dim_value or "?") for d in tensor.shape.dim]
        kind = onnx.TensorProto.DataType.Name(tensor.elem_type).lower()
        shape = f"[{', '.join(dims)}]" if tensor.HasField("shape") else ""
        told.append(f"{value.name} {kind}{shape}")
    return "; ".join(told)


def run(file: str, feeds: Feeds, engine: Settings) -> Feeds:
    """Return the outputs of a model by name."""
    model = onnx.load(HERE / file)
    types = {v.name: v.type.tensor_type.elem_type for v in model.graph.input}
    if engine["engine"] == "reference":
        return evaluate(model, {n: a for n, a in feeds.items() if n in types}, types)
    if engine["engine"] == "openvino":
        return infer(HERE / file, feeds, engine)
    session = start(model, engine)
    if widen(model, {value.name: value.type for value in session.get_outputs()}):
        session = start(model, engine)
    wanted = {value.name for value in session.get_inputs()}
    given = {n: feed(a, types.get(n, 0)) for n, a in feeds.items() if n in wanted}
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(names, given), strict=True))


def start(model: Any, engine: Settings) -> Any:
    """Return a session of onnxruntime, set up as the check had it."""
    options = ort.SessionOptions()
    level = "ENABLE_" + engine["optimization"].upper()
    level = level if engine["optimization"] != "none" else "DISABLE_ALL"
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, f"ORT_{level}")
    options.intra_op_num_threads = engine["threads"]
    options.inter_op_num_threads = 1
    options.use_deterministic_compute = True
    options.log_severity_level = 4
    entries = {"session.disable_prepacking": not engine["prepacking"]}
    if engine["provider"] != "CPUExecutionProvider":
        entries["session.disable_cpu_ep_fallback"] = not engine["cpu_fallback"]
    for name, value in entries.items():
        options.add_session_config_entry(name, str(int(value)))
    ort.set_seed(engine["seed"])
    prefix = "provider."
    given = {k[len(prefix) :]: v for k, v in engine.items() if k.startswith(prefix)}
    providers = [(engine["provider"], given)]
    return ort.InferenceSession(model.SerializeToString(), options, providers=providers)


def infer(file: Path, feeds: Feeds, engine: Settings) -> Feeds:
    """Return the outputs of a model by OpenVINO, set up as the check had it."""
    ov: Any = importlib.import_module("openvino")
    settings = {
        "INFERENCE_PRECISION_HINT": engine["precision"],
        "EXECUTION_MODE_HINT": "ACCURACY",
        "NUM_STREAMS": 1,
    }
    if engine["device"] == "CPU":
        own = {"INFERENCE_NUM_THREADS": engine["threads"], "ENABLE_CPU_PINNING": False}
        settings = {**own, "DYNAMIC_QUANTIZATION_GROUP_SIZE": "0", **settings}
    compiled = ov.Core().compile_model(str(file), engine["device"], settings)
    request = compiled.create_infer_request()
    for port in compiled.inputs:
        name = next(n for n in port.get_names() if n in feeds)
        request.set_tensor(port, ov.Tensor(np.ascontiguousarray(feeds[name])))
    request.infer()
    outputs = [value.name for value in onnx.load(file).graph.output]
    # A tensor is a view into the request, which ends with this function.
    return {n: request.get_output_tensor(i).data.copy() for i, n in enumerate(outputs)}


def evaluate(model: Any, feeds: Feeds, types: dict[str, int]) -> Feeds:
    """Return the outputs of a model by onnx's evaluator; ``types`` are ONNX's numbers."""
    from onnx.reference import ReferenceEvaluator

    numpy_type = onnx.helper.tensor_dtype_to_np_dtype
    for name, array in feeds.items():
        if isinstance(array, np.ndarray) and array.dtype != numpy_type(types[name]):
            text = array.dtype.kind == "U"
            feeds[name] = array.astype(object) if text else array.view(numpy_type(types[name]))
    names = [value.name for value in model.graph.output]
    with np.errstate(all="ignore"):
        found = dict(zip(names, ReferenceEvaluator(model).run(names, feeds), strict=True))
    for value in model.graph.output:
        kind = value.type.tensor_type.elem_type
        array = found[value.name]
        if kind and isinstance(array, np.ndarray) and kind != onnx.TensorProto.STRING:
            array = array.astype(numpy_type(kind))
            found[value.name] = array.astype(np.float32) if array.dtype.kind == "V" else array
    return found


def feed(array: Any, element_type: int) -> Any:
    """Return an input as onnxruntime takes it; types that numpy lacks come as raw bytes.

    A list of arrays is a sequence. ``element_type`` is ONNX's number.
    """
    if isinstance(array, list):
        return [feed(item, 0) for item in array]
    if array is None or array.dtype.kind == "U":
        return array if array is None else array.astype(object)
    bits = BITS.get(onnx.TensorProto.DataType.Name(element_type), 0)
    if bits:
        return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(pack(array, bits), element_type)
    if array.dtype.kind != "V":
        return array
    raw = array.view(np.dtype(f"u{array.dtype.itemsize}"))
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(raw, element_type)


def pack(array: Any, bits: int) -> Any:
    """Pack elements into bytes, the first lowest, in an array that claims a byte for each.

    ``array`` is uint8 of any shape; ``bits`` are those of an element.
    """
    codes = array.reshape(-1) & np.uint8((1 << bits) - 1)
    codes = np.pad(codes, (0, -codes.size % (8 // bits))).reshape(-1, 8 // bits)
    shifts = np.arange(8 // bits, dtype=np.uint8) * np.uint8(bits)
    packed = np.bitwise_or.reduce(codes << shifts, axis=1)
    strides = tuple(np.cumprod((1, *array.shape[:0:-1]))[::-1].tolist()) if array.ndim else ()
    return np.lib.stride_tricks.as_strided(packed, array.shape, strides, writeable=False)


def widen(model: Any, types: dict[str, str]) -> bool:
    """Cast outputs of types that numpy lacks to float or int32, which hold them exactly.

    The model is changed. ``types`` are those of outputs by name, in onnxruntime's words.
    """
    changed = False
    for value in model.graph.output:
        name = types[value.name].removeprefix("tensor(").removesuffix(")").upper()
        if name not in BITS and not name.startswith(("BFLOAT", "FLOAT8", "FLOAT4")):
            continue
        inner = value.name + ".narrow"
        for node in model.graph.node:
            node.output[:] = [inner if n == value.name else n for n in node.output]
            rename(node, value.name, inner)
        whole = name.startswith(("INT", "UINT"))
        wide = onnx.TensorProto.INT32 if whole else onnx.TensorProto.FLOAT
        model.graph.node.append(onnx.helper.make_node("Cast", [inner], [value.name], to=wide))
        value.type.tensor_type.elem_type = wide
        changed = True
    return changed


def rename(node: Any, old: str, new: str) -> None:
    """Rename a value where a node, or a graph inside of it, reads it."""
    node.input[:] = [new if n == old else n for n in node.input]
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                rename(inner, old, new)


def compare(path: str, name: str, old: Any, new: Any, check: Settings) -> list[str]:
    """Say in what two values at a path differ, a sentence each; ``name`` has limits."""
    if isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            return [f"{path} has {len(new)} elements, expected {len(old)}"]
        return [
            fault
            for i, pair in enumerate(zip(old, new, strict=True))
            for fault in compare(f"{path}[{i}]", name, *pair, check)
        ]
    if not isinstance(old, np.ndarray) or not isinstance(new, np.ndarray):
        return [] if type(old) is type(new) else [f"{path} is {new}, expected {old}"]
    if old.dtype != new.dtype or old.shape != new.shape:
        told, wanted = (f"{value.dtype}{list(value.shape)}" for value in (new, old))
        return [f"{path} is {told}, expected {wanted}"]
    rtol, atol = check["limits"].get(path) or check["limits"].get(name, [0.0, 0.0])
    wrong = differing(old, new, rtol, atol, check)
    if not wrong.any():
        return []
    if old.dtype.kind in "biufc":
        with np.errstate(all="ignore"):
            error = np.abs(new.astype(np.complex128) - old.astype(np.complex128))
        error = np.where(wrong, np.where(np.isnan(error), np.inf, error), -1)
    else:
        error = wrong.astype(float)
    worst = np.unravel_index(int(np.argmax(error)), old.shape)
    place = ", ".join(str(int(i)) for i in worst)
    return [
        f"{path}: {int(wrong.sum())} of {old.size} elements differ, the worst at [{place}]: "
        f"before {old[worst]}, after {new[worst]} (rtol {rtol:g}, atol {atol:g})"
    ]


def differing(old: Any, new: Any, rtol: float, atol: float, check: Settings) -> Any:
    """Return which elements differ by more than ``atol + rtol * |old|``."""
    if old.dtype.kind not in "fc":
        if rtol == atol == 0 or old.dtype.kind not in "iu":
            return old != new
        old, new = old.astype(np.float64), new.astype(np.float64)
    both_nan = np.isnan(old) & np.isnan(new)
    equal = (old == new) | both_nan
    if rtol == atol == 0:
        if check["signed_zeros"] and old.dtype.kind == "f":
            equal &= (np.signbit(old) == np.signbit(new)) | both_nan
        return ~equal
    finite = np.isfinite(old) & np.isfinite(new)
    wide = np.complex128 if old.dtype.kind == "c" else np.float64
    a, b = old.astype(wide), new.astype(wide)
    size = np.abs(np.where(np.isfinite(old), a, 0))
    if check["scaled"]:
        size = size.max(initial=0.0)
    with np.errstate(all="ignore"):
        near = finite & (np.abs(b - a) <= atol + rtol * size)
    return ~(equal | near)


if __name__ == "__main__":
    sys.exit(main())
