"""Writes files whole or not at all."""

import os
import tempfile
from pathlib import Path
from typing import Iterable


def write_atomic(path: Path, chunks: Iterable[bytes]) -> None:
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
