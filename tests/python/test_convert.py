"""torch reads what `tost convert` writes, without being allowed to run anything.

Run by ctest with the program as TOST_PROGRAM.
"""

import argparse
import os
import subprocess

import pytest
import torch

TOST = os.environ.get("TOST_PROGRAM", "")
if not TOST:
    pytest.skip("TOST_PROGRAM is not set", allow_module_level=True)


def tost(*args):
    out = subprocess.run([TOST, *map(str, args)], capture_output=True, text=True,
                         env=dict(os.environ, OMP_NUM_THREADS="1"))
    assert out.returncode == 0, out.stderr


def test_pictures(tmp_path):
    tost("train", "--data", "shapes", "--train-size", 64, "--test-size", 32, "--max-steps", 1, "--batch", 16,
         "--out", tmp_path / "run", "--quiet")
    tost("convert", tmp_path / "run", tmp_path / "m.safetensors")
    tost("convert", tmp_path / "run", tmp_path / "m.pth")
    with torch.serialization.safe_globals([argparse.Namespace]):
        data = torch.load(tmp_path / "m.pth", weights_only=True)
    assert data["args"].model == "tost_nano_p4" and data["args"].input_size == 32
    assert type(data["model"]).__name__ == "OrderedDict"
    assert data["model"]["cls_token"].shape == (1, 1, 64)
    steps = [v for k, v in data["model"].items() if k.endswith("num_batches_tracked")]
    assert steps and all(v.dtype == torch.int64 and v.shape == () and v.item() == 1 for v in steps)
    safetensors = pytest.importorskip("safetensors.torch")
    state = safetensors.load_file(tmp_path / "m.safetensors")
    assert state.keys() == data["model"].keys()
    assert all(torch.equal(state[k], v) for k, v in data["model"].items())


def test_text(tmp_path):
    (tmp_path / "text.txt").write_text("the cat sat on the mat. " * 60)
    tost("train", "--data", tmp_path / "text.txt", "--model", "gpt_char", "--tokenizer", "bytes", "--max-steps", 1,
         "--batch", 2, "--eval-batches", 1, "--sample-every-steps", 0, "--out", tmp_path / "run", "--quiet")
    tost("convert", tmp_path / "run", tmp_path / "t.pt", "--dtype", "bfloat16", "--prefix", "_orig_mod.")
    data = torch.load(tmp_path / "t.pt", weights_only=True)
    table = data["model"]["_orig_mod.transformer.wte.weight"]
    head = data["model"]["_orig_mod.lm_head.weight"]
    assert table.dtype == torch.bfloat16
    assert head.untyped_storage().data_ptr() == table.untyped_storage().data_ptr()
    assert data["model_args"]["n_head"] == 4 and data["model_args"]["bias"] is False


def test_gpt2_in_transformers(tmp_path):
    transformers = pytest.importorskip("transformers")
    (tmp_path / "text.txt").write_text("the cat sat on the mat. " * 60)
    tost("train", "--data", tmp_path / "text.txt", "--model", "gpt_char", "--tokenizer", "bytes", "--max-steps", 1,
         "--batch", 2, "--eval-batches", 1, "--sample-every-steps", 0, "--out", tmp_path / "run", "--quiet")
    tost("convert", tmp_path / "run", tmp_path / "gpt2", "--to", "gpt2")
    model = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "gpt2").eval()
    assert model.config.n_head == 4
    assert torch.isfinite(model(torch.arange(8)[None]).logits).all()
