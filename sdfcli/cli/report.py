"""A batch's report: one self-contained HTML page."""

from __future__ import annotations

import html
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sdfcli.cli.outcomes import counts
from sdfcli.cli.output import error_text, human_bytes
from sdfcli.cli.wording import health_text

if TYPE_CHECKING:
    from sdfcli.batch.messages import Outcome, Settings

STYLE = """
body { font: 14px/1.4 system-ui, sans-serif; margin: 2em; color: #222; }
table { border-collapse: collapse; }
th, td { padding: .3em .8em; text-align: left; vertical-align: middle; border-bottom: 1px solid #ddd; }
th { position: sticky; top: 0; background: #f4f6f8; white-space: nowrap; }
th button { all: unset; cursor: pointer; font-weight: bold; }
th button:focus-visible { outline: 2px solid #27f; }
th[aria-sort=ascending] button::after { content: " \\25b2"; }
th[aria-sort=descending] button::after { content: " \\25bc"; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.name, td.text { min-width: 11em; max-width: 26em; overflow-wrap: anywhere; }
td img { display: block; width: 96px; height: 96px; }
.failed { background: #fde8e8; }
.doubtful { background: #fff6dc; }
small { color: #666; }
"""

SCRIPT = """
const body = document.querySelector("tbody");
document.querySelectorAll("th button").forEach(button => button.addEventListener("click", () => {
  const head = button.parentElement, column = head.cellIndex;
  const sign = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
  document.querySelectorAll("th").forEach(other => other.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
  const key = row => row.cells[column].dataset.key;
  const compare = (a, b) => head.dataset.kind === "number" ? a - b : a.localeCompare(b, undefined, {numeric: true});
  const rows = [...body.rows];
  const full = rows.filter(row => key(row) !== ""), empty = rows.filter(row => key(row) === "");
  body.append(...full.sort((a, b) => sign * compare(key(a), key(b))), ...empty);
}));
"""

COLUMNS = (
    ("mesh", "text"),
    ("outcome", "text"),
    ("health", "text"),
    ("triangles", "number"),
    ("sign", "text"),
    ("certain", "number"),
    ("thinnest", "number"),
    ("lost", "number"),
    ("leaves", "number"),
    ("max error", "number"),
    ("rms error", "number"),
    ("seconds", "number"),
    ("size", "number"),
)
SAMPLE_COLUMNS = (
    ("mesh", "text"),
    ("outcome", "text"),
    ("triangles", "number"),
    ("sign", "text"),
    ("certain", "number"),
    ("outside", "number"),
    ("inside", "number"),
    ("on surface", "number"),
    ("seconds", "number"),
    ("size", "number"),
)
"""Columns of fields and of samples; a picture comes before a field's."""


def write_page(path: Path, outcomes: list[Outcome], total: int, settings: Settings) -> None:
    """Writes the page atomically. Raises UsageError if it exists, unless `force` is set, or cannot be written."""
    from sdfcli.runtime.files import written_whole

    with written_whole(path, settings.force) as temporary:
        text = page(outcomes, total, settings.samples is not None)
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")


def page(outcomes: list[Outcome], total: int, samples: bool = False) -> str:
    """The page: a sortable table with a row per mesh, failures included. samples: whether they are samples, not
    fields."""
    columns = SAMPLE_COLUMNS if samples else COLUMNS
    heads = "" if samples else "<th>picture</th>"
    heads += "".join(f'<th data-kind="{kind}"><button type="button">{name}</button></th>' for name, kind in columns)
    rows = "\n".join(_row(outcome, samples) for outcome in outcomes)
    title = "Training samples" if samples else "Signed distance fields"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="generator" content="sdfcli {"samples" if samples else "build"} --report">
<title>{title}</title>
<style>{STYLE}</style>
</head>
<body>
<h1>{title}</h1>
<p>{html.escape(counts(outcomes, total))}</p>
<table>
<thead><tr>{heads}</tr></thead>
<tbody>
{rows}
</tbody>
</table>
<script>{SCRIPT}</script>
</body>
</html>
"""


def _row(outcome: Outcome, samples: bool) -> str:
    failed = outcome["status"] == "failed"
    cells = [_cell(outcome["input"], _with_reason(outcome["input"], outcome["output"]), "name")]
    if failed:
        why = _with_reason(f"failed ({outcome['exit_code']})", outcome["error"])
        columns = SAMPLE_COLUMNS if samples else COLUMNS
        cells += [_cell("failed", why, "text"), *(_cell("", "", "") for _ in columns[2:])]
    else:
        seconds, certain = outcome.get("seconds", {}).get("total"), outcome["sign_confidence"]
        skipped = "skipped" if outcome["status"] == "skipped" else ""
        cells += [
            _cell(outcome["verdict"], _with_reason(outcome["verdict"], skipped), "text"),
            *([] if samples else [_text(health_text(outcome["health"]))]),
            _number(outcome["triangles"], f"{outcome['triangles']:,}"),
            _cell(outcome["sign"], _with_reason(outcome["sign"], outcome["sign_reason"]), "text"),
            _number(certain, "" if certain is None else f"{certain:.1%}"),
            *(_sample_cells(outcome) if samples else _field_cells(outcome)),
            _number(seconds, "" if seconds is None else f"{seconds:.2f}"),
            _number(outcome["bytes"], human_bytes(outcome["bytes"])),
        ]
    if not samples:
        picture = outcome.get("picture")
        image = f'<img alt="" src="data:image/png;base64,{html.escape(picture)}">' if picture else ""
        cells.insert(0, f"<td>{image}</td>")
    return f'<tr class="{html.escape(outcome["status"] if failed else outcome["verdict"])}">{"".join(cells)}</tr>'


def _sample_cells(outcome: Outcome) -> list[str]:
    return [_number(outcome[name], f"{outcome[name]:,}") for name in ("pos", "neg", "surface")]


def _field_cells(outcome: Outcome) -> list[str]:
    thinnest, lost = map(outcome["sheets"].get, ("thinnest", "lost"))
    return [
        _number(thinnest, "" if thinnest is None else error_text(thinnest)),
        _number(lost, "" if lost is None else f"{lost:.2%}"),
        _number(outcome["leaves"], f"{outcome['leaves']:,}"),
        _number(outcome["max_error"], error_text(outcome["max_error"])),
        _number(outcome["rms_error"], error_text(outcome["rms_error"])),
    ]


def _with_reason(text: str, reason: str) -> str:
    return html.escape(text) + (f"<br><small>{html.escape(reason)}</small>" if reason else "")


def _cell(key: Any, content: str, kind: str) -> str:
    return f'<td class="{kind}" data-key="{html.escape(str(key))}">{content}</td>'


def _text(text: str) -> str:
    return _cell(text, html.escape(text), "text")


def _number(value: float | None, text: str) -> str:
    return _cell("" if value is None else value, html.escape(text), "number")
