"""Building by pip: where torch's headers come from, when a torch is asked for, and the source distribution built alone."""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import types
import zipfile

import pytest
import torch
from environment import DIST, Environment

import tost

BACKEND = pathlib.Path(__file__).resolve().parents[1] / "backend/tost_backend.py"
SETTING = "cmake.define.TOST_TORCH_INCLUDE"
ASKED = ["torch>=2.11"]


@pytest.fixture
def make_backend(monkeypatch, tmp_path):
    """make_backend(): the backend of a checkout in tmp_path, around a scikit-build-core that returns its settings."""
    core = types.ModuleType("scikit_build_core.build")
    for kind in ("wheel", "sdist", "editable"):
        setattr(core, f"get_requires_for_build_{kind}", lambda settings=None: [])
        setattr(core, f"build_{kind}", lambda folder, settings=None, metadata=None: settings)
    parent = types.ModuleType("scikit_build_core")
    parent.build = core
    monkeypatch.setitem(sys.modules, "scikit_build_core", parent)
    monkeypatch.setitem(sys.modules, "scikit_build_core.build", core)
    monkeypatch.delenv("TOST_TORCH", raising=False)
    monkeypatch.setattr(sys, "path", [])  # as in an isolated build
    copy = tmp_path / "checkout/python/backend" / BACKEND.name
    copy.parent.mkdir(parents=True)
    shutil.copy(BACKEND, copy)

    def make(site=tmp_path / "site"):
        monkeypatch.setattr(sysconfig, "get_path", lambda name: str(site))
        spec = importlib.util.spec_from_file_location("tost_backend", copy)
        backend = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(backend)
        return backend

    return make


def headers(include, minor=11):
    version = include / "torch/headeronly/version.h"
    version.parent.mkdir(parents=True)
    version.write_text(f"#define TORCH_VERSION_MAJOR 2\n#define TORCH_VERSION_MINOR {minor}\n")
    return include


def test_the_torch_of_the_environment_is_found(make_backend):
    site = pathlib.Path(torch.__file__).parents[1]
    backend = make_backend(site)
    assert backend.get_requires_for_build_wheel() == backend.get_requires_for_build_sdist() == []
    assert backend.build_wheel("folder", {"a": "b"}) == {"a": "b", SETTING: str(site / "torch/include")}


def test_without_a_torch_pip_is_asked_for_one(make_backend, tmp_path):
    backend = make_backend()
    for kind in ("wheel", "sdist", "editable"):
        assert getattr(backend, f"get_requires_for_build_{kind}")() == ASKED
    headers(tmp_path / "site/torch/include", minor=10)
    assert backend.get_requires_for_build_wheel() == ASKED  # too old
    include = headers(tmp_path / "checkout/.venv/lib/python3.11/site-packages/torch/include")
    assert backend.get_requires_for_build_wheel() == []
    assert backend.build_editable("folder") == {SETTING: str(include)}
    carried = headers(tmp_path / "checkout/python/torch_headers")
    assert backend.build_wheel("folder") == {SETTING: str(carried)}


def test_a_torch_can_be_named(make_backend, monkeypatch, tmp_path):
    backend = make_backend()
    include = headers(tmp_path / "torch/include")
    for named, wanted in ((include.parent, include), (sys.executable, pathlib.Path(torch.__file__).parent / "include")):
        monkeypatch.setenv("TOST_TORCH", str(named))
        assert backend.build_wheel("folder") == {SETTING: str(wanted)}
    old = headers(tmp_path / "old/include", minor=9).parent
    for named in (old, tmp_path / "nowhere", "no-such-python"):
        monkeypatch.setenv("TOST_TORCH", str(named))
        with pytest.raises(SystemExit, match=r"^TOST_TORCH is '.*', which has no headers of torch 2\.11 or newer; .*\.$"):
            backend.get_requires_for_build_wheel()


def test_headers_leave_the_tree_after_a_source_distribution(make_backend, monkeypatch, tmp_path):
    backend = make_backend(pathlib.Path(torch.__file__).parents[1])
    carried = tmp_path / "checkout/python/torch_headers"

    def build(folder, settings=None):
        assert "Redistribution" in (carried / "LICENSE").read_text()
        assert (carried / "torch/csrc/stable/library.h").is_file()
        raise OSError("disk full")

    monkeypatch.setattr(backend._core, "build_sdist", build)
    with pytest.raises(OSError):
        backend.build_sdist("folder")
    assert not carried.exists()


