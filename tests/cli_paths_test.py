#!/usr/bin/env python3
"""Paths that lead nowhere good, given to every command: each ends at once with one sentence that names the path.

usage: cli_paths_test.py TOST [unittest arguments]; needs only Python's standard library.
"""
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

TOST = ""
TINY = ["--data", "shapes", "--train-size", "64", "--test-size", "32", "--data-side", "16", "--model", "tost_nano_p4",
        "--batch", "32", "--epochs", "1"]
# As arguments of a program, names that are not UTF-8 are surrogates.
LATIN = os.fsdecode(b"caf\xe9")


def run(*args, **options):
    return subprocess.run([TOST, *args], capture_output=True, timeout=900, **options)


def png(width, height):
    """A grey PNG file's bytes."""
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress((b"\0" + b"\x55" * width) * height)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.shared = pathlib.Path(tempfile.mkdtemp(prefix="tost_cli_paths_"))
        run("train", *TINY, "--out", str(cls.shared / "run"), "--quiet", check=True)
        run("data", "make", "shapes", "--count", "60", "--out", str(cls.shared / "pictures"), "--quiet", check=True)
        cls.picture = str(next((cls.shared / "pictures").rglob("*.png")))
        (cls.shared / "text.txt").write_text("to be or not to be\n" * 200)
        for path in [cls.shared, *cls.shared.rglob("*")]:
            path.chmod(path.stat().st_mode | 0o055 | (0o011 if path.is_dir() else 0))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.shared, ignore_errors=True)

    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="tost_cli_paths_"))
        self.dir.chmod(0o755)

    def tearDown(self):
        for path in self.dir.rglob("*"):
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o755)
        shutil.rmtree(self.dir, ignore_errors=True)

    def readers(self, path):
        """Every command that reads `path`."""
        run, picture, text = str(self.shared / "run"), self.picture, str(self.shared / "text.txt")
        out = str(self.dir / "out")
        return [["predict", run, path], ["predict", path, picture], ["eval", path], ["eval", run, "--data", path],
                ["explain", run, path, "--out", out], ["explain", path, picture, "--out", out],
                ["generate", path, "--prompt", "x"], ["inspect", path],
                ["quantize", path, out + ".safetensors"], ["data", "show", "--data", path],
                ["data", "tokens", path, "--tokenizer", "bytes", "--out", out],
                ["data", "tokens", text, "--tokenizer", "gpt2:" + path, "--out", out],
                ["train", "--config", path, "--out", out], ["train", *TINY, "--data", path, "--out", out],
                ["train", "--recipe", "small", "--from", path, "--out", out],
                ["train", "--recipe", "char", "--data", path, "--out", out],
                ["train", "--recipe", "char", "--data", text, "--tokenizer", "gpt2:" + path, "--out", out],
                ["train", "--resume", "--out", path],
                ["bench", "model", "--model", path]]

    def writers(self, path):
        """Every command that writes to `path`."""
        run, text = (str(self.shared / name) for name in ["run", "text.txt"])
        return [["train", *TINY, "--out", path],
                ["explain", run, self.picture, "--out", path],
                ["quantize", run, path + ".safetensors"],
                ["data", "make", "shapes", "--count", "2", "--out", path],
                ["data", "make", "listops", "--train-size", "4", "--test-size", "2", "--out", path],
                ["data", "tokens", text, "--tokenizer", "bytes", "--out", path]]

    def refused(self, args, user=None):
        """One sentence on stderr, no waiting, nothing that asks to be reported."""
        done = run(*args, user=user, stdin=subprocess.DEVNULL)
        said = os.fsdecode(done.stderr)
        self.assertIn(done.returncode, [1, 2], f"{args}: {said}")
        self.assertEqual(len(said.splitlines()), 1, f"{args}: {said}")
        self.assertNotIn("internal error", said, args)
        self.assertNotIn("filesystem error", said, args)
        return said

    def all_refused(self, commands, says, user=None):
        for args in commands:
            with self.subTest(args=args):
                said = self.refused(args, user)
                self.assertIn(says, said, args)
        self.assertEqual([p.name for p in self.dir.rglob("*") if p.name.startswith("out")], [])


