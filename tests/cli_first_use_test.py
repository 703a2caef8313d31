#!/usr/bin/env python3
"""What someone meets who does not know the program: help, slips in flags, pipes, names of data, the next command.

usage: cli_first_use_test.py TOST [unittest arguments]; needs only Python's standard library.
"""
import json
import os
import re
import signal
import subprocess
import sys
import unittest

import cli_test
from cli_test import png, run

RECIPES = ["small", "char", "seq", "task"]  # one of every kind of run


def commands(prefix=()):
    """Every command as a list of words, from the help."""
    text = run(*prefix, "--help").stdout
    if "\nSubcommands:\n" not in text:
        return [list(prefix)]
    names = re.findall(r"^  (\w+) ", text.split("\nSubcommands:\n")[1], re.M)
    return [command for name in names for command in commands((*prefix, name))]


def flags(*command, of_type):
    """The flags that take a value of this type, from the help."""
    return re.findall(rf"^  (?:-\w,)?(--[\w-]+) (?:{of_type})\b", run(*command).stdout, re.M)


class Values(cli_test.Case):
    def refused(self, *args):
        """Exit code 2 and one sentence, which is returned."""
        done = run(*args, expect=2)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertNotIn("internal error", done.stderr)
        return done.stderr

    def test_no_count_takes_a_negative_number(self):
        checked = 0
        for command in commands():
            if command == ["train"]:
                continue
            for flag in flags(*command, "--help", of_type="INT|UINT"):
                self.assertIn(flag[2:], self.refused(*command, flag, "-1").replace("_", "-"), command)
                checked += 1
        self.assertGreater(checked, 60)

    def test_no_setting_takes_a_number_below_its_range(self):
        text = self.file("text.txt", b"to be or not to be\n" * 100)
        data = {"small": ["--data", "shapes"], "char": ["--data", text], "seq": ["--data", "listops"],
                "task": ["--data", cli_test.token_task(self.dir / "task", [16])]}
        seen = {"--bias-positions"}  # -1: the block
        for recipe in RECIPES:
            for flag in set(flags("train", "--recipe", recipe, "--help-all", of_type="INT")) - seen:
                seen.add(flag)
                refusal = self.refused("train", "--recipe", recipe, *data[recipe], "--out", self.dir / "r", flag, "-7")
                self.assertIn(flag[2:].replace("-", "_"), refusal, recipe)
        self.assertFalse((self.dir / "r").exists())

    def test_numbers_are_whole_decimal_and_in_range(self):
        for value in ("x", "1.5", "0x10", " 1", "99999999999999999999", ""):
            self.assertIn("--count", self.refused("data", "make", "shapes", "--out", self.dir / "s", "--count", value))
        self.assertIn("--seed", self.refused("generate", "run", "--seed", "99999999999999999999"))
        for value in ("nan", "inf", "", "1e999"):
            self.assertIn("--temperature", self.refused("generate", "run", "--temperature", value))

    def test_an_empty_value_is_no_value(self):
        for args in (["eval", "run", "--split", ""], ["explain", "run", "--out", ""], ["predict", ""],
                     ["data", "show", "--data", ""], ["quantize", "run", ""]):
            self.assertIn("empty", self.refused(*args), args)

    def test_files_are_what_their_ending_says(self):
        weights = self.dir / "m.pth"
        self.assertIn(".safetensors", self.refused("bench", "model", "--save-weights", weights))
        self.assertFalse(weights.exists())

    def test_class_names_are_different(self):
        folder = self.idx("data")
        self.file("data/classes.txt", b"cat\ncat\n")
        self.error("data", "show", "--data", folder, exit_code=1, says="'cat' in lines 1 and 2")


