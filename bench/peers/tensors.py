"""Reads and writes safetensors files: eight bytes of length, a JSON header, the numbers."""

import json
import struct

import numpy
import torch

_TYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "I64": torch.int64, "F64": torch.float64}
_NAMES = {dtype: name for name, dtype in _TYPES.items()}


def load(path):
    """Name -> tensor, as copies."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = bytearray(file.read())
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        flat = torch.frombuffer(data, dtype=torch.uint8)[begin:end].clone()
        tensors[name] = flat.view(_TYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors


def save(path, tensors):
    header, offset = {}, 0
    for name, tensor in tensors.items():
        size = tensor.numel() * tensor.element_size()
        header[name] = {"dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            file.write(tensor.contiguous().view(torch.uint8).numpy().astype(numpy.uint8).tobytes())
