#!/usr/bin/env python3
"""Studies and corrupted pictures as a stranger uses them.

usage: cli_study_test.py TOST [unittest arguments]; needs only Python's standard library.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

import cli_test
from cli_test import TINY, run

SETTINGS = {"data": "shapes", "data_side": 16, "train_size": 256, "test_size": 64, "batch": 16, "epochs": 2,
            "model_options": {"dim": 16, "depth": 1, "heads": 2, "class_blocks": 1}}
STUDY = {"title": "Two by two", "settings": SETTINGS, "grid": {"mixer": ["tssa", "none"]}, "seeds": [0, 1]}
PYTHON = pathlib.Path(__file__).resolve().parents[1] / "python"


class Study(cli_test.Case):
    def begin(self, study, *args, out="out"):
        file = self.file("s.json", json.dumps(study).encode())
        command = [sys.executable, "-m", "tost.study", str(file), "--out", str(self.dir / out), "--threads", "1", "--quiet",
                   "--tost", cli_test.TOST, *map(str, args)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env={**os.environ, "PYTHONPATH": str(PYTHON)})

    def study(self, study, *args, expect=0, out="out"):
        process = self.begin(study, *args, out=out)
        text, error = process.communicate(timeout=1200)
        self.assertEqual(process.returncode, expect, error)
        return text, error

    def numbers(self, out="out"):
        """All of results.json but the times."""
        results = json.loads((self.dir / out / "results.json").read_text())
        for entry in results["runs"] + results["tasks"][0]["variants"]:
            entry.pop("seconds", None), entry.pop("cpu_seconds", None)
        return results

    def test_stopped_resumed_and_scored(self):
        self.study(STUDY)
        whole = self.numbers()
        self.assertEqual([r["state"] for r in whole["runs"]], ["done"] * 4)
        process = self.begin(STUDY, out="parts")
        second = self.dir / "parts/runs/tssa/seed-1/metrics.jsonl"
        while process.poll() is None and not (second.exists() and second.read_text()):
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=600)
        self.study(STUDY, out="parts")
        self.assertEqual(self.numbers("parts"), whole)
        # Scoring the last checkpoint on the validation pictures gives what training said of them.
        self.study({**STUDY, "score": {"split": "validation"}})
        again = self.numbers()
        self.assertNotEqual(again["runs"][0]["scores"], whole["runs"][0]["scores"])
        for entry in again["runs"]:
            self.assertEqual(entry["scores"]["top1"], entry["curve"]["values"][-1])

    def test_first_stages_and_corrupted_pictures(self):
        study = {**STUDY, "seeds": [0], "pretrain": {"epochs": 1}, "corruptions": {"kinds": ["noise"], "strengths": [1, 5]}}
        study.pop("grid")
        study["variants"] = [{"name": "a"}, {"name": "b", "settings": {"mixer": "tssa"}, "pretrain": False}]
        self.study(study)
        first, second = self.numbers()["runs"]
        self.assertEqual([len(first["corrupted"]["noise"]), second["pretrain"]], [2, None])
        config = json.loads((self.dir / "out/runs/a/seed-0/config.json").read_text())
        self.assertIn("seed-0-pretrain", config["from"])

    def test_wrong_settings_are_refused_at_once(self):
        for change, says in (({"settings": {"epoch": 1}}, "Did you mean 'epochs'?"),
                             ({"grid": {"model_options.head": [2]}}, "Did you mean 'heads'?"),
                             ({"grid": {"mixer": ["tsa"]}}, "tsa")):
            self.assertIn(says, self.study({**STUDY, **change}, expect=2)[1])
        self.assertFalse((self.dir / "out").exists())

    def test_a_run_is_scored_as_it_was_trained(self):
        out = self.dir / "run"
        run("train", *TINY, "--out", out, "--quiet")
        told = json.loads(run("eval", out, "--json").stdout)
        self.assertEqual(set(told), {"top1", "top5", "loss", "split"})
        damaged = json.loads(run("eval", out, "--corrupt", "noise", "--strength", 5, "--json").stdout)
        self.assertEqual(damaged["corruption"], {"kind": "noise", "strength": 5})
        self.error("eval", out, "--batch", 3, exit_code=2, says="--batch needs --data")


if __name__ == "__main__":
    cli_test.TOST = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=1)
