#!/usr/bin/env python3
"""The models that come with the program: their files and cards, their names in every command, the server without arguments.

usage: cli_models_test.py TOST [unittest arguments]; needs only Python's standard library.
"""
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import unittest

import cli_test
from cli_serve_test import Server
from cli_test import png, run

ROOT = pathlib.Path(__file__).resolve().parent.parent
MODELS = ROOT / "models"
CARDS = json.loads((MODELS / "models.json").read_text())["models"]
NAMES = [card["name"] for card in CARDS]
TEXTS = ("name", "about", "data", "source", "licence", "limits", "score")


def pictures(folder, count=10):
    run("data", "make", "shapes", "--split", "test", "--count", count, "--quiet", "--out", folder)
    return sorted(folder.rglob("*.png"))


class Files(unittest.TestCase):
    def test_every_card_is_complete(self):
        self.assertEqual(sorted(NAMES), sorted(path.stem for path in MODELS.glob("*.safetensors")))
        for card in CARDS:
            for key in TEXTS:
                self.assertRegex(card[key], r"\S", (card["name"], key))
            self.assertEqual(list(card["commands"]), ["train", "convert", "evaluate"])
            self.assertIn("--seed ", card["commands"]["train"])
            self.assertEqual(card["measured"]["split"], "test")

    def test_they_are_small_together(self):
        self.assertLess(sum(path.stat().st_size for path in MODELS.iterdir()), 6_000_000)

    def test_no_file_names_a_folder_of_the_machine_that_made_it(self):
        for path in MODELS.iterdir():
            data = path.read_bytes()
            header = data[8:8 + int.from_bytes(data[:8], "little")] if path.suffix == ".safetensors" else data
            self.assertNotRegex(header, rb"/(work|tmp|home|root)\b", path.name)

    def test_the_documentation_has_the_scores_of_the_cards(self):
        page = (ROOT / "docs/models.md").read_text()
        for card in CARDS:
            row = f"| `{card['name']}` | {card['about']} | {card['source']} | {card['licence']} | {card['score']} | {card['limits']} |"
            self.assertIn(row, page)


class Listing(cli_test.Case):
    def test_the_list(self):
        shown = run("models").stdout
        for card in CARDS:
            self.assertRegex(shown, rf"(?m)^{card['name']} +(image|language) +[\d.]+ [KM]iB +{card['data']} ")
            self.assertIn(card["score"], shown)
        listed = json.loads(run("models", "--json").stdout)
        self.assertEqual([model["name"] for model in listed["models"]], NAMES)
        for model, card in zip(listed["models"], CARDS):
            self.assertTrue(os.path.samefile(model.pop("path"), MODELS / f"{card['name']}.safetensors"))
            self.assertEqual(model.pop("kind"), "language" if "--recipe char" in card["commands"]["train"] else "vision")
            self.assertEqual(model, card)

    def test_a_card(self):
        shown = run("models", NAMES[-1]).stdout
        for key in TEXTS:
            self.assertRegex(shown, rf"(?m)^{key} +{re.escape(CARDS[-1][key])}$")
        self.assertIn(CARDS[-1]["commands"]["train"], shown)
        self.error("models", "shpes", exit_code=2, says=["'shpes'", "Did you mean 'shapes'?", *NAMES])

    def test_a_damaged_or_missing_file_is_named(self):
        copy = self.dir / "models"
        shutil.copytree(MODELS, copy)
        environment = {**os.environ, "TOST_MODELS": str(copy)}
        self.assertIn(str(copy), run("models", "shapes", env=environment).stdout)
        file = copy / "shapes.safetensors"
        data = bytearray(file.read_bytes())
        data[-100] ^= 1
        file.write_bytes(data)
        done = run("models", env=environment, expect=1)
        self.assertEqual(re.findall(r"(?m)^[\w-]+", done.stdout.split("\n", 1)[1]),
                         [name for name in NAMES if name != "shapes"])
        self.assertRegex(done.stderr, r"^tost models: .*shapes.safetensors' is damaged.*install tost again\.\n$")
        listed = json.loads(run("models", "--json", env=environment, expect=1).stdout)
        self.assertEqual([model["name"] for model in listed["models"]], [name for name in NAMES if name != "shapes"])
        for command in (["models", "shapes"], ["predict", "shapes", "x.png"], ["inspect", "shapes"],
                        ["serve", "--port", "0"]):
            self.error(*command, exit_code=1, says=["shapes.safetensors' is damaged", "install tost again"], env=environment)
        run("info", env=environment)
        file.unlink()
        self.error("eval", "shapes", exit_code=1, says=["shapes.safetensors' is missing"], env=environment)

    def test_a_list_that_cannot_be_used(self):
        environment = {**os.environ, "TOST_MODELS": str(self.dir)}
        self.error("models", exit_code=1, says=["models.json", "No such file"], env=environment)
        for text, says in [(b"[", "not JSON"), (b"{}", "models"), (b'{"models": [{"name": "../x"}]}', "lower-case"),
                           (b'{"models": [{"name": "x", "file": {"bytes": -1, "crc32c": "00000000"}}]}', "crc32c"),
                           (b'{"models": [{"name": 1}]}', "wrong type")]:
            self.file("models.json", text)
            self.error("models", exit_code=1, says=["models.json", says], env=environment)
            self.error("generate", "words", exit_code=1, says=["models.json", says], env=environment)


