"""Makes a synthetic task as files that `tost train --data FOLDER` and `tost eval RUN --data FOLDER` read."""

import argparse
import json
import sys
from typing import Any, List

from . import DEFAULTS, PATHFINDER, TASKS, make, names

EXAMPLES = """examples:
  python -m tost.tasks recall --out mqar --lengths 16,32,64,64 --pairs 2,4,8,16 --vocab 64
  python -m tost.tasks needle --out needle --lengths 1k --depths 0,0.5,1 --train 1 --test 20
  python -m tost.tasks pathfinder --out pathfinder --train 20000 --test 1000 --jobs 4"""


def _number(text: str) -> Any:
    if text.endswith("k") and text[:-1].isdigit():
        return 1024 * int(text[:-1])
    try:
        return json.loads(text)
    except ValueError:
        return text


def _numbers(text: str) -> List[Any]:
    return [_number(part) for part in text.split(",")]


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tost.tasks", description=__doc__, epilog=EXAMPLES,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("task", choices=names())
    add("--out", required=True, help="folder to make")
    add("--lengths", type=_numbers, help="tokens of a sample, such as 64,128 or 1k; each is a group")
    add("--pairs", type=_numbers, help="keys with a value (recall) or symbols (selective-copying): one, or one a length")
    add("--depths", type=_numbers, help="of a needle, such as 0,0.5,1; each is a group (default: drawn)")
    for split in ("train", "validation", "test"):
        add(f"--{split}", type=int, default=DEFAULTS[split], help=f"samples of every group (default: {DEFAULTS[split]})")
    add("--seed", type=int, default=0)
    add("--jobs", type=int, default=1, help="processes that draw (pathfinder)")
    for key in sorted({key for task in TASKS.values() for key in task.defaults} | set(PATHFINDER)):
        tasks = [name for name, task in TASKS.items() if key in task.defaults] or ["pathfinder"]
        add(f"--{key.replace('_', '-')}", type=_number, default=None, help=f"of {', '.join(tasks)}")
    values = vars(parser.parse_args(arguments))
    out, jobs = values.pop("out"), values.pop("jobs")
    try:
        make(out, {key: value for key, value in values.items() if value is not None}, jobs)
    except (ValueError, TypeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: '{error.filename}': {error.strerror}.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
