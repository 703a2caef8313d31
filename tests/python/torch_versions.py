"""The wheels of build/python/dist with old and new versions of torch, each in an environment of its own.

usage: torch_versions.py [--torch 2.0.1,2.15.0] [--work FOLDER] [--keep]; prints a table, and ends with 1 where a step fails.
Needs the package index, about 6 GB of disk for one environment at a time (--keep: for each), and Python 3.8 to 3.12 on PATH or
in ~/.pyenv. Values and gradients are compared with the definition in float64; `compile` is torch.compile with inductor where
there is a C++ compiler, `onnx` an export that ONNX Runtime runs, `self-test` what `python -m tost.selftest` says.
"""

import argparse
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
# torch, the Python that it is tried with, and the numpy that it needs.
VERSIONS = {"2.0.1": ("3.8", "numpy<2"), "2.3.1": ("3.9", "numpy<2"), "2.6.0": ("3.12", "numpy"), "2.11.0": ("3.10", "numpy"),
            "2.15.0": ("3.11", "numpy")}
STEPS = ("values", "gradients", "float16", "delta rule", "compile", "onnx", "self-test")


def find_python(version):
    found = sorted(pathlib.Path.home().glob(f".pyenv/versions/{version}.*/bin/python"))
    return str(found[-1]) if found else shutil.which(f"python{version}")


def deviation(found, exact):
    return max(float((a.double() - b).abs().max() / b.abs().max()) for a, b in zip(found, exact))


def results(layer, x):
    """Output and gradients of inputs and parameters."""
    import torch

    x = x.detach().clone().requires_grad_()
    y = layer(x)
    weights = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view(y.shape)
    return y, torch.autograd.grad(y, [x, *(p for _, p in sorted(layer.named_parameters()))], weights)


def pairs():
    """Layers of the package with the official ones in float64 of the same weights."""
    import reference
    import torch

    import tost

    torch.manual_seed(0)
    made = ((tost.nn.TSSA(48, 4), reference.Layer(48, 4)), (tost.nn.CausalTSSA(48, 4, 64), reference.CausalLayer(48, 4, 64)))
    for layer, exact in made:
        exact.load_state_dict(layer.state_dict())
        yield layer, exact.double()


def check_onnx(layer, x):
    import numpy
    import onnxruntime
    import torch

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "layer.onnx")
        more = {"dynamo": False} if int(torch.__version__.split(".")[1]) >= 5 else {}
        axes = {"x": {0: "batch", 1: "tokens"}}
        with warnings.catch_warnings():
            warnings.simplefilter("error", torch.jit.TracerWarning)
            torch.onnx.export(layer.eval(), (x,), path, input_names=["x"], opset_version=17, dynamic_axes=axes, **more)
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        x = torch.randn(3, 21, 48)
        found = torch.from_numpy(numpy.asarray(session.run(None, {"x": x.numpy()})[0]))
    with torch.no_grad():
        return deviation([found], [layer(x).double()])


