#!/usr/bin/env python3
"""The quality bench as a user runs it, as small as it goes.

usage: cli_quality_test.py TOST [unittest arguments]; needs only Python's standard library.
"""
import json
import os
import signal
import subprocess
import sys
import unittest

import cli_test
from cli_test import run

QUICK = ["--quick", "--threads", "1"]


class Quality(cli_test.Case):
    def quality(self, *args, **options):
        return run("bench", "quality", *args, *QUICK, "--out", self.dir / "out", **options)

    def test_both_kinds_of_contestants(self):
        done = self.quality("parity", "listops", "--contestants", "tssa,softmax,cbsa", "--json")
        report = json.loads(done.stdout)
        self.assertEqual([t["task"] for t in report["tasks"]], ["parity", "listops"])
        self.assertEqual([[c["contestant"] for c in t["contestants"]] for t in report["tasks"]],
                         [["tssa", "softmax"], ["tssa", "softmax", "cbsa"]])
        for task in report["tasks"]:
            for cell in task["contestants"]:
                self.assertEqual(cell["score"]["n"], 2)
                self.assertEqual(len(cell["tried"]), 2)
                self.assertIn(cell["lr"], [0.001, 0.01])
                self.assertGreater(cell["parameters"], 1000)
                self.assertEqual(cell["state_bytes"] is not None, task["causal"])
        self.assertIn("--quick", report["command"])
        self.assertIn("| cbsa |", (self.dir / "out/quality.md").read_text())
        self.assertIn("<table", (self.dir / "out/index.html").read_text())
        # Nothing is left to be done.
        again = self.quality("parity", "listops", "--contestants", "tssa,softmax,cbsa", "--json")
        self.assertNotIn("[1/", again.stderr)
        same = json.loads(again.stdout)
        self.assertEqual(same["tasks"], report["tasks"])

    def test_text(self):
        text = self.file("text.txt", b"the cat sat on the mat and the dog ran to the hill .\n" * 400)
        done = self.quality("words", "characters", "--contestants", "tssa,none", "--learning-rates", "0.01", "--data",
                            f"words={text}", "--data", f"characters={text}")
        self.assertIn("Words: 12 steps", done.stdout)
        self.assertIn("| none |", done.stdout)

    def test_stopped_and_resumed(self):
        process = subprocess.Popen([cli_test.TOST, "bench", "quality", "parity", *QUICK, "--out", self.dir / "out"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for line in process.stderr:
            if line.startswith("[2/"):
                break
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=600)
        self.assertEqual(process.returncode, 130)
        self.assertIn("the same command resumes", out)
        self.assertIn("| gated-delta |", self.quality("parity").stdout)

    def test_refusals(self):
        for args, says in ((["parities"], "parity"), (["--contestants", "tsa"], "'tssa'"),
                           (["words"], "--data words=PATH"), (["--data", "words"], "TASK=PATH"), (["--data", "words=/nowhere/x"], "/nowhere/x"),
                           (["--learning-rates", "0"], "above 0"), (["--set", "bach=2"], "batch")):
            self.error("bench", "quality", *args, "--out", self.dir / "out", exit_code=2, says=says)
        self.assertFalse((self.dir / "out").exists())


if __name__ == "__main__":
    cli_test.TOST = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=1)
