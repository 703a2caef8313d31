#!/usr/bin/env python3
"""Runs of four processes that are killed, stopped and cut off from each other end as undisturbed ones, bit for bit.

usage: cli_faults_test.py TOST [unittest arguments]; needs only Python's standard library. TOST_TORCHRUN names torchrun.
TOST_TEST_FAULTS is the number of faults in a run (3), TOST_TEST_SEED chooses their places. What the machine does not
offer is skipped: torchrun, or namespaces of a network of its own.
"""
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time
import unittest

import cli_distributed_test as runs
import cli_test
from cli_distributed_test import wait_until

TORCHRUN = os.environ.get("TOST_TORCHRUN") or shutil.which("torchrun")
FAULTS = int(os.environ.get("TOST_TEST_FAULTS", 3))
SEED = int(os.environ.get("TOST_TEST_SEED", 11))
RANKS = 4
# At most 100 steps lie between two faults, however fast they are.
LONG = ["--epochs", 1000, "--max-steps", 100 * FAULTS + 100, "--checkpoint-every-steps", 3, "--peer-timeout", 15]
PICTURES = [*runs.PICTURES, "--drop-path", 0.2, "--accumulate", 4, "--shard-optimizer", *LONG]
TEXT = [*runs.TEXT, "--mixer", "means", "--conv", 4, "--accumulate", 2, "--sequence-parallel", 2,
        "--max-steps", 100 * FAULTS + 100, *LONG[4:]]


def step_of(latest):
    """Of the newest checkpoint; 0: there is none."""
    try:
        return int(latest.read_text().strip().split("-")[1])
    except FileNotFoundError:
        return 0


