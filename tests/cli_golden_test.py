"""What an earlier build of 0.1.0 computed of small models of each kind, and its files: both must stay as they are.

usage: cli_golden_test.py TOST; cli_golden_test.py TOST --record trains the models and writes tests/golden again;
cli_golden_test.py TOST --small asks only what a program without torch answers

tests/golden holds model files and a run folder that 0.1.0 wrote, and expected.json with what its commands printed about
them. Numbers agree to 1e-4 of their size, because instruction sets sum in different orders; all else is equal. A key that
is new in the output is not looked at.
"""
import json
import math
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

TOST = str(pathlib.Path(sys.argv.pop(1)).resolve())
SMALL = "--small" in sys.argv
sys.argv = [a for a in sys.argv if a != "--small"]
IN_ENGINE = {"vision-tssa", "vision-means", "language-tssa", "language-means", "language-delta", "vision-softmax",
             "language-softmax"}
GOLDEN = pathlib.Path(__file__).resolve().parent / "golden"
ENV = dict(os.environ, OMP_NUM_THREADS="1", OMP_WAIT_POLICY="passive")
TINY = json.dumps({"dim": 16, "depth": 2, "heads": 2, "class_blocks": 1})
PICTURES = ["--data", "shapes", "--train-size", 256, "--test-size", 64, "--batch", 16, "--max-steps", 30, "--lr", 0.01,
            "--model-options", TINY]
TEXT = ["--data", GOLDEN / "text.txt", "--tokenizer", "chars", "--dim", 16, "--depth", 2, "--heads", 2, "--block", 32,
        "--batch", 8, "--max-steps", 60, "--lr", 0.01, "--warmup-steps", 5, "--sample-every-steps", 0, "--eval-batches", 2]
TRAIN = {
    "vision-tssa": ["--model", "tost_nano_p4", *PICTURES],
    "vision-means": ["--model", "tost_running_nano_p4", *PICTURES],
    "vision-softmax": ["--model", "vit_nano_p4", *PICTURES],
    "language-tssa": ["--model", "tost_gpt_char", *TEXT],
    "language-means": ["--model", "tost_means_char", *TEXT],
    "language-delta": ["--model", "tost_gpt_char", "--model-options",
                       json.dumps({"hybrid_every": 2, "hybrid_mixer": "delta", "positions": "none", "conv": 4}), *TEXT],
    "language-softmax": ["--model", "gpt_char", *TEXT],
    "sequence-tssa": ["--recipe", "seq", "--data", "listops", "--dim", 16, "--depth", 2, "--heads", 2, "--train-size", 64, "--test-size", 32,
                      "--max-steps", 10, "--batch", 8],
}
# What is asked of each kind; FILE is the model, GOLDEN its folder.
SHAPES = ["--data", "shapes"]
COMMANDS = {
    "vision": [["eval", "FILE", *SHAPES], ["predict", "FILE", "GOLDEN/picture.png"],
               ["eval", "FILE", *SHAPES, "--precision", "bf16"],
               ["explain", "FILE", *SHAPES, "--samples", "16", "--out", "OUT"]],
    "language": [["eval", "FILE", "--data", "GOLDEN/text.txt", "--split", "validation"],
                 ["generate", "FILE", "--prompt", "three and ", "--temperature", "0", "--max-tokens", "20"],
                 ["explain", "FILE", "--data", "GOLDEN/text.txt", "--text", "one and two is", "--samples", "4", "--out", "OUT"]],
    "sequence": [["eval", "FILE", "--data", "listops", "--test-size", "32"],
                 ["predict", "FILE", "--text", "[MAX 2 [MIN 8 5 ] 3 ]"]],
}
# Times, places and machines.
UNSTABLE = {"stats", "seconds", "cpu", "threads", "checkpoint", "data", "path", "out"}


def stable(value):
    """Without what differs from machine to machine."""
    if isinstance(value, dict):
        return {key: stable(item) for key, item in value.items() if key not in UNSTABLE and not key.endswith("_per_s")}
    return [stable(item) for item in value] if isinstance(value, list) else value


def summary(report):
    """What 0.1.0 printed of a report: the JSON of tost explain was its summary."""
    if report["kind"] == "vision":
        return {**report, "pictures": [{"name": p["name"], "top": p["top"][0]} for p in report["pictures"]],
                "pictures_summarised": len(report["other_pictures"]),
                "splits": {s["split"]: {"pictures": s["pictures"], "top1": s["top1"], "layers": [
                    {"entropy": layer["entropy"]["mean"], "compression": layer["compression"]["after_residual"]["mean"]}
                    for layer in s["layers"]]} for s in report["splits"]}}
    mean = lambda values: values and sum(values) / len(values)
    return {**report, "tokens": len(report["passage"]["ids"]), "source": report["passage"]["source"], "loss": report["passage"]["loss"],
            "layers": [{**layer, "entropy": mean(layer["entropy"]), "own_effect": mean(layer["own_effect"])} for layer in report["layers"]]}


def tost(*args):
    out = subprocess.run([TOST, *map(str, args)], capture_output=True, text=True, env=ENV)
    assert out.returncode == 0, (args, out.returncode, out.stdout, out.stderr)
    return out.stdout


