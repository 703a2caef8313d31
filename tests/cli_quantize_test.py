"""tost quantize as a user runs it.

usage: cli_quantize_test.py TOST
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOST = sys.argv.pop(1)
ENV = dict(os.environ, OMP_NUM_THREADS="1", OMP_WAIT_POLICY="passive")


def tost(*args, code=0, **env):
    out = subprocess.run([TOST, *map(str, args)], capture_output=True, text=True, env={**ENV, **env})
    assert out.returncode == code, (args, out.returncode, out.stdout, out.stderr)
    return out


class Quantize(unittest.TestCase):
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

    def test_quantize_writes_what_every_command_reads(self):
        report = json.loads(tost("quantize", self.dir / "run", self.dir / "v8.safetensors", "--precision", "int8",
                                 "--data", "shapes", "--split", "validation", "--json").stdout)
        self.assertEqual((report["before"]["precision"], report["after"]["precision"]), ("fp32", "int8"))
        self.assertLess(report["bytes_after"], report["bytes_before"] / 2)
        scored = json.loads(tost("eval", self.dir / "v8.safetensors", "--data", "shapes", "--split", "validation",
                                 "--train-size", 64, "--test-size", 32, "--json").stdout)
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
            old = {"TOST_ISA": isa}
            info = json.loads(tost("info", "--json", **old).stdout)
            self.assertEqual(info["paths"]["products"]["int8"], way)
            said = tost("quantize", self.dir / "run", self.dir / f"{isa}.safetensors", **old).stdout
            self.assertIn(way, said)
            self.assertEqual("not faster" in said, isa == "sse4", said)
            tost("eval", self.dir / f"{isa}.safetensors", "--data", "shapes", "--split", "validation", **old)


if __name__ == "__main__":
    unittest.main()
