#!/usr/bin/env python3
"""Makes the models in models/ again: trains, converts and scores each by the commands of its card in models/models.json,
and writes size, checksum and score into the card, and the card into the table of docs/models.md.

usage: train_shipped.py TOST DATA [NAME...]
DATA holds the folders of the data that the cards name (docs/data.md says where to get them). Runs are kept in
build/shipped; one that is there is used as it is if complete, and resumed if not.
"""
import datetime
import json
import os
import pathlib
import platform
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ROOT / "models"
RUNS = ROOT / "build" / "shipped"


def words(command, data, run, file):
    replaced = {"RUN": str(run), "FILE": str(file)}
    parts = [replaced.get(part, part) for part in shlex.split(command)[1:]]
    place = parts.index("--data") + 1 if "--data" in parts else 0
    if place and parts[place] != "shapes":
        parts[place] = str(data / parts[place])
    return parts


def trained(tost, parts, run):
    if not (run / "config.json").exists():
        subprocess.run([tost, *parts, "--out", run], check=True)
    else:
        subprocess.run([tost, "train", "--out", run, "--resume"], check=True)


def score_text(scores):
    """One line of what `tost eval --json` measured."""
    if "top1" in scores:
        return f"{100 * scores['top1']:.2f} % top-1 of {scores['images']:,} {scores['split']} pictures"
    return f"{scores['loss']:.3f} nats a word (perplexity {scores['perplexity']:.1f}) on the {scores['split']} text"


def machine():
    names = [line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")]
    return {"cpu": names[0] if names else platform.machine(), "date": datetime.date.today().isoformat()}


def crc32c(data):
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    return f"{crc ^ 0xFFFFFFFF:08x}"


def make(tost, card, data):
    run, file = RUNS / card["name"], MODELS / f"{card['name']}.safetensors"
    commands = card["commands"]
    trained(tost, words(commands["train"], data, run, file), run)
    file.unlink(missing_ok=True)
    subprocess.run([tost, *words(commands["convert"], data, run, file)], check=True)
    done = subprocess.run([tost, *words(commands["evaluate"], data, run, file), "--json", "--quiet"], check=True,
                          stdout=subprocess.PIPE)
    scores = json.loads(done.stdout)
    keep = ("split", "images", "top1", "loss", "perplexity", "bits_per_byte", "precision", "tokens", "context", "stride")
    card["score"] = score_text(scores)
    card["measured"] = {key: scores[key] for key in keep if key in scores} | machine()
    card["file"] = {"bytes": file.stat().st_size, "crc32c": crc32c(file.read_bytes())}


def write_table(cards):
    page = ROOT / "docs" / "models.md"
    lines = page.read_text().split("\n")
    for card in cards:
        if "score" not in card:
            continue
        place = next(i for i, line in enumerate(lines) if line.startswith(f"| `{card['name']}` |"))
        texts = [card[key] for key in ("about", "source", "licence", "score", "limits")]
        lines[place] = f"| `{card['name']}` | {' | '.join(texts)} |"
    page.write_text("\n".join(lines))


def main(tost, data, *names):
    path = MODELS / "models.json"
    listed = json.loads(path.read_text())
    unknown = set(names) - {card["name"] for card in listed["models"]}
    if unknown:
        sys.exit(f"{path} has no model {', '.join(sorted(unknown))}.")
    for card in listed["models"]:
        if not names or card["name"] in names:
            make(os.path.abspath(tost), card, pathlib.Path(data).resolve())
            path.write_text(json.dumps(listed, indent=2, ensure_ascii=False) + "\n")
    write_table(listed["models"])


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
