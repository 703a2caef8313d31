"""The build backend: scikit-build-core, given the headers of torch's stable ABI.

A build needs these headers and no library of torch. The source distribution contains them; a checkout takes them from the
torch of the user. Only where there is none, pip is asked for a torch to build with.
"""

import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig

from scikit_build_core import build as _core
from scikit_build_core.build import *  # noqa: F403

_PYTHON = pathlib.Path(__file__).resolve().parents[1]
_CARRIED = _PYTHON / "torch_headers"  # in a source distribution, and while one is made
_OLDEST = (2, 11)
_HEADERS = (
    "torch/headeronly",
    "torch/csrc/stable",
    "torch/csrc/inductor/aoti_torch/c",
    "torch/csrc/inductor/aoti_torch/generated/c_shim_aten.h",
)


def _fits(include):
    """Whether this folder has the headers of torch 2.11 or newer."""
    try:
        text = (include / "torch/headeronly/version.h").read_text()
    except OSError:
        return False
    found = [re.search(rf"TORCH_VERSION_{part} (\d+)", text) for part in ("MAJOR", "MINOR")]
    return all(found) and tuple(int(number[1]) for number in found) >= _OLDEST


def _torch_of(python):
    code = "import importlib.util as u; print(next(iter(u.find_spec('torch').submodule_search_locations)))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True)
    return done.stdout.strip()


def _include():
    """The folder with torch's headers, or None where no torch was found."""
    if _fits(_CARRIED):
        return _CARRIED
    named = os.environ.get("TOST_TORCH")
    if named:
        folder = named if os.path.isdir(named) else _torch_of(named) if shutil.which(named) else ""
        if not folder or not _fits(pathlib.Path(folder, "include")):
            raise SystemExit(
                f"TOST_TORCH is '{named}', which has no headers of torch {'.'.join(map(str, _OLDEST))} or newer; "
                "name the folder of a torch package, or a python that has torch."
            )
        return pathlib.Path(folder, "include")
    # An isolated build has the python of the environment that is installed into, but not its packages.
    sites = [*sys.path, sysconfig.get_path("platlib"), *_PYTHON.parent.glob(".venv/lib/python3*/site-packages")]
    found = (pathlib.Path(site, "torch", "include") for site in sites)
    return next(filter(_fits, found), None)


def _with_torch(requirements):
    return requirements if _include() else [*requirements, f"torch>={'.'.join(map(str, _OLDEST))}"]


def _with_include(settings):
    return {**(settings or {}), "cmake.define.TOST_TORCH_INCLUDE": str(_include() or "")}


@contextlib.contextmanager
def _carried_headers():
    include = _include()
    shutil.rmtree(_CARRIED, ignore_errors=True)
    try:
        for name in _HEADERS:
            source, target = include / name, _CARRIED / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copytree(source, target) if source.is_dir() else shutil.copy(source, target)
        licences = include.parents[1].glob("torch-*.dist-info/**/LICENSE")
        shutil.copy(min(licences, key=lambda path: len(path.parts)), _CARRIED / "LICENSE")
        yield
    finally:
        shutil.rmtree(_CARRIED, ignore_errors=True)


def get_requires_for_build_wheel(config_settings=None):
    return _with_torch(_core.get_requires_for_build_wheel(config_settings))


def get_requires_for_build_editable(config_settings=None):
    return _with_torch(_core.get_requires_for_build_editable(config_settings))


def get_requires_for_build_sdist(config_settings=None):
    return _with_torch(_core.get_requires_for_build_sdist(config_settings))


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    return _core.build_wheel(wheel_directory, _with_include(config_settings), metadata_directory)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return _core.build_editable(wheel_directory, _with_include(config_settings), metadata_directory)


def build_sdist(sdist_directory, config_settings=None):
    with _carried_headers():
        return _core.build_sdist(sdist_directory, config_settings)