@unittest.skipUnless(TORCHRUN, "torchrun is not there")
class Launcher(runs.Case):
    def torchrun(self, *args, restarts=0, ranks=RANKS, program=None):
        words = [TORCHRUN, "--standalone", "--nproc-per-node", ranks, "--max-restarts", restarts, "--no-python",
                 program or cli_test.TOST, "train", *args, *runs.EVERY_STEP]
        # Between SIGTERM and SIGKILL, which alone ends a stopped process.
        quick = dict(os.environ, OMP_NUM_THREADS="1", TORCH_ELASTIC_SHUTDOWN_TIMEOUT="3")
        launcher = subprocess.Popen([str(w) for w in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                    env=quick)
        self.addCleanup(lambda: launcher.poll() is None and launcher.kill())
        return launcher

    def workers(self, launcher):
        """Process ids by rank, once all are there."""
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                place = pathlib.Path("/proc", pid)
                parent = int((place / "stat").read_text().rsplit(")", 1)[1].split()[1])
                variables = (place / "environ").read_text().split("\0")
            except (OSError, IndexError):
                continue
            if parent == launcher.pid:
                found.update({int(v[5:]): int(pid) for v in variables if v.startswith("RANK=")})
        return found if len(found) == RANKS else {}

    def strike(self, launcher, how, rank):
        """Returns when the processes that are to follow are there."""
        pids = self.workers(launcher)
        os.kill(pids[rank], signal.SIGKILL if how == "kill" else signal.SIGSTOP)
        if how == "pause":
            time.sleep(1)
            os.kill(pids[rank], signal.SIGCONT)
            return
        wait_until(lambda: launcher.poll() is not None or
                   not set(pids.values()) & set(self.workers(launcher).values() or pids.values()))

    def disturb(self, launcher, latest):
        choice = random.Random(SEED)

        def pass_on(seconds, steps):
            """Waits; not for longer than the run takes for so many steps."""
            end, first = time.monotonic() + seconds, step_of(latest)
            wait_until(lambda: launcher.poll() is not None or time.monotonic() > end or step_of(latest) >= first + steps)

        for fault in range(FAULTS):
            if choice.random() < 0.3:  # while they start
                wait_until(lambda: self.workers(launcher))
                pass_on(choice.uniform(0, 1.5), 30)
            else:
                before = step_of(latest)
                wait_until(lambda: launcher.poll() is not None or step_of(latest) != before)
                pass_on(choice.uniform(0, 0.4), 30)
            self.assertIsNone(launcher.poll(), "the run ended before its faults")
            self.strike(launcher, ("kill", "stop", "pause")[fault % 3], choice.randrange(RANKS))

    def compare(self, *args):
        # A busy machine may add faults of its own.
        whole = self.torchrun(*args, "--out", self.dir / "whole", restarts=3)
        _, err = whole.communicate(timeout=1500 + 100 * FAULTS)
        self.assertEqual(whole.returncode, 0, err)
        launcher = self.torchrun(*args, "--out", self.dir / "parts", restarts=FAULTS + 3)
        self.disturb(launcher, self.dir / "parts/checkpoints/latest")
        _, err = launcher.communicate(timeout=1500 + 100 * FAULTS)
        self.assertEqual(launcher.returncode, 0, err)
        self.assertIn("was lost", err)
        self.assertEqual(runs.losses(self.dir / "whole"), runs.losses(self.dir / "parts"))
        self.same_bits("whole", "parts")

    def test_a_restart_takes_up_only_what_its_launch_made(self):
        def settings(seed):
            return ["--data", self.text(), *runs.TEXT, "--max-steps", 10, "--seed", seed]

        def config(name):
            return json.loads((self.dir / name / "config.json").read_text())

        self.train(1, "old", *settings(1))
        before = {file: file.read_bytes() for file in (self.dir / "old").rglob("*") if file.is_file()}
        for ranks in (1, 2):
            launcher = self.torchrun(*settings(2), "--out", self.dir / "old", restarts=1, ranks=ranks)
            _, err = launcher.communicate(timeout=900)
            self.assertNotEqual(launcher.returncode, 0, err)
            self.assertEqual(err.count("already holds a run"), 2, err)
            for file, content in before.items():
                if file.name != ".lock":
                    self.assertEqual(file.read_bytes(), content, file)
        # Its first attempt ends before it begins.
        late = self.dir / "late"
        late.write_text(f"#!/bin/sh\n[ $TORCHELASTIC_RESTART_COUNT = 1 ] || exit 1\nexec '{cli_test.TOST}' \"$@\"\n")
        late.chmod(0o755)
        for ranks in (1, 2):
            launcher = self.torchrun(*settings(2 + ranks), "--out", self.dir / "old", "--overwrite", restarts=1,
                                     ranks=ranks, program=late)
            out, err = launcher.communicate(timeout=900)
            self.assertEqual(launcher.returncode, 0, err)
            self.assertIn("trained 10 steps", out)
            self.assertEqual(config("old")["seed"], 2 + ranks)

    def test_pictures_with_a_divided_optimiser(self):
        self.compare(*PICTURES)

    def test_text_with_divided_sequences(self):
        self.compare("--data", self.text(), *TEXT)


class Network(runs.Case):
    """Ranks 0 and 1 have one network, 2 and 3 another; a cable connects them."""
    PLACES = {"left": "10.77.0.1", "right": "10.77.0.2"}

    def holder(self, *words):
        """A process that keeps a network."""
        process = subprocess.Popen([*words, "sleep", "3600"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        mine = os.readlink("/proc/self/ns/net")

        def apart():
            if process.poll() is not None:
                self.skipTest("no networks of one's own can be made here")
            try:
                return (pathlib.Path("/proc", str(process.pid), "comm").read_text() == "sleep\n" and
                        os.readlink(f"/proc/{process.pid}/ns/net") != mine)
            except OSError:
                return False
        wait_until(apart)
        return process.pid

    def inside(self, place):
        return ["nsenter", "-t", str(self.pids[place]), "-U", "-n", "--preserve-credentials"]

    def ip(self, place, *words):
        done = subprocess.run([*self.inside(place), "ip", *words], capture_output=True, text=True)
        if done.returncode != 0:
            self.skipTest(f"no cable can be made here: {done.stderr}")

    def setUp(self):
        super().setUp()
        if not all(map(shutil.which, ("unshare", "nsenter", "ip"))):
            self.skipTest("unshare, nsenter or ip is not there")
        self.pids = {"left": self.holder("unshare", "-rn")}
        self.pids["right"] = self.holder(*self.inside("left"), "unshare", "-n")
        self.ip("left", "link", "add", "left", "type", "veth", "peer", "name", "right", "netns", str(self.pids["right"]))
        for place, address in self.PLACES.items():
            self.ip(place, "addr", "add", address + "/24", "dev", place)
            for device in ("lo", place):
                self.ip(place, "link", "set", device, "up")

    def launch(self, *args):
        processes = []
        for rank in range(RANKS):
            place = list(self.PLACES)[rank * 2 // RANKS]
            variables = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(RANKS), LOCAL_WORLD_SIZE="2",
                             MASTER_ADDR=self.PLACES["left"], MASTER_PORT="29500", GLOO_SOCKET_IFNAME=place,
                             OMP_NUM_THREADS="1")
            words = [*self.inside(place), cli_test.TOST, "train", *map(str, [*args, *runs.EVERY_STEP])]
            processes.append(subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                              env=variables))
        self.addCleanup(lambda: [p.kill() for p in processes if p.poll() is None])
        return processes

    def test_a_cut_cable(self):
        args = [*PICTURES, "--max-steps", 200]
        self.end(self.launch(*args, "--out", self.dir / "whole"))
        processes = self.launch(*args, "--out", self.dir / "parts")
        latest = self.dir / "parts/checkpoints/latest"
        step = random.Random(SEED).randrange(3, 30)
        wait_until(lambda: step_of(latest) >= step or processes[0].poll() is not None)
        self.ip("left", "link", "set", "left", "down")
        out, err = self.end(processes, 1, timeout=300)
        self.assertEqual("".join(out), "")
        self.assertIn("Rank 2, 3 of 4 were lost", err[0])
        self.assertEqual(err[1], "")
        for rank in (2, 3):
            self.assertIn(f"Rank {rank} lost its connection", err[rank])
        self.ip("left", "link", "set", "left", "up")
        self.end(self.launch("--out", self.dir / "parts", "--resume"))
        self.assertEqual(runs.losses(self.dir / "whole"), runs.losses(self.dir / "parts"))
        self.same_bits("whole", "parts")


if __name__ == "__main__":
    cli_test.TOST = os.path.abspath(sys.argv.pop(1))
    unittest.main()
