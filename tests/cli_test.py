#!/usr/bin/env python3
"""The program as a stranger uses it: right flags, wrong flags, wrong files, full disks, Ctrl-C.

usage: cli_test.py TOST [unittest arguments]; needs only Python's standard library.
"""
import gzip
import json
import math
import os
import pathlib
import pty
import random
import resource
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import zlib

TOST = ""
TINY = ["--data", "shapes", "--train-size", "256", "--test-size", "64", "--data-side", "16", "--model", "tost_nano_p4",
        "--batch", "32", "--epochs", "1", "--log-every", "1"]


def run(*args, expect=0, **options):
    done = subprocess.run([TOST, *map(str, args)], capture_output=True, text=True, timeout=900, **options)
    assert done.returncode == expect, f"tost {args}: exit {done.returncode}, expected {expect}\n{done.stdout}{done.stderr}"
    return done


def schema_of(documents, opaque=()):
    """The shape of JSON documents as lines "path types"; what lies below the paths of `opaque` is left out."""
    types = {}

    def collect(value, path):
        kind = "number" if isinstance(value, (int, float)) and not isinstance(value, bool) else {
            dict: "object", list: "array", str: "string", bool: "boolean", type(None): "null"}[type(value)]
        types.setdefault(path, set()).add(kind)
        if path in opaque:
            return
        for key, item in value.items() if isinstance(value, dict) else (("[]", item) for item in value) if isinstance(value, list) else ():
            collect(item, path + key if key == "[]" or not path else f"{path}.{key}")

    for document in documents:
        collect(document, "")
    return "".join(f"{path} {' '.join(sorted(kinds))}\n" for path, kinds in sorted(types.items()) if path)


def png(width, height, color_type=2, depth=8, data=None):
    """A PNG file's bytes; `data` replaces the compressed pixels."""
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    channels = {0: 1, 2: 3, 6: 4}[color_type]
    rows = b"".join(b"\0" + bytes([40 * (y % 6)]) * (width * channels * depth // 8) for y in range(min(height, 4000)))
    header = struct.pack(">IIBBBBB", width, height, depth, color_type, 0, 0, 0)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows) if data is None else data) +
            chunk(b"IEND", b""))


def token_task(folder, lengths, vocabulary=16, samples=12, **metadata):
    """A task of tokens as files: a sample repeats its first token at the end, where it asks for the second one."""
    draw = random.Random(7)
    longest, rows = max(lengths), samples * len(lengths)
    facts = {"vocabulary": str(vocabulary), "task": "test", "groups": json.dumps([str(n) for n in lengths]), **metadata}
    for split in ("train", "validation", "test"):
        tokens, targets = [], []
        for length in lengths:
            for _ in range(samples):
                sample = [draw.randrange(vocabulary) for _ in range(longest)]
                sample[length - 1] = sample[0]
                tokens += sample
                targets += [-1] * (length - 1) + [sample[1]] + [-1] * (longest - length)
        group = [i // samples for i in range(rows)]
        body = b"".join(struct.pack(f"<{len(part)}i", *part) for part in (tokens, targets, group))
        size, header, at = 4 * rows * longest, {"__metadata__": facts}, 0
        for name, shape, count in (("tokens", [rows, longest], size), ("targets", [rows, longest], size),
                                   ("group", [rows], 4 * rows)):
            header[name] = {"dtype": "I32", "shape": shape, "data_offsets": [at, at + count]}
            at += count
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{split}.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + body)
    return folder


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="tost_cli_"))

    def tearDown(self):
        shutil.rmtree(self.dir, ignore_errors=True)

    def error(self, *args, exit_code, says, **options):
        """Runs, expects exit_code and ONE sentence on stderr that holds every word of `says`."""
        done = run(*args, expect=exit_code, **options)
        lines = [line for line in done.stderr.splitlines() if line]
        self.assertEqual(len(lines), 1, done.stderr)
        for word in [says] if isinstance(says, str) else says:
            self.assertIn(word, lines[0])
        self.assertEqual(done.stdout, "")
        self.assertNotIn("internal error", lines[0])

    def has_schema(self, name, documents, opaque=()):
        """Compares with tests/schemas/NAME.txt; TOST_WRITE_SCHEMAS=1 writes it instead."""
        golden = pathlib.Path(__file__).parent / f"schemas/{name}.txt"
        if os.environ.get("TOST_WRITE_SCHEMAS"):
            golden.parent.mkdir(exist_ok=True)
            golden.write_text(schema_of(documents, opaque))
        self.assertEqual(golden.read_text(), schema_of(documents, opaque))

    def file(self, name, content):
        path = self.dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def idx(self, folder, images=8, side=8, label=1, **override):
        """A tiny idx data set; override replaces a file's raw bytes by name."""
        for part in ("train", "t10k"):
            pixels = struct.pack(">IIII", 2051, images, side, side) + bytes(range(side * side)) * images
            labels = struct.pack(">II", 2049, images) + bytes(i % 2 * label for i in range(images))
            self.file(f"{folder}/{part}-images-idx3-ubyte", override.get(f"{part}_images", pixels))
            self.file(f"{folder}/{part}-labels-idx1-ubyte", override.get(f"{part}_labels", labels))
        return self.dir / folder


