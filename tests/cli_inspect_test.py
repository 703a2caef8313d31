#!/usr/bin/env python3
"""tost inspect as a stranger uses it: safe files, malicious ones, damaged ones, runs.

usage: cli_inspect_test.py TOST [unittest arguments]; needs only Python's standard library.
"""
import json
import os
import pathlib
import pickle
import resource
import struct
import subprocess
import sys
import unittest
import zipfile

import cli_test
from cli_test import run

PARITY = pathlib.Path(os.environ.get("TOST_SHARED") or pathlib.Path(__file__).parents[1].parent / "shared") / "parity"


def torch_zip(path, pickled, storages=()):
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in [("data.pkl", pickled), ("byteorder", b"little"), ("version", b"3\n"),
                           *((f"data/{i}", data) for i, data in enumerate(storages))]:
            archive.writestr(zipfile.ZipInfo("m/" + name), data)
    return path


def text(value):
    return b"X" + struct.pack("<I", len(value)) + value


def storage(elements, key=b"0"):
    return b"(" + text(b"storage") + b"ctorch\nFloatStorage\n" + text(key) + text(b"cpu") + b"\x8a\x08" + \
        struct.pack("<q", elements) + b"tQ"


def tensor(elements):
    shape = b"\x8a\x08" + struct.pack("<q", elements) + b"\x85"
    return b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage(elements) + b"K\0" + shape + b"K\1\x85\x89NtR"


class Call:
    def __init__(self, function, *args):
        self.made = (function, args)

    def __reduce__(self):
        return self.made


