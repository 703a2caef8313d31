"""python -m tost.export: ONNX Runtime gives what the modules give, for any batch and length, whole and in pieces."""

import copy
import pathlib
import sys

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")
onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
np = pytest.importorskip("numpy")
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
from tost import _files, convert, export, models  # noqa: E402

GOLDEN = ROOT / "tests/golden"
TEXTS = {
    "tssa": {},
    "tssa with all": {"conv": 4, "decay": "learned", "means": "values", "scale_pi": True, "gate": True},
    "means": {"mixer": "means", "conv": 4, "gate": True, "decay": "learned", "positions": "none"},
    "delta": {"mixer": "delta", "conv": 3, "gate": True, "decay": "learned", "positions": "none"},
    "delta of two steps": {"mixer": "delta", "conv": 2, "decay": "fixed", "beta_range": 2, "delta_steps": 2},
    "hybrid": {"hybrid_every": 2, "hybrid_mixer": "delta", "decay": "fixed", "positions": "none"},
    "linear": {"mixer": "linear"},
    "uniform": {"mixer": "uniform"},
    "none": {"mixer": "none", "conv": 2},
}
PICTURES = ("tssa", "means", "softmax", "xca", "linear", "mssa", "cbsa", "uniform", "none", "tssa-tied")


def settings(kind, **given):
    known = _files.usual(kind)
    return {**known, "mixer": "tssa", "dim": 24, "depth": 2, "heads": 4, **given}


def random_model(kind, config, parts, folder):
    """A model of random weights, and its file."""
    torch.manual_seed(1)
    model = {"language": models.LanguageModel, "vision": models.PictureModel}[kind](config).eval().requires_grad_(False)
    for parameter in model.parameters():
        parameter.normal_(0, 0.3)
    state = model.state_dict()
    _files.save(folder / "m.safetensors", state, _files.Model(kind, {"config": config, **parts}, state).metadata())
    return model


def relative(found, expected):
    return np.abs(found - expected).max() / np.abs(expected).max()


@pytest.mark.parametrize("name", TEXTS)
def test_texts_whole_and_in_pieces(name, tmp_path):
    config = settings("language", vocab=40, block=16, **TEXTS[name])
    model = random_model("language", config, {"tokenizer": None, "training": {}}, tmp_path)
    report = export.export(tmp_path / "m.safetensors", tmp_path / "m.onnx")
    graph = onnx.load(tmp_path / "m.onnx")
    onnx.checker.check_model(graph)
    assert report["opset"] == graph.opset_import[0].version == 17
    assert {node.domain for node in graph.graph.node} <= {""}
    session = runtime.InferenceSession(str(tmp_path / "m.onnx"))
    names = [one.name for one in session.get_outputs()]
    for batch, pieces in ((1, (1, 1, 5)), (3, (4, 1, 6)), (2, (11,))):
        ids = torch.randint(0, 40, (batch, sum(pieces)))
        state = {one.name: np.zeros([batch, *one.shape[1:]], np.float32)
                 for one in session.get_inputs() if one.name.startswith("state_")}  # fmt: skip
        found, position = [], 0
        for count in pieces:
            feeds = {"ids": ids[:, position : position + count].numpy(), "position": np.array(position), **state}
            out = dict(zip(names, session.run(None, feeds)))
            found.append(out["logits"])
            state = {part: out[f"new_{part}"] for part in state}
            position += count
        assert relative(np.concatenate(found, 1), model(ids)[0].numpy()) < 1e-5


@pytest.mark.parametrize("mixer", PICTURES)
def test_pictures(mixer, tmp_path):
    config = settings("vision", mixer=mixer, architecture="transformer", in_channels=3, image_size=16, patch=4, classes=5)
    parts = {"classes": list("abcde"), "preprocess": _files.imagenet_preprocess(16, 3)}
    model = random_model("vision", config, parts, tmp_path)
    export.export(tmp_path / "m.safetensors", tmp_path / "m.onnx", memberships=mixer == "tssa")
    onnx.checker.check_model(onnx.load(tmp_path / "m.onnx"))
    pictures = torch.randn(3, 3, 16, 16)
    found = runtime.InferenceSession(str(tmp_path / "m.onnx")).run(None, {"images": pictures.numpy()})
    assert relative(found[0], model(pictures).numpy()) < 1e-5
    assert len(found) == (3 if mixer == "tssa" else 1)
    assert all(np.allclose(pi.sum(1), 1, atol=1e-5) for pi in found[1:])