class Usage(Case):
    def test_every_command_has_help_with_an_example(self):
        for command in ([], ["train"], ["eval"], ["predict"], ["info"], ["bench", "op"],
                        ["bench", "model"], ["data", "show"],
                        ["data", "make", "shapes"]):
            text = run(*command, "--help").stdout
            if command:
                self.assertIn("Example:", text, command)
                self.assertIn("--json", text, command)

    def test_unknown_names_offer_the_nearest(self):
        self.error("trian", exit_code=2, says=["trian", "train"])
        self.error("train", "--out", self.dir / "r", "--epoch", "1", exit_code=2, says=["--epoch", "--epochs"])
        self.error("train", "--out", self.dir / "r", "--model", "tost_nano_4", exit_code=2, says="tost_nano_p4")
        self.error("train", "--out", self.dir / "r", "--recipe", "smal", exit_code=2, says="small")
        self.error("train", "--out", self.dir / "r", "--mixer", "softmx", exit_code=2, says="softmax")
        self.error("info", "--modles", exit_code=2, says="--models")
        self.error("info", "extra", exit_code=2, says="extra")
        self.assertFalse((self.dir / "r").exists())

    def test_sizes_beyond_any_memory(self):
        for shape in ("1x140000000000", "1x999999999999999", "999999999x999999999", "9223372036854775807x2"):
            for flags in ([], ["--causal"]):
                self.error("bench", "op", "--shapes", shape, *flags, "--json", exit_code=1, says="--shapes")

    def test_a_working_directory_that_is_gone(self):
        gone = self.dir / "gone"
        gone.mkdir()
        done = subprocess.run(["sh", "-c", 'cd "$1" && rmdir "$1" && exec "$2" info', "sh", gone, TOST], text=True,
                              capture_output=True)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"^tost: the working directory cannot be used \(.*\); go to one that is there\.\n$")

    def test_benchmarks_refuse_files_they_could_not_write(self):
        for command, flag in (("model", "--output"), ("model", "--save-logits")):
            lost = self.dir / "missing" / "t.svg"
            self.error("bench", command, flag, lost, exit_code=2, says=[flag, "no folder", "make it first"])
            self.error("bench", command, flag, self.dir, exit_code=2, says=[flag, "is a folder"])

    def test_values_out_of_range(self):
        for flags, word in ((["--lr", "nan"], "lr"), (["--epochs", "0"], "epochs"), (["--batch", "x"], "batch"),
                            (["--image-size", "30"], "30"), (["--mixup", "-1"], "mixup"),
                            (["--model-options", '{"heads": 5}'], "heads"), (["--model-options", "{"], "model_options")):
            done = run("train", "--out", self.dir / "r", "--data", "shapes", *flags, expect=2)
            self.assertIn(word, done.stderr.replace("-", "_"), flags)
            self.assertFalse((self.dir / "r").exists(), flags)

    def test_no_command_shows_help(self):
        self.assertIn("train", run(expect=2).stderr)

    def test_isa_by_name(self):
        self.error("info", exit_code=2, says=["TOST_ISA", "scalar"], env={**os.environ, "TOST_ISA": "avx9"})
        done = run("info", "--json", env={**os.environ, "TOST_ISA": "scalar"})
        self.assertEqual(json.loads(done.stdout)["paths"]["tssa_isa"], "scalar")

    def test_recipes_take_bfloat16_where_it_is_fast(self):
        if json.loads(run("info", "--json").stdout)["gpus"]:
            self.skipTest("a GPU multiplies it")
        out = self.dir / "run"
        run("train", *TINY, "--recipe", "finetune", "--max-steps", "1", "--quiet", "--threads", "1", "--out", out,
            env={**os.environ, "TOST_ISA": "scalar", "ONEDNN_MAX_CPU_ISA": "AVX2"})
        self.assertEqual(json.loads((out / "config.json").read_text())["precision"], "fp32")

    def test_devices(self):
        gpus = json.loads(run("info", "--json").stdout)["gpus"]
        train = ["train", *TINY, "--out", self.dir / "run", "--device"]
        self.error(*train, "gpu", exit_code=2, says=["Unknown device 'gpu'", "cpu, cuda, cuda:N"])
        self.error(*train, f"cuda:{len(gpus)}", exit_code=2, says="CUDA")
        self.error("bench", "op", "--device", "cuda:999", exit_code=2, says="CUDA")
        self.assertFalse((self.dir / "run").exists())
        if not gpus:
            run(*train, "auto", "--max-steps", "1", "--quiet", "--threads", "1")

    def test_info_lists_models_with_the_papers_sizes(self):
        models = {m["name"]: m for m in json.loads(run("info", "--models", "--json").stdout)["models"]}
        self.assertEqual(models["tost_cab_tiny_12_p16"]["parameters"], 5769328)
        self.assertEqual(models["vit_cab_small_12_p16"]["parameters"], 26138008)


