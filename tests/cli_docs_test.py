#!/usr/bin/env python3
"""The commands of README.md and of pages of docs/, as they are printed there, one page after the other in one folder.

usage: cli_docs_test.py TOST [unittest arguments]; needs only Python's standard library. A command is left out if it
names data or files that a reader has to bring (FOREIGN), or what such a command makes, or if it runs until it is
stopped or for long (LEFT_OUT).
"""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import unittest

import cli_test

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = ["README.md", "docs/command-line.md", "docs/models.md", "docs/explain.md"]
FOREIGN = {"fashion-mnist", "tinyshakespeare", "wikitext-2", "lambada", "cifar10", "checkpoint.pth", "ckpt.pt",
           "book.txt", "mqar"}
LEFT_OUT = ["tost serve", "tost bench"]  # one waits for clients, the other measures for minutes


def commands(page):
    """Those of the fenced blocks that call tost, in order: lines, split at semicolons, without comments."""
    found = []
    for block in re.findall(r"^```\w*\n(.*?)^```", (ROOT / page).read_text(), re.M | re.S):
        for line in block.replace("\\\n", " ").splitlines():
            line = re.sub(r"\s+#.*", "", line)
            found += [part.strip() for part in line.split(";") if part.strip().startswith("tost ")]
    return found


def values(words):
    """What the words name: flags' values and arguments; of NAME=PATH the path."""
    return {word.split("=", 1)[-1] for word in words[2:]}


def made(words):
    return {value for flag, value in zip(words, words[1:]) if flag == "--out"}


class Pages(cli_test.Case):
    def test_every_page_has_commands(self):
        for page in PAGES:
            self.assertTrue(commands(page), page)
        self.assertEqual(commands("README.md")[0], "tost models")

    def test_commands_run_as_printed(self):
        for name in ("README.md", "studies"):
            source = ROOT / name
            if source.exists():
                (shutil.copytree if source.is_dir() else shutil.copy)(source, self.dir / name)
        for name in ("photo.png", "other.png"):
            self.file(name, cli_test.png(40, 32))
        path = f"{pathlib.Path(cli_test.TOST).parent}:{os.environ['PATH']}"
        missing, done = set(FOREIGN), 0
        for page in PAGES:
            for command in commands(page):
                words = shlex.split(command)
                if values(words) & missing:
                    missing |= made(words)
                    continue
                if any(command.startswith(long) for long in LEFT_OUT):
                    continue
                ran = subprocess.run(["bash", "-c", command], cwd=self.dir, env={**os.environ, "PATH": path}, text=True,
                                     capture_output=True, timeout=3000)
                with self.subTest(page=page, command=command):
                    self.assertEqual(ran.returncode, 0, ran.stderr[-2000:])
                done += 1
        self.assertGreater(done, 20)


if __name__ == "__main__":
    cli_test.TOST = os.path.abspath(sys.argv.pop(1))
    unittest.main()