class Paths(Case):
    def test_too_long(self):
        long = str(self.dir / ("n" * 300))
        self.all_refused(self.readers(long) + self.writers(long), "the name is too long")

    def test_links_in_a_circle(self):
        (self.dir / "circle").symlink_to("circle")
        circle = str(self.dir / "circle")
        self.all_refused(self.readers(circle), "links lead in a circle")
        self.all_refused(self.writers(circle + "/x"), "links lead in a circle")

    def test_pipes_devices_and_sockets(self):
        os.mkfifo(self.dir / "pipe")
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(self.dir / "socket"))
            for name, kind in [("pipe", "a pipe"), ("socket", "a socket")]:
                for args in self.readers(str(self.dir / name)):
                    with self.subTest(args=args):
                        self.refused(args)
                said = self.refused(["predict", str(self.shared / "run"), str(self.dir / name)])
                self.assertIn("is not a plain file but " + kind, said)
        said = self.refused(["train", "--config", "/dev/zero", "--out", str(self.dir / "out")])
        self.assertIn("'/dev/zero' is not a plain file but a device", said)

    def test_process_substitution(self):
        done = subprocess.run(["bash", "-c", f'"{TOST}" train --config <(echo "{{}}") --out "{self.dir}/out"'],
                              capture_output=True, text=True, timeout=900)
        self.assertEqual(done.returncode, 1)
        self.assertIn("is not a plain file but a pipe (as <(...) of a shell)", done.stderr)

    def test_standard_input_goes_on_working(self):
        model = str(self.dir / "lm")
        text = ["--data", str(self.shared / "text.txt"), "--max-steps", "1"]
        run("train", "--recipe", "char", *text, "--out", model, "--quiet", check=True)
        done = run("generate", model, "--prompt-file", "-", "--max-tokens", "3", input=b"to")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_empty(self):
        # An empty setting of `train` stands for none.
        commands = [args for args in self.readers("") if "--config" not in args and "--from" not in args]
        for args in [*commands, ["quantize", str(self.shared / "run"), ""]]:
            with self.subTest(args=args):
                self.refused(args)

    def test_permission_denied(self):
        user = None
        if os.geteuid() == 0:
            user = 65534
            try:
                run("--version", user=user, check=True)
            except (OSError, subprocess.CalledProcessError):
                self.skipTest("root reads everything, and nobody may not run the program here")
        locked = self.dir / "locked"
        locked.mkdir()
        (locked / "x").write_text("")
        locked.chmod(0)
        self.all_refused(self.readers(str(locked / "x")) + self.writers(str(locked / "x")), "permission denied", user)


class NoUtf8(Case):
    """Names that are not UTF-8 work, or are refused before anything is written."""

    def test_reading_and_writing(self):
        folder = self.dir / LATIN
        shutil.copytree(self.shared, folder)
        picture = str(next((folder / "pictures").rglob("*.png")))
        for args in [["predict", str(folder / "run"), picture], ["predict", str(folder / "run"), picture, "--json"],
                     ["eval", str(folder / "run"), "--data", str(folder / "pictures"), "--split", "val", "--json"],
                     ["inspect", str(folder / "run"), "--json"],
                     ["explain", str(folder / "run"), picture, "--out", str(folder / "report"), "--quiet"],
                     ["quantize", str(folder / "run"), str(folder / "m.safetensors")],
                     ["data", "show", "--data", str(folder / "pictures"), "--json"]]:
            with self.subTest(args=args):
                done = run(*args)
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_what_a_run_would_have_to_keep(self):
        data = self.dir / LATIN
        shutil.copytree(self.shared / "pictures", data)
        old = self.dir / "run"
        shutil.copytree(self.shared / "run", old)
        before = sorted(p.name for p in old.rglob("*"))
        for flags in [["--out", str(self.dir / "out")], ["--out", str(old), "--overwrite"]]:
            said = self.refused(["train", *TINY, "--data", str(data), *flags])
            self.assertIn("is not UTF-8", said)
        self.assertEqual(sorted(p.name for p in old.rglob("*")), before)
        named = self.dir / "named"
        for split in ["train", "test"]:
            (named / split).mkdir(parents=True)
            shutil.copytree(next(p for p in (self.shared / "pictures").iterdir() if p.is_dir()), named / split / LATIN)
        said = self.refused(["train", *TINY, "--data", str(named), "--out", str(self.dir / "out")])
        self.assertIn("is not UTF-8", said)
        self.assertFalse((self.dir / "out").exists())


class Sizes(Case):
    def test_shapes_beyond_any_memory(self):
        for shape in ["999999999x999999999", "1x140000000000"]:
            said = self.refused(["bench", "op", "--shapes", shape])
            self.assertIn(shape, said)

    def test_a_line_of_pixels(self):
        for width, height in [(1, 65535), (65535, 1)]:
            line = self.dir / "line.png"
            line.write_bytes(png(width, height))
            done = run("predict", str(self.shared / "run"), str(line))
            self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    TOST = sys.argv.pop(1)
    unittest.main(verbosity=2)