@pytest.mark.parametrize("name", ["tssa", "tssa with all", "means", "linear"])
def test_half_precision_divides_by_no_zero(name):
    model = models.LanguageModel(settings("language", vocab=40, block=16, **TEXTS[name])).half().eval()
    for parameter in model.parameters():
        torch.nn.init.zeros_(parameter)  # every sum is zero
    with torch.no_grad():
        assert torch.isfinite(model(torch.zeros(1, 5, dtype=torch.int64))[0]).all()


def test_a_file_of_the_program_is_exported(tmp_path):
    for name in ("vision-tssa", "vision-means", "vision-softmax", "language-tssa", "language-means", "language-delta"):
        out = tmp_path / f"{name}.onnx"
        assert export.main([str(GOLDEN / f"{name}.safetensors"), str(out)]) == 0
        keys = {entry.key for entry in onnx.load(out).metadata_props}
        assert "tost.config" in keys


BAD = [
    (["language-softmax", "m.onnx"], 1, "softmax"),
    (["sequence-tssa", "m.onnx"], 1, "sequence"),
    (["vision-tssa", "m.bin"], 2, ".onnx"),
    (["vision-tssa", "taken.onnx"], 2, "exists"),
    (["language-tssa", "m.onnx", "--memberships"], 2, "image models"),
    (["vision-softmax", "m.onnx", "--memberships"], 2, "tssa"),
    (["none", "m.onnx"], 1, "does not exist"),
]


@pytest.mark.parametrize("arguments,code,part", BAD)
def test_bad_input_is_one_sentence(arguments, code, part, tmp_path, capsys):
    (tmp_path / "taken.onnx").write_text("")
    assert export.main([str(GOLDEN / f"{arguments[0]}.safetensors"), str(tmp_path / arguments[1]), *arguments[2:]]) == code
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and part in said.err
    assert [path.name for path in tmp_path.iterdir()] == ["taken.onnx"]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", [*TEXTS, *(f"picture {mixer}" for mixer in PICTURES)])
def test_modules_in_half_precision_keep_sums_and_guards_in_float32(name, dtype, tmp_path):
    """With projections whose squares float16 cannot hold."""
    if name.startswith("picture"):
        config = settings("vision", mixer=name.split()[1], architecture="transformer", in_channels=3, image_size=16, patch=2, classes=5)
        model = random_model("vision", config, {"classes": list("abcde"), "preprocess": {}}, tmp_path)
        given = torch.rand(2, 3, 16, 16)
    else:
        config = settings("language", vocab=40, block=16, **TEXTS[name])
        model = random_model("language", config, {"tokenizer": None, "training": {}}, tmp_path)
        given = torch.randint(0, 40, (2, 16))
    large = {"qkv", "c_attn", "proj"} if "softmax" not in name and "mssa" not in name and "cbsa" not in name else set()
    for path, module in model.named_modules():
        if path.split(".")[-1] in large and "patch_embed" not in path and "cls_attn" not in path:
            module.weight *= 100
    exact = copy.deepcopy(model).double()(given.double() if given.is_floating_point() else given)
    found = copy.deepcopy(model).to(dtype)(given.to(dtype) if given.is_floating_point() else given)
    exact, found = (y[0] if isinstance(y, tuple) else y for y in (exact, found))
    assert found.dtype == dtype and torch.isfinite(found).all()
    assert float((found.double() - exact).abs().max() / exact.abs().max()) < (0.5 if dtype == torch.bfloat16 else 0.2)
