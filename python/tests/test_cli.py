"""The program from its wheel, token-statistics-cli: installed with the wheel of this package into an environment that has torch."""

import importlib.util
import os
import re
import signal
import struct
import subprocess
import sys
import time
import zipfile
import zlib

import pytest
import torch
from environment import DIST, SITE, Environment

import tost

RUNTIMES = r"linux-vdso|ld-linux|lib(c|dl|gcc_s|m|pthread|rt|stdc\+\+|util)\.so"
OURS = ["tost_cli/libtost_program.so", "tost_cli/libtost_torch.so", "tost_cli/tost"]


@pytest.fixture(scope="module")
def wheel():
    for name in ("token_statistics", "token_statistics_cli"):
        if not list(DIST.glob(f"{name}-*.whl")):
            pytest.skip(f"needs {DIST}/{name}-*.whl; `make wheel wheel-cli` builds both")
    found = next(DIST.glob("token_statistics_cli-*.whl"))
    with zipfile.ZipFile(found) as file:
        metadata = next(file.read(name).decode() for name in file.namelist() if name.endswith("/METADATA"))
    needed = re.search(r"^Requires-Dist: torch==(.*)\.\*$", metadata, re.M).group(1)
    if not torch.__version__.startswith(f"{needed}."):
        pytest.skip(f"the wheel token-statistics-cli needs torch {needed}, and this is torch {torch.__version__}")
    return found


def test_libraries_come_with_their_licences(wheel):
    with zipfile.ZipFile(wheel) as file:
        names = [name for name in file.namelist() if not name.endswith("/")]
    folder = "token_statistics_cli.libs/"
    libraries = [re.match(r"lib(\w{1,5})", name[len(folder) :])[1] for name in names if name.startswith(folder)]
    licences = [name.rsplit("/", 1)[1].lower() for name in names if "/licences/" in name]
    assert libraries
    assert not [library for library in libraries if not any(library.lower() in name for name in licences)], licences


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    environment = Environment(tmp_path_factory.mktemp("installed") / "venv")
    environment.link_torch()
    environment.install("token-statistics[cli]")
    return environment


@pytest.fixture(scope="module")
def trained(installed, tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained") / "run"
    installed.run("tost", "train", "--data", "shapes", "--max-steps", "2", "--batch", "4", "--out", folder, "--quiet")
    return folder


def picture(path, side=32):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + os.urandom(3 * side) for _ in range(side))
    header = struct.pack(">2I5B", side, side, 8, 2, 0, 0, 0)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    )
    return path


@pytest.mark.parametrize("command", [["tost"], ["python", "-m", "tost"]])
def test_command_runs_the_program(installed, command):
    assert installed.run(*command, "--version")[0] == f"tost {tost.__version__}\n"
    assert f"torch {torch.__version__.split('+')[0]}," in installed.run(*command, "info")[0]
    assert "--no-such-flag" in installed.run(*command, "train", "--no-such-flag", expect=2)[1]


def test_module_starts_without_torch(installed):
    _, imports = installed.run("python", "-X", "importtime", "-m", "tost", "--version")
    assert re.search(r"\| +tost_cli$", imports, re.M) and not re.search(r"\| +torch$", imports, re.M)


def test_other_modules_get_all_of_the_package(tmp_path):
    (tmp_path / "user").mkdir()
    (tmp_path / "user/__init__.py").write_text("import tost")
    (tmp_path / "user/__main__.py").write_text("import user; user.tost.nn.TSSA, user.tost.check_tssa")
    assert subprocess.run([sys.executable, "-m", "user", "tost"], cwd=tmp_path).returncode == 0


def test_trains_and_predicts(installed, trained, tmp_path):
    out, _ = installed.run("tost", "predict", trained, picture(tmp_path / "a picture.png"), "--top", "1")
    assert "a picture.png" in out
    assert "missing.png" in installed.run("tost", "predict", trained, tmp_path / "missing.png", expect=1)[1]


def test_brings_its_models(installed, tmp_path):
    out, _ = installed.run("tost", "predict", "shapes", picture(tmp_path / "a.png"), "--top", "1")
    assert "a.png" in out
    assert str(installed.site / "tost_cli/models") in installed.run("tost", "models", "words")[0]


def test_reads_stdin(installed, trained, tmp_path):
    with open(picture(tmp_path / "a.png"), "rb") as file:
        command = [installed.bin / "tost", "predict", trained, "/dev/stdin"]
        done = subprocess.run(command, stdin=file, capture_output=True)
    assert done.returncode == 0, done.stderr


def test_interruption_reaches_the_program(installed, tmp_path):
    args = ["train", "--data", "shapes", "--max-steps", "100000", "--batch", "4", "--out", tmp_path / "run"]
    command = [installed.bin / "tost", *args]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    log = tmp_path / "run/metrics.jsonl"
    try:
        end = time.monotonic() + 120
        while not (log.exists() and log.read_text()) and process.poll() is None and time.monotonic() < end:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130 and "--resume" in out, out


def test_no_foreign_library_is_loaded(installed):
    """torch's own libraries and OpenMP runtime, the wheel's, and those of the C and C++ runtimes."""
    for path in OURS:
        out = subprocess.run(["ldd", installed.site / path], text=True, capture_output=True, check=True).stdout
        assert "not found" not in out
        for line in out.splitlines():
            assert str(installed.site) in line or re.search(RUNTIMES, line), line
        if path.endswith(".so"):
            assert f"libgomp.so.1 => {installed.site}/tost_cli/../torch/lib/" in out or "torch.libs/libgomp" in out, out


def test_wheel_holds_no_torch_and_no_paths(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as file:
        file.extractall(tmp_path)
    libraries = [path for path in tmp_path.rglob("*") if path.is_file() and path.read_bytes()[:4] == b"\x7fELF"]
    assert {str(path.relative_to(tmp_path)) for path in libraries} > set(OURS)
    for path in libraries:
        assert not re.match(r"lib(torch|c10|gomp|omp|iomp)", path.name), path
        out = subprocess.run(["readelf", "-d", path], text=True, capture_output=True, check=True).stdout
        for paths in re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", out):
            assert all(re.match(r"\$ORIGIN(/|$)", entry) for entry in paths.split(":")), (path, paths)


def test_torch_of_another_version_is_refused(wheel, tmp_path):
    environment = Environment(tmp_path / "venv")
    environment.install("--no-deps", wheel)
    assert "torch is not installed" in environment.refused("tost", "--version", expect=1)
    (environment.site / "torch").mkdir()
    (environment.site / "torch/__init__.py").touch()
    (environment.site / "torch/version.py").write_text("__version__ = '2.9.1+cpu'\n")
    sentence = environment.refused("tost", "--version", expect=1)
    assert "2.9.1+cpu" in sentence and ".".join(torch.__version__.split(".")[:2]) in sentence


def test_torch_of_another_folder_is_found(wheel, tmp_path):
    environment = Environment(tmp_path / "venv")
    environment.install("--no-deps", wheel)
    (environment.site / "elsewhere.pth").write_text(f"{SITE}\n")
    assert f"torch {torch.__version__.split('+')[0]}," in environment.run("tost", "info")[0]


@pytest.mark.skipif(importlib.util.find_spec("tost_cli") is not None, reason="token-statistics-cli is installed here")
def test_missing_program_is_named():
    done = subprocess.run([sys.executable, "-m", "tost", "info"], text=True, capture_output=True)
    assert done.returncode == 2 and done.stdout == "" and done.stderr.count("\n") == 1, done.stderr
    assert 'build/python/dist "token-statistics[cli]"' in done.stderr and "`make`" in done.stderr
