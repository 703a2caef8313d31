"""What is timed: each contestant is made from a network and an input, and answers with logits.

A contestant is a function (net, input, threads, folder) -> callable that computes the logits as a
torch tensor. What a contestant cannot do here it says by raising.
"""

import os

import torch

import networks


def eager_fp32(net, x, threads, folder):
    def run():
        with torch.inference_mode():
            return net(x)

    return run


def eager_bf16(net, x, threads, folder):
    def run():
        with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16):
            return net(x)

    return run


def compile_fp32(net, x, threads, folder):
    compiled = torch.compile(net)

    def run():
        with torch.no_grad():
            return compiled(x)

    return run


def compile_bf16(net, x, threads, folder):
    compiled = torch.compile(net)

    def run():
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            return compiled(x)

    return run


def _onnx(net, x, folder):
    path = os.path.join(folder, "model.onnx")
    if not os.path.exists(path):
        with torch.no_grad():
            torch.onnx.export(net, (x,), path, dynamo=True, external_data=False, verbose=False)
    return path


def _onnx_session(path, x, threads):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feed = {session.get_inputs()[0].name: x.numpy()}
    return lambda: torch.from_numpy(session.run(None, feed)[0])


def onnxruntime_fp32(net, x, threads, folder):
    return _onnx_session(_onnx(net, x, folder), x, threads)


def onnxruntime_int8(net, x, threads, folder):
    """Weights per channel; activations quantised as they come, one scale a tensor."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.shape_inference import quant_pre_process

    bare, prepared, quantised = (os.path.join(folder, name + ".onnx")
                                 for name in ("bare", "prepared", "int8"))
    model = onnx.load(_onnx(net, x, folder))
    del model.graph.value_info[:]  # the shapes the exporter notes contradict the quantiser's own
    onnx.save(model, bare)
    quant_pre_process(bare, prepared, skip_symbolic_shape=True)
    quantize_dynamic(prepared, quantised, per_channel=True, weight_type=QuantType.QInt8,
                     op_types_to_quantize=["MatMul", "Gemm"])
    return _onnx_session(quantised, x, threads)


def _openvino(model, x, threads, precision):
    import openvino

    compiled = openvino.Core().compile_model(model, "CPU", {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": 1,
        "INFERENCE_PRECISION_HINT": precision,
    })
    request = compiled.create_infer_request()
    feed = {0: openvino.Tensor(x.numpy(), shared_memory=True)}
    return lambda: torch.from_numpy(request.infer(feed, share_outputs=True)[0])


def openvino_fp32(net, x, threads, folder):
    import openvino

    return _openvino(openvino.convert_model(_onnx(net, x, folder)), x, threads, "f32")


def openvino_bf16(net, x, threads, folder):
    import openvino

    return _openvino(openvino.convert_model(_onnx(net, x, folder)), x, threads, "bf16")


def _openvino_int8(net, x, threads, folder, rest):
    """Weights and activations of the products in int8, calibrated on inputs like the timed one."""
    import nncf
    import openvino

    torch.manual_seed(1)
    if x.is_floating_point():
        samples = [x] + [torch.randn_like(x) for _ in range(7)]
    else:
        samples = [x] + [torch.randint_like(x, int(x.max()) + 1) for _ in range(7)]
    model = openvino.convert_model(_onnx(net, x, folder))
    quantised = nncf.quantize(model, nncf.Dataset([s.numpy() for s in samples]),
                              preset=nncf.QuantizationPreset.MIXED,
                              model_type=nncf.ModelType.TRANSFORMER, subset_size=len(samples))
    return _openvino(quantised, x, threads, rest)


def openvino_int8(net, x, threads, folder):
    """What is not quantised stays fp32."""
    return _openvino_int8(net, x, threads, folder, "f32")


def openvino_int8_bf16(net, x, threads, folder):
    """What is not quantised is bf16."""
    return _openvino_int8(net, x, threads, folder, "bf16")


ALL = {
    "eager fp32": eager_fp32,
    "eager bf16": eager_bf16,
    "compile fp32": compile_fp32,
    "compile bf16": compile_bf16,
    "onnxruntime fp32": onnxruntime_fp32,
    "onnxruntime int8": onnxruntime_int8,
    "openvino fp32": openvino_fp32,
    "openvino bf16": openvino_bf16,
    "openvino int8": openvino_int8,
    "openvino int8+bf16": openvino_int8_bf16,
}


def make(contestant, model, weights, x, threads, folder):
    torch.set_num_threads(threads)
    return ALL[contestant](networks.make(model, weights), x, threads, folder)