class Alone(cli_test.Case):
    """The program where its full part is not installed."""

    def setUp(self):
        super().setUp()
        program = pathlib.Path(cli_test.TOST).resolve()
        (self.dir / "bin/lib").mkdir(parents=True)
        self.program = shutil.copy(program, self.dir / "bin")
        shutil.copy(program.parent / "lib/libtost_small.so", self.dir / "bin/lib")

    def alone(self, *args, expect=0):
        done = subprocess.run([self.program, *map(str, args)], capture_output=True, text=True, cwd=self.dir,
                              env={**os.environ, "TOST_MODELS": str(MODELS)})
        self.assertEqual(done.returncode, expect, done.stderr)
        return done

    def test_files_are_described_as_by_the_whole_program(self):
        for args in (["models"], ["models", "--json"], ["models", "words"], ["inspect", "words", "--stats", "--json"],
                     ["inspect", "fashion", "--all"]):
            self.assertEqual(self.alone(*args).stdout, run(*args, env={**os.environ, "TOST_MODELS": str(MODELS)}).stdout)

    def test_it_says_what_it_does_and_what_it_leaves(self):
        for args in ([], ["--help"]):
            done = self.alone(*args, expect=0 if args else 2)
            self.assertIn("generate", done.stdout + done.stderr)
        self.assertEqual(self.alone("--version").stdout, run("--version").stdout)
        found = self.alone("generate", "shapes", "--prompt", "a", expect=2).stderr
        self.assertIn("holds an image model; tost predict", found)
        self.assertIn("holds a language model; tost generate", self.alone("predict", "words", "x.png", expect=2).stderr)
        self.assertIn("this needs the full program", self.alone("train", expect=1).stderr)

    def test_language_models_are_scored_as_by_the_full_program(self):
        text = self.file("t.txt", b"The king of the north was the first to see the city . " * 40)
        rows = self.file("r.jsonl", b'{"text": "the king of the city"}\n{"text": "he was the first"}\n')
        choices = self.file("c.jsonl", b'{"text": "the king of the XXXXX", "choices": ["city", "was"], "answer": 0}\n')
        for args, key in ((["--data", text, "--precision", "fp32"], "loss"), (["--data", text, "--precision", "int8"], "loss"),
                          (["--data", rows, "--task", "lambada", "--precision", "fp32"], "last_word_loss"),
                          (["--data", choices, "--task", "choice"], "accuracy")):
            small = json.loads(self.alone("eval", "words", *args, "--json").stdout)
            full = json.loads(run("eval", "words", *args, "--json", "--device", "auto").stdout)
            self.assertEqual(cli_test.schema_of([small]), cli_test.schema_of([full]))
            self.assertAlmostEqual(small[key], full[key], delta=5e-3 if "int8" in args else 1e-5)

    def test_pictures_are_scored_as_by_the_full_program(self):
        for args in ([], ["--precision", "int8", "--per-class"], ["--split", "validation", "--batch", "7"],
                     ["--corrupt", "noise", "--strength", "3", "--precision", "fp32"]):
            args = ["eval", "shapes", "--data", "shapes", *args, "--json"]
            small, full = (json.loads(done.stdout) for done in (self.alone(*args), run(*args, "--data-side", "32")))
            self.assertEqual(cli_test.schema_of([small]), cli_test.schema_of([full]))
            for report in (small, full):
                report.pop("checkpoint")
                report.pop("per_class", None)
                for key in ("seconds", "images_per_s"):
                    self.assertGreater(report.pop(key), 0)
            for key, most in (("loss", 5e-3), ("top1", 0.002), ("top5", 0.002)):  # each multiplies as it can
                self.assertAlmostEqual(small.pop(key), full.pop(key), delta=most)
            self.assertEqual(small, full)
        self.assertRegex(self.alone("eval", "shapes", "--data", "shapes").stdout, r"top1 +9\d\.\d\d %\n")
        folder = self.dir / "some"
        (folder / "test/a").mkdir(parents=True)
        pictures(folder / "test/a", 2)
        for args, code, says in (
                (["--data", "shapes", "--corrupt", "nois"], 2, "nois"), (["--data", "shapes", "--batch", "0"], 2, "--batch is 0"),
                (["--data", "shapes", "--limit", "3"], 2, "--limit goes with language models"), ([], 2, "--data is needed"),
                (["--data", "missing"], 1, "There is no directory 'missing'"),
                (["--data", folder], 2, "has 1 class but the model has 10")):
            self.assertIn(says, self.alone("eval", "shapes", *args, expect=code).stderr)
        self.assertIn("--corrupt goes with image models",
                      self.alone("eval", "words", "--data", "x", "--corrupt", "blur", expect=2).stderr)

    def test_it_describes_itself_as_the_whole_program_does(self):
        self.assertEqual(self.alone("info").stdout, run("info").stdout)
        small, full = (json.loads(program("info", "--json").stdout) for program in (self.alone, run))
        for key in ("torch_onednn", "torch_mkl"):
            full["build"].pop(key)
        for info in (small, full):  # each multiplies as it can
            self.assertEqual(sorted(info["paths"].pop("products")), ["bfloat16", "float32", "int8"])
        full["gpus"] = []
        self.assertEqual(small, full)
        self.assertIn("this needs the full program with torch", self.alone("info", "--models", expect=1).stderr)

    def test_texts_become_token_files(self):
        text = "Der König liest. The king reads.\n".encode() * 300
        self.alone("data", "tokens", self.file("t.txt", text), "--tokenizer", "bytes", "--out", self.dir / "a/b//")
        ids = struct.pack(f"<{len(text)}H", *text)
        files = sorted(path.name for path in (self.dir / "a").rglob("*"))
        self.assertEqual(files, ["b", "tokenizer.json", "train.bin", "val.bin"])
        self.assertEqual((self.dir / "a/b/train.bin").read_bytes() + (self.dir / "a/b/val.bin").read_bytes(), ids)
        self.assertIn("this needs the full program", self.alone("data", "show", "--data", "shapes", expect=1).stderr)

    def test_engines_are_measured(self):
        brief = ["--repeat", "2", "--warmup", "0", "--threads", "1"]
        before = self.dir / "rows.json"
        self.alone("bench", "model", "--model", "shapes", "--engine", "on", "--batch", "1,3", "--precision", "fp32,bf16,int8,int4",
                   "--work", "--output", before, *brief)
        rows = json.loads(before.read_text())["rows"]
        self.assertEqual([(row["batch"], row["precision"]) for row in rows],
                         [(batch, name) for batch in (1, 3) for name in ("fp32", "bf16", "int8", "int4")])
        text = json.loads(self.alone("bench", "model", "--model", "words", "--tokens", "16", "--precision", "fp32,int8", "--json",
                                     *brief).stdout)["rows"]
        self.assertEqual([(row["test"], row["size"], row["precision"]) for row in text],
                         [(test, 16, name) for test in ("prefill", "decode") for name in ("fp32", "int8")])
        for row in rows + text:
            self.assertTrue(row["engine"])
            self.assertIsNone(row["products_ms"])
            if row["kind"] == "vision" and row["precision"] == "int4":
                self.assertEqual(row["missing"], "int4 is not a precision of the vision engine.")
                continue
            for key in ("median_ms", "rate", "read_ms", "weight_bytes", "peak_resident_bytes"):
                self.assertGreater(row[key], 0, key)
            self.assertEqual(row["error"] == 0, row["precision"] == "fp32")
            self.assertEqual(row["work_products_ms"] is not None, row["kind"] == "vision")
        compared = self.alone("bench", "model", "--model", "shapes", "--engine", "on", "--compare", before, *brief).stdout
        self.assertRegex(compared, r"forward, 1, 32, 1, fp32, engine \| .*(faster|slower|no difference) \|\n$")
        full = json.loads(run("bench", "model", "--model", "shapes", "--json", *brief,
                              env={**os.environ, "TOST_MODELS": str(MODELS)}).stdout)["rows"]
        self.assertEqual([row["engine"] for row in full], [True, False])
        self.assertGreater(full[0]["products_ms"], 0)
        for key in ("model", "mixer", "size", "weight_bytes", "version", "commit"):
            self.assertEqual(rows[0][key], full[0][key], key)
        for args, says in ((["--batch", "0"], "--batch is 0"), (["--engine", "onn"], "--engine is 'onn'"),
                           (["--precision", "fp16"], "Did you mean 'fp32'?"), (["--test", "decode"], "has the test decode")):
            self.assertIn(says, self.alone("bench", "model", "--model", "shapes", *args, expect=2).stderr)
        self.assertIn("'no.safetensors' does not exist", self.alone("bench", "model", "--model", "no.safetensors", expect=1).stderr)

    def test_an_engine_is_measured_without_loading_torch(self):
        command = ["bench", "model", "--model", "words", "--engine", "on", "--tokens", "16", "--repeat", "1", "--no-floor"]
        loaded = subprocess.run([cli_test.TOST, *command], env={**os.environ, "LD_DEBUG": "files"}, capture_output=True, text=True)
        self.assertEqual(loaded.returncode, 0, loaded.stderr)
        self.assertNotIn("libtorch", loaded.stderr)

    def test_what_needs_the_full_program_says_so(self):
        bench = ["bench", "model", "--model", "shapes"]
        for args in (["bench", "op"], ["bench", "model"], ["bench", "model", "--model", "tost_nano_p4", "--engine", "on"],
                     [*bench, "--engine", "off"], [*bench, "--engine", "on,off"], [*bench, "--mixer", "tssa"],
                     [*bench, "--device", "auto"], [*bench, "--save-weights", "w.safetensors"],
                     [*bench, "--save-logits", "l.safetensors"], ["train"], ["explain", "shapes"],
                     ["eval", "shapes", "--data", "shapes", "--device", "cuda"], ["eval", "words", "--data", "x", "--device", "cuda"]):
            self.assertIn("this needs the full program with torch, which `make` builds", self.alone(*args, expect=1).stderr)
        note = self.dir / "README.md"
        note.write_text("# no model\n")
        for args in (["generate", note, "--prompt", "a"], ["eval", note, "--data", "x"], ["serve", note, "--port", "0"]):
            said = self.alone(*args, expect=1).stderr
            self.assertIn("README.md' does not end as models do", said)
        self.assertIn("unknown flag '--limt'. Did you mean '--limit'?",
                      self.alone("eval", "words", "--data", "x", "--limt", "3", expect=2).stderr)


