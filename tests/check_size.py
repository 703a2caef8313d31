#!/usr/bin/env python3
"""Checks that no room holds more lines than tests/size_budget.txt allows, because a house shrinks only if it is counted.

usage: check_size.py SOURCE_DIR [--table]; exits 1 and names each room above its budget.
A line of the budget is a room and a number. Rooms of tost/ count C++ files without _test in their name, `python` the
package's Python files, `windows` its stand-ins for POSIX, `web` the pages without the libraries embedded at build, `sum` the
rooms of tost/ together.
A number is raised only by a commit that does nothing else and says why.
"""
import pathlib
import sys

CPP = {".h", ".cc"}
WEB = {".js", ".css", ".html"}


def lines(paths):
    return sum(path.read_bytes().count(b"\n") for path in paths)


def counts(root):
    """Lines of each room by its name."""
    found = {}
    for room in sorted(path for path in (root / "tost").iterdir() if path.is_dir()):
        found[room.name] = lines(p for p in room.rglob("*") if p.suffix in CPP and "_test" not in p.name)
    found["sum"] = sum(found.values()) + lines((root / "tost").glob("*.h"))
    found["python"] = lines((root / "python" / "tost").rglob("*.py"))
    found["windows"] = lines(p for p in (root / "windows").rglob("*") if p.suffix in CPP)
    found["web"] = lines(p for p in (root / "web").rglob("*") if p.suffix in WEB and "test" not in p.name)
    return found


def budget(path):
    rows = (line.split("#")[0].split() for line in path.read_text().splitlines())
    return {room: int(number) for room, number in filter(None, rows)}


def main(root, table):
    allowed, found = budget(root / "tests" / "size_budget.txt"), counts(root)
    wrong = [f"{room}: no line in tests/size_budget.txt" for room in found if room not in allowed and found[room]]
    wrong += [f"{room}: there is no such room; take its line out of tests/size_budget.txt"
              for room in allowed if room not in found]
    wrong += [f"{room}: {found[room]} lines, the budget is {most}; make room first"
              for room, most in allowed.items() if found.get(room, 0) > most]
    if table:
        for room, number in found.items():
            print(f"{room:10} {number:6} of {allowed.get(room, 0):6}")
    print("\n".join(wrong) or f"{found['sum']} lines in tost/, the budget is {allowed['sum']}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]).resolve(), "--table" in sys.argv[2:]))
