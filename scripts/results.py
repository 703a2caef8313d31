#!/usr/bin/env python3
"""Writes docs/results.md from docs/results/*.json: tables of measurements, each with machine, date and command.

usage: results.py [--check]; --check writes nothing and exits 1 if the page is not what the files give.

machines.json describes the machines. Every other file has a `title`, the `page` that explains it, and `tables`: `title`,
`machine`, `date`, `command`, an optional `note` (a `remark` is not shown), `columns` and `rows`. The page shows all columns,
or those of `show` (an empty list: none, the numbers stay in the file); `where` selects rows by a column's values; `pivot`
names the columns of `rows` and `columns` and the `value` of a cell, of several columns the others in brackets.
"""
import json
import pathlib
import sys

DOCS = pathlib.Path(__file__).resolve().parent.parent / "docs"
OPENING = """# Results

```
scripts/results.py            # writes this page from docs/results/*.json
scripts/results.py --check
docs/results.md agrees with its files
```

The files, of which each section names one, hold more tables and columns (quartiles, memory, errors, parameters). ± is the
sample standard deviation over seeds; `a / b` is forward / forward and backward. All models are small and trained for minutes.
Measure again before you quote.
"""


def line(cells):
    return "| " + " | ".join(cells) + " |"


def grid(columns, rows):
    numbers = [all(row[i][:1] in "0123456789-+–*" for row in rows) for i in range(len(columns))]
    rule = ["--:" if number and i else "---" for i, number in enumerate(numbers)]
    return "\n".join([line(columns), f"|{'|'.join(rule)}|", *map(line, rows)])


def pivoted(records, spec):
    """One row for each value of the row's columns, one column for each value of the column's columns."""
    def key(record, names):
        return tuple(record[name] for name in names)

    def cell(record):
        first, *others = (record[name] for name in spec["value"])
        return first + (f" ({', '.join(others)})" if others else "")

    found = {(key(one, spec["rows"]), key(one, spec["columns"])): cell(one) for one in records}
    heads = list(dict.fromkeys(head for _, head in found))
    names = list(dict.fromkeys(row for row, _ in found))
    return ([*spec["rows"], *(", ".join(head) for head in heads)],
            [[*name, *(found.get((name, head), "–") for head in heads)] for name in names])


def shown(table):
    """The columns and rows of the page."""
    records = [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
    for column, values in table.get("where", {}).items():
        records = [record for record in records if record[column] in values]
    if "pivot" in table:
        return pivoted(records, table["pivot"])
    columns = table.get("show", table["columns"])
    return columns, [[record[column] for column in columns] for record in records]


def section(table, machines):
    columns, rows = shown(table)
    where = f"{table['machine']}, {table['date']}, `{table['command']}`."
    if table["machine"].split(",")[0] not in machines:
        sys.exit(f"The table '{table['title']}' names a machine that is not in machines.json.")
    note = f" {table['note']}" if "note" in table else ""
    return f"**{table['title']}.** {where}{note}\n\n{grid(columns, rows)}\n"


def page():
    machines = json.loads((DOCS / "results/machines.json").read_text())
    parts = [OPENING, "\n".join(f"- **{name}**: {text}" for name, text in machines.items()) + "\n"]
    for path in sorted((DOCS / "results").glob("*.json")):
        if path.name != "machines.json":
            subject = json.loads(path.read_text())
            sections = [section(table, machines) for table in subject["tables"] if table.get("show") != []]
            if sections:
                parts.append(f"## {subject['title']}\n\n[{subject['page']}]({subject['page']}), `results/{path.name}`\n")
            parts += sections
    return "\n".join(parts)


def main(check):
    target, text = DOCS / "results.md", page()
    if not check:
        target.write_text(text)
        return 0
    same = target.exists() and target.read_text() == text
    print("docs/results.md agrees with its files" if same else "docs/results.md differs: run scripts/results.py")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