class Inspect(cli_test.Case):
    def inspect(self, path, *flags, expect=0):
        return json.loads(run("inspect", path, "--json", *flags, expect=expect).stdout)

    def refused(self, path, says):
        """One sentence on stderr; stdout may show what could still be read."""
        stderr = run("inspect", path, expect=1).stderr
        self.assertEqual(stderr.count("\n"), 1, stderr)
        self.assertIn(says, stderr)

    def test_a_small_file(self):
        weights = struct.pack("<4f", 1, float("nan"), -2, float("inf"))
        path = torch_zip(self.dir / "w.pt", b"\x80\x02}(" + text(b"w") + tensor(4) + text(b"epoch") + b"K\x07u.",
                         [weights])
        report = self.inspect(path, "--stats")
        row = report["tensors"][0]
        self.assertEqual((row["name"], row["dtype"], row["shape"], row["bytes"]), ("w", "float32", [4], 16))
        self.assertEqual((row["min"], row["max"], row["nan"], row["inf"]), (-2, 1, 1, 1))
        shown = run("inspect", path, "--stats").stdout
        self.assertIn("torch zip, version 3", shown)
        self.assertIn("min -2.0 max 1.0 NaN 1 inf 1", shown)

    def test_malicious_pickles_do_nothing(self):
        mark = self.dir / "was_here"
        for protocol in range(2, 6):
            for evil in [Call(os.system, f"touch {mark}"), Call(eval, f"open({str(mark)!r}, 'w')"),
                         {"model": {"w": Call(exec, f"open({str(mark)!r}, 'w')")}}]:
                path = torch_zip(self.dir / "evil.pt", pickle.dumps(evil, protocol))
                done = run("inspect", path, expect=1)
                self.assertIn("WARNING", done.stderr)
                self.assertRegex(done.stdout, r"UNKNOWN +(posix\.system|(builtins|__builtin__)\.(eval|exec))")
        # Protocol 1 has no opcode of its own.
        self.refused(torch_zip(self.dir / "evil.pt", pickle.dumps(Call(os.system, f"touch {mark}"), 0)),
                     "in protocols 2 to 5")
        self.refused(self.file("bare.pkl", pickle.dumps(Call(os.system, f"touch {mark}"), 4)),
                     "neither a file of torch.save")
        self.assertFalse(mark.exists())

    def test_text_of_files_cannot_reach_the_terminal(self):
        evil = "\x1b[2J\u202egnp.exe\n".encode()
        path = torch_zip(self.dir / "t.pt", b"\x80\x02}(" + text(evil) + tensor(4) + b"u.", [bytes(16)])
        shown = run("inspect", path).stdout
        self.assertNotIn("\x1b", shown)
        self.assertNotIn("\u202e", shown)
        self.assertIn("\\x1b[2J\\u202egnp.exe\\n", shown)

    def test_ten_gigabytes_claimed_in_a_kilobyte(self):
        path = torch_zip(self.dir / "c.pt", b"\x80\x02" + tensor(2_500_000_000) + b".", [bytes(16)])
        self.assertLess(path.stat().st_size, 1500)
        run("info")  # the program's own libraries
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        self.refused(path, "should have 10000000000 bytes and has 16")
        after = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        self.assertLess(after - before, 100_000)  # kilobytes

    def test_refusals(self):
        self.error("inspect", self.dir / "absent.pt", exit_code=1, says="absent.pt")
        self.error("inspect", self.file("a.txt", b"hello"), exit_code=1, says="neither a file of torch.save")
        self.error("inspect", exit_code=2, says="file")
        self.error("inspect", self.dir, exit_code=1, says="")
        cut = torch_zip(self.dir / "cut.pt", b"\x80\x02" + tensor(4) + b".", [bytes(16)])
        cut.write_bytes(cut.read_bytes()[:-30])
        self.refused(cut, "may be truncated")

    def test_a_file_that_hides_its_calls_behind_damage(self):
        hidden = b"\x80\x02" + text(b"os") + b"q\1" + text(b"system") + b"q\x0200" + text(b"collections") + \
            text(b"OrderedDict") + b"00h\1h\2\x93" + text(b"true") + b"\x85R0" + text(b"\xff") + b"."
        path = torch_zip(self.dir / "hide.pt", hidden)
        self.refused(path, "a string is not UTF-8")
        self.assertIsNone(self.inspect(path, expect=1)["suspicious"])
        path.write_bytes(path.read_bytes()[:-30])
        self.refused(path, "may be truncated")

    def test_every_file_of_a_folder_is_judged(self):
        folder = self.dir / "weights"
        folder.mkdir()
        for name in ["a.pt", "b.pth", "c.bin"]:
            torch_zip(folder / name, b"\x80\x02" + tensor(4) + b".", [bytes(16)])
        self.file("weights/notes.txt", b"no weights")
        report = self.inspect(folder)
        self.assertEqual([file["file"].rsplit("/", 1)[1] for file in report["files"]], ["a.pt", "b.pth", "c.bin"])
        torch_zip(folder / "b.pth", pickle.dumps(Call(os.system, "true"), 4))
        done = run("inspect", folder, expect=1)
        self.assertIn("b.pth names classes", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)
        (folder / "a.pt").write_bytes(b"hello")
        done = run("inspect", folder, expect=1)
        self.assertIn("WARNING", done.stderr)
        self.assertIn("neither a file of torch.save", done.stdout)
        self.assertIn("neither a file of torch.save", done.stderr)
        self.file("weights/d.safetensors", b"short")
        self.assertIn("2 of 4 files cannot be used", run("inspect", folder, expect=1).stderr)
        self.assertIsNone(self.inspect(folder, expect=1)["files"][0]["suspicious"])

    @unittest.skipUnless(PARITY.is_dir(), f"needs {PARITY}; set TOST_SHARED to where it is")
    def test_official_checkpoints(self):
        for path in sorted(PARITY.glob("*/c*.p*t*")):
            report = self.inspect(path, "--stats")
            self.assertFalse(report["suspicious"])
            same = self.inspect(path.parent / "state.safetensors", "--stats")
            rows = {row["name"].replace("_orig_mod.", ""): row for row in report["tensors"]}
            for row in same["tensors"]:
                other = rows["model." + row["name"]]
                for key in ["dtype", "shape", "min", "max", "nan"]:
                    self.assertEqual(other[key], row[key], (path, row["name"], key))
            self.assertEqual(report["models"][0]["dim"], 32)
            self.assertEqual(report["models"][0]["depth"], 2)
            self.assertIn("model       ", run("inspect", path).stdout)

    def test_a_run(self):
        run("train", *cli_test.TINY, "--out", self.dir / "run", "--quiet")
        report = self.inspect(self.dir / "run")
        self.assertEqual(report["arguments"]["model"], "tost_nano_p4")
        names = [file["file"].rsplit("/", 1)[1] for file in report["files"]]
        self.assertIn("model.safetensors", names)
        shown = run("inspect", self.dir / "run").stdout
        self.assertIn("tost_nano_p4", shown)
        self.assertIn("patch 4", shown)
        self.assertIn("tensors     listed by --all", shown)
        self.assertNotIn("exp_avg.blocks.0", shown)
        everything = run("inspect", self.dir / "run", "--all").stdout
        self.assertIn("exp_avg", everything)

    def test_long_values_are_cut(self):
        shown = run("inspect", "words")
        self.assertLess(max(map(len, shown.stdout.splitlines())), 300)
        self.assertRegex(shown.stdout, r"tost.tokenizer  .*… \(\d+ bytes\)")
        self.assertGreater(max(map(len, run("inspect", "words", "--all").stdout.splitlines())), 10_000)
        self.assertGreater(len(self.inspect("words")["metadata"]["tost.tokenizer"]), 10_000)


if __name__ == "__main__":
    cli_test.TOST = os.path.abspath(sys.argv.pop(1))
    unittest.main()
