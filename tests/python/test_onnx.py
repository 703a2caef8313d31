"""Exported graphs are valid ONNX, and give the logits of this program in ONNX Runtime and in onnx's reference evaluator.

Run by ctest with the program that writes the cases as TOST_PROBE.
"""
import json
import os
import struct
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

TYPES = {"F32": np.float32, "I64": np.int64}


def read_safetensors(path):
    data = path.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    found = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        found[name] = np.frombuffer(data[8 + size + begin : 8 + size + end], TYPES[entry["dtype"]]).reshape(entry["shape"])
    return found


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("onnx")
    subprocess.run([os.environ["TOST_PROBE"], made], check=True)
    return made


def cases():
    vision = ["tssa", "registers", "uniform", "none", "softmax"]
    return [f"vision_{name}" for name in vision] + [
        "language_tssa", "language_short_bias", "language_additions", "language_means"]


def opened(folder, name):
    model = onnx.load(folder / f"{name}.onnx")
    onnx.checker.check_model(model, full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    tensors = read_safetensors(folder / f"{name}.safetensors")
    given = {key[3:]: value for key, value in tensors.items() if key.startswith("in.")}
    wanted = {key[4:]: value for key, value in tensors.items() if key.startswith("out.")}
    return model, session, given, wanted


def zero_state(session, batch):
    """Of a text that has not begun."""
    return {one.name: np.zeros([batch, *one.shape[1:]], np.float32) for one in session.get_inputs()
            if one.name.startswith("state_")}


def whole(session, given):
    inputs = dict(given)
    if "ids" in inputs:
        inputs.update(zero_state(session, len(inputs["ids"])), position=np.array(0))
    return inputs


def near(found, wanted, tolerance=1e-5):
    np.testing.assert_allclose(found, wanted, rtol=0, atol=tolerance * max(1, np.abs(wanted).max()))


@pytest.mark.parametrize("name", cases())
def test_equals_the_program(folder, name):
    model, session, given, wanted = opened(folder, name)
    inputs = whole(session, given)
    names = [one.name for one in session.get_outputs()]
    by_runtime = dict(zip(names, session.run(None, inputs)))
    by_reference = dict(zip(names, ReferenceEvaluator(model).run(None, inputs)))
    for key, value in wanted.items():
        near(by_runtime[key], value)
        near(by_reference[key], value)


@pytest.mark.parametrize("name", [name for name in cases() if name.startswith("language")])
def test_pieces_give_what_the_whole_gives(folder, name):
    _, session, given, wanted = opened(folder, name)
    ids = given["ids"]
    state, pieces, at = zero_state(session, len(ids)), [], 0
    names = [one.name for one in session.get_outputs()]
    for count in (4, 1, 1, 5):
        out = dict(zip(names, session.run(None, {"ids": ids[:, at : at + count], "position": np.array(at), **state})))
        pieces.append(out["logits"])
        state = {key: out["new_" + key] for key in state}
        at += count
    near(np.concatenate(pieces, 1), wanted["logits"])


@pytest.mark.parametrize("name", ["vision_tssa", "language_tssa"])
def test_any_batch(folder, name):
    _, session, given, _ = opened(folder, name)
    key = next(iter(given))
    one = session.run(None, whole(session, {key: given[key][:1]}))[0]
    near(one, session.run(None, whole(session, given))[0][:1])


@pytest.mark.parametrize("name", ["vision_tssa", "language_tssa", "language_means"])
def test_half_precision_is_finite(folder, name):
    """No constant vanishes in float16, so that zeros (a black picture, padding) stay finite."""
    model, _, given, _ = opened(folder, name)
    for tensor in model.graph.initializer:
        if tensor.data_type != onnx.TensorProto.FLOAT:
            continue
        values = onnx.numpy_helper.to_array(tensor)
        half = values.astype(np.float16)
        assert np.isfinite(half).all(), tensor.name
        if values.ndim == 0:
            assert (half != 0) == (values != 0), tensor.name


def test_openvino(folder):
    openvino = pytest.importorskip("openvino")
    for name in ("vision_tssa", "language_tssa", "language_means"):
        _, session, given, wanted = opened(folder, name)
        compiled = openvino.Core().compile_model(str(folder / f"{name}.onnx"), "CPU",
                                                 {"INFERENCE_PRECISION_HINT": "f32"})
        found = compiled(whole(session, given))
        near(found[compiled.output("logits")], wanted["logits"])


if __name__ == "__main__":
    sys.exit(pytest.main(["-q", __file__]))
