#!/usr/bin/env python3
"""Sweeps and corrupted pictures as a stranger uses them.

usage: cli_sweep_test.py TOST [unittest arguments]; needs only Python's standard library.
"""
import csv
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
SWEEP = {"title": "Two by <two>", "settings": SETTINGS, "grid": {"mixer": ["tssa", "none"]}, "seeds": [0, 1]}


class Sweep(cli_test.Case):
    def write(self, sweep, name="s.json"):
        return self.file(name, json.dumps(sweep).encode())

    def sweep(self, sweep, *args, expect=0, out="out"):
        return run("sweep", self.write(sweep), "--out", self.dir / out, "--threads", 1, *args, expect=expect)

    def numbers(self, out="out"):
        """All of results.json but the times."""
        results = json.loads((self.dir / out / "results.json").read_text())
        for entry in results["runs"] + results["variants"]:
            entry.pop("seconds", None), entry.pop("cpu_seconds", None)
        return results

    def test_a_table_a_plot_and_a_page(self):
        done = self.sweep(SWEEP, "--json")
        report = json.loads(done.stdout)
        self.assertEqual(len(report["runs"]), 4)
        self.assertEqual([v["variant"] for v in report["variants"]], ["tssa", "none"])
        self.assertIn("[4/4] none seed 1: top-1", done.stderr)
        self.assertNotIn("\r", done.stderr)
        values = [r["scores"]["top1"] for r in report["runs"][:2]]
        mean = sum(values) / 2
        top1 = report["variants"][0]["scores"]["top1"]
        self.assertAlmostEqual(top1["mean"], mean, 12)
        self.assertAlmostEqual(top1["spread"], sum((v - mean) ** 2 for v in values) ** 0.5, 12)
        out = self.dir / "out"
        rows = list(csv.DictReader((out / "results.csv").read_text().splitlines()))
        self.assertEqual([(r["variant"], r["seed"]) for r in rows],
                         [("tssa", "0"), ("tssa", "1"), ("none", "0"), ("none", "1")])
        self.assertEqual(float(rows[3]["top1"]), report["runs"][3]["scores"]["top1"])
        self.assertIn("| tssa |", (out / "results.md").read_text())
        self.assertIn("Two by &lt;two&gt;", (out / "index.html").read_text())
        self.assertTrue((out / "plot.png").read_bytes().startswith(b"\x89PNG"))
        self.assertIn("<svg", (out / "plot.svg").read_text())
        # Scoring the last checkpoint on the validation pictures gives what training said of them.
        again = json.loads(self.sweep({**SWEEP, "score": {"split": "validation"}}, "--json", "--quiet").stdout)
        self.assertNotEqual(again["runs"][0]["scores"], report["runs"][0]["scores"])
        for entry in again["runs"]:
            self.assertEqual(entry["scores"]["top1"], entry["curve"]["values"][-1])

    def test_done_runs_are_kept_and_interrupted_ones_go_on(self):
        self.sweep(SWEEP, "--quiet")
        whole = self.numbers()
        done = self.sweep(SWEEP)
        self.assertEqual(done.stderr, "")
        self.assertEqual(self.numbers(), whole)
        process = subprocess.Popen([cli_test.TOST, "sweep", str(self.dir / "s.json"), "--out", str(self.dir / "parts"),
                                    "--threads", "1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        second = self.dir / "parts/runs/tssa/seed-1/metrics.jsonl"
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline and not (second.exists() and second.read_text()):
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=600)
        if process.returncode == 0:
            self.skipTest("finished before the signal came")
        self.assertEqual(process.returncode, 130, err)
        self.assertIn("the same command resumes", out)
        self.sweep(SWEEP, "--quiet", out="parts")
        self.assertEqual(self.numbers("parts"), whole)

    def test_plan_and_choice(self):
        plan = json.loads(self.sweep(SWEEP, "--dry-run", "--json", "--set", "epochs=3").stdout)["runs"]
        self.assertEqual([r["action"] for r in plan], ["train"] * 4)
        self.assertEqual(plan[0]["settings"]["epochs"], 3)
        self.assertFalse((self.dir / "out").exists())
        self.sweep(SWEEP, "--only", "none", "--quiet")
        plan = json.loads(self.sweep(SWEEP, "--dry-run", "--json").stdout)["runs"]
        self.assertEqual([r["action"] for r in plan], ["train", "train", "keep", "keep"])
        out = ["--out", self.dir / "out"]
        self.error("sweep", self.dir / "s.json", *out, "--set", "epochs=1", exit_code=2,
                   says=["epochs is 2 there and 1 now", "--overwrite"])
        self.error("sweep", self.dir / "s.json", *out, "--only", "nonne", exit_code=2, says="'none'")
        self.error("sweep", self.dir / "s.json", *out, "--set", "epoch=1", exit_code=2, says="'epochs'")

    def test_a_failing_run_does_not_stop_the_others(self):
        sweep = {"settings": SETTINGS, "seeds": [0], "variants": [
            {"name": "bad", "settings": {"model_options": {"heads": 3}}}, {"name": "good", "settings": {}}]}
        done = self.sweep(sweep, expect=1)
        self.assertIn("3 heads do not divide", done.stderr)
        self.assertIn("Failed: bad, seed 0", done.stdout)
        self.assertEqual([r["state"] for r in self.numbers()["runs"]], ["failed", "done"])

    def test_bad_files(self):
        def refuse(change, *says):
            self.error("sweep", self.write({**SWEEP, **change}), exit_code=2, says=says)
        refuse({"seed": [1]}, "unknown key 'seed'", "Did you mean 'seeds'?")
        refuse({"settings": {"epoch": 1}}, "Did you mean 'epochs'?")
        refuse({"grid": {"model_options.head": [2]}}, "Did you mean 'heads'?")
        refuse({"seeds": []}, "seeds")
        refuse({"plot": "pie"}, "dots, curve or lines")
        refuse({"corruptions": {"kinds": ["rain"]}}, "noise, blur, occlusion, contrast")
        self.error("sweep", self.file("t.json", b"{"), exit_code=2, says="not JSON at byte 2")
        self.error("sweep", self.file("u.json", b'{"note":' + b"[" * 100000), exit_code=2, says="nested deeper")
        self.error("sweep", self.dir / "absent.json", exit_code=1, says="absent.json")

    def test_ready_made_sweeps_are_sound(self):
        files = sorted((pathlib.Path(__file__).parent.parent / "sweeps").glob("*.json"))
        self.assertGreaterEqual(len(files), 7)
        for file in files:
            plan = json.loads(run("sweep", file, "--out", self.dir / "x", "--dry-run", "--json").stdout)["runs"]
            self.assertEqual(sorted({r["seed"] for r in plan}), [0, 1, 2], file.name)


class Corrupted(cli_test.Case):
    def test_eval(self):
        run("train", *TINY, "--out", self.dir / "r", "--quiet")
        for split in ("train", "test"):
            run("data", "make", "shapes", "--split", split, "--side", 24, "--count", 64, "--out",
                self.dir / "shapes" / split)
        score = ["eval", self.dir / "r", "--data", self.dir / "shapes", "--json"]

        def loss(*args):
            return json.loads(run(*score, *args).stdout)["loss"]
        noisy = loss("--corrupt", "noise", "--strength", 5)
        self.assertNotEqual(noisy, loss())
        self.assertAlmostEqual(noisy, loss("--corrupt", "noise", "--strength", 5, "--batch", 7, "--workers", 0), 6)
        self.assertEqual(loss("--corrupt", "blur"), loss("--corrupt", "blur", "--strength", 3))
        shown = run(*score[:-1], "--corrupt", "blur").stdout
        self.assertIn("blur, strength 3", shown)
        self.error(*score, "--corrupt", "blurr", exit_code=2, says="'blur'")
        self.error(*score, "--corrupt", "blur", "--strength", 6, exit_code=2, says="1 to 5")
        self.error(*score, "--strength", 2, exit_code=2, says="--corrupt")


if __name__ == "__main__":
    cli_test.TOST = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=1)
