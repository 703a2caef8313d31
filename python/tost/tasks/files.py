"""Writes task files: safetensors of tokens and targets, and idx files of pictures."""

import json
import os
import shutil
import struct
import tempfile
from pathlib import Path
from typing import Any, Callable, Dict

import numpy as np

from .. import _write

DTYPES = {"uint8": "U8", "int16": "I16", "int32": "I32", "int64": "I64"}


def write_safetensors(path: Path, tensors: Dict[str, np.ndarray], metadata: Dict[str, str]) -> None:
    described = {name: (DTYPES[array.dtype.name], list(array.shape), array.nbytes) for name, array in tensors.items()}
    _write.write_safetensors(path, described, lambda name: tensors[name].astype(tensors[name].dtype.newbyteorder("<")).tobytes(),
                             metadata)


def write_idx(path: Path, array: np.ndarray) -> None:
    """uint8 values of any rank."""
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    _write.write_atomic(path, [header, array.astype(np.uint8).tobytes()])


def write_folder(folder: Path, options: Dict[str, Any], write: Callable[[Path], None]) -> None:
    """Makes the folder in one step, unless it was made from these options. Refuses one that holds anything else."""
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        try:
            found = json.loads((folder / "made.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            raise ValueError(f"'{folder}' is there and was not made by tost.tasks; choose another folder.") from None
        if found != options:
            raise ValueError(f"'{folder}' holds a task with other settings; choose another folder, or remove it.")
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    part = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=str(folder.parent)))
    try:
        write(part)
        (part / "made.json").write_text(json.dumps(options, indent=2) + "\n", encoding="utf-8")
        os.chmod(str(part), 0o755)
        if folder.exists():
            folder.rmdir()  # it is empty
        part.replace(folder)
    except BaseException:
        shutil.rmtree(part)
        raise
