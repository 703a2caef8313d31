#!/usr/bin/env python3
"""tost explain on language models: the page, the numbers, wrong requests.

usage: cli_explain_text_test.py TOST [unittest arguments]; needs only Python's standard library.
"""
import json
import math
import os
import re
import sys
import unittest

import cli_test
from cli_test import run
from cli_text_test import TEXT


class Explain(cli_test.Case):
    """Small models, trained a few steps, for all."""

    @classmethod
    def setUpClass(cls):
        holder = cls("test_page_and_numbers")
        holder.setUp()
        cls.folder = holder.dir
        holder.file("in/train.txt", TEXT)
        holder.file("in/valid.txt", TEXT[:600])
        for name, *options in (
                ["words", "--tokenizer", "words:12", "--model", "tost_gpt_char"],
                ["bytes", "--tokenizer", "bytes", "--model", "tost_means_char"],
                ["softmax", "--tokenizer", "chars", "--model", "gpt_char"],
                ["uniform", "--tokenizer", "chars", "--model", "tost_gpt_char", "--mixer", "uniform"]):
            run("train", "--data", cls.folder / "in", *options, "--block", "16", "--dim", "16", "--depth", "2",
                "--heads", "2", "--batch", "8", "--max-steps", "20", "--quiet", "--threads", "1", "--eval-batches", "2",
                "--out", cls.folder / name)

    @classmethod
    def tearDownClass(cls):
        cli_test.shutil.rmtree(cls.folder, ignore_errors=True)

    def explain(self, model, *args, **options):
        """Explains into self.dir/r; the page and its numbers."""
        run("explain", self.folder / model, *args, "--out", self.dir / "r", "--overwrite", "--samples", "4",
            "--threads", "1", "--quiet", **options)
        page = (self.dir / "r/index.html").read_text(encoding="utf-8")
        self.assertEqual(re.findall(r"""(?:src|href|url\()\s*=?\s*["']?(https?:|//)""", page), [])
        return page, json.loads((self.dir / "r/report.json").read_text())

    def refused(self, model, *args, exit_code, says, **options):
        self.error("explain", self.folder / model, *args, "--out", self.dir / "z", exit_code=exit_code, says=says,
                   **options)
        self.assertFalse((self.dir / "z").exists())

    def test_page_and_numbers(self):
        page, report = self.explain("words", "--text", "the cat sees the dog .\n")
        self.assertEqual(report["passage"]["tokens"], ["·the", "·cat", "·sees", "·the", "·dog", "·.", "↵"])
        losses = report["passage"]["token_loss"]
        self.assertEqual(len(losses), 6)
        self.assertAlmostEqual(report["passage"]["loss"], sum(losses) / 6, places=5)
        self.assertAlmostEqual(report["passage"]["perplexity"], math.exp(report["passage"]["loss"]), places=4)
        self.assertEqual([layer["mixer"] for layer in report["layers"]], ["tssa", "tssa"])
        for layer in report["layers"]:
            first, second = layer["membership"]
            self.assertEqual(len(first), 7)
            for a, b, entropy in zip(first, second, layer["entropy"]):
                self.assertAlmostEqual(a + b, 1, places=4)
                wanted = -sum(p * math.log2(p) for p in (a, b) if p > 0)
                self.assertAlmostEqual(entropy, wanted, places=3)
            self.assertIsNone(layer["gate"])
            self.assertEqual(len(layer["influence_by_distance"]), 6)
        self.assertEqual([split["split"] for split in report["splits"]], ["train", "validation"])
        self.assertEqual([split["windows"] for split in report["splits"]], [4, 4])
        statistics = report["splits"][1]["layers"][0]
        self.assertAlmostEqual(sum(statistics["mean_membership"]), 1, places=4)
        rows = statistics["taken"][0]
        self.assertGreater(len(rows), 2)
        for row in rows:
            self.assertAlmostEqual(row["lift"], row["membership"] / statistics["mean_membership"][0], places=3)
            self.assertGreaterEqual(row["count"], 5)

    def test_gates_memory_and_bytes_of_characters(self):
        page, report = self.explain("bytes", "--text", "a€ <b>&\n", "--bound")
        self.assertIn("‹E2›", report["passage"]["tokens"])
        self.assertNotIn("<b>&", page)
        layer = report["layers"][0]
        self.assertEqual(len(layer["gate"]), 2)
        self.assertAlmostEqual(layer["memory_horizon"][0], 2, delta=0.5)
        bound = report["splits"][0]["layers"][0]["bound"]
        self.assertEqual(bound[0]["scale"], 1)
        for part in bound:
            self.assertGreaterEqual(part["gap"]["mean"], -1e-9)
            self.assertAlmostEqual(part["bound"]["mean"] - part["exact_in_heads"]["mean"], part["gap"]["mean"], places=6)
        self.assertNotIn("bound", self.explain("bytes", "--text", "ab")[1]["splits"][0]["layers"][0])

    def test_models_without_memberships(self):
        page, report = self.explain("softmax")
        self.assertIsNone(report["layers"][0]["membership"])
        self.assertIn("their mixers have no groups", report["left_out"][0])
        self.assertIn("the beginning of", report["passage"]["source"])
        self.assertEqual(len(report["passage"]["ids"]), 16)
        self.assertIn("the block that the model has positions for", report["passage"]["notes"][0])
        page, report = self.explain("uniform", "--text", "the cat")
        self.assertTrue(report["layers"][0]["uniform_membership"])
        self.assertIn("are 1/H by construction", report["left_out"][0])

    def test_the_stated_schema(self):
        golden = cli_test.pathlib.Path(__file__).parent / "golden"
        documents = [json.loads(run("explain", golden / f"language-{mixer}.safetensors", "--data", golden / "text.txt", "--text", "one and two is",
                                    "--samples", "4", "--bound", "--json", "--quiet", "--threads", "1").stdout) for mixer in ("tssa", "means", "softmax")]
        self.has_schema("explain_language", documents, {"config"})

    def test_passages(self):
        _, report = self.explain("words", self.file("a.txt", b"the dog " * 100))
        self.assertEqual(len(report["passage"]["ids"]), 16)
        _, report = self.explain("bytes", self.file("b.txt", b"x" * 500), "--max-tokens", "30")
        self.assertEqual(len(report["passage"]["ids"]), 30)
        _, report = self.explain("bytes", "-", input="from a pipe")
        self.assertEqual(report["passage"]["source"], "the standard input")
        _, report = self.explain("words", "--text", "cat")
        self.assertEqual((report["passage"]["ids"].__len__(), report["passage"]["loss"]), (1, None))
        hostile = self.dir / "<script>alert(1)<"
        hostile.write_bytes(b"</p><script>alert(1)</script>")
        page, report = self.explain("bytes", hostile, "--title", "<script>x</script>")
        self.assertNotIn("<script>x", page)
        self.assertNotIn("<script>alert", page)
        self.assertEqual(report["title"], "<script>x</script>")

    def test_layers_heads_and_numbers_alone(self):
        _, report = self.explain("words", "--text", "the cat", "--layers", "2", "--heads", "2")
        self.assertEqual((report["chosen_layers"], report["chosen_heads"]), ([2], [2]))
        shown = json.loads(run("explain", self.folder / "words", "--text", "the cat", "--json", "--samples", "2",
                               cwd=self.dir).stdout)
        self.assertEqual((shown["kind"], len(shown["passage"]["ids"])), ("language", 2))
        self.assertFalse((self.dir / "report").exists())
        self.assertIn("index.html", run("explain", self.folder / "words", "--text", "the cat", "--out", self.dir / "t",
                                        "--samples", "2", "--quiet").stdout)

    def test_data_that_is_gone(self):
        model = next((self.folder / "words/checkpoints").glob("step-*/model.safetensors"))
        copy = self.file("alone.safetensors", model.read_bytes())
        page, report = self.explain(copy, "--text", "the cat")
        self.assertEqual(report["splits"], [])
        self.assertIn("give it with --data", report["left_out"][-1])
        self.refused(copy, exit_code=2, says="There is no passage to show")
        _, report = self.explain(copy, "--data", self.folder / "in")
        self.assertEqual(len(report["splits"]), 2)

    def test_wrong_requests(self):
        self.refused("words", "--text", "", exit_code=2, says="empty")
        self.refused("softmax", "--text", "Z", exit_code=1, says="--text cannot be read")
        self.refused("words", self.dir / "absent.txt", exit_code=1, says="absent.txt")
        self.refused("words", self.dir, exit_code=1, says="is a folder")
        self.refused("words", self.file("e.txt", b""), exit_code=2, says="e.txt' is empty")
        self.refused("words", self.file("a.txt", b"cat"), "--text", "cat", exit_code=2, says="One passage")
        self.refused("words", "--text", "cat", "--layers", "3", exit_code=2, says="3")
        self.refused("words", "--text", "cat", "--heads", "0", exit_code=2, says="0")
        self.refused("words", "--text", "cat", "--samples", "0", exit_code=2, says="--samples is 0")
        self.refused("words", "--text", "cat", "--max-tokens", "0", exit_code=2, says="at most 0 tokens")
        self.refused("words", "--text", "cat", "--data", self.dir / "gone", exit_code=1, says="gone")
        self.refused("words", "--text", "cat", "--data-format", "idx", exit_code=2, says="image models")
        self.refused("words", self.file("o.bin", b"\xff\xff"), exit_code=1, says="vocabulary")


if __name__ == "__main__":
    cli_test.TOST = os.path.abspath(sys.argv.pop(1))
    unittest.main(verbosity=1)
