"""Writes files whole or not at all, and safetensors files with their header in one order."""

import itertools
import json
import os
import tempfile
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Tuple


def write_atomic(path: Path, chunks: Iterable[Any]) -> None:
    """The whole file, or the one before it. The temporary name is unique: several processes may write the same file."""
    handle, name = tempfile.mkstemp(prefix="." + path.name, dir=str(path.parent))
    try:
        with os.fdopen(handle, "wb") as file:
            file.writelines(chunks)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o644)
        os.replace(name, str(path))
    except BaseException:
        os.unlink(name)
        raise


def write_safetensors(path: Path, tensors: Dict[str, Tuple[str, list, int]], data: Callable[[str], Any],
                      metadata: Dict[str, str]) -> None:
    """`tensors`: dtype, shape and bytes by name; `data(name)`: its little-endian bytes. Wide numbers come first, aligned."""
    widths = {"64": 8, "32": 4, "16": 2}  # by the end of the dtype's name
    ordered = sorted(tensors, key=lambda name: (-widths.get(tensors[name][0][-2:], 1), name))
    header: Dict[str, Any] = {"__metadata__": metadata}
    offset = 0
    for name in ordered:
        dtype, shape, size = tensors[name]
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    write_atomic(path, itertools.chain([len(text).to_bytes(8, "little"), text], map(data, ordered)))
