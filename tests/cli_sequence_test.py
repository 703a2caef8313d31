#!/usr/bin/env python3
"""Classifiers of sequences and the Long Range Arena as a stranger uses them.

usage: cli_sequence_test.py TOST [unittest arguments]; needs only Python's standard library.
"""
import csv
import json
import os
import sys
import unittest

import cli_test
from cli_test import run

TINY = ["--model", "tost_seq_tiny", "--dim", 16, "--depth", 1, "--heads", 2, "--threads", 1]
LISTOPS = ["--data", "listops", "--min-tokens", 3, "--max-tokens", 20, "--train-size", 200, "--test-size", 40]
SMALL = ["--set", "max_steps=2", "--set", "evaluate_every_steps=2", "--set", "train_size=40", "--set", "test_size=8",
         "--set", "min_tokens=5", "--set", "max_tokens=20", "--set", "batch=4",
         "--set", 'model_options={"dim": 8, "heads": 2}', "--set", "warmup_steps=1"]


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

    def lra(self, *args, expect=0):
        return run("lra", *args, "--mixers", "tssa,none", "--seeds", "0,1", "--threads", 1, "--out", self.dir / "lra",
                   expect=expect)

    def test_one_command_makes_the_table(self):
        args = ["listops", "--reduced", *SMALL]
        plan = json.loads(self.lra(*args, "--dry-run", "--json").stdout)
        self.assertEqual(len(plan["listops"]["runs"]), 4)
        self.assertFalse((self.dir / "lra").exists())
        done = self.lra(*args)
        self.assertIn("| mixer | ListOps | mean of 5 | mean of 6 |", done.stdout)
        self.assertIn("[4/4] none seed 1: top-1", done.stderr)
        out = self.dir / "lra"
        rows = list(csv.DictReader((out / "lra.csv").read_text().splitlines()))
        self.assertEqual([(r["mixer"], r["task"], r["seeds"], r["steps"]) for r in rows],
                         [("tssa", "listops", "2", "2"), ("none", "listops", "2", "2")])
        table = json.loads((out / "lra.json").read_text())
        self.assertIsNone(table["rows"][0]["mean_of_five"]["mean"])
        for name in ("lra.md", "index.html", "listops/results.json", "listops/index.html"):
            self.assertTrue((out / name).is_file(), name)
        again = self.lra(*args)
        self.assertNotIn("training", again.stderr)
        other = self.lra(*args, "--set", "max_steps=3", expect=2)
        self.assertIn("max_steps is 2 there and 3 now", other.stderr)

    def test_what_cannot_be_run_is_said(self):
        self.assertIn("Did you mean 'listops'", self.lra("listop", expect=2).stderr)
        self.assertIn("--data text=PATH", self.lra("text", expect=2).stderr)
        self.assertIn("TASK=PATH", self.lra("text", "--data", "text", expect=2).stderr)
        note = self.lra("all", "--reduced", "--dry-run", *SMALL).stderr
        for words in ("Text is left out", "Retrieval is left out", "Image is left out", "Path-X is left out"):
            self.assertIn(words, note)


if __name__ == "__main__":
    cli_test.TOST = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=1)
