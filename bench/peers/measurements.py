"""Reads what gpu.py --json wrote, strictly, and sorts it for drawing."""

import json

FAMILIES = {  # of contestants, in the order of a legend
    "TSSA": ["tost operator", "tost operator compile", "tost program", "eager", "compile"],
    "softmax": ["eager attention", "sdpa flash", "sdpa efficient", "sdpa cudnn", "flash-attn"],
}
CONTESTANTS = [name for names in FAMILIES.values() for name in names]
_GROUP = ("what", "causal", "dim", "heads", "dtype", "batch", "job")
_LARGEST = 64 << 20  # of a file, in bytes


class Refused(Exception):
    """One sentence of what is wrong with a file."""


def _check_row(where, row):
    def check(right, key, wanted):
        if not right:
            raise Refused(f"{where}: '{key}' must be {wanted}.")

    text = lambda v: isinstance(v, str) and len(v) < 10000  # noqa: E731
    whole = lambda v: type(v) is int and 1 <= v < 2**53  # noqa: E731
    positive = lambda v: type(v) in (int, float) and 0 < v < 1e18  # noqa: E731
    check(isinstance(row, dict), "rows", "a list of objects")
    for key in ("what", "dtype"):
        check(text(row.get(key)), key, "a text")
    check(isinstance(row.get("causal"), bool), "causal", "true or false")
    check(row.get("job") in ("forward", "training"), "job", "forward or training")
    check(row.get("contestant") in CONTESTANTS, "contestant",
          "one of " + ", ".join(CONTESTANTS))
    for key in ("batch", "tokens"):
        check(whole(row.get(key)), key, "an integer above 0")
    for key in ("dim", "heads"):
        check(row.get(key) is None or whole(row[key]), key, "an integer above 0, or null")
    check(row.get("failed") is None or text(row["failed"]), "failed", "a text, or null")
    check(row.get("peak_mib") is None or positive(row["peak_mib"]), "peak_mib",
          "a number above 0, or null")
    times = [row.get(key) for key in ("low_ms", "median_ms", "high_ms")]
    check(times == [None] * 3 or (all(map(positive, times)) and times == sorted(times)),
          "median_ms", "a number above 0 from low_ms to high_ms, or all three null")


def device(machine):
    return machine.get("gpu") or machine.get("cpu")


def _check(path, report):
    machine = report.get("machine") if isinstance(report, dict) else None
    if not isinstance(machine, dict) or not isinstance(report.get("rows"), list):
        raise Refused(f"{path} is not a result of gpu.py: 'machine' and 'rows' are missing.")
    versions = machine.get("versions")
    if not (isinstance(device(machine), str) and isinstance(machine.get("date"), str)
            and isinstance(versions, dict) and isinstance(versions.get("torch"), str)):
        raise Refused(f"{path}: 'machine' must name the device, torch's version and the date.")
    if not report["rows"]:
        raise Refused(f"{path} holds no measurement.")
    for number, row in enumerate(report["rows"], 1):
        _check_row(f"{path}, row {number}", row)


def read(path):
    """-> the report in a file of gpu.py --json. Raises Refused."""
    try:
        with open(path, "rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError as error:
        raise Refused(f"{path} cannot be read: {error.strerror}.") from None
    if len(data) > _LARGEST:
        raise Refused(f"{path} is larger than {_LARGEST >> 20} MiB, which no result of gpu.py is.")
    try:
        report = json.loads(data)
    except (ValueError, RecursionError):
        raise Refused(f"{path} is {'not JSON' if data.strip() else 'empty'}; name a file that gpu.py "
                      "--json wrote.") from None
    _check(path, report)
    return report


def joined(paths, reports):
    """One report of the parts of a measurement. Raises Refused where they do not belong together."""
    where = lambda m: f"{device(m)} with torch {m['versions']['torch']}"  # noqa: E731
    first, rows, dates = reports[0], {}, []
    for path, report in zip(paths, reports):
        if where(report["machine"]) != where(first["machine"]):
            raise Refused(f"{path} was measured on {where(report['machine'])}, {paths[0]} on "
                          f"{where(first['machine'])}; one figure shows one machine.")
        dates.append(report["machine"]["date"])
        for row in report["rows"]:
            rows[(*_key(row), row["tokens"], row["contestant"])] = row
    date = dates[0] if len(set(dates)) == 1 else f"{min(dates)} to {max(dates)}"
    return {**first, "machine": {**first["machine"], "date": date}, "rows": list(rows.values())}


def _key(row):
    return tuple(row[key] for key in _GROUP)


def groups(rows):
    """Rows of one layer or network and job, where they have two or more numbers of tokens."""
    found = {}
    for row in rows:
        found.setdefault(_key(row), []).append(row)
    found = [group for group in found.values() if len({row["tokens"] for row in group}) > 1]
    order = lambda group: (group[0]["what"] == "layer", group[0]["causal"])  # noqa: E731
    return sorted(found, key=order)  # otherwise as they were measured


def enough(rows):
    return bool(groups(list(rows)))
