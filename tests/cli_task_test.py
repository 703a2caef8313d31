#!/usr/bin/env python3
"""Training, scoring and explaining of tasks of tokens, as a user runs them.

usage: cli_task_test.py TOST [unittest arguments]; needs only Python's standard library.
"""
import json
import os
import sys
import unittest

import cli_test
from cli_test import run, token_task

SMALL = ["--dim", "16", "--batch", "4", "--eval-samples", "4", "--threads", "1", "--quiet", "--max-steps", "2",
         "--warmup-steps", "1", "--evaluate-every-steps", "2"]


class Task(cli_test.Case):
    @classmethod
    def setUpClass(cls):
        holder = cls("test_groups")
        holder.setUp()
        cls.folder = holder.dir
        token_task(cls.folder / "task", [16, 32])
        token_task(cls.folder / "bytes", [64], vocabulary=257, tokenizer="bytes")
        token_task(cls.folder / "squeeze", [16], restores="true")
        run("train", "--data", cls.folder / "task", "--model", "tost_recall", *SMALL, "--out", cls.folder / "run")
        run("train", "--data", cls.folder / "bytes", "--mixer", "delta", *SMALL, "--out", cls.folder / "bytes-run")

    @classmethod
    def tearDownClass(cls):
        cli_test.shutil.rmtree(cls.folder, ignore_errors=True)

    def score(self, model, data, *args):
        return json.loads(run("eval", self.folder / model, "--data", self.folder / data, *args, "--json").stdout)

    def refused(self, *args, exit_code=2, says):
        self.error("eval", self.folder / "run", *args, exit_code=exit_code, says=says)

    def test_groups(self):
        report = self.score("run", "task")
        self.assertEqual([(g["group"], g["length"], g["samples"]) for g in report["groups"]],
                         [("16", 16, 12), ("32", 32, 12)])
        self.assertEqual((report["tokens"], report["split"]), (24, "test"))
        self.assertGreater(report["parameters"], 1000)
        self.assertEqual(report["accuracy"], self.score("run", "task")["accuracy"])
        few = self.score("run", "task", "--samples", 3, "--split", "validation")
        self.assertEqual([g["samples"] for g in few["groups"]], [3, 3])
        self.assertIn("state bytes", run("eval", self.folder / "run", "--data", self.folder / "task").stdout)

    def test_longer_samples_than_those_of_training(self):
        token_task(self.dir / "long", [64, 4096], vocabulary=257, samples=1)
        groups = json.loads(run("eval", self.folder / "bytes-run", "--data", self.dir / "long", "--json").stdout)["groups"]
        self.assertEqual(len({g["state_bytes"] for g in groups}), 1)

    def test_explain(self):
        done = run("explain", self.folder / "run", "--quiet", "--out", self.dir / "page")
        self.assertIn("the first sample of", done.stdout)
        self.assertTrue((self.dir / "page").is_dir())
        self.error("explain", self.folder / "run", "--text", "abc", "--out", self.dir / "b", exit_code=1,
                   says="has no tokenizer")
        run("explain", self.folder / "bytes-run", "--text", "all work and no play", "--quiet", "--out", self.dir / "c")

    def test_compression(self):
        out = self.dir / "run"
        run("train", "--data", self.folder / "squeeze", *SMALL, "--out", out)
        report = json.loads(run("eval", out, "--data", self.folder / "squeeze", "--json").stdout)
        self.assertEqual(report["tokens"], 12)
        self.error("eval", out, "--data", self.folder / "task", exit_code=2, says="the model is an auto-encoder")
        self.refused("--data", self.folder / "squeeze", says="needs an auto-encoder")
        token_task(self.dir / "long", [4096], samples=1, restores="true")
        self.error("eval", out, "--data", self.dir / "long", exit_code=2, says="at most 2048 tokens")

    def test_wrong_requests(self):
        data = ["--data", self.folder / "task"]
        token_task(self.dir / "long", [512])
        self.refused("--data", self.dir / "long", says="learned positions")
        token_task(self.dir / "wide", [16], vocabulary=99)
        self.refused("--data", self.dir / "wide", says="99 tokens and the model 16")
        self.refused(*data, "--split", "trein", says="there are train, validation, test")
        self.refused(*data, "--task", "loss", says="--task does not go with data of a task of tokens")
        self.refused(*data, "--context", "4", says="--context does not go with data of a task")
        self.refused(says="--data is needed")
        self.refused("--data", self.dir / "absent", "--samples", "3", says="--samples does not go with --task loss")
        (self.dir / "bad").mkdir()
        (self.dir / "bad/test.safetensors").write_bytes(b"no such thing")
        self.refused("--data", self.dir / "bad", exit_code=1, says="test.safetensors")
        token_task(self.dir / "huge", [60000], samples=1)
        self.error("train", "--data", self.dir / "huge", "--batch", "65536", *SMALL[4:], "--out", self.dir / "x",
                   exit_code=2, says="a smaller batch")
        self.assertFalse((self.dir / "x").exists())


if __name__ == "__main__":
    cli_test.TOST = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=1)
