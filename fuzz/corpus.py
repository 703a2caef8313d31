#!/usr/bin/env python3
"""The inputs of a fuzz target, one archive each: fuzz/corpus/TARGET.zip, entries stored, as the replay test reads it.

usage: fuzz/corpus.py unpack TARGET FOLDER
       fuzz/corpus.py add TARGET FOLDER     adds the files of FOLDER to the archive
"""
import pathlib
import sys
import zipfile

DATE = (1980, 1, 1, 0, 0, 0)  # the same files give the same archive


def main(command, target, folder):
    archive, folder = pathlib.Path(__file__).parent / "corpus" / f"{target}.zip", pathlib.Path(folder)
    inputs = {}
    if archive.exists():
        with zipfile.ZipFile(archive) as old:
            inputs = {name: old.read(name) for name in old.namelist()}
    if command == "unpack":
        folder.mkdir(parents=True, exist_ok=True)
        for name, data in inputs.items():
            (folder / name).write_bytes(data)
        return
    inputs |= {path.name: path.read_bytes() for path in folder.iterdir()}
    with zipfile.ZipFile(archive, "w") as new:
        for name in sorted(inputs):
            new.writestr(zipfile.ZipInfo(name, DATE), inputs[name])


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in ("unpack", "add"):
        sys.exit(__doc__)
    main(*sys.argv[1:])
