#!/usr/bin/env python3
"""Classifiers of sequences as a stranger uses them.

usage: cli_sequence_test.py TOST [unittest arguments]; needs only Python's standard library.
"""
import json
import os
import sys
import unittest

import cli_test
from cli_test import run

TINY = ["--model", "tost_seq_tiny", "--dim", 16, "--depth", 1, "--heads", 2, "--threads", 1]
LISTOPS = ["--data", "listops", "--min-tokens", 3, "--max-tokens", 20, "--train-size", 200, "--test-size", 40]


class Sequence(cli_test.Case):
    def train(self, *args, expect=0):
        return run("train", *TINY, "--out", self.dir / "run", "--quiet", *args, expect=expect)

    def test_trained_scored_and_asked(self):
        done = json.loads(self.train(*LISTOPS, "--max-steps", 6, "--json").stdout)
        self.assertEqual(done["step"], 6)
        self.assertEqual(done["eval"]["split"], "validation")
        report = json.loads(run("eval", self.dir / "run", "--data", "listops", "--split", "validation", "--per-class",
                                "--json").stdout)
        self.assertAlmostEqual(report["top1"], done["eval"]["top1"], 12)
        self.assertEqual(report["sequences"], 40)
        self.assertEqual(len(report["per_class"]), 10)
        self.assertEqual(len(report["by_length"]), 4)
        longer = json.loads(run("eval", self.dir / "run", "--data", "listops", "--min-tokens", 30, "--max-tokens", 60,
                                "--json").stdout)
        self.assertGreater(longer["by_length"][0]["shortest"], 30)
        self.assertIn("tokens", run("eval", self.dir / "run", "--data", "listops").stdout)
        predictions = json.loads(run("predict", self.dir / "run", "--text", "[MAX 2 [MIN 8 5 ] 3 ]", "--text", "7",
                                     "--top", 3, "--json").stdout)["predictions"]
        self.assertEqual([p["path"] for p in predictions], ["[MAX 2 [MIN 8 5 ] 3 ]", "7"])
        self.assertEqual(len(predictions[0]["top"]), 3)
        small = self.dir / "int8.safetensors"
        scores = json.loads(run("quantize", self.dir / "run", small, "--data", "listops", "--split", "validation",
                                "--json").stdout)
        self.assertEqual(scores["kind"], "sequence")
        self.assertEqual([scores[when]["precision"] for when in ("before", "after")], ["fp32", "fp32"])
        self.assertAlmostEqual(scores["after"]["loss"], scores["before"]["loss"], 1)
        for asked in ([], ["--precision", "fp32"], ["--precision", "bf16"]):
            run("predict", small, "--text", "7", *asked)
        self.error("predict", small, "--text", "7", "--precision", "int8", exit_code=2, says="fp32, bf16")
        for command, code, words in (
                (["predict", "--text", "[MAX 2"], 2, "expression"), (["predict", "x.png"], 2, "sequence models read --text or --text-file"),
                (["eval", "--data", "listops", "--corrupt", "noise"], 2, "--corrupt goes with image models"),
                (["eval", "--data", "listops", "--context", 5], 2, "language models"),
                (["explain", "--out", self.dir / "r"], 2, "holds a sequence model"),
                (["generate", "--prompt", "7"], 1, "holds a sequence model, not a language model")):
            self.error(command[0], self.dir / "run", *command[1:], exit_code=code, says=words)

    def test_refusals_come_before_the_folder(self):
        for args, words in (
                (["--recipe", "lra-text"], "data is empty"),
                ([*LISTOPS, "--positions", "learned", "--model-options", '{"max_length": 5}'], "cut them with max_length 5"),
                ([*LISTOPS, "--batch", 60000, "--model-options", '{"mlp_hidden": 1000000}'], "of memory and the machine")):
            self.error("train", *TINY, "--out", self.dir / "run", "--quiet", *args, exit_code=2, says=words)
            self.assertFalse((self.dir / "run").exists())


if __name__ == "__main__":
    cli_test.TOST = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=1)
