"""Generated parts of the documentation. MkDocs calls `on_page_markdown` for each page (`hooks` in mkdocs.yml).

Marks in a page are replaced: `<!-- options: build -->` by the command's arguments and options, from Typer; `<!--
formats: export -->` by its output formats; `<!-- table: builds.csv -->` by the rows of that file in
docs/internals/data; `<!-- paper: scan -->` by a paper's rows, from papers-scan.csv there; `<!-- log: 2 -->` by each
subject's two most effective changes, from log/*.csv; and from the commands' schemas `<!-- json: outputs -->` by a
section per output of `--json`, `<!-- json: common -->` by the keys shared by several.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

MARK = re.compile(r"^<!-- (\w+): (\S.*) -->$", re.MULTILINE)

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "docs" / "internals" / "data"
LOG = ROOT / "log"

LARGE = 1.2  # minimum ratio of a listed change
LONG = 30  # maximum words of a listed measurement
NUMBER = r"(\d+(?:,\d{3})*(?:\.\d+)?)"
RATIO = re.compile(rf"(?<![\w.,]){NUMBER}(?: (?:ms|s|MB))? to {NUMBER}(?!\d|[.,]\d| times)|(?<![\w.,]){NUMBER}x")


def command(name: str) -> Any:
    """A command of sdfcli, from Typer."""
    from sdfcli.cli.app import command_of
    from sdfcli.cli.registry import BUILT_IN

    return command_of(BUILT_IN[name])


def options(name: str) -> str:
    """A command's arguments and options: a Markdown table."""
    made = command(name)
    rows = []
    for each in made.params:
        if each.hidden:
            continue
        is_argument = not each.opts[0].startswith("-")
        names = [each.metavar] if is_argument else [*each.opts, *each.secondary_opts]
        value = "" if is_argument else each.metavar or ""
        default = "required" if each.required else _code(_default(each))
        rows.append([_code(*names), _code(value), default, _cell(each.help)])
    rows.append([_code("--help", "-h"), "", "", "Show this message and exit."])
    table = markdown([["", "value", "default", ""], *rows])
    return f'<div class="options" markdown>\n\n{table}\n\n</div>'


def _default(parameter: Any) -> str:
    if parameter.default is False:
        return "".join(parameter.secondary_opts)
    if not parameter.show_default or parameter.default is None:
        return ""
    return str(parameter.default)


def _code(*words: str) -> str:
    return ", ".join(f"`{word}`" for word in words if word)  # Markdown does not split rows within code


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


def table(name: str) -> str:
    """A measurement file as a Markdown table, numeric columns right-aligned."""
    with (DATA / name).open(newline="") as file:
        rows = [[_cell(cell) for cell in row] for row in csv.reader(file)]
    if len({len(row) for row in rows}) != 1:
        raise ValueError(f"{name}: rows of different lengths")
    columns = list(zip(*rows[1:], strict=True))
    numbers = [all(re.match(r"[-\d(]|$", cell) for cell in column) for column in columns]
    head, *body = markdown(rows).split("\n")
    return "\n".join([head, "| " + " | ".join("---:" if each else "---" for each in numbers) + " |", *body[1:]])


def paper(name: str) -> str:
    """A paper's rows with their state, figures, and the command and test that show each."""
    with (DATA / f"papers-{name}.csv").open(newline="") as file:
        found = list(csv.DictReader(file))
    rows = [["", "item", "section", "", "paper", "sdfcli", "shown by"]]
    for number, row in enumerate(found, 1):
        shown = "<br>".join(_code(row[each]) for each in ("command", "test") if row[each] != "-")
        cells = (_cell(row[each]) for each in ("item", "section", "state", "paper", "sdfcli"))
        rows.append([str(number), *cells, shown or "-"])
    return markdown(rows)


def changes(most: str) -> str:
    """A table of each subject's kept changes, at most `most` of them, largest ratios first."""
    rows = [["subject", "change", "measured", "on"]]
    for path in sorted(LOG.glob("*.csv")):
        with path.open(newline="") as file:
            title, *found = csv.DictReader(file)
        short = [row for row in found if row["kept"] == "yes" and len(row["measured"].split()) <= LONG]
        large = [row for row in short if gain(row["measured"]) >= LARGE]
        by_change = {row["change"]: row for row in sorted(large, key=lambda row: gain(row["measured"]))}
        for row in list(reversed(by_change.values()))[: int(most)]:
            where = ", ".join(part for part in (row["mesh"], row["device"]) if part)
            rows.append([_cell(cell) for cell in (title["change"], row["change"], row["measured"], where)])
    return markdown(rows)


def gain(measured: str) -> float:
    """The first ratio stated by a measurement, as "3.1x" or "62 to 20 ms"; 0 without one."""
    found = RATIO.search(measured)
    if not found:
        return 0.0
    before, after, ratio = (float((text or "0").replace(",", "")) for text in found.groups())
    return before / after if after else ratio


def markdown(rows: list[list[str]]) -> str:
    """A Markdown table; the first row is the header."""
    head, *body = rows
    lines = [head, ["---"] * len(head), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def keys(which: str) -> str:
    """Keys shared by several outputs of `--json` (`common`), or a section with keys for each of the `outputs`."""
    from sdfcli.cli.records import Line, schema_of
    from sdfcli.cli.schema import VERSION, outputs

    if which == "common":
        shared = {"schema_version": VERSION, **schema_of(Line)["properties"]}
        return _keys({"properties": shared, "required": list(shared)})
    if which != "outputs":
        raise KeyError(which)
    found = [f"## {title}\n\n{record.__doc__}\n\n{_keys(schema_of(record))}" for title, record in outputs().items()]
    return "\n\n".join(found)


def _keys(schema: dict[str, Any]) -> str:
    rows = [
        [_code(name), _kind(kind) + " (optional)" * (name not in schema["required"]), _cell(kind["description"])]
        for name, kind in schema["properties"].items()
    ]
    return markdown([["key", "value", ""], *rows])


KINDS = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "object": "object",
    "null": "null",
}


def _kind(schema: dict[str, Any]) -> str:
    """A short description of a value's type."""
    if "const" in schema:
        return _code(str(schema["const"]))
    if "enum" in schema:
        return _code(*map(str, schema["enum"]))
    types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    if types == ["array"]:
        return f"list ({_kind(schema['items'])})"
    return " or ".join(KINDS[each] for each in types)


def formats(_: str) -> str:
    """The export formats: a Markdown table."""
    from sdfcli.export import FORMATS

    endings: dict[Any, list[str]] = {}
    for ending, each in FORMATS.items():
        endings.setdefault(each, []).append(ending)
    rows = [[_code(*names), each.holds, each.programs, each.made_by] for each, names in endings.items()]
    return markdown([["ending", "what it holds", "for", "written by"], *rows])


MAKERS = {"options": options, "formats": formats, "table": table, "paper": paper, "log": changes, "json": keys}


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page with its generated parts. Raises KeyError for an unknown mark."""
    return MARK.sub(lambda found: MAKERS[found[1]](found[2]), markdown)