class Help(cli_test.Case):
    def test_commands_are_few_and_all_print_json(self):
        every = commands()
        self.assertLessEqual(len({command[0] for command in every}), 14)
        for command in every:
            self.assertRegex(run(*command, "--help").stdout, r"(?m)^  --json ", command)

    def test_serve_gives_its_address_as_json(self):
        server = subprocess.Popen([cli_test.TOST, "serve", "shapes", "--port", "0", "--json"], stdout=subprocess.PIPE,
                                  text=True)
        try:
            self.assertRegex(json.loads(server.stdout.readline())["url"], r"^http://127\.0\.0\.1:\d+/$")
        finally:
            server.terminate()
            server.communicate(timeout=600)

    def test_the_help_of_train_fits_a_screen(self):
        for recipe in RECIPES:
            text = run("train", "--recipe", recipe, "--help").stdout
            self.assertLessEqual(text.count("\n"), 40, text)
        self.assertLessEqual(run("train", "--help").stdout.count("\n"), 40)

    def settings(self, *args):
        return set(re.findall(r"^  (--[\w-]+)", run("train", *args).stdout, re.M))

    def test_train_shows_the_usual_settings_of_one_kind(self):
        for recipe in RECIPES:
            shown = self.settings("--recipe", recipe, "--help")
            self.assertTrue(15 <= len(shown) <= 25, (recipe, sorted(shown)))
            everything = self.settings("--recipe", recipe, "--help-all")
            self.assertLess(shown, everything)
        self.assertIn("--image-size", self.settings("--help"))
        text = self.settings("--help", "--recipe", "char")
        self.assertIn("--tokenizer", text)
        self.assertNotIn("--image-size", text | self.settings("--recipe", "char", "--help-all"))
        book = self.file("book.txt", b"to be or not to be\n")
        self.assertEqual(self.settings("--data", book, "--help"), text)
        self.assertEqual(self.settings("--model", "tost_gpt_char", "--help"), text)
        whole = self.settings("--help-all")
        self.assertGreater(len(whole), 100)
        self.assertLess({"--image-size", "--tokenizer", "--eval-samples", "--max-length"}, whole)

    def test_train_types_its_values_on_one_line_each(self):
        for args in (["--help"], ["--help-all"], ["--recipe", "char", "--help-all"]):
            lines = run("train", *args).stdout.splitlines()
            for line in lines:
                self.assertRegex(line, r"^($|\S| {2}\S| {34,}\S)", repr(line))
        text = run("train", "--recipe", "char", "--help-all").stdout
        for expected in ("--lr FLOAT=0.001", "--block INT", "--max-steps INT=2000", "--model TEXT=tost_gpt_char",
                         '--sample-prompt TEXT="\\n"', "--model-options JSON"):
            self.assertIn(expected, text)
        self.assertIn("--batch INT=60", run("train", "--recipe", "gpt2", "--help").stdout)


class Pipes(cli_test.Case):
    def test_a_reader_that_goes_away_is_no_error(self):
        for args in (["info", "--models"], ["train", "--help-all"]):
            reader, writer = os.pipe()
            os.close(reader)
            done = subprocess.run([cli_test.TOST, *args], stdout=writer, stderr=subprocess.PIPE, timeout=900)
            os.close(writer)
            self.assertEqual((done.returncode, done.stderr), (-signal.SIGPIPE, b""))

    @unittest.skipUnless(os.path.exists("/dev/full"), "no /dev/full on this system")
    def test_a_full_disk_is_one(self):
        for args in (["info", "--models"], ["train", "--help-all"]):
            with open("/dev/full", "w") as full:
                done = subprocess.run([cli_test.TOST, *args], stdout=full, stderr=subprocess.PIPE, text=True, timeout=900)
            self.assertEqual(done.returncode, 1)
            self.assertIn("cannot be written", done.stderr)

    def test_progress_in_a_pipe_begins_at_once(self):
        done = run("train", *cli_test.TINY, "--out", self.dir / "r")
        steps = [int(step) for step in re.findall(r"^(\d+)/\d+  epoch", done.stderr, re.M)]
        self.assertEqual(steps[0], 1, done.stderr)


class Inspect(cli_test.Case):
    def test_refusals_are_objects_too(self):
        for name, content in (("cut.safetensors", b"short"), ("cut.pth", b"PK\3\4"), ("absent.safetensors", None)):
            path = self.dir / name if content is None else self.file(name, content)
            done = run("inspect", path, "--json", expect=1)
            report = json.loads(done.stdout)
            self.assertIn(name, report["file"])
            self.assertEqual(done.stderr.strip(), "tost inspect: " + report["error"])
        (self.dir / "empty").mkdir()
        done = run("inspect", self.dir / "empty", "--json", expect=1)
        self.assertIn("no checkpoint", json.loads(done.stdout)["error"])

    def test_step_counters_share_a_line(self):
        run("train", *cli_test.TINY, "--out", self.dir / "run", "--quiet")
        shown = run("inspect", self.dir / "run", "--all").stdout
        self.assertEqual(len(re.findall(r"^  step\.", shown, re.M)), 1, shown)
        self.assertRegex(shown, r"  step\.\* .* \d+ tensors")
        self.assertGreater(len(re.findall(r"^  exp_avg\.", shown, re.M)), 10)
        self.assertGreater(run("inspect", self.dir / "run", "--all", "--stats").stdout.count("\n  step."), 10)


