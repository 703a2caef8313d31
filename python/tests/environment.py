"""Fresh virtual environments to install into, which borrow the torch of this one."""

import pathlib
import subprocess
import sys
import venv

import torch

SITE = pathlib.Path(torch.__file__).parents[1]
DIST = pathlib.Path(__file__).resolve().parents[2] / "build/python/dist"


class Environment:
    """A virtual environment without pip, and its programs."""

    def __init__(self, folder):
        venv.create(folder)
        self.bin = folder / "bin"
        self.site = next(folder.glob("lib/python3*/site-packages"))

    def link_torch(self):
        """Gives it torch and what that needs, without a copy of gigabytes."""
        for path in SITE.iterdir():
            if not path.name.startswith(("tost", "token_statistics", "__pycache__")):
                (self.site / path.name).symlink_to(path)

    def pip_install(self, *args, **options):
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(self.bin / "python")]
        return subprocess.run([*pip, "install", *map(str, args)], **options)

    def install(self, *args):
        """From the folder of wheels alone."""
        self.pip_install("-q", "--no-index", "--find-links", DIST, *args, check=True)

    def run(self, *args, expect=0):
        """stdout and stderr of a program of this environment."""
        done = subprocess.run([self.bin / args[0], *map(str, args[1:])], text=True, capture_output=True, timeout=300)
        assert done.returncode == expect, done.stdout + done.stderr
        return done.stdout, done.stderr

    def refused(self, *args, expect):
        """The one sentence of a refusal."""
        out, err = self.run(*args, expect=expect)
        assert out == "" and err.startswith("tost: ") and err.count("\n") == 1, out + err
        return err
