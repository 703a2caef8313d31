#!/usr/bin/env python3
"""What `make try` runs once the small program is built: a picture and a text, then the page until Ctrl-C.

usage: cli_try_test.py TOST [unittest arguments]; needs only Python's standard library.
"""
import os
import pathlib
import pty
import re
import subprocess
import sys
import unittest
import urllib.request

import cli_test

SCRIPT = pathlib.Path(__file__).resolve().parent.parent / "scripts/try.sh"


def environment(serve):
    return {**{k: v for k, v in os.environ.items() if k != "TRY_SERVE"}, **({} if serve is None else {"TRY_SERVE": serve})}


class Try(cli_test.Case):
    def test_a_pipe_gets_a_text_and_ends(self):
        for serve in (None, "0"):
            done = subprocess.run([SCRIPT, cli_test.TOST], env=environment(serve), stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout, r"heart.png\n +[0-9.]+ %  heart\n")
            self.assertGreater(len(done.stdout.split()), 40)
            self.assertIn("serve words shapes", done.stdout)
            self.assertNotIn("http://", done.stdout)
        self.assertEqual(subprocess.run([SCRIPT, cli_test.TOST], env=environment("yes"), capture_output=True).returncode, 2)

    def test_a_terminal_gets_the_page_until_ctrl_c(self):
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(SCRIPT, [str(SCRIPT), cli_test.TOST], environment(None))
        shown = b""
        while not (found := re.search(rb"http://\S+/", shown)):
            shown += os.read(terminal, 4096)  # ends with an error where the script ends
        self.assertIn(b"prefill  2 tokens", shown)
        page = urllib.request.urlopen(found[0].decode(), timeout=60).read()
        self.assertIn(b"<title>tost serve</title>", page)
        os.write(terminal, b"\x03")
        try:
            while os.read(terminal, 4096):
                pass
        except OSError:
            pass  # the terminal is closed
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)


if __name__ == "__main__":
    cli_test.TOST = os.path.abspath(sys.argv.pop(1))
    unittest.main()