class Data(cli_test.Case):
    def test_missing_sets_say_where_they_come_from(self):
        for data, says in (("fashion-mnist", ["Zalando", "train-images-idx3-ubyte"]), ("imdb", ["Maas", "train/pos"]),
                           ("tinyshakespeare", ["karpathy/char-rnn", "input.txt"])):
            self.error("train", "--data", data, "--out", "r", exit_code=1, says=says, cwd=self.dir)
            self.error("data", "show", "--data", data, exit_code=1, says=says, cwd=self.dir)
        self.error("train", "--recipe", "char", "--data", "tinyshakespeare", "--out", "r", exit_code=1, says="karpathy",
                   cwd=self.dir)

    def test_text_is_not_taken_for_pictures(self):
        self.file("tinyshakespeare/input.txt", b"to be or not to be\n" * 100)
        self.error("train", "--data", "tinyshakespeare", "--out", "r", exit_code=2, says="--recipe char", cwd=self.dir)
        self.error("train", "--data", "listops", "--out", "r", exit_code=2, says="--recipe seq", cwd=self.dir)
        self.assertFalse((self.dir / "r").exists())

    def test_a_folder_named_like_a_generated_set_is_distinguished(self):
        for name in ("shapes", "listops"):
            shown = run("data", "show", "--data", name, "--train-size", "20", "--test-size", "20", cwd=self.dir)
            self.assertEqual(shown.stderr, "")
        for i in range(4):
            self.file(f"shapes/train/cat/{i}.png", png(8, 8))
        self.file("listops/basic_train.tsv", b"Source\tTarget\r\n" + 4 * b"( ( [MAX 2 ) ] )\t2\r\n")
        for name in ("shapes", "listops"):
            args = ["data", "show", "--train-size", "20", "--test-size", "20", "--json", "--data"]
            noted = run(*args, name, cwd=self.dir)
            self.assertEqual(noted.stdout, run(*args, name).stdout)
            self.assertEqual(noted.stderr.count("\n"), 1, noted.stderr)
            self.assertIn(f"./{name}", noted.stderr)
            folder = run(*args, f"./{name}", cwd=self.dir)
            self.assertEqual(folder.stderr, "")
            self.assertNotEqual(folder.stdout, noted.stdout)

    def test_presets_are_no_models(self):
        picture = self.file("x.png", png(8, 8))
        for command in ("predict", "explain"):
            more = ["--out", self.dir / "report"] if command == "explain" else []
            self.error(command, "tost_cab_small_12_p16", picture, *more, exit_code=1,
                       says=["preset", "tost train --model tost_cab_small_12_p16", "docs/checkpoints.md"])


class LastLine(cli_test.Case):
    def next_of(self, done):
        """The last line says where the run is, its score and a command, which must work."""
        line = done.stdout.splitlines()[-1]
        found = re.fullmatch(r"run: best validation (.*) \((?:epoch|step) \d+\)(?:, last .*)?\. Next: tost (.*)", line)
        self.assertTrue(found, line)
        run(*found[2].split(), cwd=self.dir)
        return found[1]

    def test_of_every_kind(self):
        self.file("text.txt", b"to be or not to be\n" * 200)
        tiny = ["--max-steps", "3", "--log-every", "1", "--threads", "1", "--overwrite", "--out", "run"]
        words = ["--block", "16", "--dim", "16", "--depth", "1", "--heads", "2", "--batch", "4", "--eval-batches", "2"]
        done = run("train", *cli_test.TINY, "--out", "run", cwd=self.dir)
        self.assertIn("top-1", self.next_of(done))
        self.assertRegex(done.stderr, r"step \d+: validation .*top1 ")
        text = run("train", "--recipe", "char", "--data", "text.txt", *words, *tiny, cwd=self.dir)
        self.assertIn("loss", self.next_of(text))
        cli_test.token_task(self.dir / "task", [16])
        task = run("train", "--data", "task", "--eval-samples", "4", *tiny, cwd=self.dir)
        self.assertIn("accuracy", self.next_of(task))


if __name__ == "__main__":
    cli_test.TOST = os.path.abspath(sys.argv.pop(1))
    unittest.main()
