#!/usr/bin/env python3
"""Training and scoring of recall, and its sweep, as a user runs them.

usage: cli_recall_test.py TOST [unittest arguments]; needs only Python's standard library.
"""
import json
import os
import sys
import unittest

import cli_test
from cli_test import run

SMALL = ["--dim", "16", "--batch", "4", "--eval-samples", "4", "--threads", "1", "--quiet", "--max-steps", "2",
         "--warmup-steps", "1", "--evaluate-every-steps", "2"]


class Recall(cli_test.Case):
    @classmethod
    def setUpClass(cls):
        holder = cls("test_pairs")
        holder.setUp()
        cls.folder = holder.dir
        run("train", "--recipe", "mqar", "--lengths", "16,32", "--pairs", "2,4", "--vocab", "32", *SMALL,
            "--out", cls.folder / "mqar")
        run("train", "--recipe", "needle", "--lengths", "128", "--mixer", "delta", *SMALL, "--out", cls.folder / "needle")
        run("train", "--recipe", "copying", "--lengths", "16", *SMALL, "--out", cls.folder / "copying")
        run("train", "--recipe", "selective-copying", "--lengths", "16", "--pairs", "6", *SMALL,
            "--out", cls.folder / "selective")
        run("train", "--recipe", "noisy-in-context-recall", "--lengths", "32", *SMALL, "--out", cls.folder / "noisy")

    @classmethod
    def tearDownClass(cls):
        cli_test.shutil.rmtree(cls.folder, ignore_errors=True)

    def score(self, model, *args):
        return json.loads(run("eval", self.folder / model, *args, "--json").stdout)

    def refused(self, model, *args, exit_code=2, says):
        self.error("eval", self.folder / model, *args, exit_code=exit_code, says=says)

    def test_pairs(self):
        report = self.score("mqar", "--task", "mqar", "--samples", "20")
        self.assertEqual([(c["length"], c["pairs"]) for c in report["cases"]], [(16, 2), (32, 4)])
        self.assertEqual([c["tokens"] for c in report["cases"]], [40, 80])
        self.assertGreater(report["parameters"], 1000)
        again = self.score("mqar", "--task", "mqar", "--samples", "20")
        self.assertEqual(report["accuracy"], again["accuracy"])
        other = self.score("mqar", "--task", "mqar", "--samples", "20", "--seed", "1")
        self.assertNotEqual(report["loss"], other["loss"])
        self.assertIn("pairs", run("eval", self.folder / "mqar", "--task", "mqar", "--samples", "4").stdout)

    def test_needle_grid(self):
        plot = self.dir / "needle.svg"
        report = self.score("needle", "--task", "needle", "--lengths", "256,4k", "--depths", "0,1", "--samples", "1",
                            "--plot", plot)
        self.assertEqual([(c["depth"], c["length"]) for c in report["cases"]],
                         [(0, 256), (0, 4096), (1, 256), (1, 4096)])
        self.assertEqual(len({c["state_bytes"] for c in report["cases"]}), 1)
        self.assertIn("<svg", plot.read_text())
        hay = self.file("hay.txt", b"all work and no play. " * 100)
        asked = ["--task", "needle", "--haystack", hay, "--samples", "1"]
        self.assertEqual(self.score("needle", *asked)["tokens"], 5)
        run("train", "--recipe", "needle", "--lengths", "128", "--haystack", hay, *SMALL, "--out", self.dir / "own")
        self.assertIn("needles in 'hay.txt'", run("eval", self.dir / "own", *asked[:2], "--samples", "1").stderr)
        self.assertNotIn("hay.txt", run("eval", self.dir / "own", *asked).stderr)

    def test_explain(self):
        out = ["--out", self.dir / "page"]
        self.error("explain", self.folder / "mqar", *out, exit_code=2, says=["learned recall", "--task mqar"])
        self.error("explain", self.folder / "mqar", "--text", "abc", *out, exit_code=1, says="has no tokenizer")
        done = run("explain", self.folder / "needle", "--text", "all work and no play", "--quiet", *out)
        self.assertIn("generated samples", done.stdout)
        self.assertTrue((self.dir / "page/index.html").exists())

    def test_copying(self):
        plot = self.dir / "copy.png"
        report = self.score("copying", "--task", "copying", "--samples", "3", "--plot", plot)
        self.assertEqual(report["tokens"], 24)
        self.assertEqual(plot.read_bytes()[:4], b"\x89PNG")

    def test_tasks_of_mad(self):
        def sizes(*args):
            report = self.score("selective", "--task", "selective-copying", "--samples", "3", *args)
            return [(c["length"], c["pairs"], c["tokens"]) for c in report["cases"]]
        self.assertEqual(sizes(), [(16, 6, 18)])
        self.assertEqual(sizes("--lengths", "20,32"), [(20, 6, 18), (32, 6, 18)])
        self.assertEqual(sizes("--lengths", "32", "--pairs", "4,8"), [(32, 4, 12), (32, 8, 24)])
        noisy = ["--task", "noisy-in-context-recall", "--samples", "50"]
        few, many = (self.score("noisy", *noisy, "--noise", share)["tokens"] for share in ("0.1", "0.8"))
        self.assertGreater(few, 2 * many)
        self.refused("noisy", *noisy, "--split", "train", says="score validation or test")
        self.refused("noisy", *noisy, "--noise", "1", says="noise is 1")
        self.refused("selective", "--task", "selective-copying", "--noise", "0.5", says="--noise does not go with")

    def test_compression(self):
        out = self.dir / "squeeze"
        run("train", "--recipe", "compression", "--lengths", "16", "--mixer", "tssa-means", *SMALL, "--out", out)
        report = self.score(out, "--task", "compression", "--samples", "3")
        self.assertEqual((report["tokens"], report["cases"][0]["state_bytes"]), (48, 4 * 16))
        self.refused(out, "--task", "copying", says="the model is an auto-encoder")
        self.refused(out, "--task", "compression", "--lengths", "4k", says="at most 2048 tokens")
        self.refused("mqar", "--task", "compression", says="needs an auto-encoder")

    def test_wrong_requests(self):
        self.refused("mqar", "--task", "mqar", "--lengths", "64", says="learned positions")
        self.refused("mqar", "--task", "mqar", "--lengths", "8", "--pairs", "4", says="at least 16")
        self.refused("mqar", "--task", "mqar", "--vocab", "8", "--pairs", "4", says="at least 10")
        self.refused("mqar", "--task", "mqar", "--vocab", "64", says="64 tokens and the model 32")
        self.refused("mqar", "--task", "mqar", "--lengths", "x", says="lengths")
        self.refused("mqar", "--task", "mqar", "--samples", "0", says="at least one sample")
        self.refused("mqar", "--task", "mqar", "--plot", "a.gif", says=".svg or .png")
        self.refused("mqar", "--task", "mqar", "--depths", "0", says="--depths does not go with --task mqar")
        self.refused("mqar", "--task", "mqar", "--data", "x", says="--data does not go with")
        self.refused("mqar", "--task", "mqra", says="'mqar'")
        self.refused("mqar", "--pairs", "3", "--data", "x", says="--pairs does not go with --task loss")
        self.refused("mqar", says="--data is needed")
        self.error("train", "--recipe", "mqar", "--lengths", "1000k", "--batch", "4096", *SMALL[4:], "--out", self.dir / "x",
                   exit_code=2, says="a smaller batch")
        self.refused("needle", "--task", "needle", "--depths", "1.5", says="0 to 1")
        self.refused("needle", "--task", "needle", "--lengths", "20", says="too short")
        self.refused("needle", "--task", "needle", "--haystack", self.dir / "absent", exit_code=1, says="absent")
        self.error("train", "--recipe", "mqar", "--lengths", "8", "--out", self.dir / "x", exit_code=2, says="at least 16")
        self.assertFalse((self.dir / "x").exists())

    def test_sweep(self):
        settings = {"recipe": "mqar", "lengths": "16,32", "pairs": "2,4", "vocab": 32, "dim": 16, "batch": 4,
                    "eval_samples": 4, "max_steps": 2, "warmup_steps": 1, "evaluate_every_steps": 2, "threads": 1}
        spec = self.file("recall.json", json.dumps({"title": "Recall", "settings": settings, "seeds": [0, 1], "variants": [
            {"name": name, "settings": {"mixer": name}} for name in ("tssa", "delta")]}).encode())
        run("sweep", spec, "--out", self.dir / "out", "--quiet")
        text = (self.dir / "out/results.md").read_text()
        for part in ("accuracy %", "16/2", "32/4", "tssa", "delta", "±"):
            self.assertIn(part, text)
        results = json.loads((self.dir / "out/results.json").read_text())
        self.assertEqual(results["metric"], "accuracy")
        self.assertIn("accuracy 32/4", results["variants"][0]["scores"])


if __name__ == "__main__":
    cli_test.TOST = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=1)
