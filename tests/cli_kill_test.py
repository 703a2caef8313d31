#!/usr/bin/env python3
"""Training that is killed at random moments, on a disk that fills up, from files that never come.

usage: cli_kill_test.py TOST [unittest arguments]; needs only Python's standard library.
"""
import contextlib
import ctypes
import errno
import json
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
import unittest

import cli_test
from cli_test import png, run

PICTURES = ["--data", "shapes", "--train-size", 96, "--test-size", 32, "--data-side", 16, "--model", "tost_nano_p4",
            "--batch", 8, "--epochs", 8, "--workers", 1, "--ema-decay", 0.9]
TEXT = ["--model", "tost_gpt_char", "--block", 16, "--dim", 16, "--depth", 1, "--heads", 2, "--batch", 4,
        "--max-steps", 150, "--evaluate-every-steps", 50, "--eval-batches", 2, "--sample-every-steps", 0]
OFTEN = ["--checkpoint-every-steps", 3, "--log-every", 2, "--threads", 1, "--quiet"]
KILLS = 6


def checkpoint(folder):
    return folder / "checkpoints" / (folder / "checkpoints/latest").read_text().strip()


def log(folder):
    """The lines of metrics.jsonl without what the clock decides."""
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [{k: v for k, v in line.items() if k not in ("wait_share", "seconds") and not k.endswith("_per_s")}
            for line in lines]


class Runs(cli_test.Case):
    def same(self, a, b, note=""):
        for name in ("model.safetensors", "optimizer.safetensors", "state.json"):
            self.assertEqual((checkpoint(a) / name).read_bytes(), (checkpoint(b) / name).read_bytes(), f"{name} {note}")
        self.assertEqual(log(a), log(b), note)


class Guards(Runs):
    def test_events_are_shown_logged_and_summed_up(self):
        text = self.file("a.txt", b"the cat sees the dog and the bird .\n" * 200)
        settings = ["--data", text, *TEXT, *OFTEN, "--outlier-z", 0.2]
        done = run("train", *settings, "--outlier-limit", 1000, "--out", self.dir / "skips")
        events = [line for line in log(self.dir / "skips") if line["kind"] == "event"]
        self.assertGreater(len(events), 1)
        self.assertTrue(all(e["event"] == "skipped_step" and e["z"] > 0.2 and e["step"] > 32 for e in events))
        self.assertIn(f"; {len(events)} steps skipped\n", done.stdout)
        self.assertEqual(done.stderr.count("is skipped: the "), len(events))
        done = run("train", *settings, "--outlier-limit", 0, "--rollbacks", 2, "--out", self.dir / "back", expect=1)
        events = [line for line in log(self.dir / "back") if line["kind"] == "event"]
        self.assertEqual([e["lr_factor"] for e in events if e["event"] == "rollback"], [0.5, 0.25])
        self.assertEqual(done.stderr.count("back to step"), 2)
        self.assertIn("more than outlier_limit 0", done.stderr.splitlines()[-1])
        self.assertIn("2 rollbacks", done.stderr.splitlines()[-1])


