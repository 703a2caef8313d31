"""This program as a contestant on a GPU: `tost bench model`."""

import json
import subprocess

import torch

import rounds

NAME = "tost program"


class Program:
    """The same network and batch; the commands check themselves."""

    def __init__(self, setting, tost):
        self.name, self.times, self.error, self.failed, self.work = NAME, [], None, None, self
        self.peak_mib = None
        self.setting = setting
        size = ["--image-size", str(setting.size)]
        special = ["--test", "forward" if setting.pictures else "prefill", "--no-floor"]
        special += ["--engine", "on" if setting.device == "cpu" else "off"]
        size = size if setting.pictures else ["--tokens", str(setting.size)]
        self.command = [tost, "bench", "model", "--model", setting.what, "--batch",
                        str(setting.batch), *size, "--precision", setting.dtype, "--json", *special]
        if setting.device != "cpu":
            self.command += ["--device", setting.device]
        self.turn(1, keep=False)

    def turn(self, repeat, keep=True):
        if self.setting.device != "cpu":
            torch.cuda.empty_cache()  # what this process keeps for later another one cannot have
        try:
            done = subprocess.run([*self.command, "--repeat", str(repeat)], capture_output=True,
                                  text=True)
        except OSError as error:
            self.failed = str(error)
            return
        if done.returncode != 0:
            self.failed = rounds.last_line(done.stderr)
        elif keep:
            row = json.loads(done.stdout)["rows"][0]
            self.times += row["times_ms"]
            self.error = row["error"]
            # On a CPU it reports the whole process, which is not what the others count.
            if self.setting.device != "cpu" and row["peak_resident_bytes"]:
                self.peak_mib = row["peak_resident_bytes"] / 2**20
