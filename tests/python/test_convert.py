"""python -m tost.convert: there and back bit for bit, read by the program, by torch without code, and by transformers.

Run by ctest with the program as TOST_PROGRAM and the package on the path.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
from tost import _files, convert, models  # noqa: E402

TOST = os.environ.get("TOST_PROGRAM", "")
GOLDEN = ROOT / "tests/golden"
SHARED = pathlib.Path(os.environ.get("TOST_SHARED", ROOT.parent / "shared"))
MODELS = sorted(path.stem for path in GOLDEN.glob("*-*.safetensors"))
OFFICIAL = ("vision_tssa_p16/checkpoint.pth", "vision_xca_p16/checkpoint.pth", "vision_softmax_p16/checkpoint.pth",
            "vision_tssa_p8_rect/checkpoint.pth", "lang_tssa/ckpt.pt", "lang_tssa_bias_short/ckpt.pt", "lang_softmax/ckpt.pt")


def model(name):
    return GOLDEN / f"{name}.safetensors"


@pytest.mark.parametrize("name", MODELS)
def test_there_and_back_is_bit_for_bit(name, tmp_path):
    steps = [tmp_path / "hub", tmp_path / "back.safetensors"]
    if not name.startswith("sequence"):
        steps.insert(0, tmp_path / "official.pth")
    source = model(name)
    for out in steps:
        convert.convert(source, out)
        source = out
    assert source.read_bytes() == model(name).read_bytes()


@pytest.mark.parametrize("file", OFFICIAL)
def test_official_checkpoints(file, tmp_path):
    if not (SHARED / "parity" / file).exists():
        pytest.skip(f"{file} of the parity data is missing")
    once, back, again = tmp_path / "once.safetensors", tmp_path / pathlib.Path(file).name, tmp_path / "again.safetensors"
    for source, out in ((SHARED / "parity" / file, once), (once, back), (back, again)):
        convert.convert(source, out)
    assert once.read_bytes() == again.read_bytes()


@pytest.mark.parametrize("file", [file for file in OFFICIAL if file != "lang_softmax/ckpt.pt"])
def test_modules_give_the_logits_of_the_official_code(file):
    folder = SHARED / "parity" / pathlib.Path(file).parent
    if not folder.exists():
        pytest.skip(f"{file} of the parity data is missing")
    from safetensors.torch import load_file

    expected = load_file(folder / "expected.safetensors")
    given = next(expected[key] for key in ("images", "input", "idx", "ids") if key in expected)
    with torch.no_grad():
        found = models.load(SHARED / "parity" / file)(given)
    found = found[0] if isinstance(found, tuple) else found
    torch.testing.assert_close(found, expected["logits"], rtol=1e-5, atol=1e-6)


def test_torch_reads_it_without_running_anything(tmp_path):
    convert.convert(model("vision-tssa"), tmp_path / "m.pth")
    with torch.serialization.safe_globals([argparse.Namespace]):
        data = torch.load(tmp_path / "m.pth", weights_only=True)
    assert data["args"].model == "tost_nano_p4" and data["args"].input_size == 32
    assert type(data["model"]).__name__ == "OrderedDict"
    convert.convert(model("language-tssa"), tmp_path / "t.pt", dtype="bfloat16")
    data = torch.load(tmp_path / "t.pt", weights_only=True)
    table, head = (data["model"][f"{name}.weight"] for name in ("transformer.wte", "lm_head"))
    assert table.dtype == torch.bfloat16 and head.untyped_storage().data_ptr() == table.untyped_storage().data_ptr()
    assert data["model_args"]["n_head"] == 2 and data["model_args"]["bias"] is False


@pytest.mark.skipif(not TOST, reason="TOST_PROGRAM is not set")
@pytest.mark.parametrize("name,outs", [("vision-tssa", ("m.pth", "hub", "timm")), ("language-means", ("m.pt", "hub"))])
def test_the_program_scores_every_layout_alike(name, outs, tmp_path):
    data = "shapes" if name.startswith("vision") else GOLDEN / "text.txt"

    def loss(file):
        command = [TOST, "eval", file, "--data", data, "--split", "validation", "--json"]
        out = subprocess.run(list(map(str, command)), capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        assert out.returncode == 0, out.stderr
        return json.loads(out.stdout)["loss"]

    expected = loss(model(name))
    for out in outs:
        convert.convert(model(name), tmp_path / out, to="timm" if out == "timm" else "auto")
        assert loss(tmp_path / out) == pytest.approx(expected, rel=1e-6), out


@pytest.mark.skipif(not TOST, reason="TOST_PROGRAM is not set")
@pytest.mark.parametrize("given", [{"beta_range": 2}, {"beta_range": 2, "delta_steps": 2, "decay": "fixed"}])
def test_the_program_writes_what_the_modules_of_the_delta_rule_write(given, tmp_path):
    source = convert.read(model("language-delta"))
    config = source.parts["config"] = {**source.config, "hybrid_every": 0, "mixer": "delta", **given}
    torch.manual_seed(5)
    reader = models.LanguageModel(config).eval().requires_grad_(False)
    for parameter in reader.parameters():
        parameter.normal_(0, 0.4)
    _files.save(tmp_path / "m.safetensors", reader.state_dict(), source.metadata())
    letters = source.parts["tokenizer"]["characters"]
    text = "two and three"
    for _ in range(40):
        logits, _ = reader(torch.tensor([[letters.index(letter) for letter in text]]))
        text += letters[int(logits[0, -1].argmax())]
    command = [TOST, "generate", tmp_path / "m.safetensors", "--prompt", "two and three", "--temperature", 0, "--max-tokens", 40,
               "--json"]
    out = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert out.returncode == 0, out.stderr
    assert "two and three" + json.loads(out.stdout)["texts"][0]["text"] == text


def test_shards_hold_the_whole(tmp_path):
    convert.convert(model("vision-tssa"), tmp_path / "shards", shard_bytes=20000)
    index = json.loads((tmp_path / "shards/model.safetensors.index.json").read_text())
    assert len(set(index["weight_map"].values())) > 2
    convert.convert(tmp_path / "shards", tmp_path / "m.safetensors")
    assert (tmp_path / "m.safetensors").read_bytes() == model("vision-tssa").read_bytes()


def test_gpt2_in_transformers(tmp_path):
    transformers = pytest.importorskip("transformers")
    notes = convert.convert(model("language-softmax"), tmp_path / "gpt2", to="gpt2")["notes"]
    assert len(notes) == 1
    found = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "gpt2").eval()
    assert found.config.n_head == 2 and torch.isfinite(found(torch.arange(8)[None]).logits).all()


def test_changes(tmp_path):
    convert.convert(model("vision-tssa"), tmp_path / "large.safetensors", image_size=64)
    assert convert.read(tmp_path / "large.safetensors").parts["preprocess"]["size"] == 64
    convert.convert(model("language-tssa"), tmp_path / "long.safetensors", block=50)
    long = convert.read(tmp_path / "long.safetensors")
    assert long.config["block"] == 50 and long.state["transformer.wpe.weight"].shape[0] == 50
    assert long.config["bias_positions"] == 32


def test_a_card_says_licence_and_data(tmp_path):
    convert.convert(model("vision-tssa"), tmp_path / "hub", card={"license": "mit", "dataset": "shapes"})
    text = (tmp_path / "hub/README.md").read_text()
    head = text.split("---")[1]
    for line in ("license: mit", "library_name: tost", "pipeline_tag: image-classification", '- "shapes"', "- accuracy"):
        assert line in head
    hub = pytest.importorskip("huggingface_hub")
    assert hub.ModelCard.load(tmp_path / "hub/README.md").data.license == "mit"


BAD = [
    (["vision-tssa", "taken.txt"], 2, "exists"),
    (["vision-tssa", "no/m.pth"], 2, "does not exist"),
    (["none", "x.pth"], 1, "does not exist"),
    (["taken.txt", "x.pth"], 1, "taken.txt"),
    (["vision-tssa", "x", "--to", "gpt2"], 2, "language"),
    (["vision-tssa", "x", "--to", "onnx"], 2, "layouts are"),
    (["vision-tssa", "x.pth", "--image-size", "30"], 2, "divisible"),
    (["vision-tssa", "x.pth", "--block", "8"], 2, "language"),
    (["vision-tssa", "x.pth", "--ema"], 1, "averaged"),
    (["vision-tssa", "x.pth", "--shard-bytes", "9"], 2, "layouts hub"),
    (["language-tssa", "x", "--to", "timm"], 2, "image models"),
    (["language-tssa", "x", "--to", "nanogpt"], 2, "softmax"),
    (["hostile.pth", "x"], 1, "weights alone"),
]


@pytest.mark.parametrize("arguments,code,part", BAD)
def test_bad_input_is_one_sentence(arguments, code, part, tmp_path, capsys):
    (tmp_path / "taken.txt").write_text("the cat sat on the mat")
    import pickle

    (tmp_path / "hostile.pth").write_bytes(pickle.dumps(os.system))
    source = model(arguments[0]) if model(arguments[0]).exists() else tmp_path / arguments[0]
    assert convert.main([str(source), str(tmp_path / arguments[1]), *arguments[2:]]) == code
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and part in said.err
    assert not [path for path in tmp_path.iterdir() if path.name.lstrip(".").startswith("x")]
