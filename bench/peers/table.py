"""Rows of measurements, and the table they make."""

import json
import os
import sys

import rounds


def row(case, entry):
    low, median, high = rounds.quartiles(entry.times) if entry.times else (None, None, None)
    return {
        "model": case.model, "test": case.test, "batch": case.batch, "size": case.size,
        "contestant": entry.name, "unit": case.unit,
        "low_ms": low, "median_ms": median, "high_ms": high, "times_ms": entry.times,
        "rate": 1e3 * case.per_call / median if median else None,
        "error": entry.error, "peak_mib": entry.peak_mib, "failed": entry.failed,
    }


def _base_of(report, wanted):
    same = ("model", "test", "batch", "size")
    for r in report["rows"]:
        if r["contestant"] == "eager fp32" and all(r[key] == wanted[key] for key in same):
            return r["median_ms"]
    return None


def digits(ms):
    return f"{ms:.2f}" if ms < 10 else f"{ms:.1f}" if ms < 100 else f"{ms:.0f}"


def _line(report, r):
    head = (f"| {r['model']} | {r['test']} | {r['batch']} | {r['size']} | "
            f"{r['contestant']} | ")
    if r["failed"] or not r["median_ms"]:
        return head + f"not measured: {r['failed']} | | | | |\n"
    base = _base_of(report, r)
    ratio = f"{base / r['median_ms']:.2f}" if base else "–"
    spread = f"{digits(r['median_ms'])} [{digits(r['low_ms'])}, {digits(r['high_ms'])}]"
    peak = f"{r['peak_mib']:.0f} MiB" if r["peak_mib"] else "–"
    return head + f"{spread} | {r['rate']:.1f} {r['unit']} | {ratio} | {peak} | {r['error']:.1e} |\n"


def markdown(report):
    text = ("| model | test | batch | size | | ms [quartiles] | rate | times eager fp32 | "
            "peak memory | error |\n|---|---|--:|--:|---|--:|--:|--:|--:|--:|\n")
    for r in report["rows"]:
        text += _line(report, r)
    return text + foot(report)


def foot(report):
    """Where and how the rows above were measured."""
    m = report["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in m["versions"].items())
    gpu = f"{m['gpu']}; " if m.get("gpu") else ""
    return (f"\n{gpu}{m['cpu']} ({', '.join(m['features'])}), {report['threads']} threads; "
            f"{report['rounds']} rounds of {report['repeat']} calls, taking turns; {versions}; "
            f"Python {m['python']}; {m['date']}\n")


def check_files(parser, *files):
    """Refuses before anything is measured what could not be written after it."""
    for file in files:
        if file and not os.path.isdir(os.path.dirname(file) or "."):
            parser.error(f"{file} cannot be written: there is no folder for it")


def save(options, text, report):
    """What --markdown and --json name, whole or not at all; after every case, so that none is lost."""
    if options.markdown:
        write(options.markdown, text)
    if options.json:
        write(options.json, json.dumps(report, indent=1) + "\n")


def write(path, text):
    """Whole or not at all."""
    temporary = path + ".tmp"
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except OSError as error:
        sys.exit(f"{path} cannot be written: {error.strerror}.")