def asked(model, command):
    """What a command prints about a model, as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        places = {"FILE": str(GOLDEN / f"{model}.safetensors"), "OUT": f"{folder}/report"}
        printed = json.loads(tost(*[places.get(a, a.replace("GOLDEN", str(GOLDEN))) for a in command], "--json"))
        return summary(printed) if command[0] == "explain" else printed


def difference(expected, found, where=""):
    """The first place where they differ, or None."""
    if isinstance(expected, dict):
        for key, value in expected.items():
            if not isinstance(found, dict) or key not in found:
                return f"{where}.{key} is missing"
            if said := difference(value, found[key], f"{where}.{key}"):
                return said
        return None
    if isinstance(expected, list):
        if not isinstance(found, list) or len(found) != len(expected):
            return f"{where}: {expected!r:.100} became {found!r:.100}"
        return next(filter(None, (difference(e, f, f"{where}[{i}]") for i, (e, f) in enumerate(zip(expected, found)))), None)
    number = isinstance(expected, float) and isinstance(found, (int, float))
    same = math.isclose(expected, found, rel_tol=1e-4, abs_tol=1e-5) if number else expected == found
    return None if same else f"{where}: {expected!r:.100} became {found!r:.100}"


class Golden(unittest.TestCase):
    maxDiff = None

    def test_commands_print_what_they_printed(self):
        expected = json.loads((GOLDEN / "expected.json").read_text())
        if SMALL:
            expected = [row for row in expected if row["model"] in IN_ENGINE and (
                row["command"][0] in ("predict", "generate") or (row["model"][:2], row["command"][0]) == ("la", "eval"))]
            self.assertEqual(len(expected), len(IN_ENGINE) + sum(name.startswith("language") for name in IN_ENGINE))
        for row in expected:
            with self.subTest(model=row["model"], command=" ".join(row["command"])):
                self.assertIsNone(difference(row["printed"], asked(row["model"], row["command"])))

    @unittest.skipIf(SMALL, "there is no full program")
    def test_the_full_program_writes_the_text_of_the_small_one(self):
        for model in filter(lambda name: name.startswith("language"), TRAIN):
            with self.subTest(model=model):
                command = ["generate", "FILE", "--prompt", "three and ", "--temperature", "0", "--max-tokens", "20"]
                small, full = asked(model, command), asked(model, [*command, "--device", "auto"])
                self.assertEqual(stable(small), stable(full))

    @unittest.skipIf(SMALL, "there is no full program")
    def test_the_full_program_scores_as_the_small_one(self):
        for model in filter(lambda name: name.startswith("language"), TRAIN):
            for flags in ([], ["--context", "7", "--stride", "3"],
                          ["--precision", "int8"], ["--precision", "bf16"]):
                with self.subTest(model=model, flags=flags):
                    command = ["eval", "FILE", "--data", "GOLDEN/text.txt", "--split", "whole", *flags]
                    small, full = asked(model, command), asked(model, [*command, "--device", "auto"])
                    self.assertEqual(list(small), list(full))
                    self.assertAlmostEqual(small["loss"], full["loss"], delta=1e-3 if "--precision" in flags else 1e-5)

    @unittest.skipIf(SMALL, "a program without torch trains nothing")
    def test_a_run_folder_is_resumed(self):
        with tempfile.TemporaryDirectory() as folder:
            run = pathlib.Path(folder) / "run"
            shutil.copytree(GOLDEN / "run", run)
            config = run / "config.json"
            config.write_text(config.read_text().replace('"text.txt"', json.dumps(str(GOLDEN / "text.txt"))))
            tost("train", *TRAIN["language-tssa"], "--max-steps", 12, "--checkpoint-every-steps", 8, "--out", run, "--resume",
                 "--quiet", "--threads", 1)
            steps = [json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines() if '"step"' in line]
            self.assertEqual(max(steps), 12)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def picture(side=40):
    """A PNG of coloured bands."""
    rows = b"".join(bytes([0, *(value for x in range(side) for value in (6 * x, 6 * y, 255 * ((x // 8 + y // 8) % 2)))])
                    for y in range(side))
    header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def record():
    expected = []
    (GOLDEN / "picture.png").write_bytes(picture())
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        words = "one two three four five six seven eight nine ten".split()
        lines = [f"{words[i % 10]} and {words[(i + j) % 10]} is {words[(2 * i + j) % 10]}." for i in range(10) for j in range(10)]
        (GOLDEN / "text.txt").write_text("\n".join(lines * 2) + "\n")
        for model, flags in TRAIN.items():
            tost("train", *flags, "--out", folder / model, "--quiet", "--threads", 1)
            newest = max((folder / model / "checkpoints").glob("step-*"))
            shutil.copy(newest / "model.safetensors", GOLDEN / f"{model}.safetensors")
        tost("train", *TRAIN["language-tssa"], "--max-steps", 8, "--checkpoint-every-steps", 8, "--out", folder / "run",
             "--quiet", "--threads", 1)
        shutil.rmtree(GOLDEN / "run", ignore_errors=True)
        shutil.copytree(folder / "run", GOLDEN / "run", ignore=shutil.ignore_patterns("events.out*", "*.lock"))
        config = GOLDEN / "run/config.json"  # without the path of this machine
        config.write_text(config.read_text().replace(json.dumps(str(GOLDEN / "text.txt")), '"text.txt"'))
    for model in TRAIN:
        for command in COMMANDS[model.split("-")[0]]:
            expected.append({"model": model, "command": command, "printed": stable(asked(model, command))})
    (GOLDEN / "expected.json").write_text(json.dumps(expected, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    record() if "--record" in sys.argv else unittest.main()