class Language(Case):
    """Training of language models on a generated text."""

    def setUp(self):
        super().setUp()
        words = ["one ", "two ", "three ", "four ", "five\n"]
        self.text = self.file("text.txt", "".join(words[i * i % 5] for i in range(3000)).encode())
        self.tiny = ["train", "--data", self.text, "--model", "tost_gpt_char", "--tokenizer", "chars", "--block", "16",
                     "--dim", "16", "--depth", "1", "--heads", "2", "--batch", "4", "--eval-batches", "2",
                     "--log-every", "1", "--threads", "1"]

    def test_settings_of_another_kind_are_named(self):
        out = ["--out", self.dir / "r"]
        self.error(*self.tiny, *out, "--randaugment", "2", exit_code=2,
                   says=["randaugment is a setting of image models", "tost_gpt_char is a language model"])
        self.error("train", "--data", "shapes", *out, "--conv", "4", exit_code=2, says="conv is a setting of language models")
        self.error(*self.tiny, *out, "--recipe", "imagenet", exit_code=2, says=["language model", "imagenet"])
        self.error(*self.tiny, *out, "--epochs", "2", exit_code=2, says="epochs is a setting of image models")
        self.error(*self.tiny, *out, "--model", "tost_gpt_chr", exit_code=2, says="tost_gpt_char")
        self.assertFalse((self.dir / "r").exists())

    def test_wrong_values(self):
        for flags, word in ((["--block", "0"], "block"), (["--mixer", "softmx"], "softmax"), (["--heads", "3"], "heads"),
                            (["--tokenizer", "char"], "char"), (["--max-steps", "0"], "max_steps"),
                            (["--decay", "never"], "decay"), (["--block", "99999"], "block"),
                            (["--sample-prompt", "Z"], "sample_prompt"), (["--holdout", "1"], "holdout")):
            self.error(*self.tiny, "--out", self.dir / "r", *flags, exit_code=2, says=word)
            self.assertFalse((self.dir / "r").exists(), flags)
        self.error(*self.tiny, "--out", self.dir / "r", "--data", self.dir / "nowhere", exit_code=1, says="nowhere")

    def test_trains_prints_samples_and_reports_the_loss(self):
        done = run(*self.tiny, "--out", self.dir / "r", "--max-steps", "8", "--sample-every-steps", "4", "--sample-tokens",
                   "30", "--json")
        self.assertEqual(done.stderr.count("sample after step"), 2, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(report["best"]["metric"], "loss")
        self.assertGreater(report["eval"]["loss"], 0)
        lines = [json.loads(line) for line in (self.dir / "r/metrics.jsonl").read_text().splitlines()]
        self.assertEqual([line["kind"] for line in lines].count("sample"), 2)
        self.assertTrue(all(line["tokens_per_s"] > 0 for line in lines if line["kind"] == "train"))
        again = run("train", "--out", self.dir / "r", "--resume", "--max-steps", "9", "--quiet")
        self.assertIn("loss", again.stdout)
        self.error("train", "--out", self.dir / "r", "--resume", "--mixer", "softmax", exit_code=2, says="mixer")

    def test_interrupted_and_resumed_equals_uninterrupted(self):
        args = [*map(str, self.tiny), "--max-steps", "400", "--dropout", "0.1", "--sample-every-steps", "0"]
        run(*args, "--out", self.dir / "whole", "--quiet")
        process = subprocess.Popen([TOST, *args, "--out", str(self.dir / "parts")], stderr=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)
        log = self.dir / "parts/metrics.jsonl"
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline and not (log.exists() and log.read_text().count("\n") >= 5):
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=600)
        if process.returncode == 0:
            self.skipTest("finished before the signal came")
        self.assertEqual(process.returncode, 130, err)
        run("train", "--out", self.dir / "parts", "--resume", "--quiet")
        folders = [self.dir / name / "checkpoints" for name in ("whole", "parts")]
        models = [(f / (f / "latest").read_text().strip() / "model.safetensors").read_bytes() for f in folders]
        self.assertEqual(*models)


