"""Runs contestants turn by turn, each in its own process, and keeps their times."""

import dataclasses
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def reason(error):
    """Why a contestant cannot run, in a line."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"


def last_line(text):
    """Of what a program says on stderr: its error."""
    return (text.strip().splitlines() or ["it ended without a reason"])[-1]


class Peer:
    """A contestant of contestants.py in a worker process."""

    def __init__(self, name, case, shared):
        self.name, self.times, self.failed, self.peak_mib = name, [], None, None
        self.folder = tempfile.mkdtemp(prefix="contestant-", dir=shared)
        environment = dict(os.environ, OMP_NUM_THREADS=str(case.threads),
                           TORCHINDUCTOR_CACHE_DIR=os.path.join(self.folder, "inductor"))
        self.process = subprocess.Popen(
            [sys.executable, os.path.join(HERE, "worker.py"), name,
             json.dumps(dataclasses.asdict(case)), self.folder, shared],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            env=environment)
        self.logits = self._answer().get("logits")

    def _answer(self):
        line = self.process.stdout.readline()
        answer = json.loads(line) if line else {"failed": "its process ended"}
        self.failed = answer.get("failed", self.failed)
        return answer

    def turn(self, repeat):
        try:
            self.process.stdin.write(f"run {repeat}\n")
            self.process.stdin.flush()
        except OSError:  # there is nobody to read it, and then no answer
            pass
        answer = self._answer()
        self.times += answer.get("ms", [])
        self.peak_mib = answer.get("peak_mib", self.peak_mib)

    def close(self):
        try:
            self.process.stdin.close()
        except OSError:  # what was written last found nobody
            pass
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Engine:
    """This program in one precision, with its engine or without: `tost bench model`."""

    def __init__(self, name, command):
        self.name, self.command = name, command
        self.times, self.failed, self.peak_mib = [], None, None

    def turn(self, repeat):
        done = subprocess.run(self.command + ["--repeat", str(repeat), "--format", "json"],
                              capture_output=True, text=True)
        if done.returncode != 0:
            self.failed = last_line(done.stderr)
            return
        row = json.loads(done.stdout)["rows"][0]
        self.times += row["times_ms"]
        self.peak_mib = (row["peak_resident_bytes"] or 0) / 2**20

    def close(self):
        pass


def quartiles(times):
    if len(times) < 2:
        return times * 3
    return statistics.quantiles(times, n=4, method="inclusive")
