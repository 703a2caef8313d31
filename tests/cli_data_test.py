#!/usr/bin/env python3
"""`tost data` on labelled sequences: what is shown and written, and what is refused.

usage: cli_data_test.py TOST [unittest arguments]; needs only Python's standard library.
"""
import json
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TOST = ""
SMALL = ["--train-size", "30", "--test-size", "10"]
SHORT = ["--min-tokens", "5", "--max-tokens", "60"]


def run(*args, expect=0):
    done = subprocess.run([TOST, "data", *map(str, args)], capture_output=True, text=True, timeout=900)
    assert done.returncode == expect, f"{args}: exit {done.returncode}, expected {expect}\n{done.stdout}{done.stderr}"
    return done


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="tost_cli_data_"))

    def tearDown(self):
        shutil.rmtree(self.dir, ignore_errors=True)

    def error(self, *args, exit_code, says):
        done = run(*args, expect=exit_code)
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertIn(says, lines[0])

    def write(self, name, text):
        path = self.dir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path


class Show(Case):
    def test_listops(self):
        out = run("show", "--data", "listops", *SMALL).stdout
        for word in ["listops, 16 ids", "validation", "tokens, median"]:
            self.assertIn(word, out)
        splits = json.loads(run("show", "--data", "listops", *SMALL, "--json").stdout)["splits"]
        self.assertEqual([s["sequences"] for s in splits], [30, 10, 10])
        lengths = splits[0]["tokens"]
        self.assertTrue(500 < lengths["min"] <= lengths["median"] <= lengths["max"] < 2000)

    def test_one_split(self):
        splits = json.loads(run("show", "--data", "listops", *SMALL, "--split", "val", "--json").stdout)["splits"]
        self.assertEqual([s["split"] for s in splits], ["validation"])
        self.error("show", "--data", "listops", "--split", "vol", exit_code=2, says="Unknown split 'vol'")

    def test_texts_and_pairs(self):
        self.write("texts/pos/1.txt", "good")
        self.write("texts/neg/2.txt", "bad\n" * 30)
        report = json.loads(run("show", "--data", self.dir / "texts", "--json", "--split", "train").stdout)
        self.assertEqual(report["splits"][0]["format"], "text")
        table = self.write("pairs.tsv", "1.0\ta\tb\tone\ttwo\n" * 40)
        self.assertIn("retrieval, pairs", run("show", "--data", table).stdout)

    def test_pictures_stay_pictures(self):
        out = run("show", "--data", "shapes").stdout
        self.assertIn("shapes, RGB", out)
        run("make", "shapes", "--count", "12", "--out", self.dir / "shapes", "--quiet")
        self.assertIn("folder, RGB", run("show", "--data", self.dir / "shapes").stdout)
        self.assertIn("pixels, 257 ids", run("show", "--data", self.dir / "shapes", "--sequence").stdout)
        self.error("show", "--data", self.dir / "none", exit_code=1, says="There is no file or folder")
        self.error("show", "--data", "listop", exit_code=1, says="Did you mean 'listops'?")

    def test_bad_tables(self):
        bad = self.write("x.tsv", "Source\tTarget\r\n( ( [MIN 4 ) 2 )\t2\r\n")
        self.error("show", "--data", bad, exit_code=1, says="Line 2 of")
        bad.write_bytes(b"1\ttext\n2\n")
        self.error("show", "--data", bad, exit_code=1, says="Line 2 of")
        bad.write_bytes(b"")
        self.error("show", "--data", bad, exit_code=1, says="is empty")
        self.error("show", "--data", "listops", "--max-depth", "0", exit_code=2, says="not 0")
        self.error("show", "--data", "listops", "--seed", "-1", exit_code=2, says="--seed")
        self.error("make", "listops", "--seed", "-1", "--out", self.dir / "x", exit_code=2, says="--seed")


class Make(Case):
    def test_listops_as_released(self):
        run("make", "listops", *SMALL, *SHORT, "--out", self.dir / "out", "--quiet")
        lines = (self.dir / "out/basic_test.tsv").read_bytes().split(b"\r\n")
        self.assertEqual(lines[0], b"Source\tTarget")
        self.assertEqual(len(lines), 12)
        self.assertIn("wrote", run("make", "listops", *SMALL, *SHORT, "--out", self.dir / "again", "--quiet").stdout)
        for name in ["basic_train.tsv", "basic_val.tsv", "basic_test.tsv"]:
            self.assertEqual((self.dir / "out" / name).read_bytes(), (self.dir / "again" / name).read_bytes())

    def test_refuses(self):
        self.write("full/file", "x")
        self.error("make", "listops", *SMALL, "--out", self.dir / "full", exit_code=2, says="not an empty folder")
        self.error("make", "listops", "--train-size", "1000000000", "--out", self.dir / "out", exit_code=2,
                   says="1 to 100,000,000")
        self.assertFalse((self.dir / "out").exists())

    def test_interrupted_leaves_nothing(self):
        going = subprocess.Popen([TOST, "data", "make", "listops", "--train-size", "100000", "--out",
                                  str(self.dir / "out"), "--quiet"], stderr=subprocess.PIPE, text=True)
        while not list(self.dir.iterdir()) and going.poll() is None:
            time.sleep(0.001)
        going.send_signal(signal.SIGINT)
        _, errors = going.communicate(timeout=600)
        self.assertEqual(going.returncode, 130)
        self.assertEqual(errors.strip(), "interrupted; nothing was written")
        self.assertEqual(list(self.dir.iterdir()), [])


if __name__ == "__main__":
    TOST = sys.argv.pop(1)
    unittest.main(verbosity=1)
