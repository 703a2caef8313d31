#!/usr/bin/env python3
"""Reports on image models as a stranger asks for them: right and wrong ways, and interruptions.

usage: cli_explain_test.py TOST [unittest arguments]; needs only Python's standard library.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

import cli_test
from cli_test import png, run



class Explain(cli_test.Case):
    """One small model for all, trained for a few steps on generated pictures."""

    @classmethod
    def setUpClass(cls):
        holder = cls("test_run_with_its_data")
        holder.setUp()
        cls.folder = holder.dir
        run("train", *cli_test.TINY, "--max-steps", "4", "--quiet", "--threads", "1", "--out", cls.folder / "run")

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder, ignore_errors=True)

    def explain(self, *args, model="run", **options):
        return run("explain", self.folder / model, *args, "--out", self.dir / "report", "--quiet", "--threads", "1", **options)

    def page(self):
        return (self.dir / "report/index.html").read_text()

    def numbers(self):
        return json.loads((self.dir / "report/report.json").read_text())

    def refused(self, *args, exit_code, says, model="run"):
        self.error("explain", self.folder / model, *args, "--out", self.dir / "report", exit_code=exit_code, says=says)
        self.assertFalse((self.dir / "report").exists())

    def test_run_with_its_data(self):
        shown = self.explain("--samples", "5", "--bound", "--layers", "6,1", "--heads", "2")
        self.assertIn("report/index.html", shown.stdout)
        page, numbers = self.page(), self.numbers()
        held = re.search(r'<script type="application/json" id="numbers">(.*?)</script>', page, re.S)[1]
        self.assertEqual({"tost_report": 1, **json.loads(held)}, numbers)
        self.assertIn("default-src 'none'", page)
        self.assertEqual(numbers["chosen_layers"], [1, 6])
        self.assertEqual(numbers["chosen_heads"], [2])
        self.assertEqual([s["split"] for s in numbers["splits"]], ["train", "validation"])
        self.assertEqual([s["pictures"] for s in numbers["splits"]], [5, 5])
        first = numbers["pictures"][0]
        self.assertEqual(len(first["layers"]), 6)
        self.assertEqual((first["rows"], first["columns"]), (4, 4))
        for layer in first["layers"]:
            for row in range(4):
                for column in range(4):
                    total = sum(head[row][column] for head in layer["memberships"])
                    self.assertAlmostEqual(total, 1, places=4)
        for layer in numbers["splits"][1]["layers"]:
            for rate in layer["compression"].values():
                self.assertLessEqual(rate["mean"], numbers["compression_ceiling"] + 1e-9)
            for bound in layer["bound"]:
                self.assertGreaterEqual(bound["bound"]["mean"], bound["exact_in_heads"]["mean"] - 1e-9)
        self.assertEqual(sorted(p.name for p in (self.dir / "report").iterdir()), ["index.html", "report.json"])

    def test_pictures_of_any_size_and_name(self):
        odd = self.file("<b>&amp;.png", png(7, 30))
        flat = self.file("flat.png", png(16, 16))
        printed = json.loads(self.explain(odd, flat, "--samples", "3", "--json", "--title", "<i>mine</i>").stdout)
        self.assertEqual([p["name"] for p in printed["pictures"]], [str(odd), str(flat)])
        self.assertEqual(printed, self.numbers())
        self.assertEqual(printed["title"], "<i>mine</i>")
        self.assertNotIn("<i>mine", self.page())
        self.assertNotIn("<b>&amp;", self.page())
        self.assertTrue(self.numbers()["pictures"][0]["resized"])

    def test_more_pictures_than_are_shown(self):
        files = [self.file(f"{i}.png", png(16, 16)) for i in range(11)]
        self.explain(*files, "--samples", "2")
        self.assertEqual(len(self.numbers()["pictures"]), 8)
        self.assertEqual(len(self.numbers()["other_pictures"]), 3)

    def test_the_stated_schema(self):
        golden = cli_test.pathlib.Path(__file__).parent / "golden"
        documents = [json.loads(run("explain", golden / f"vision-{mixer}.safetensors", "--data", "shapes", "--samples", "6", "--bound", "--heads", "1",
                                    "--json", "--quiet", "--threads", "1").stdout) for mixer in ("tssa", "softmax")]
        self.has_schema("explain_vision", documents, {"config", "preprocess"})

    def test_numbers_alone_write_nothing(self):
        printed = json.loads(run("explain", self.folder / "run", "--samples", "2", "--json", "--quiet", cwd=self.dir).stdout)
        self.assertEqual((printed["tost_report"], printed["kind"]), (1, "vision"))
        self.assertEqual(list(self.dir.iterdir()), [])

    def test_file_alone_needs_pictures_or_data(self):
        weights = next((self.folder / "run/checkpoints").glob("step-*")) / "model.safetensors"
        alone = self.dir / "alone.safetensors"
        shutil.copy(weights, alone)
        self.refused(model=alone, exit_code=2, says=["no picture to explain", "--data"])
        picture = self.file("a.png", png(16, 16))
        self.explain(picture, model=alone)
        self.assertEqual(self.numbers()["splits"], [])
        self.assertIn("give it with --data", self.numbers()["left_out"][0]["reason"])
        self.explain(picture, "--data", "shapes", "--samples", "2", "--split", "test", "--overwrite", model=alone)
        self.assertEqual(self.numbers()["splits"][1]["split"], "test")

    def test_data_that_is_gone(self):
        shutil.copytree(self.folder / "run", self.dir / "moved")
        config = self.dir / "moved/config.json"
        config.write_text(config.read_text().replace('"data": "shapes"', '"data": "/nowhere/data"'))
        picture = self.file("a.png", png(16, 16))
        said = self.explain(picture, model=self.dir / "moved").stdout
        self.assertIn("/nowhere/data", said)
        self.assertIn("cannot be opened any more", self.numbers()["left_out"][0]["reason"])
        shutil.rmtree(self.dir / "report")
        self.refused(picture, "--data", "/nowhere/else", model=self.dir / "moved", exit_code=1, says="/nowhere/else")

    def test_mixers_without_memberships(self):
        for mixer in ["softmax", "uniform"]:
            run("train", *cli_test.TINY, "--mixer", mixer, "--max-steps", "1", "--quiet", "--threads", "1", "--out",
                self.dir / mixer)
            self.explain("--samples", "2", "--overwrite", model=self.dir / mixer)
            self.assertEqual(self.numbers()["splits"][0]["layers"][0]["has_memberships"], mixer != "softmax")
            self.assertEqual(len(self.numbers()["pictures"][0]["class_attention"]), 2)
            self.assertEqual(len(self.numbers()["left_out"]), 1)

    def test_earlier_reports(self):
        self.explain("--samples", "2")
        before = self.page()
        self.error("explain", self.folder / "run", "--out", self.dir / "report", exit_code=2, says="--overwrite")
        self.error("explain", self.folder / "run", cwd=self.dir, exit_code=2, says=["/report'", "--overwrite"])  # the default
        self.assertEqual(self.page(), before)
        self.explain("--samples", "2", "--overwrite")
        self.assertEqual(self.page(), before)
        (self.dir / "report/mine.txt").write_text("keep")
        self.error("explain", self.folder / "run", "--out", self.dir / "report", "--samples", "2", "--quiet", "--overwrite",
                   exit_code=2, says="mine.txt")
        self.assertEqual((self.dir / "report/mine.txt").read_text(), "keep")
        self.assertEqual([p.name for p in self.dir.iterdir()], ["report"])

    def test_wrong_requests(self):
        self.refused("--layers", "7", exit_code=2, says=["no layer 7", "6 layers"])
        self.refused("--layers", "1,0", exit_code=2, says="no layer 0")
        self.refused("--layers", "", exit_code=2, says=["--layers", "empty"])
        self.refused("--layers", "first", exit_code=2, says="first")
        self.refused("--heads", "5", exit_code=2, says=["no head 5", "4 heads"])
        self.refused("--samples", "0", exit_code=2, says="--samples is 0")
        self.refused("--split", "tset", exit_code=2, says="'test'")
        self.refused("--ema", exit_code=1, says="averaged weights")
        self.refused("--data", self.idx("idx", side=16), exit_code=2, says="2 classes")
        self.refused(self.dir / "absent.png", exit_code=1, says="absent.png")
        self.refused(self.file("text.png", b"no picture"), exit_code=1, says="text.png")
        self.refused(model="absent", exit_code=1, says="absent")
        self.error("explain", self.folder / "run", "--out", self.file("file", b""), exit_code=2, says="is a file")

    def test_interruption_leaves_nothing(self):
        picture = str(self.file("in/a.png", png(16, 16)))
        process = subprocess.Popen([cli_test.TOST, "explain", str(self.folder / "run"), *[picture] * 20000, "--out",
                                    str(self.dir / "report"), "--threads", "1"], stderr=subprocess.PIPE, text=True)
        while process.poll() is None and not re.search(r"SigCgt:\s*\w*[2367abef]\b", status(process.pid)):
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        said = process.communicate(timeout=600)[1]
        self.assertEqual(process.returncode, 130, said)
        self.assertIn("interrupted", said)
        self.assertEqual([p.name for p in self.dir.iterdir()], ["in"])


def status(pid):
    try:
        with open(f"/proc/{pid}/status") as file:
            return file.read()
    except OSError:
        return ""


if __name__ == "__main__":
    cli_test.TOST = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=1)
