"""A model file of ultralytics that names our block: built, trained, scored, and exported by ultralytics."""

import os
import pathlib
import subprocess
import sys
import tempfile

import numpy
import pytest
import torch
from torch.testing import assert_close

os.environ.setdefault("YOLO_CONFIG_DIR", tempfile.mkdtemp())
os.environ.update(YOLO_OFFLINE="true", YOLO_AUTOINSTALL="false", YOLO_VERBOSE="false")
ultralytics = pytest.importorskip("ultralytics", reason="needs ultralytics")

import tost.ultralytics  # noqa: E402

MODEL = """
nc: 2
scales: {n: [0.5, 0.25, 1024]}
scale: n
backbone:
  - [-1, 1, Conv, [64, 3, 2]]
  - [-1, 1, Conv, [128, 3, 2]]
  - [-1, 2, C3k2, [128, False, 0.25]]
  - [-1, 1, Conv, [256, 3, 2]]
  - [-1, 2, C2TSSA, [ch]]
  - [-1, 1, Conv, [512, 3, 2]]
  - [-1, 1, TSSABlock, [ch]]
head:
  - [[4, 6], 1, Detect, [nc]]
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Grey pictures of 64 x 64 with one bright square or disc each, and their boxes."""
    import cv2

    root = tmp_path_factory.mktemp("data")
    draw = numpy.random.default_rng(0)
    rows, columns = numpy.mgrid[:64, :64]
    for split, count in (("train", 32), ("val", 8)):
        for kind in ("images", "labels"):
            (root / kind / split).mkdir(parents=True)
        for i in range(count):
            label, radius = i % 2, draw.integers(8, 16)
            x, y = draw.integers(16, 48, 2)
            apart = numpy.stack([abs(columns - x), abs(rows - y)])
            inside = (apart.max(0) if label == 0 else numpy.hypot(*apart)) <= radius
            picture = draw.normal(90, 20, (64, 64, 3)) + 100 * inside[..., None]
            cv2.imwrite(str(root / f"images/{split}/{i}.png"), picture.clip(0, 255).astype(numpy.uint8))
            box = " ".join(f"{v / 64:.4f}" for v in (x, y, 2 * radius, 2 * radius))
            (root / f"labels/{split}/{i}.txt").write_text(f"{label} {box}\n")
    (root / "data.yaml").write_text(f"path: {root}\ntrain: images/train\nval: images/val\nnames: [square, disc]\n")
    return root / "data.yaml"


@pytest.fixture(scope="module")
def trained(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    (folder / "yolo-tssa.yaml").write_text(MODEL)
    model = ultralytics.YOLO(folder / "yolo-tssa.yaml")
    settings = dict(imgsz=64, batch=8, workers=0, device="cpu", seed=0, plots=False, project=str(folder), name="run")
    model.train(data=str(data), epochs=2, **settings)
    return folder / "run" / "weights" / "last.pt"


def output(path, pictures):
    """What torch computes, and the exported model."""
    model = ultralytics.YOLO(path).model.eval().float().fuse()
    with torch.no_grad():
        return model(pictures)[0]


def exported(path, **options):
    return ultralytics.YOLO(path).export(imgsz=64, device="cpu", verbose=False, **options)


def test_a_model_file_names_the_blocks_and_its_widths_follow(trained):
    model = ultralytics.YOLO(trained).model
    blocks = [m for m in model.modules() if isinstance(m, tost.ultralytics.C2TSSA)]
    assert [b.hidden for b in blocks] == [32]
    assert isinstance(model.model[6], tost.ultralytics.TSSABlock) and model.model[6].attn.qkv.in_features == 128
    assert any(p.grad is None or p.grad.abs().sum() > 0 for p in blocks[0].parameters())


def test_a_trained_file_loads_without_our_import(trained):
    code = f"from ultralytics import YOLO; print(type(YOLO({str(trained)!r}).model.model[6]).__module__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-1] == "tost.ultralytics"


def test_validation_scores_the_trained_model(trained, data):
    scores = ultralytics.YOLO(trained).val(data=str(data), imgsz=64, device="cpu", workers=0, plots=False)
    assert 0 <= scores.box.map50 <= 1


def sharpened(trained, folder):
    """The trained model with features of the size of long training, and scores that depend on them."""
    kept = torch.load(trained, map_location="cpu", weights_only=False)
    model = kept["model"].float().train()
    last = [m for name, m in model.named_modules() if "cv3" in name and isinstance(m, torch.nn.Conv2d)]
    last = [m for m in last if m.out_channels == 2]
    for m in model.modules():
        if isinstance(m, tost.nn.TSSA):
            m.qkv.weight.data *= 20
        if isinstance(m, torch.nn.BatchNorm2d):
            m.momentum = 1.0
    with torch.no_grad():
        model(torch.rand(4, 3, 96, 160))
        for m in last:
            m.bias.zero_()
            m.weight *= 10
    kept["model"] = model.eval()
    torch.save(kept, folder / "model.pt")
    return folder / "model.pt"


def by_onnxruntime(file):
    runtime = pytest.importorskip("onnxruntime", reason="needs onnxruntime")
    session = runtime.InferenceSession(file, providers=["CPUExecutionProvider"])
    return lambda pictures: session.run(None, {session.get_inputs()[0].name: pictures.numpy()})[0]


def by_openvino(file):
    openvino = pytest.importorskip("openvino", reason="needs openvino")
    model = next(pathlib.Path(file).glob("*.xml"))
    compiled = openvino.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return lambda pictures: compiled(pictures.numpy())[0]


# Boxes are in pixels up to 160, where halves are 0.125 apart. Scores of these sharpened models move by 0.007 where the
# weights alone are rounded to half precision, as OpenVINO's files have them.
TOLERANCE = {False: (1e-3, 2e-5), True: (0.5, 0.02)}


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("format, run_by", [("onnx", by_onnxruntime), ("openvino", by_openvino)])
def test_the_exported_model_computes_what_torch_does(trained, format, run_by, half, tmp_path):
    pytest.importorskip("onnx", reason="needs onnx")
    path = sharpened(trained, tmp_path)
    options = {"simplify": True} if format == "onnx" else {}
    run = run_by(exported(path, format=format, quantize=16 if half else None, dynamic=True, **options))
    boxes, scores = TOLERANCE[half]
    for shape in ((2, 3, 64, 64), (1, 3, 96, 160)):
        pictures = torch.rand(shape)
        wanted, found = output(path, pictures), torch.as_tensor(run(pictures))
        assert wanted[:, 4:].std() > 0.05
        assert_close(found[:, :4], wanted[:, :4], rtol=0, atol=boxes)
        assert_close(found[:, 4:], wanted[:, 4:], rtol=0, atol=scores)