def probe():
    """Prints what the package does with this torch as JSON; runs in the environment."""
    sys.path.insert(0, str(ROOT / "python" / "tests"))
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        import tost
        from tost import selftest
    found = {"path": tost.info().splitlines()[1]}
    x = torch.randn(2, 33, 48)

    def step(name, work, bound, each=True):
        try:
            error = max(work(layer, exact) for layer, exact in pairs()) if each else work()
            found[name] = f"{error:.0e}" if error <= bound else f"{error:.0e} DEVIATES"
        except Exception as error:  # a row tells of every failure
            found[name] = f"FAILS: {type(error).__name__}: {error}".splitlines()[0][:200]

    def compiled(layer, exact):
        work = torch.compile(layer, backend="inductor" if shutil.which("g++") else "aot_eager")
        y, gradients = results(layer, x)
        other = x.clone().requires_grad_()
        z = work(other)
        z.backward(torch.linspace(-1, 1, z.numel()).view(z.shape))
        return max(deviation([z], [y.double()]), deviation([other.grad], [gradients[0].double()]))

    def delta_rule():
        unit = torch.nn.functional.normalize
        q, k, v = unit(torch.randn(2, 99, 3, 24), dim=3), unit(torch.randn(2, 99, 3, 24), dim=3), torch.randn(2, 99, 3, 17)
        given = (q, k, v, torch.rand(2, 99, 3), -torch.rand(2, 99, 3))

        def results(inputs):
            inputs = [x.clone().requires_grad_() for x in inputs]
            o, state = tost.ops.delta_rule(*inputs, output_final_state=True)
            return (o, state, *torch.autograd.grad(o.square().sum() + state.square().sum(), inputs))

        return deviation(results(given), results([x.double() for x in given]))

    step("values", lambda layer, exact: deviation([results(layer, x)[0]], [results(exact, x.double())[0]]), 1e-5)
    step("gradients", lambda layer, exact: deviation(results(layer, x)[1], results(exact, x.double())[1]), 1e-5)
    step("float16", lambda layer, exact: deviation([tost.nn.ops.plain.tssa(1000 * x.half(), torch.ones(4, 1).half())[0]],
                                                   [tost.nn.ops.plain.tssa(1000 * x.half().double(), torch.ones(4, 1))[0]]), 1e-3)
    step("delta rule", delta_rule, 1e-5, each=False)
    step("compile", compiled, 1e-4)
    step("onnx", lambda layer, exact: check_onnx(layer, x), 1e-4)
    found["self-test"] = "passes" if selftest.selftest(out=io.StringIO()) else "FAILS"
    print(json.dumps(found))


def rows(version, folder, wheels):
    python, numpy = VERSIONS[version]
    program = find_python(python)
    if program is None:
        yield {"wheel": "", "path": f"there is no Python {python} here"}
        return
    pip = [str(folder / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "-q", "install"]
    if not (folder / "ready").exists():
        subprocess.run([program, "-m", "venv", str(folder)], check=True)
        subprocess.run([*pip, f"torch=={version}", numpy, "onnx", "onnxruntime"], check=True)
        (folder / "ready").touch()
    for wheel in wheels:
        if "-abi3-" in wheel.name and int(python.split(".")[1]) < 10:
            continue
        subprocess.run([*pip, "--no-deps", "--force-reinstall", str(wheel)], check=True)
        done = subprocess.run([pip[0], __file__, "--probe"], capture_output=True, text=True, cwd=str(folder))
        last = done.stdout.strip().splitlines()[-1:] or ["{}"]
        found = json.loads(last[0]) if done.returncode == 0 else {"path": done.stderr.strip().splitlines()[-1]}
        yield {"wheel": "with kernels" if "-abi3-" in wheel.name else "pure", **found}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", default=",".join(VERSIONS), help=f"of {', '.join(VERSIONS)}")
    parser.add_argument("--work", default=str(ROOT / "build" / "python" / "versions"), help="folder of the environments")
    parser.add_argument("--keep", action="store_true", help="keep the environments")
    parser.add_argument("--probe", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.probe:
        return probe()
    wheels = sorted((ROOT / "build" / "python" / "dist").glob("token_statistics-*.whl"))
    if not wheels:
        sys.exit("build/python/dist has no wheel; `make wheel` builds both, `make wheel-pure` the one without kernels.")
    print("| torch | Python | wheel | " + " | ".join(STEPS) + " | runs |\n" + "|---" * (len(STEPS) + 4) + "|")
    good = True
    for version in options.torch.split(","):
        folder = pathlib.Path(options.work) / version
        for row in rows(version, folder, wheels):
            cells = [row.get(step, "FAILS") for step in STEPS]
            good &= not any("FAILS" in cell or "DEVIATES" in cell for cell in cells)
            print(f"| {version} | {VERSIONS[version][0]} | {row['wheel']} | {' | '.join(cells)} | {row['path']} |", flush=True)
        if not options.keep:
            shutil.rmtree(folder, ignore_errors=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
