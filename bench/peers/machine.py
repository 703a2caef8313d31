"""What a table must say of where it was measured."""

import datetime
import importlib.metadata
import os
import platform

_FEATURES = ("avx2", "avx512f", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8")


def _cpu():
    name, flags = platform.processor() or "unknown", set()
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                key, _, value = line.partition(":")
                if key.strip() == "model name":
                    name = value.strip()
                elif key.strip() == "flags":
                    flags = set(value.split())
                    break
    except OSError:
        pass
    if "avx2_only" in os.environ.get("LD_PRELOAD", ""):
        flags &= {"avx2"}
    return name, [feature for feature in _FEATURES if feature in flags]


def _version(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def describe():
    name, features = _cpu()
    packages = ("torch", "onnxruntime", "onnx", "openvino", "nncf", "flash-attn", "triton")
    return {
        "cpu": name,
        "cores": os.cpu_count(),
        "features": features,
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "python": platform.python_version(),
        "versions": {p: _version(p) for p in packages if _version(p)},
    }
