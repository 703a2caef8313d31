"""What is timed: each contestant makes from a task a callable, from tensors to a tuple of tensors.

A contestant is a function (task, folder) -> callable. What it cannot do here it says by raising.
`folder` is shared by all contestants of a case, which are opened one after the other.
"""

import os

import torch


def _module(net, mode, autocast=False):
    def call(*inputs):
        with mode(), torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            found = net(*inputs)
        return found if isinstance(found, tuple) else (found,)

    return call


def _as_bf16(task):
    """-> (net, whether by autocast). Autocast would cast every weight again for every token."""
    if task.case.test == "decode":
        return task.net.bfloat16(), False
    return task.net, True


def eager_fp32(task, folder):
    return _module(task.net, torch.inference_mode)


def eager_bf16(task, folder):
    net, autocast = _as_bf16(task)
    return _module(net, torch.inference_mode, autocast)


def compile_fp32(task, folder):
    return _module(torch.compile(task.net), torch.no_grad)


def compile_bf16(task, folder):
    net, autocast = _as_bf16(task)
    return _module(torch.compile(net), torch.no_grad, autocast)


def _onnx(task, folder):
    path = os.path.join(folder, "model.onnx")
    if not os.path.exists(path):
        unfinished = path + ".part"
        with torch.no_grad():
            torch.onnx.export(task.net, task.example, unfinished, dynamo=True, external_data=False,
                              verbose=False)
        os.replace(unfinished, path)
    return path


def _onnx_session(path, task):
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = task.case.threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = [entry.name for entry in session.get_inputs()]

    def call(*inputs):
        found = session.run(None, {name: x.numpy() for name, x in zip(names, inputs)})
        return tuple(torch.from_numpy(x) for x in found)

    return call


def onnxruntime_fp32(task, folder):
    return _onnx_session(_onnx(task, folder), task)


def _onnx_to_quantise(task, folder):
    """The model with every product a MatMul of its own matrix, as ONNX Runtime's quantisers want it.

    They transpose the matrix of a Gemm in place, also where a table of tokens is looked up by Gather.
    """
    import onnx
    from onnxruntime.quantization.onnx_model import ONNXModel

    model = onnx.load(_onnx(task, folder))
    graph = model.graph
    looked_up = {node.input[0] for node in graph.node if node.op_type == "Gather"}
    for tied in [entry for entry in graph.initializer if entry.name in looked_up]:
        own = onnx.TensorProto()
        own.CopyFrom(tied)
        own.name += ".product"
        users = [node for node in graph.node if node.op_type == "Gemm" and node.input[1] == tied.name]
        for node in users:
            node.input[1] = own.name
        if users:
            graph.initializer.append(own)
    del graph.value_info[:]  # the shapes the exporter notes contradict the quantisers' own
    wrapped = ONNXModel(model)
    wrapped.replace_gemm_with_matmul()
    return wrapped.model


def onnxruntime_int8(task, folder):
    """Weights per channel; activations quantised as they come, one scale a tensor."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic
    from onnxruntime.quantization.shape_inference import quant_pre_process

    bare, prepared, quantised = (os.path.join(folder, name + ".onnx")
                                 for name in ("bare", "prepared", "int8"))
    onnx.save(_onnx_to_quantise(task, folder), bare)
    quant_pre_process(bare, prepared, skip_symbolic_shape=True)
    quantize_dynamic(prepared, quantised, per_channel=True, weight_type=QuantType.QInt8,
                     op_types_to_quantize=["MatMul"])
    return _onnx_session(quantised, task)


def onnxruntime_int4(task, folder):
    """Weights in groups of 32 inputs, multiplied by activations in int8."""
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    path = os.path.join(folder, "int4.onnx")
    quantizer = MatMulNBitsQuantizer(_onnx_to_quantise(task, folder), block_size=32,
                                     is_symmetric=True, accuracy_level=4)
    quantizer.process()
    quantizer.model.save_model_to_file(path)
    return _onnx_session(path, task)


def _openvino_model(task, folder):
    import openvino

    return openvino.convert_model(_onnx(task, folder))


def _openvino(model, task, precision):
    import openvino

    compiled = openvino.Core().compile_model(model, "CPU", {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": task.case.threads,
        "NUM_STREAMS": 1,
        "INFERENCE_PRECISION_HINT": precision,
    })
    request = compiled.create_infer_request()

    def call(*inputs):
        feed = {i: openvino.Tensor(x.numpy(), shared_memory=True) for i, x in enumerate(inputs)}
        return tuple(torch.from_numpy(x) for x in request.infer(feed).to_tuple())

    return call


def openvino_fp32(task, folder):
    return _openvino(_openvino_model(task, folder), task, "f32")


def openvino_bf16(task, folder):
    return _openvino(_openvino_model(task, folder), task, "bf16")


def _openvino_int8(task, folder, rest):
    """Decoding is bound by weights, so theirs are compressed alone, one scale an output; else
    weights and activations of the products, calibrated on inputs like the timed one."""
    import nncf

    model = _openvino_model(task, folder)
    if task.case.test == "decode":
        mode = nncf.CompressWeightsMode.INT8_SYM
        return _openvino(nncf.compress_weights(model, mode=mode), task, rest)
    torch.manual_seed(1)
    x = task.x
    if x.is_floating_point():
        samples = [x] + [torch.randn_like(x) for _ in range(7)]
    else:
        samples = [x] + [torch.randint_like(x, int(x.max()) + 1) for _ in range(7)]
    quantised = nncf.quantize(model, nncf.Dataset([s.numpy() for s in samples]),
                              preset=nncf.QuantizationPreset.MIXED,
                              model_type=nncf.ModelType.TRANSFORMER, subset_size=len(samples))
    return _openvino(quantised, task, rest)


def openvino_int8(task, folder):
    """What is not quantised stays fp32."""
    return _openvino_int8(task, folder, "f32")


def openvino_int8_bf16(task, folder):
    """What is not quantised is bf16."""
    return _openvino_int8(task, folder, "bf16")


def openvino_int4(task, folder):
    """Weights in groups of 32 inputs, every product and the table of tokens."""
    import nncf

    model = nncf.compress_weights(_openvino_model(task, folder),
                                  mode=nncf.CompressWeightsMode.INT4_SYM, group_size=32,
                                  all_layers=True)
    return _openvino(model, task, "f32")


ALL = {
    "eager fp32": eager_fp32,
    "eager bf16": eager_bf16,
    "compile fp32": compile_fp32,
    "compile bf16": compile_bf16,
    "onnxruntime fp32": onnxruntime_fp32,
    "onnxruntime int8": onnxruntime_int8,
    "onnxruntime int4": onnxruntime_int4,
    "openvino fp32": openvino_fp32,
    "openvino bf16": openvino_bf16,
    "openvino int8": openvino_int8,
    "openvino int8+bf16": openvino_int8_bf16,
    "openvino int4": openvino_int4,
}
