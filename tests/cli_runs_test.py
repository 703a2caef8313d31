#!/usr/bin/env python3
"""Run folders as people treat them: used twice, replaced, moved, left by a lost connection, gone on with elsewhere.

usage: cli_runs_test.py TOST [unittest arguments]; needs only Python's standard library.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest

import cli_test
from cli_test import TINY, png, run

LONG = ["--epochs", "1000000", "--evaluate-every", "1000000", "--checkpoint-every-steps", "5", "--log-every", "1",
        "--save-retries", "0"]


class Runs(cli_test.Case):
    def start(self, out, *more, **options):
        """A training that has saved a checkpoint and continues."""
        process = subprocess.Popen([cli_test.TOST, "train", *TINY, *LONG, "--out", str(out), *more],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)
        self.addCleanup(lambda: process.poll() is None and (process.kill(), process.communicate()))
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline and process.poll() is None and not (out / "checkpoints/latest").exists():
            time.sleep(0.01)
        self.assertIsNone(process.poll())
        return process

    def files(self, folder):
        return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*")
                if path.is_file() and path.name != ".lock"}

    def saved(self, out):
        return out / "checkpoints" / (out / "checkpoints/latest").read_text().strip()


class SecondProcess(Runs):
    def test_a_second_training_is_refused_and_reading_is_not(self):
        out = self.dir / "run"
        first = self.start(out)
        for mode in ("--resume", "--overwrite"):
            self.error("train", *(TINY if mode == "--overwrite" else []), "--out", out, mode, exit_code=2,
                       says=[f"(pid {first.pid})", "is at work in"])
        run("inspect", out)
        run("eval", out, "--data", "shapes")
        first.kill()
        first.communicate()
        step = int(self.saved(out).name.split("-")[1])
        run("train", "--out", out, "--resume", "--max-steps", step + 1, "--quiet")  # nothing is left of the lock

    def test_a_hang_up_saves(self):
        out = self.dir / "run"
        # Also where the tests themselves run under nohup.
        process = self.start(out, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL))
        process.send_signal(signal.SIGHUP)
        time.sleep(0.01)
        process.send_signal(signal.SIGHUP)  # as the shell also does
        done, errors = process.communicate(timeout=600)
        self.assertEqual(process.returncode, 130, errors)
        step = int(self.saved(out).name.split("-")[1])
        self.assertIn(f"stopped after step {step} of", done)

    def test_under_nohup_a_hang_up_is_ignored(self):
        process = self.start(self.dir / "run", preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        process.send_signal(signal.SIGHUP)
        newest = self.saved(self.dir / "run")
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline and self.saved(self.dir / "run") == newest:
            time.sleep(0.05)
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=600)
        self.assertEqual(process.returncode, 130)


class Moved(Runs):
    def end(self, change, word):
        out = self.dir / "run"
        process = self.start(out)
        change(out)
        done, errors = process.communicate(timeout=600)
        self.assertEqual((process.returncode, done), (1, ""), errors)
        lines = errors.splitlines()
        self.assertIn(f"run' was {word}", lines[-1])
        self.assertNotIn("internal error", errors)
        return out

    def test_removed(self):
        def remove(folder):
            while folder.exists():  # new files may come meanwhile
                shutil.rmtree(folder, ignore_errors=True)
        out = self.end(remove, "removed or moved away")
        self.assertFalse(out.exists())
        self.error("train", "--out", out, "--resume", exit_code=2, says="holds no run to resume")

    def test_moved_and_put_back(self):
        away = self.dir / "away"
        out = self.end(lambda folder: folder.rename(away), "removed or moved away")
        self.assertFalse(out.exists())
        away.rename(out)
        step = int(self.saved(out).name.split("-")[1])
        run("train", "--out", out, "--resume", "--max-steps", step + 1, "--quiet")

    def test_another_folder_in_its_place(self):
        def replace(folder):
            folder.rename(self.dir / "away")
            folder.mkdir()
        out = self.end(replace, "replaced by another folder")
        self.assertEqual(list(out.iterdir()), [])

    def test_checkpoints_alone_are_no_run(self):
        out = self.dir / "run"
        run("train", *TINY, "--out", out, "--quiet")
        (out / "config.json").unlink()
        for more in (["--resume"], TINY, [*TINY, "--overwrite"]):
            self.error("train", *more, "--out", out, exit_code=2, says="holds checkpoints but no config.json")


class Replaced(Runs):
    def setUp(self):
        super().setUp()
        self.out = self.dir / "run"
        run("train", *TINY, "--out", self.out, "--quiet")
        for path in self.out.glob("events.*"):  # names hold the second: a second run may come within the same one
            path.rename(self.out / "events.out.tfevents.1.0.tost")
        (self.out / "notes.txt").write_text("mine")
        (self.out / "checkpoints/mywork").mkdir()
        (self.out / "checkpoints/mywork/weights.bin").write_text("mine")
        self.before = self.files(self.out)

    def test_only_what_a_run_wrote(self):
        run("train", *TINY, "--seed", "7", "--out", self.out, "--overwrite", "--quiet")
        after = self.files(self.out)
        self.assertEqual(json.loads((self.out / "config.json").read_text())["seed"], 7)
        self.assertEqual(self.before.keys() - after.keys(),
                         {path for path in self.before if path.name.startswith("events.")})
        self.assertEqual((self.out / "checkpoints/mywork/weights.bin").read_text(), "mine")
        self.assertEqual((self.out / "notes.txt").read_text(), "mine")

    def test_not_by_a_run_that_cannot_start_or_fails(self):
        bytes_of = os.fsencode(self.dir) + b"/classes/train/\xff\xfe"
        os.makedirs(bytes_of)
        with open(bytes_of + b"/0.png", "wb") as file:
            file.write(png(16, 16))
        for i in range(40):
            self.file(f"classes/train/b/{i}.png", png(16, 16))
        more = ["--out", self.out, "--overwrite", "--quiet"]
        self.error("train", "--data", self.dir / "nowhere", *more, exit_code=1, says="nowhere")
        self.error("train", "--data", self.dir / "classes", "--model", "tost_nano_p4", "--batch", "8", *more,
                   exit_code=1, says="not UTF-8")
        self.assertEqual(self.files(self.out), self.before)
        done = run("train", *TINY, "--lr", "99", "--warmup-lr", "99", "--weight-decay", "10", "--epochs", "50",
                   "--checkpoint-every", "50", "--evaluate-every", "50", *more, expect=1)
        self.assertIn("is back in its place", done.stderr)
        self.assertEqual(self.files(self.out), self.before)

    def test_what_is_no_runs_is_left_alone(self):
        self.file("project/config.json", b'{"name": "somebody\'s"}')
        self.file("project/checkpoints/mywork/weights.bin", b"mine")
        before = self.files(self.dir / "project")
        for more in ([], ["--overwrite"]):
            self.error("train", *TINY, "--out", self.dir / "project", *more, exit_code=2,
                       says="is not the configuration of a run")
        self.assertEqual(self.files(self.dir / "project"), before)


class Elsewhere(Runs):
    def test_data_is_found_from_another_folder(self):
        for i in range(40):
            self.file(f"work/data/train/{'ab'[i % 2]}/{i}.png", png(16, 16))
        train = ["train", "--data", "data", "--model", "tost_nano_p4", "--batch", "8", "--out", "run", "--max-steps", "2",
                 "--threads", "1", "--quiet"]
        run(*train, cwd=self.dir / "work")
        out = self.dir / "work/run"
        self.assertEqual(json.loads((out / "config.json").read_text())["data"], str(self.dir / "work/data"))
        run("train", "--out", out, "--resume", "--max-steps", "3", "--quiet")
        done = run("explain", out, "--out", self.dir / "page", "--quiet")
        self.assertNotIn("cannot be opened", done.stdout)
        # The run's own data keeps the run's settings, however it is named.
        run("explain", "run", "--data", "./data/", "--out", "page", "--quiet", cwd=self.dir / "work")
        self.assertTrue((self.dir / "work/page/index.html").exists())


class Gradients(Runs):
    def test_what_is_not_finite_is_never_saved(self):
        run("train", *TINY, "--max-steps", "1", "--clip", "0", "--out", self.dir / "first", "--quiet")
        model = next(self.saved(self.dir / "first").glob("model.safetensors"))
        content = bytearray(model.read_bytes())
        size = int.from_bytes(content[:8], "little")
        header = json.loads(content[8:8 + size])
        name = next(key for key in header if key.endswith("qkv.weight"))
        begin, end = (8 + size + place for place in header[name]["data_offsets"])
        values = memoryview(content)[begin:end].cast("f")
        for i, value in enumerate(values):
            values[i] = value * 1e21
        values.release()
        spoiled = self.file("spoiled.safetensors", bytes(content))
        out = self.dir / "run"
        done = run("train", "--data", "shapes", "--from", spoiled, "--clip", "0", "--max-steps", "3",
                   "--checkpoint-every-steps", "1", "--data-side", "16", "--batch", "64", "--train-size", "128", "--test-size", "64",
                   "--threads", "1", "--out", out, "--quiet", expect=1)
        self.assertIn("step 1", done.stderr)
        self.assertEqual(list(out.glob("checkpoints/step-*")), [])


class Minutes(Runs):
    def test_become_steps(self):
        at = TINY.index("--epochs")
        tiny = TINY[:at] + TINY[at + 2:]
        out = self.dir / "run"
        done = run("train", *tiny, "--minutes", "0.05", "--threads", "1", "--out", out)
        config = json.loads((out / "config.json").read_text())
        self.assertGreaterEqual(config["max_steps"], 1)
        self.assertIn(f"max_steps is {config['max_steps']}", done.stderr)
        self.assertEqual(self.saved(out).name, f"step-{config['max_steps']:09}")
        again = ["train", *tiny, "--minutes", "0.05", "--quiet", "--out"]
        self.error(*again, out, exit_code=2, says="--resume")
        self.error(*again, out, "--resume", exit_code=2, says="is for a new run of one process")
        for more in (["--epochs", "2"], ["--max-steps", "2"]):
            self.error(*again, self.dir / "other", *more, exit_code=2, says="--minutes")
        self.error("train", *tiny, "--minutes", "0", "--quiet", "--out", self.dir / "other", exit_code=2,
                   says=["--minutes", "'0' is not a number from 0.05 to 1,000,000"])
        self.assertFalse((self.dir / "other").exists())


class Words(Runs):
    def test_an_empty_out_is_refused_everywhere(self):
        for command in (["train", *TINY], ["explain", "run"],
                        ["data", "make", "shapes"], ["data", "make", "listops"], ["data", "tokens", "x.txt"]):
            for out in (["--out", ""], ["--out="]):
                before = sorted(self.dir.iterdir())
                self.error(*command, *out, exit_code=2, says="--out", cwd=self.dir)
                self.assertEqual(sorted(self.dir.iterdir()), before, command)

    def test_numbers_out_of_range(self):
        out = ["--out", self.dir / "r"]
        self.error("train", *TINY, *out, "--lr", "inf", exit_code=2, says="lr is inf but must lie between 0.0 and 100.0")
        self.error("train", *TINY, *out, "--threads", "4096", exit_code=2, says="threads is 4096; 0 (all cores) to ")
        self.error("bench", "op", "--threads", "4096", exit_code=2, says="threads is 4096")


if __name__ == "__main__":
    cli_test.TOST = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