class Use(cli_test.Case):
    def test_predict(self):
        files = pictures(self.dir / "p")
        shown = json.loads(run("predict", "shapes", *files, "--json", cwd=self.dir).stdout)
        right = sum(row["top"][0]["class"] == pathlib.Path(row["path"]).parent.name for row in shown["predictions"])
        self.assertGreaterEqual(right, 9)
        for name in NAMES:
            if name != "words":
                self.assertIn(" %  ", run("predict", name, files[0], "--top", "1").stdout)
        self.error("predict", "words", files[0], exit_code=2, says="language")
        self.error("predict", "shapes", self.file("no.png", b"no picture"), exit_code=1, says="no.png")

    def test_a_file_or_folder_of_the_name_comes_first(self):
        picture = self.file("p.png", png(32, 32))
        (self.dir / "shapes").mkdir()
        self.error("predict", "shapes", picture, exit_code=1, says=["'shapes'", "no checkpoint"], cwd=self.dir)

    def test_an_unknown_name(self):
        for command in (["predict", "shpes", "x.png"], ["generate", "shpes"], ["eval", "shpes", "--data", "shapes"],
                        ["explain", "shpes"], ["inspect", "shpes"], ["serve", "shpes"], ["serve", "a=shpes", "--port", "0"],
                        ["quantize", "shpes", self.dir / "q.safetensors"]):
            self.error(*command, exit_code=1, says=["'shpes' does not exist", *NAMES, "Did you mean 'shapes'?"], cwd=self.dir)
        self.error("predict", self.dir / "shapes", "x.png", exit_code=1, says="a model file or a run folder is expected.")

    def test_generate(self):
        args = ["generate", "words", "--prompt", "The king", "--max-tokens", "30", "--seed", "1"]
        text = run(*args).stdout
        self.assertGreater(len(set(text.split())), 12)
        self.assertNotIn("<unk>", text)
        self.assertEqual(run(*args).stdout, text)
        self.error("generate", "shapes", exit_code=1, says="vision model")

    def test_explain(self):
        file = pictures(self.dir / "p", 1)[0]
        run("explain", "shapes", file, "--quiet", cwd=self.dir)
        self.assertIn("<html", (self.dir / "report/index.html").read_text())
        run("explain", "words", "--text", "The king was", "--out", self.dir / "text", "--quiet")

    def test_the_other_commands(self):
        inspected = json.loads(run("inspect", "shapes", "--json").stdout)
        self.assertEqual(inspected["models"][0]["patch"], 4)
        run("quantize", "words", self.dir / "words.safetensors", "--precision", "int4", "--quiet")
        run("bench", "model", "--model", "shapes", "--batch", "1", "--repeat", "1", "--warmup", "0", "--no-floor")
        run("train", "--data", "shapes", "--from", "shapes", "--max-steps", "1", "--batch", "4", "--train-size", "64",
            "--test-size", "64", "--out", self.dir / "run", "--quiet", cwd=self.dir)

    def test_a_score_is_the_one_that_was_measured(self):
        card = CARDS[NAMES.index("shapes")]
        scores = json.loads(run("eval", "shapes", "--data", "shapes", "--split", "test", "--json", "--quiet").stdout)
        self.assertEqual(scores["images"], card["measured"]["images"])
        self.assertAlmostEqual(scores["top1"], card["measured"]["top1"], delta=0.002)  # other CPUs round otherwise

    def test_serve_without_arguments(self):
        server = Server()
        try:
            listed = server.ask("GET", "/v1/models").json["data"]
            self.assertEqual([model["id"] for model in listed], NAMES)
            self.assertTrue(server.complete(model="words", prompt="The king", max_tokens=8).strip())
            picture = pictures(self.dir / "p", 1)[0]
            answer = server.ask("POST", "/v1/classify?model=shapes", picture.read_bytes(), {"Content-Type": "image/png"})
            self.assertEqual(answer.status, 200, answer.body)
            self.assertIn(picture.parent.name.encode(), answer.body)
        finally:
            self.assertEqual(server.end(), 0)


if __name__ == "__main__":
    cli_test.TOST = os.path.abspath(sys.argv.pop(1))
    unittest.main()