def test_the_wheel_is_small_and_serves_every_python():
    found = list(DIST.glob("token_statistics-*-cp*.whl"))
    if not found:
        pytest.skip(f"needs {DIST}/token_statistics-*.whl; `make wheel` builds it")
    assert re.fullmatch(r"token_statistics-[\d.]+-cp310-abi3-manylinux_\w+\.whl", found[0].name)
    assert found[0].stat().st_size < 1e6
    with zipfile.ZipFile(found[0]) as file:
        names = [name for name in file.namelist() if not name.endswith("/")]
    libraries = {name.split("/")[1].split("-")[0] for name in names if name.startswith("token_statistics.libs/")}
    licences = {pathlib.Path(name).stem for name in names if "/licenses/" in name}
    assert libraries | {"LICENSE"} == licences


def package_files(wheel):
    with zipfile.ZipFile(wheel) as file:
        names = [name for name in file.namelist() if name.startswith("tost/") and not name.endswith(("/", ".so"))]
        return {name: file.read(name) for name in names}


def test_the_wheel_without_kernels_is_the_same_package(tmp_path):
    found = list(DIST.glob("token_statistics-*-py3-none-any.whl"))
    if not found:
        pytest.skip(f"needs {DIST}/token_statistics-*-py3-none-any.whl; `make wheel-pure` builds it")
    files = package_files(found[0])
    assert "tost/nn.py" in files and "tost/architectures.json" in files and found[0].stat().st_size < 2e5
    for other in DIST.glob("token_statistics-*-cp*.whl"):
        assert package_files(other) == files
    with zipfile.ZipFile(found[0]) as file:
        metadata = next(file.read(name).decode() for name in file.namelist() if name.endswith("/METADATA"))
    for line in ("Name: token-statistics", f"Version: {tost.__version__}", "Requires-Python: >=3.8", "Requires-Dist: torch>=2.0"):
        assert f"\n{line}\n" in metadata
    environment = Environment(tmp_path / "venv")
    environment.link_torch()
    environment.install("--no-deps", found[0])
    code = "import tost, torch; print(tost.nn.TSSA(24, 4)(torch.randn(2, 9, 24)).shape, tost.info().splitlines()[1])"
    expected = "torch.Size([2, 9, 24]) cpu: plain form (this installation has no kernels)\n"
    assert environment.run("python", "-c", code)[0] == expected


@pytest.fixture(scope="module")
def source():
    found = list(DIST.glob("token_statistics-*.tar.gz"))
    if not found:
        pytest.skip(f"needs {DIST}/token_statistics-*.tar.gz; `make wheel` builds it")
    return found[0]


def test_source_distribution_is_complete_and_clean(source):
    with tarfile.open(source) as file:
        names = [name.split("/", 1)[1] for name in file.getnames()]
    assert {"LICENSE", "torch_headers/LICENSE", "backend/tost_backend.py", "native/tost/kernels/tssa.h"} <= set(names)
    assert not [name for name in names if re.search(r"\.(so|o|pyc)$|^cli/|_test\.", name)]


def test_source_distribution_builds_in_an_empty_environment(source, tmp_path):
    if not shutil.which("c++") or not os.path.exists("/usr/include/hwy/highway.h"):
        pytest.skip("needs a C++ compiler and Highway")
    environment = Environment(tmp_path / "venv")
    variables = {name: value for name, value in os.environ.items() if name != "TOST_TORCH"}
    both = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    done = environment.pip_install("-v", "--no-deps", source, env=variables, **both)
    if "No matching distribution found for scikit-build-core" in done.stdout:
        pytest.skip("needs the package index")
    assert done.returncode == 0, done.stdout[-5000:]
    assert "Collecting scikit-build-core" in done.stdout and "Collecting torch" not in done.stdout  # in isolation
    environment.link_torch()
    code = "import tost, torch; tost._C.isa(); print(tost.nn.TSSA(24, 4)(torch.randn(2, 9, 24)).shape)"
    assert environment.run("python", "-c", code)[0] == "torch.Size([2, 9, 24])\n"
