"""tost convert as a user runs it.

usage: cli_convert_test.py TOST
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOST = sys.argv.pop(1)
SHARED = pathlib.Path(os.environ.get("TOST_SHARED", pathlib.Path(__file__).resolve().parents[2] / "shared"))
ENV = dict(os.environ, OMP_NUM_THREADS="1", OMP_WAIT_POLICY="passive")


def tost(*args, code=0, **env):
    out = subprocess.run([TOST, *map(str, args)], capture_output=True, text=True, env={**ENV, **env})
    assert out.returncode == code, (args, out.returncode, out.stdout, out.stderr)
    return out


class Convert(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.dir = pathlib.Path(cls.folder.name)
        tost("train", "--data", "shapes", "--train-size", 64, "--test-size", 32, "--max-steps", 1, "--batch", 16,
             "--model", "tost_nano_p4", "--out", cls.dir / "run", "--quiet")
        (cls.dir / "text.txt").write_text("the cat sat on the mat. " * 60)
        tost("train", "--data", cls.dir / "text.txt", "--model", "gpt_char", "--tokenizer", "bytes", "--max-steps", 1,
             "--batch", 2, "--eval-batches", 1, "--sample-every-steps", 0, "--out", cls.dir / "text-run", "--quiet")

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_there_and_back_is_bit_for_bit(self):
        for run in ("run", "text-run"):
            tost("convert", self.dir / run, self.dir / f"{run}.safetensors")
            tost("convert", self.dir / f"{run}.safetensors", self.dir / f"{run}.pth")
            tost("convert", self.dir / f"{run}.pth", self.dir / f"{run}-hub")
            tost("convert", self.dir / f"{run}-hub", self.dir / f"{run}-2.safetensors")
            self.assertEqual((self.dir / f"{run}.safetensors").read_bytes(),
                             (self.dir / f"{run}-2.safetensors").read_bytes())

    def test_every_command_takes_every_layout(self):
        for out in ("m.safetensors", "m.pth", "m-hub"):
            tost("convert", self.dir / "run", self.dir / out)
        scores = []
        for model in ("run", "m.safetensors", "m.pth", "m-hub"):
            out = tost("eval", self.dir / model, "--data", "shapes", "--split", "validation", "--json")
            scores.append(json.loads(out.stdout)["loss"])
        self.assertEqual(len(set(scores)), 1, scores)

    def test_export_writes_onnx_once(self):
        for run, kind, more in (("run", "vision", ["--memberships"]), ("text-run", None, [])):
            out = self.dir / f"{run}.onnx"
            if kind is None:  # softmax has a state that grows
                refused = tost("export", self.dir / run, "--onnx", out, code=2)
                self.assertIn("mixer softmax have no ONNX form", refused.stderr)
                self.assertFalse(out.exists())
                continue
            report = json.loads(tost("export", self.dir / run, "--onnx", out, "--json", *more).stdout)
            self.assertEqual((report["kind"], report["opset"], report["bytes"]), (kind, 17, out.stat().st_size))
            self.assertIn(b"membership_1", out.read_bytes())
            self.assertIn("exists", tost("export", self.dir / run, "--onnx", out, code=2).stderr)
        self.assertIn(".onnx", tost("export", self.dir / "run", "--onnx", self.dir / "m.bin", code=2).stderr)
        self.assertIn("image models", tost("export", self.dir / "text-run", "--onnx", self.dir / "m.onnx",
                                           "--memberships", code=2).stderr)
        self.assertFalse((self.dir / "m.onnx").exists())

    def test_quantize_writes_what_every_command_reads(self):
        report = json.loads(tost("quantize", self.dir / "run", self.dir / "v8.safetensors", "--precision", "int8",
                                 "--data", "shapes", "--split", "validation", "--json").stdout)
        self.assertEqual((report["before"]["precision"], report["after"]["precision"]), ("fp32", "int8"))
        self.assertLess(report["bytes_after"], report["bytes_before"] / 2)
        scored = json.loads(tost("eval", self.dir / "v8.safetensors", "--data", "shapes", "--split", "validation",
                                 "--json").stdout)
        self.assertEqual(scored["loss"], report["after"]["loss"])
        tost("quantize", self.dir / "text-run", self.dir / "t4.safetensors", "--precision", "int4")
        tost("generate", self.dir / "t4.safetensors", "--prompt", "the", "--max-tokens", 3)
        self.assertIn("exists", tost("quantize", self.dir / "run", self.dir / "v8.safetensors", code=2).stderr)
        tost("quantize", self.dir / "run", self.dir / "none.safetensors", "--data", self.dir / "nothing", code=1)
        tost("quantize", self.dir / "run", self.dir / "none.safetensors", "--precision", "int4", code=2)
        self.assertFalse((self.dir / "none.safetensors").exists())

    def test_quantize_says_what_int8_is_multiplied_by(self):
        isas = json.loads(tost("info", "--json").stdout)["paths"]["isas"]
        for isa, way in (("avx2", "pairs of 16-bit numbers"), ("sse4", "float32 on rounded numbers")):
            if isa not in isas:
                continue
            old = {"TOST_ISA": isa, "ONEDNN_MAX_CPU_ISA": "AVX2"}
            info = json.loads(tost("info", "--json", **old).stdout)
            self.assertEqual(info["paths"]["products"]["int8"], way)
            said = tost("quantize", self.dir / "run", self.dir / f"{isa}.safetensors", **old).stdout
            self.assertIn(way, said)
            self.assertEqual("not faster" in said, isa == "sse4", said)
            tost("eval", self.dir / f"{isa}.safetensors", "--data", "shapes", "--split", "validation", **old)

    def test_shards(self):
        tost("convert", self.dir / "run", self.dir / "shards", "--shard-bytes", 300000)
        index = self.dir / "shards/model.safetensors.index.json"
        names = sorted(set(json.loads(index.read_text())["weight_map"].values()))
        self.assertGreater(len(names), 2)
        tost("convert", self.dir / "run", self.dir / "whole.safetensors")
        for place in (index.parent, index):
            report = json.loads(tost("inspect", place, "--json").stdout)
            self.assertEqual([pathlib.Path(file["file"]).name for file in report["files"]], names)
            self.assertFalse([file for file in report["files"] if "models" in file])
            whole, one = report["whole"], json.loads(tost("inspect", self.dir / "whole.safetensors", "--json").stdout)
            self.assertEqual(whole["models"], one["models"])
            self.assertEqual((whole["elements"], whole["tensors"]), (one["elements"], len(one["tensors"])))
            self.assertEqual(whole["errors"], [])
            self.assertEqual(tost("inspect", place).stdout.count("\nmodel "), 1)
            out = self.dir / f"from-{place.name}.safetensors"
            tost("convert", place, out)
            self.assertEqual(out.read_bytes(), (self.dir / "whole.safetensors").read_bytes())
        (index.parent / names[0]).unlink()
        report = json.loads(tost("inspect", index.parent, "--json", code=1).stdout)
        self.assertEqual(len(report["files"]), len(names) - 1)
        self.assertIn(f"{names[0]}' is missing", report["whole"]["errors"][0])
        for command in (["inspect", index], ["eval", index.parent, "--data", "shapes"]):
            refused = tost(*command, code=1)
            self.assertEqual(len(refused.stderr.splitlines()), 1, refused.stderr)
            self.assertIn(names[0], refused.stderr)
        refused = tost("convert", self.dir / "run", self.dir / "s.pth", "--shard-bytes", 9, code=2)
        self.assertIn("layouts hub", refused.stderr)

    def test_official_checkpoints(self):
        for folder, file in (("vision_tssa_p16", "checkpoint.pth"), ("lang_softmax", "ckpt.pt")):
            source = SHARED / "parity" / folder / file
            if not source.exists():
                self.skipTest(f"{source} is missing")
            once, back = self.dir / f"{folder}.safetensors", self.dir / f"{folder}{source.suffix}"
            tost("convert", source, once)
            tost("convert", once, back)
            tost("convert", back, self.dir / f"{folder}-2.safetensors")
            self.assertEqual(once.read_bytes(), (self.dir / f"{folder}-2.safetensors").read_bytes())
        out = tost("convert", SHARED / "parity/vision_tssa_p16/checkpoint.pth", self.dir / "ema.safetensors", "--ema")
        self.assertIn("vision model", out.stdout)
        self.assertNotEqual((self.dir / "ema.safetensors").read_bytes(),
                            (self.dir / "vision_tssa_p16.safetensors").read_bytes())

    def test_json_names_the_files(self):
        out = tost("convert", self.dir / "text-run", self.dir / "j", "--to", "gpt2", "--json")
        report = json.loads(out.stdout)
        self.assertEqual((report["kind"], report["layout"]), ("language", "gpt2"))
        for file in report["files"]:
            self.assertTrue(pathlib.Path(file).is_file(), file)
        self.assertEqual(len(report["notes"]), 1)

    def test_bad_input_is_one_sentence(self):
        cases = [
            (("convert", self.dir / "run", self.dir / "text.txt"), 2, "exists"),
            (("convert", self.dir / "run", self.dir / "no" / "m.pth"), 2, "does not exist"),
            (("convert", self.dir / "none", self.dir / "x.pth"), 1, "does not exist"),
            (("convert", self.dir / "text.txt", self.dir / "x.pth"), 1, "text.txt"),
            (("convert", self.dir / "run", self.dir / "x", "--to", "gpt2"), 2, "language"),
            (("convert", self.dir / "run", self.dir / "x", "--to", "onnx"), 2, "layouts are"),
            (("convert", self.dir / "run", self.dir / "x.pth", "--image-size", 30), 2, "divisible"),
            (("convert", self.dir / "run", self.dir / "x.pth", "--block", 8), 2, "language"),
            (("convert", self.dir / "run", self.dir / "x.pth", "--ema"), 1, "averaged"),
        ]
        for args, code, part in cases:
            out = tost(*args, code=code)
            self.assertEqual(out.stdout, "", args)
            self.assertEqual(out.stderr.count("\n"), 1, out.stderr)
            self.assertIn(part, out.stderr)
            self.assertEqual([p for p in self.dir.iterdir() if p.name.startswith("x")], [], args)


if __name__ == "__main__":
    unittest.main()