class Kill(Runs):
    def start(self, *settings):
        folder = self.dir / "killed"
        resume = ["--resume"] if (folder / "config.json").exists() else []
        return subprocess.Popen([cli_test.TOST, "train", *map(str, settings), "--out", str(folder), *resume],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def saved(self):
        return sorted((self.dir / "killed/checkpoints").glob("step-*[0-9]"))

    def kill_often(self, *settings):
        begin = time.monotonic()
        run("train", *settings, "--out", self.dir / "whole")
        seconds = time.monotonic() - begin
        seed = random.SystemRandom().randrange(1 << 32)
        moments = random.Random(seed)
        note = f"seed {seed}"
        killed = 0
        while killed < KILLS:
            before = self.saved()
            process = self.start(*settings)
            delay = moments.uniform(0, 0.8) * seconds
            if killed % 2:  # not while it starts
                while self.saved() == before and process.poll() is None:
                    time.sleep(0.001)
                delay /= 8
            try:
                process.communicate(timeout=delay)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
            # A run that was done, on a machine that has got faster, is killed no more.
            if process.returncode == 0 and killed < 2:
                shutil.rmtree(self.dir / "killed")
                killed, seconds = 0, seconds / 2
                continue
            if process.returncode == 0:
                break
            self.assertEqual(process.returncode, -signal.SIGKILL, note)
            killed += 1
        self.assertTrue(self.saved(), note)
        process = self.start(*settings)
        errors = process.communicate(timeout=900)[1]
        self.assertEqual(process.returncode, 0, f"{note}\n{errors}")
        self.assertNotIn("damaged", errors)
        self.same(self.dir / "whole", self.dir / "killed", note)

    def test_pictures(self):
        self.kill_often(*PICTURES, *OFTEN)

    def test_text(self):
        text = self.file("a.txt", b"the cat sees the dog and the bird .\n" * 200)
        self.kill_often("--data", text, *TEXT, *OFTEN)


class FullDisk(Runs):
    def setUp(self):
        super().setUp()
        self.disk = self.dir / "disk"
        self.disk.mkdir()
        self.mounted = False
        if self.mount("size=2m") != 0:
            self.skipTest("no file system of a given size can be mounted here (root may)")
        self.mounted = True

    def tearDown(self):
        if self.mounted:
            subprocess.run(["umount", self.disk], check=True)
        super().tearDown()

    def mount(self, options):
        if shutil.which("mount") is None:
            return 1
        command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", self.disk]
        return subprocess.run(command, capture_output=True).returncode

    def test_a_full_disk_loses_nothing(self):
        text = self.file("a.txt", b"the cat sees the dog and the bird .\n" * 200)
        settings = ["--data", text, *TEXT, *OFTEN, "--save-retries", 0, "--keep-last", 1000]
        run("train", *settings, "--out", self.dir / "whole")
        size = sum(file.stat().st_size for file in checkpoint(self.dir / "whole").iterdir())
        self.mount(f"remount,size={7 * size // 2}")
        for extra in (["--no-background-saves"], ["--resume", "--no-background-saves"]):
            done = run("train", *settings, "--out", self.disk / "run", *extra, expect=1)
            lines = [line for line in done.stderr.splitlines() if "unfinished checkpoints" not in line]
            self.assertEqual(len(lines), 1, done.stderr)
            self.assertNotIn("internal error", lines[0])
            self.assertGreater(len(list((self.disk / "run/checkpoints").glob("step-*"))), 1)
        self.mount("remount,size=64m")
        report = json.loads(run("inspect", self.disk / "run", "--json").stdout)
        self.assertTrue(all("error" not in file for file in report["files"]))
        done = run("train", *settings, "--out", self.disk / "run", "--resume")
        self.assertNotIn("damaged", done.stderr)
        self.same(self.dir / "whole", self.disk / "run")


class StuckDisk:
    """A file system whose files can be opened and never answer a read, as those of a network that is gone."""
    ATTRIBUTES = "<QQQQQQIIIIIIIIII"
    FOLDER, FILE = 0o40755, 0o100644
    ASYNC_READ = 1  # without it a process that waits for a read cannot be killed
    KEEP_CACHE = 2  # without it a second open of a file waits for the first one's read and cannot be killed

    def __init__(self, place):
        self.place = os.fsencode(place)
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.fuse = os.open("/dev/fuse", os.O_RDWR)
        words = f"fd={self.fuse},rootmode=40000,user_id=0,group_id=0".encode()
        if self.libc.mount(b"stuck", self.place, b"fuse", 0, words) != 0:
            os.close(self.fuse)
            raise OSError(ctypes.get_errno(), "mount")
        threading.Thread(target=self.serve, daemon=True).start()

    def attributes(self, node):
        mode = self.FOLDER if node == 1 else self.FILE
        return struct.pack(self.ATTRIBUTES, node, 4096, 8, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def answer(self, request, node):
        """The body of an answer to one request of the FUSE protocol, an error number, or None for no answer."""
        if request == 1:  # LOOKUP
            self.nodes += 1
            return struct.pack("<QQQQII", self.nodes, 0, 1000, 1000, 0, 0) + self.attributes(self.nodes)
        if request == 3:  # GETATTR
            return struct.pack("<QII", 1000, 0, 0) + self.attributes(node)
        if request == 14:  # OPEN
            return struct.pack("<QII", 0, self.KEEP_CACHE, 0)
        if request == 26:  # INIT
            return struct.pack("<IIIIHHI", 7, 19, 4096, self.ASYNC_READ, 12, 9, 4096)
        return None if request in (2, 15, 36, 42) else errno.ENOSYS  # FORGET, READ, INTERRUPT, BATCH_FORGET

    def serve(self):
        self.nodes = 1
        with contextlib.suppress(OSError):  # unmounted
            while True:
                _, request, unique, node = struct.unpack_from("<IIQQ", os.read(self.fuse, 1 << 17))
                body = self.answer(request, node)
                error, body = (-body, b"") if isinstance(body, int) else (0, body)
                if body is not None:
                    os.write(self.fuse, struct.pack("<IiQ", 16 + len(body), error, unique) + body)

    def close(self):
        self.libc.umount2(self.place, 2)
        os.close(self.fuse)


class Stuck(cli_test.Case):
    """Pictures that turn into files of a network that is gone."""

    def setUp(self):
        super().setUp()
        place = self.dir / "stuck"
        place.mkdir()
        try:
            self.disk = StuckDisk(place)
        except OSError as error:
            self.skipTest(f"no file system can be mounted here: {error}")
        self.addCleanup(self.disk.close)

    def end(self, workers):
        folder = self.dir / f"data{workers}"
        # Pictures read once are kept, so links take the place of all while the process stands still.
        for split, pictures in (("train", 1000), ("test", 16)):
            for label in ("a", "b"):
                for i in range(pictures):
                    self.file(f"data{workers}/{split}/{label}/{i}.png", png(8, 8))
        out = self.dir / f"run{workers}"
        process = subprocess.Popen(
            [cli_test.TOST, "train", "--data", str(folder), "--model", "tost_nano_p4", "--image-size", "8",
             "--batch", "4", "--epochs", "100000", "--evaluate-every", "1000000", "--workers", str(workers),
             "--data-timeout", "8", "--out", str(out), *map(str, OFTEN)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while not list(out.glob("checkpoints/step-*")) and process.poll() is None:
            time.sleep(0.05)
        process.send_signal(signal.SIGSTOP)
        for picture in folder.glob("train/*/*.png"):
            link = picture.with_suffix(".link")
            link.symlink_to(self.dir / "stuck" / "one.png")
            link.rename(picture)
        process.send_signal(signal.SIGCONT)
        errors = process.communicate(timeout=300)[1].splitlines()
        self.assertEqual(process.returncode, 1, errors)
        self.assertIn("No batch has come for 4 s", errors[-2])
        self.assertIn("No batch has come for 8 s", errors[-1])
        saved = int(checkpoint(out).name.split("-")[1])
        self.assertIn(f"saved after step {saved}:", errors[-1])
        events = [line for line in log(out) if line["kind"] == "event"]
        self.assertEqual([e["event"] for e in events][-2:], ["data_wait", "data_timeout"])

    def test_readers_that_are_stuck_do_not_keep_the_process(self):
        for workers in (0, 1):
            self.end(workers)


if __name__ == "__main__":
    cli_test.TOST = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=2)
