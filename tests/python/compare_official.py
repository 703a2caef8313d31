#!/usr/bin/env python3
"""Compares the program with the official code (github.com/RobinWu218/ToST) on checkpoints of full size.

usage: compare_official.py CODE TOST [--pictures FILE...] [--text FILE --gpt2 FOLDER]
                           [--vision NAME] [--vision-checkpoint FILE] [--language-checkpoint FILE] [--threads N]

CODE is a clone of the official repository, TOST the program. Prints the largest difference of a class probability on the
pictures, and both losses of the text in windows of the model's block. Without checkpoints the official code draws new
weights and they are saved as its training scripts do. Needs torch, timm, einops and Pillow.
"""
import argparse
import importlib
import json
import pathlib
import subprocess
import sys
import tempfile

import torch

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def run(*command):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.stderr}")
    return done.stdout


def official_picture(path, side=224):
    """As the official evaluation reads it: the shorter side to `side`, bicubic, then the central square."""
    from PIL import Image
    image = Image.open(path).convert("RGB")
    width, height = image.size
    scale = side / min(width, height)
    image = image.resize((side, int(height * scale)) if width <= height else (int(width * scale), side), Image.BICUBIC)
    left, top = round((image.width - side) / 2), round((image.height - side) / 2)
    pixels = torch.frombuffer(bytearray(image.crop((left, top, left + side, top + side)).tobytes()), dtype=torch.uint8)
    pixels = pixels.view(side, side, 3).permute(2, 0, 1).float() / 255
    return (pixels - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)


def compare_pictures(args, folder):
    sys.path.insert(0, str(args.code / "tost_vision"))
    module = importlib.import_module("tost")
    checkpoint = args.vision_checkpoint
    if checkpoint is None:
        checkpoint = folder / "checkpoint.pth"
        names = argparse.Namespace(model=args.vision, input_size=224)
        torch.save({"model": getattr(module, args.vision)().state_dict(), "args": names}, checkpoint)
    saved = torch.load(checkpoint, map_location="cpu", weights_only=False)
    model = getattr(module, saved["args"].model)().eval()
    model.load_state_dict(saved["model"])
    found = json.loads(run(args.tost, "predict", checkpoint, *args.pictures, "--top", 1000000, "--threads", args.threads, "--json"))
    largest = 0
    for picture, prediction in zip(args.pictures, found["predictions"]):
        with torch.no_grad():
            wanted = model(official_picture(picture)[None]).double().softmax(1)[0]
        for row in prediction["top"]:
            largest = max(largest, abs(row["probability"] - wanted[row["label"]].item()))
    print(f"{saved['args'].model}: class probabilities of {len(args.pictures)} pictures differ by at most {largest:.1e}")


def compare_text(args, folder):
    sys.path.insert(0, str(args.code / "tost_lang"))
    module = importlib.import_module("model_TSSA")
    checkpoint = args.language_checkpoint
    if checkpoint is None:
        checkpoint = folder / "ckpt.pt"
        sizes = dict(n_layer=12, n_head=12, n_embd=768, block_size=1024, bias=False, vocab_size=50304, dropout=0.0, TSSA=True)
        torch.save({"model": module.GPT(module.GPTConfig(**sizes)).state_dict(), "model_args": sizes}, checkpoint)
    saved = torch.load(checkpoint, map_location="cpu", weights_only=False)
    model = module.GPT(module.GPTConfig(**saved["model_args"])).eval()
    model.load_state_dict({name.removeprefix("_orig_mod."): value for name, value in saved["model"].items()})
    block = saved["model_args"]["block_size"]
    found = json.loads(run(args.tost, "eval", checkpoint, "--data", args.text, "--tokenizer", f"gpt2:{args.gpt2}", "--split",
                           "whole", "--context", block, "--stride", block, "--threads", args.threads, "--quiet", "--json"))
    run(args.tost, "data", "tokens", args.text, "--tokenizer", f"gpt2:{args.gpt2}", "--holdout", 0, "--out", folder / "tokens")
    ids = torch.frombuffer(bytearray((folder / "tokens" / "train.bin").read_bytes()), dtype=torch.uint16).long()
    total = 0.0
    with torch.no_grad():
        for begin in range(0, len(ids) - 1, block):
            inputs, targets = ids[begin:begin + block], ids[begin + 1:begin + block + 1]
            total += model(inputs[None, :len(targets)], targets[None])[1].double().item() * len(targets)
    print(f"{checkpoint.name}: loss {found['loss']:.7f}, official {total / (len(ids) - 1):.7f}, "
          f"over {len(ids) - 1:,} tokens")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("code", type=pathlib.Path)
    parser.add_argument("tost", type=pathlib.Path)
    parser.add_argument("--pictures", nargs="+", type=pathlib.Path, default=[])
    parser.add_argument("--text", type=pathlib.Path)
    parser.add_argument("--gpt2", type=pathlib.Path, help="folder with vocab.bpe and encoder.json")
    parser.add_argument("--vision", default="tost_cab_small_12_p16")
    parser.add_argument("--vision-checkpoint", type=pathlib.Path)
    parser.add_argument("--language-checkpoint", type=pathlib.Path)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    with tempfile.TemporaryDirectory() as folder:
        if args.pictures:
            compare_pictures(args, pathlib.Path(folder))
        if args.text:
            compare_text(args, pathlib.Path(folder))


if __name__ == "__main__":
    main()