class BadFiles(Case):
    @classmethod
    def setUpClass(cls):
        cls.shared = pathlib.Path(tempfile.mkdtemp(prefix="tost_cli_model_"))
        run("train", *TINY, "--out", cls.shared / "run", "--quiet")
        cls.run_dir = cls.shared / "run"

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.shared, ignore_errors=True)

    def test_data_folders(self):
        train = ["train", "--model", "tost_nano_p4", "--out", self.dir / "r", "--data"]
        self.error(*train, self.dir / "nowhere", exit_code=1, says="nowhere")
        (self.dir / "empty").mkdir()
        self.error(*train, self.dir / "empty", exit_code=1, says="empty")
        (self.dir / "f/train/cat").mkdir(parents=True)
        self.error(*train, self.dir / "f", exit_code=1, says="cat")
        self.assertFalse((self.dir / "r").exists())

    def test_idx_files(self):
        train = ["train", "--model", "tost_nano_p4", "--out", self.dir / "r", "--data"]
        head = struct.pack(">IIII", 2051, 8, 8, 8)
        for name, override, word in (
                ("truncated", {"train_images": head + bytes(100)}, "train-images"),
                ("magic", {"train_images": struct.pack(">IIII", 2050, 8, 8, 8) + bytes(512)}, "train-images"),
                ("huge", {"train_images": struct.pack(">IIII", 2051, 0xFFFFFFFF, 0xFFFF, 0xFFFF)}, "train-images"),
                ("count", {"train_labels": struct.pack(">II", 2049, 7) + bytes(7)}, "7"),
                ("gzip", {"train_images": gzip.compress(head + bytes(512))[:20]}, "train-images")):
            self.error(*train, self.idx(name, **override), exit_code=1, says=word)
        self.assertFalse((self.dir / "r").exists())

    def test_images_in_predict(self):
        predict = ["predict", self.run_dir]
        good = self.file("good.png", png(16, 16))
        for name, content, word in (("text.png", b"hello", "text.png"), ("empty.jpg", b"", "empty.jpg"),
                                    ("zero.png", png(0, 0), "zero.png"), ("cut.png", png(16, 16)[:60], "cut.png"),
                                    ("bomb.png", png(20000, 20000, data=b""), "20000"),
                                    ("bad.png", png(16, 16, data=b"xyz"), "bad.png")):
            self.error(*predict, good, self.file(name, content), exit_code=1, says=word)
        self.error(*predict, self.dir / "missing.png", exit_code=1, says="missing.png")
        self.error(*predict, good, "--top", "0", exit_code=2, says="top")
        one = self.file("one.png", png(1, 1))
        deep = self.file("deep.png", png(9, 5, depth=16))
        alpha = self.file("alpha.png", png(5, 9, color_type=6))
        result = json.loads(run(*predict, one, deep, alpha, good, "--top", "2", "--json").stdout)
        self.assertEqual([len(p["top"]) for p in result["predictions"]], [2] * 4)
        total = json.loads(run(*predict, good, "--top", "99", "--json").stdout)["predictions"][0]["top"]
        self.assertAlmostEqual(sum(c["probability"] for c in total), 1, places=5)

    def test_unreadable_pictures_in_training_are_named_and_skipped_up_to_a_limit(self):
        for k, label in enumerate(("cat", "dog")):
            for i in range(12):
                self.file(f"d/train/{label}/{i}.png", png(16, 16 + k))
                self.file(f"d/test/{label}/{i}.png", png(16, 16 + k))
        self.file("d/train/cat/broken.png", png(16, 16)[:50])
        args = ["train", "--model", "tost_nano_p4", "--data", self.dir / "d", "--epochs", "2", "--batch", "8",
                "--image-size", "16", "--holdout", "0"]
        done = run(*args, "--out", self.dir / "a")
        self.assertEqual(done.stderr.count("broken.png"), 1, done.stderr)
        failed = run(*args, "--out", self.dir / "b", "--max-unreadable", "0", expect=1)
        self.assertIn("broken.png", failed.stderr)

    def test_checkpoints(self):
        self.error("eval", self.dir / "none", "--data", "shapes", exit_code=1, says="none")
        weights = next((self.run_dir / "checkpoints").glob("step-*/model.safetensors"))
        cut = self.file("cut.safetensors", weights.read_bytes()[:-10])
        self.error("predict", cut, self.file("a.png", png(16, 16)), exit_code=1, says="cut.safetensors")
        junk = self.file("junk.safetensors", b"\xff" * 64)
        self.error("predict", junk, self.file("a.png", png(16, 16)), exit_code=1, says="junk.safetensors")
        # Another shape under the same name: the tensor and both shapes are named.
        raw = weights.read_bytes()
        size = struct.unpack("<Q", raw[:8])[0]
        header = json.loads(raw[8:8 + size])
        classes = header["head.weight"]["shape"][0]
        dim = header["head.weight"]["shape"][1]
        header["head.weight"]["shape"] = [dim, classes]
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        swapped = self.file("swapped.safetensors", struct.pack("<Q", len(text)) + text + raw[8 + size:])
        self.error("predict", swapped, self.file("a.png", png(16, 16)), exit_code=1,
                   says=["head.weight", f"[{classes}, {dim}]", f"[{dim}, {classes}]"])

    def test_damaged_checkpoints(self):
        run_dir = self.dir / "run"
        shutil.copytree(self.run_dir, run_dir)
        pictures = [self.file("a.png", png(16, 16))]
        wanted = run("predict", run_dir, *pictures, "--json").stdout
        for pointer in ("latest", "best"):
            (run_dir / "checkpoints" / pointer).unlink()
        self.assertEqual(run("predict", run_dir, *pictures, "--json").stdout, wanted)
        weights = max((run_dir / "checkpoints").glob("step-*")) / "model.safetensors"
        raw = weights.read_bytes()
        size = struct.unpack("<Q", raw[:8])[0]
        begin, end = json.loads(raw[8:8 + size])["head.bias"]["data_offsets"]
        flipped = bytearray(raw)
        flipped[8 + size + end - 1] ^= 1
        weights.write_bytes(flipped)
        data = ["--data", "shapes"]
        for command in (["predict", weights, *pictures], ["eval", weights.parent, *data], ["inspect", weights],
                        ["explain", weights.parent, *pictures, "--out", self.dir / "page"],
                        ["quantize", weights.parent, self.dir / "model.safetensors"],
                        ["train", "--from", weights.parent, *data, "--out", self.dir / "tuned"]):
            done = run(*command, expect=1)
            self.assertIn(f"'{weights}' is damaged", done.stderr, command)
        self.error("eval", run_dir, *data, exit_code=1, says=["checkpoint", "damaged"])
        # Outside of the checkpoint nothing vouches for it; what is not finite is found all the same.
        flipped[8 + size + begin:8 + size + end] = struct.pack("<f", math.nan) * ((end - begin) // 4)
        alone = self.file("alone.safetensors", flipped)
        for command in (["predict", alone, *pictures], ["eval", alone, *data],
                        ["explain", alone, *pictures, "--out", self.dir / "page"],
                        ["train", "--from", alone, *data, "--out", self.dir / "tuned"]):
            self.assertIn("'head.bias' that are not finite", run(*command, expect=1).stderr, command)
        self.assertFalse((self.dir / "page").exists() or (self.dir / "tuned").exists())

    def test_eval_on_other_data(self):
        self.error("eval", self.run_dir, "--data", self.idx("two"), exit_code=2, says="class")
        self.error("eval", self.run_dir, "--data", "shapes", "--split", "tset", exit_code=2, says="test")
        result = json.loads(run("eval", self.run_dir, "--data", "shapes", "--json").stdout)
        self.assertEqual(result["images"], 64, "as many as the run's own")
        result = json.loads(run("eval", self.run_dir, "--data", "shapes", "--test-size", 40, "--json").stdout)
        self.assertEqual(result["images"], 40)
        own = json.loads((self.run_dir / "metrics.jsonl").read_text().splitlines()[-1])
        result = json.loads(run("eval", self.run_dir, "--data", "shapes", "--split", "validation", "--json").stdout)
        self.assertAlmostEqual(result["top1"], own["top1"], delta=1.5 / 64)
        self.assertLessEqual(result["top1"], result["top5"])


class Training(Case):
    def train(self, out, *more, expect=0, **options):
        return run("train", *TINY, "--out", self.dir / out, *more, expect=expect, **options)

    def weights(self, out):
        pointer = (self.dir / out / "checkpoints/latest").read_text().strip()
        return (self.dir / out / "checkpoints" / pointer / "model.safetensors").read_bytes()

    def test_run_folder_and_precedence(self):
        config = self.file("c.json", b'{"lr": 0.003, "epochs": 5}')
        done = self.train("r", "--config", config, "--lr", "0.001", "--json")
        report = json.loads(done.stdout)
        self.assertFalse(report["interrupted"])
        used = json.loads((self.dir / "r/config.json").read_text())
        self.assertEqual((used["lr"], used["epochs"]), (0.001, 1))
        lines = [json.loads(line) for line in (self.dir / "r/metrics.jsonl").read_text().splitlines()]
        self.assertTrue(any("top1" in str(line) for line in lines))
        self.error("train", *TINY, "--out", self.dir / "r", exit_code=2, says=["--resume", "--overwrite"])
        self.train("r", "--overwrite", "--quiet")
        self.error("train", *TINY, "--out", self.dir / "x", "--config", self.file("d.json", b'{"lrr": 1}'), exit_code=2,
                   says=["lrr", "lr"])
        self.error("train", *TINY, "--out", self.dir / "x", "--config", self.file("e.json", b'{"lr": '), exit_code=2,
                   says="e.json")
        self.error("train", "--out", self.dir / "x", "--resume", exit_code=2, says="x")

    def test_interrupted_and_resumed_equals_uninterrupted(self):
        self.train("whole", "--epochs", "4")
        for name, number in (("int", signal.SIGINT), ("term", signal.SIGTERM)):
            process = subprocess.Popen([TOST, "train", *TINY, "--epochs", "4", "--out", str(self.dir / name)],
                                       stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            log = self.dir / name / "metrics.jsonl"
            deadline = time.monotonic() + 600
            while time.monotonic() < deadline and not (log.exists() and log.read_text().count("\n") >= 5):
                time.sleep(0.01)
            process.send_signal(number)
            out, err = process.communicate(timeout=600)
            if process.returncode == 0:  # finished before the signal came
                continue
            self.assertEqual(process.returncode, 130, err)
            self.assertIn("--resume", out)
            run("train", "--out", self.dir / name, "--resume", "--quiet")
            self.assertEqual(self.weights(name), self.weights("whole"))

    def test_full_disk_keeps_the_old_checkpoint(self):
        self.train("r")
        before = self.weights("r")

        def small_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        done = subprocess.run([TOST, "train", "--out", str(self.dir / "r"), "--resume", "--epochs", "3", "--quiet"],
                              capture_output=True, text=True, timeout=900, preexec_fn=small_files)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(self.weights("r"), before)
        left = [p.name for p in (self.dir / "r/checkpoints").iterdir() if not p.name.startswith("step-")]
        self.assertEqual(sorted(left), ["best", "latest"])
        run("train", "--out", self.dir / "r", "--resume", "--epochs", "3", "--quiet")

    def test_progress_on_a_terminal_is_one_line(self):
        main, child = pty.openpty()
        process = subprocess.Popen([TOST, "train", *TINY, "--out", str(self.dir / "r")], stderr=child,
                                   stdout=subprocess.DEVNULL, env={**os.environ, "TERM": "xterm"})
        os.close(child)
        seen = b""
        while True:
            ready, _, _ = select.select([main], [], [], 600)
            if not ready:
                break
            try:
                piece = os.read(main, 65536)
            except OSError:
                break
            if not piece:
                break
            seen += piece
        process.wait(timeout=600)
        self.assertEqual(process.returncode, 0)
        text = seen.decode("utf-8")
        self.assertIn("━", text)
        self.assertIn("images/s", text)
        self.assertIn("left", text)
        self.assertNotIn("\x1b", run("train", *TINY, "--out", self.dir / "p").stderr)

    def test_data_commands(self):
        run("data", "make", "shapes", "--split", "test", "--count", "30", "--side", "16", "--masks", "--out", self.dir / "s")
        self.assertEqual(len(list((self.dir / "s").rglob("*.png"))), 30)
        self.assertEqual(len(list((self.dir / "s-masks").rglob("*.png"))), 30)
        self.error("data", "make", "shapes", "--out", self.dir / "s", exit_code=2, says="not an empty folder")
        shown = json.loads(run("data", "show", "--data", "shapes", "--json").stdout)
        self.assertEqual([s["split"] for s in shown["splits"]], ["train", "validation", "test"])


if __name__ == "__main__":
    TOST = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=1)
