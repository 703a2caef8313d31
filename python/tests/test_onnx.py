"""Layers exported by torch.onnx: what runtimes without torch compute is what the layers do."""

import pytest
import torch
from torch.testing import assert_close

import tost

onnx = pytest.importorskip("onnx", reason="needs onnx")
pytest.importorskip("onnxscript", reason="needs onnxscript")


def by_onnxruntime(path):
    runtime = pytest.importorskip("onnxruntime", reason="needs onnxruntime")
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return lambda feeds: session.run(None, feeds)


def by_openvino(path):
    openvino = pytest.importorskip("openvino", reason="needs openvino")
    model = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    return lambda feeds: [model(feeds)[output] for output in model.outputs]


def by_reference(path):
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(str(path))
    return lambda feeds: evaluator.run(None, feeds)


class Step(torch.nn.Module):
    """A causal layer that continues a state at a fixed position."""

    def __init__(self):
        super().__init__()
        self.layer = tost.nn.CausalTSSA(24, 4, 16)
        torch.nn.init.normal_(self.layer.denom_bias, 0, 0.1)

    def forward(self, x, sums):
        y, state = self.layer(x, tost.nn.CausalState(sums, 3), return_state=True)
        return y, state.sums


def tokens():
    return tost.nn.TSSA(24, 4), lambda batch, n: (torch.randn(batch, n, 24),), ({0: "batch", 1: "tokens"},)


def maps():
    return tost.nn.TSSA(24, 4), lambda batch, n: (torch.randn(batch, 24, n, 5),), ({0: "batch", 2: "rows"},)


def memberships():
    class Both(tost.nn.TSSA):
        def forward(self, x):
            return super().forward(x, return_memberships=True)

    return Both(24, 4), lambda batch, n: (torch.randn(batch, n, 24),), ({0: "batch", 1: "tokens"},)


def causal():
    def inputs(batch, n):
        return torch.randn(batch, n, 24), torch.rand(batch, 52, dtype=torch.float64)

    return Step(), inputs, ({0: "batch", 1: "tokens"}, {0: "batch"})


@pytest.mark.parametrize("run_by", [by_onnxruntime, by_openvino, by_reference])
@pytest.mark.parametrize("make", [tokens, maps, memberships, causal])
def test_exported_layers_compute_the_same_elsewhere(make, run_by, tmp_path):
    layer, inputs, sizes = make()
    layer.eval()
    path = tmp_path / "layer.onnx"
    program = torch.onnx.export(layer, inputs(2, 30), dynamo=True, dynamic_shapes=sizes, verbose=False)
    program.save(path)
    onnx.checker.check_model(onnx.load(path), full_check=True)
    run = run_by(path)
    names = [entry.name for entry in onnx.load(path).graph.input]
    for batch, n in ((3, 17), (1, 1), (2, 64)):
        given = inputs(batch, n)
        with torch.no_grad():
            wanted = layer(*given)
        found = run({name: x.numpy() for name, x in zip(names, given, strict=True)})
        for a, b in zip(found, wanted if isinstance(wanted, tuple) else (wanted,), strict=True):
            assert_close(torch.as_tensor(a), b, rtol=1e-5, atol=1e-5)
