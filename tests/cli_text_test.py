#!/usr/bin/env python3
"""Texts, token files and the scores of language models as a stranger uses them.

usage: cli_text_test.py TOST [unittest arguments]; needs only Python's standard library.
"""
import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

import cli_test
from cli_test import run

SHARED = pathlib.Path(os.environ.get("TOST_SHARED") or pathlib.Path(__file__).resolve().parents[2] / "shared")
TEXT = "".join(f"the {word} sees the {word} .\n" for word in ["cat", "dog", "bird", "fish"] * 60).encode()


class Tokens(cli_test.Case):
    def test_text_becomes_token_files(self):
        text = self.file("in/input.txt", TEXT)
        shown = json.loads(run("data", "tokens", self.dir / "in", "--out", self.dir / "raw", "--json").stdout)
        self.assertEqual(shown["tokenizer"], "chars")
        self.assertEqual(shown["splits"]["train"]["tokens"], len(TEXT) * 9 // 10)
        self.assertEqual((self.dir / "raw/train.bin").stat().st_size, 2 * (len(TEXT) * 9 // 10))
        run("data", "tokens", text, "--tokenizer", "words:8", "--format", "llmc", "--out", self.dir / "llmc", "--quiet")
        header = (self.dir / "llmc/val.bin").read_bytes()
        self.assertEqual(int.from_bytes(header[:4], "little"), 20240520)
        self.assertEqual(1024 + 2 * int.from_bytes(header[8:12], "little"), len(header))
        self.assertEqual(json.loads((self.dir / "llmc/tokenizer.json").read_text())["words"][:2], ["<unk>", "<eos>"])
        run("data", "tokens", text, "--out", f"{self.dir}/slash/", "--quiet")
        self.assertTrue((self.dir / "slash/train.bin").exists())
        self.error("data", "tokens", text, "--out", self.dir / "raw", exit_code=2, says="not an empty folder")
        self.error("data", "tokens", self.dir / "raw", "--out", self.dir / "z", exit_code=2, says="holds tokens already")
        self.assertFalse((self.dir / "z").exists())

    def test_bad_requests(self):
        text = self.file("a.txt", TEXT)
        out = ["--out", self.dir / "z"]
        self.error("data", "tokens", text, *out, "--tokenizer", "char", exit_code=2, says="'chars'")
        self.error("data", "tokens", text, *out, "--tokenizer", "words", exit_code=2, says="words:8192")
        self.error("data", "tokens", text, *out, "--tokenizer", "gpt2:nowhere", exit_code=1, says="nowhere")
        self.error("data", "tokens", text, *out, "--format", "llm.c", exit_code=2, says="'llmc'")
        self.error("data", "tokens", text, *out, "--holdout", "1", exit_code=2, says="held-out share")
        self.error("data", "tokens", self.dir / "absent", *out, exit_code=1, says="absent")
        self.error("data", "tokens", self.file("b.txt", b""), *out, exit_code=1, says="empty")
        self.error("data", "tokens", self.file("c.txt", b"ab\xff"), *out, "--tokenizer", "chars", exit_code=1,
                   says=["c.txt", "UTF-8 at byte 2"])

    def test_interrupted_export_leaves_nothing(self):
        text = self.file("a.txt", TEXT * 20000)
        process = subprocess.Popen([cli_test.TOST, "data", "tokens", str(text), "--tokenizer", "words:9", "--out",
                                    str(self.dir / "z")], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        while not list(self.dir.glob("z.tmp.*")) and process.poll() is None:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        self.assertIn("interrupted", process.communicate(timeout=600)[1])
        self.assertEqual(process.returncode, 130)
        self.assertEqual([p.name for p in self.dir.iterdir()], ["a.txt"])


class Scores(cli_test.Case):
    """One small model of words for all."""

    @classmethod
    def setUpClass(cls):
        holder = cls("test_loss")
        holder.setUp()
        cls.folder = holder.dir
        holder.file("in/train.txt", TEXT)
        holder.file("in/test.txt", TEXT[:300])
        run("train", "--data", cls.folder / "in", "--tokenizer", "words:12", "--model", "tost_gpt_char", "--block", "16",
            "--dim", "16", "--depth", "1", "--heads", "2", "--batch", "8", "--max-steps", "150", "--quiet", "--threads", "1",
            "--eval-batches", "2", "--out", cls.folder / "run")

    @classmethod
    def tearDownClass(cls):
        cli_test.shutil.rmtree(cls.folder, ignore_errors=True)

    def score(self, *args):
        return json.loads(run("eval", self.folder / "run", *args, "--json").stdout)

    def refused(self, *args, exit_code, says):
        self.error("eval", self.folder / "run", *args, exit_code=exit_code, says=says)

    def test_loss(self):
        report = self.score("--data", self.folder / "in")
        self.assertEqual(report["split"], "test")
        self.assertEqual(report["tokens"], len(TEXT[:300].split()) + TEXT[:300].count(b"\n") - 1)
        self.assertAlmostEqual(report["perplexity"], math.exp(report["loss"]), places=6)
        self.assertAlmostEqual(report["bits_per_byte"], report["loss"] * report["tokens"] / math.log(2) / 300, places=9)
        whole = self.score("--data", self.folder / "in/test.txt", "--batch", "1")
        self.assertEqual(whole["split"], "whole")
        self.assertAlmostEqual(whole["loss"], report["loss"], places=5)
        run("data", "tokens", self.folder / "in", "--tokenizer", "words:12", "--out", self.dir / "t", "--quiet")
        tokens = self.score("--data", self.dir / "t")
        self.assertAlmostEqual(tokens["loss"], report["loss"], places=5)
        self.assertIsNone(tokens["bits_per_byte"])
        text = run("eval", self.folder / "run", "--data", self.folder / "in").stdout
        self.assertIn("perplexity", text)
        self.assertRegex(text, r"\nsplit +test\nprecision +fp32\n")

    def test_its_own_training_text_is_scored_where_it_was_held_back(self):
        text = self.file("one.txt", TEXT)
        run("train", "--data", text, "--tokenizer", "bytes", "--model", "tost_gpt_char", "--block", "16", "--dim", "16",
            "--depth", "1", "--heads", "2", "--batch", "8", "--max-steps", "2", "--warmup-steps", "1", "--quiet",
            "--eval-batches", "2", "--holdout", "0.25", "--out", self.dir / "one")
        score = lambda *args: json.loads(run("eval", self.dir / "one", "--data", *args, "--json").stdout)
        own = score(text)
        self.assertEqual((own["split"], own["tokens"]), ("validation", len(TEXT) // 4 - 1))
        self.assertEqual(score(text, "--holdout", "0.5")["tokens"], len(TEXT) // 2 - 1)
        self.assertEqual(score(text, "--split", "whole")["tokens"], len(TEXT) - 1)
        other = score(self.file("other.txt", TEXT))
        self.assertEqual((other["split"], other["tokens"]), ("whole", len(TEXT) - 1))

    def test_tasks(self):
        # After "sees" always comes "the", and never "sees" itself.
        rows = self.file("a.jsonl", b'{"text": "the cat sees the"}\n{"text": "the dog sees sees"}\n')
        report = self.score("--data", rows, "--task", "lambada")
        self.assertEqual((report["passages"], report["accuracy"]), (2, 0.5))
        first = self.score("--data", rows, "--task", "lambada", "--limit", "1")
        self.assertEqual((first["passages"], first["accuracy"]), (1, 1))
        self.assertIn("official accuracy", run("eval", self.folder / "run", "--data", rows, "--task", "lambada").stdout)
        rows = self.file("b.jsonl", b'{"text": "the XXXXX sees", "choices": ["cat", "."], "answer": "cat"}\n')
        self.assertEqual(self.score("--data", rows, "--task", "choice")["accuracy"], 1)

    def test_wrong_flags(self):
        data = ["--data", self.folder / "in"]
        self.refused(*data, "--corrupt", "blur", exit_code=2, says=["--corrupt goes with image models", "language model"])
        self.refused(*data, "--per-class", exit_code=2, says="--per-class")
        self.refused(*data, "--task", "lamda", exit_code=2, says="'lambada'")
        self.refused(*data, "--protocol", "offical", exit_code=2, says="'official'")
        self.refused(*data, "--protocol", "official", exit_code=2, says="words tokenizer lacks")
        self.refused(*data, "--batches", "3", exit_code=2, says="--batches goes with the protocol official")
        self.refused(*data, "--limit", "3", exit_code=2, says="--limit does not go with --task loss")
        self.refused(*data, "--task", "choice", "--stride", "3", exit_code=2, says="--stride does not go with")
        for task in ["lambada", "choice"]:
            for limit in ["0", "-5"]:
                self.refused(*data, "--task", task, "--limit", limit, exit_code=2, says=[str(limit), "--limit"])
        self.refused(*data, "--context", "17", exit_code=2, says="1 to 16")
        self.refused(*data, "--stride", "17", exit_code=2, says="stride of 17")
        self.refused(*data, "--whole-text", exit_code=2, says="positions 'none'")
        self.refused(*data, "--batch", "0", exit_code=2, says="--batch is 0")
        self.refused(*data, "--precision", "fp8", exit_code=2, says="fp8")
        self.refused(*data, "--split", "tset", exit_code=2, says="'test'")

    def test_wrong_data(self):
        self.refused("--data", self.folder / "in", "--split", "whole", exit_code=1, says="not one file")
        self.refused("--data", self.file("a.bin", b"abc"), exit_code=1, says="odd number")
        self.refused("--data", self.file("b.bin", b"\x01\x00\xff\x00"), exit_code=1, says="outside the vocabulary of 9")
        self.refused("--data", self.file("c.txt", b"the"), exit_code=1, says="at least 2")
        self.refused("--data", self.file("d.jsonl", b"nonsense"), "--task", "lambada", exit_code=1, says="d.jsonl' line 1")
        self.refused("--data", self.dir / "absent", "--task", "choice", exit_code=1, says="absent")
        run("data", "tokens", self.folder / "in", "--tokenizer", "bytes", "--out", self.dir / "t", "--quiet")
        self.refused("--data", self.dir / "t", exit_code=1, says="another tokenizer than the model's")


class Generation(cli_test.Case):
    """One model of characters without positions, one with."""

    @classmethod
    def setUpClass(cls):
        holder = cls("test_text")
        holder.setUp()
        cls.folder = holder.dir
        text = holder.file("in/input.txt", TEXT)
        for name, positions in [("free", "none"), ("bound", "learned")]:
            run("train", "--data", text.parent, "--model", "tost_gpt_char", "--block", "16", "--dim", "16", "--depth", "1",
                "--heads", "2", "--batch", "8", "--max-steps", "20", "--quiet", "--threads", "1", "--eval-batches", "2",
                "--positions", positions, "--conv", "3", "--out", cls.folder / name)

    @classmethod
    def tearDownClass(cls):
        cli_test.shutil.rmtree(cls.folder, ignore_errors=True)

    def text(self, *args, model="free"):
        return run("generate", self.folder / model, "--prompt", "the cat", "--threads", "1", *args).stdout

    def refused(self, *args, model="free", exit_code, says):
        self.error("generate", self.folder / model, *args, exit_code=exit_code, says=says)

    def test_text(self):
        self.assertEqual(len(self.text("--max-tokens", "40")), 41)
        self.assertEqual(self.text("--seed", "3"), self.text("--seed", "3"))
        self.assertNotEqual(self.text("--seed", "3"), self.text("--seed", "4"))
        self.assertNotIn("e", self.text("--stop", "e", "--stop", "zz").rstrip("\n"))
        for flags, notes in (([], 1), (["--past-block", "slide"], 0)):
            done = run("generate", self.folder / "bound", "--prompt", "the cat", "--max-tokens", "40", *flags)
            self.assertEqual(len(done.stdout), 41)
            self.assertEqual(done.stderr.count("learned positions for 16 tokens"), notes, done.stderr)
        self.assertEqual(run("generate", self.folder / "bound", "--prompt", "the", "--max-tokens", "14").stderr, "")
        many = self.file("prompts", b"the dog\nthe\nthe cat\n")
        report = json.loads(run("generate", self.folder / "free", "--prompts", many, "--samples", "2", "--max-tokens", "5",
                                "--json").stdout)
        self.assertEqual([t["prompt"] for t in report["texts"]], ["the dog"] * 2 + ["the"] * 2 + ["the cat"] * 2)
        self.assertTrue(all(len(t["ids"]) == 5 and t["ended"] == "length" for t in report["texts"]))
        self.assertEqual(report["stats"]["new_tokens"], 30)
        piped = run("generate", self.folder / "free", "--prompt-file", "-", "--max-tokens", "3", input="the")
        self.assertEqual(len(piped.stdout), 4)

    def test_stats_follow_the_text_where_both_go_to_one_file(self):
        with open(self.dir / "both", "w+") as both:
            subprocess.run([cli_test.TOST, "generate", str(self.folder / "free"), "--max-tokens", "5", "--stats"],
                           stdout=both, stderr=both, check=True)
            both.seek(0)
            lines = both.read().splitlines()
        self.assertEqual([line.split()[0] for line in lines[-3:]], ["prefill", "decode", "memory"], lines)

    def test_session(self):
        greedy = ["--temperature", "0", "--threads", "1"]
        whole = run("generate", self.folder / "free", "--prompt", "the", "--max-tokens", "30", *greedy).stdout
        state = self.dir / "session"
        parts = run("generate", self.folder / "free", "--prompt", "the", "--max-tokens", "12", "--session", state,
                    *greedy).stdout[:-1]
        size = state.stat().st_size
        parts += run("generate", self.folder / "free", "--max-tokens", "18", "--session", state, *greedy).stdout
        self.assertEqual(parts, whole)
        self.assertLess(abs(state.stat().st_size - size), 200)
        self.refused("--prompt", "the", "--session", state, model="bound", exit_code=1, says="another model")
        self.refused("--prompt", "the", "--session", self.file("odd", b"odd"), exit_code=1, says="odd")
        self.refused("--prompt", "the", "--session", state, "--samples", "2", exit_code=2, says="--session")
        before = state.read_bytes()
        self.refused("--prompt", "the\u00e9", "--session", state, exit_code=1, says="U+00E9")
        self.assertEqual(state.read_bytes(), before)

    def test_interrupted_text_keeps_its_session(self):
        state = self.dir / "session"
        process = subprocess.Popen([cli_test.TOST, "generate", str(self.folder / "free"), "--prompt", "the", "--max-tokens",
                                    "100000000", "--session", str(state)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        process.stdout.read(20)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=600)
        self.assertEqual(process.returncode, 130)
        run("generate", self.folder / "free", "--prompt", "", "--max-tokens", "5", "--session", state)

    def test_a_reader_that_goes_away_ends_it(self):
        process = subprocess.Popen([cli_test.TOST, "generate", str(self.folder / "free"), "--prompt", "the", "--max-tokens",
                                    "100000000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        process.stdout.read(5)
        process.stdout.close()
        self.assertEqual(process.wait(timeout=600), -signal.SIGPIPE)
        self.assertEqual(process.stderr.read(), "")
        process.stderr.close()

    def test_bad_requests(self):
        self.refused("--prompt", "", exit_code=2, says="it is empty")
        self.refused("--prompt", "a", "--top-p", "0", exit_code=2, says="top-p is 0")
        self.refused("--prompt", "a", "--temperature", "-1", exit_code=2, says="temperature is -1")
        self.refused("--prompt", "a", "--temperature", "nan", exit_code=2, says="not a finite number")
        self.refused("--prompt", "a", "--past-block", "sline", exit_code=2, says="'slide'")
        self.refused("--prompt", "a", "--max-tokens", "17", "--past-block", "stop", model="bound", exit_code=2,
                     says="learned positions for 16")
        self.refused("--prompt", "a", "--prompts", self.file("p", b"a"), exit_code=2, says="exclude each other")
        self.refused("--prompts", self.file("q", b""), exit_code=1, says="no prompt")
        self.refused("--prompt-file", self.file("e", b""), exit_code=1, says="is empty")
        self.refused("--prompts", self.file("r", "the\né\n".encode()), exit_code=1, says=["Prompt 2 of", "U+00E9"])
        self.refused("--prompt", "a", "--samples", "1" + "0" * 17, exit_code=2, says="--samples")
        self.refused("--prompt", "a", "--session", self.dir / "no" / "s", exit_code=1, says="cannot be written")
        self.refused("--prompt", "a", "--precision", "fp8", exit_code=2, says="fp8")
        self.error("generate", self.dir / "absent", exit_code=1, says="absent")


class OfficialCheckpoint(cli_test.Case):
    """A model whose file holds no tokenizer, of 131 tokens and 96 positions."""
    MODEL = SHARED / "parity/lang_tssa/ckpt.pt"

    def setUp(self):
        if not self.MODEL.exists():
            self.skipTest(f"needs {self.MODEL}; set TOST_SHARED")
        super().setUp()

    def test_reads_text_by_the_tokenizer_that_is_named(self):
        text = self.file("in/input.txt", TEXT)
        run("data", "tokens", self.dir / "in", "--out", self.dir / "t", "--quiet")
        tokenizer = f"file:{self.dir}/t/tokenizer.json"
        score = lambda *args: json.loads(run("eval", self.MODEL, "--data", *args, "--json").stdout)
        by_text = score(text, "--tokenizer", "chars")
        self.assertEqual((by_text["split"], by_text["tokens"]), ("whole", len(TEXT) - 1))
        self.assertEqual(score(text, "--tokenizer", tokenizer)["loss"], by_text["loss"])
        self.assertEqual(score(self.dir / "t", "--split", "validation")["loss"],
                         score(self.dir / "in", "--split", "validation", "--tokenizer", "chars")["loss"])
        written = run("generate", self.MODEL, "--prompt", "the cat", "--tokenizer", tokenizer, "--max-tokens", "9").stdout
        self.assertEqual(len(written.rstrip("\n")), 9)
        page = ["--out", self.dir / "page", "--samples", "2", "--quiet"]
        done = run("explain", self.MODEL, "--text", "the cat sees", "--tokenizer", tokenizer, *page)
        self.assertIn("12 tokens of --text", done.stdout)

    def test_says_what_is_missing(self):
        text = self.file("a.txt", TEXT)
        for command in (["eval", self.MODEL, "--data", text], ["generate", self.MODEL, "--prompt", "a"],
                        ["explain", self.MODEL, "--text", "a", "--out", self.dir / "page"]):
            self.error(*command, exit_code=1, says=["has no tokenizer", "--tokenizer", "gpt2:FOLDER"])
            self.error(*command, "--tokenizer", "chars:3", exit_code=2, says="Unknown tokenizer 'chars:3'")
            self.error(*command, "--tokenizer", "bytes", exit_code=2, says=["257 tokens", "131"])
        self.error("generate", self.MODEL, "--prompt", "a", "--tokenizer", "chars", exit_code=2, says="made from a text")
        self.error("generate", self.MODEL, "--prompt", "a", "--tokenizer", "gpt2:nowhere", exit_code=1, says="nowhere")


if __name__ == "__main__":
    cli_test.TOST = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=1)
