"""A report on many builds, checks or samplings: one self-contained HTML page."""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from sdfcli.cli.outcomes import BELOW, counts, unit_of
from sdfcli.cli.output import error_text, human_bytes
from sdfcli.cli.wording import health_text, tessellation_text
from sdfcli.errors import UsageError

if TYPE_CHECKING:
    from sdfcli.batch.messages import Outcome, Settings
    from sdfcli.batch.run import BuildRequest

STYLE = """
body { font: 13px/1.4 system-ui, sans-serif; margin: 1.2em; color: #222; }
table { border-collapse: collapse; }
th, td { padding: .3em .4em; text-align: left; vertical-align: middle; border-bottom: 1px solid #ddd; }
th { position: sticky; top: 0; background: #f4f6f8; }
th button { all: unset; cursor: pointer; font-weight: bold; }
th button:focus-visible { outline: 2px solid #27f; }
th[aria-sort=ascending] button::after { content: " \\25b2"; }
th[aria-sort=descending] button::after { content: " \\25bc"; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.name, td.text { max-width: 26em; overflow-wrap: anywhere; }
td:nth-child(2), td:nth-child(4), td:nth-child(6) { min-width: 9em; }
td img { display: block; width: 80px; height: 80px; }
.failed { background: #fde8e8; }
.doubtful { background: #fff6dc; }
small { color: #666; }
@media (max-width: 1150px) {
  table, tbody { display: block; }
  thead tr { display: flex; flex-wrap: wrap; }
  th, td { border: none; }
  th { position: static; }
  thead th:first-child { display: none; }
  tbody tr { display: grid; grid-template-columns: repeat(auto-fill, minmax(7em, 1fr)); border-bottom: 1px solid #ddd; }
  td.name, td.text { grid-column: 1 / -1; min-width: 0; max-width: none; }
  td.number { text-align: left; }
  td:empty { display: none; }
  td:not(.name)::before { content: var(--name, ""); display: block; font-size: smaller; color: #666; }
}
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


TITLES = {"build": "Signed distance fields", "check": "Mesh checks", "samples": "Training samples"}
"""Page titles by command."""
FRACTIONS = """Errors and thicknesses are fractions of the mesh's diagonal, or of <code>--unit</code>; below them,
lengths in the mesh's units."""
ABOUT = {
    "build": f"<p>Errors are the largest and the root mean square at random points. {FRACTIONS}</p>",
    "check": f"<p>{FRACTIONS}</p>",
    "samples": "",
}
"""Paragraph below the counts, by command."""

Column = tuple[str, str, Callable[["Outcome"], str]]
"""Heading, kind (`text` or `number`), and cell for a mesh that has not failed."""


def _columns(command: str) -> list[Column]:
    """A page's columns after the mesh and its verdict."""
    mesh: list[Column] = [
        ("triangles", "number", lambda each: _count(each["triangles"])),
        ("sign", "text", lambda each: _cell(each["sign"], _with_reason(each["sign"], each["sign_reason"]), "text")),
        ("certain", "number", lambda each: _share(each["sign_confidence"], ".1%")),
    ]
    work: list[Column] = [
        ("seconds", "number", lambda each: _share(each.get("seconds", {}).get("total"), ".2f")),
        ("size", "number", lambda each: _number(each["bytes"], human_bytes(each["bytes"]))),
    ]
    if command == "samples":
        return [
            *mesh,
            ("outside", "number", lambda each: _count(each["pos"])),
            ("inside", "number", lambda each: _count(each["neg"])),
            ("on surface", "number", lambda each: _count(each["surface"])),
            *work,
        ]
    found: list[Column] = [
        ("health", "text", lambda each: _text(health_text(each.get("health", each)))),
        *mesh,
        ("thinnest", "number", lambda each: _length(each["sheets"]["thinnest"], unit_of(each))),
        ("lost", "number", lambda each: _share(each["sheets"]["lost"], ".2%")),
    ]
    if command == "check":
        return [*found, ("in a build", "text", lambda each: _text(_findings(each)))]
    return [
        *found,
        ("leaves", "number", lambda each: _count(each["leaves"])),
        ("max error", "number", lambda each: _length(each["max_error"], unit_of(each), each["health"])),
        ("rms error", "number", lambda each: _length(each["rms_error"], unit_of(each))),
        ("samples", "number", lambda each: _count(each.get("error_samples"))),
        *work,
    ]


def _command(settings: Settings) -> str:
    """The command that made the outcomes."""
    return "check" if settings.check else "build" if settings.samples is None else "samples"


@contextmanager
def reported(path: Path | None, request: BuildRequest) -> Iterator[list[Outcome]]:
    """Yields a list for outcomes, from which the page is written at the end, also if interrupted. path: None: no page.

    Raises UsageError, before any work, if the page may not be written.
    """
    done: list[Outcome] = []
    if path is None:
        yield done
        return
    _check_page(path, request)
    try:
        yield done
    except KeyboardInterrupt:
        write_page(path, done, request)
        raise
    write_page(path, done, request)


def _check_page(path: Path, request: BuildRequest) -> None:
    from sdfcli.batch.field_page import page_of
    from sdfcli.runtime.files import check_ending, check_target

    check_ending(path, "", ".html", ".htm")
    check_target(path, request.settings.force, *request.inputs)
    outputs = [Path(job.output) for job in request.jobs if job.output]
    if request.settings.pages:
        outputs += [page_of(each) for each in outputs]
    if os.path.realpath(path) in map(os.path.realpath, outputs):
        raise UsageError(f"--report {path}: that is the output of a mesh; use another name")


def write_page(path: Path, outcomes: list[Outcome], request: BuildRequest) -> None:
    """Writes the page atomically, if there are outcomes. Raises UsageError if it exists, unless forced, or cannot be
    written."""
    from sdfcli.runtime.files import written_whole

    if outcomes:
        with written_whole(path, request.settings.force) as temporary:
            text = page(outcomes, len(request.jobs), _command(request.settings), path.parent)
            temporary.write_text(text, encoding="utf-8", errors="backslashreplace")


def page(outcomes: list[Outcome], total: int, command: str = "build", folder: Path = Path()) -> str:
    """The page: a sortable table with a row per mesh, failures included. command: `build`, `check` or `samples`.
    folder: the page's, from which links start."""
    columns, pictures = _columns(command), command == "build"
    named = [("mesh", "text"), ("verdict", "text"), *(column[:2] for column in columns)]
    heads = "".join(f'<th data-kind="{sort}"><button type="button">{name}</button></th>' for name, sort in named)
    first = 2 if pictures else 1  # after the picture
    names = "".join(f'td:nth-child({k}) {{ --name: "{name}"; }}\n' for k, (name, _) in enumerate(named, first))
    rows = "\n".join(_row(outcome, columns, pictures, folder) for outcome in outcomes)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="generator" content="sdfcli {command} --report">
<title>{TITLES[command]}</title>
<style>{STYLE}{names}</style>
</head>
<body>
<h1>{TITLES[command]}</h1>
<p>{html.escape(counts(outcomes, total, command == "check"))}</p>
{ABOUT[command]}
<table>
<thead><tr>{"<th>picture</th>" if pictures else ""}{heads}</tr></thead>
<tbody>
{rows}
</tbody>
</table>
<script>{SCRIPT}</script>
</body>
</html>
"""


def _row(outcome: Outcome, columns: list[Column], pictures: bool, folder: Path) -> str:
    failed = outcome["status"] == "failed"
    picture = outcome.get("picture")
    image = f'<img alt="" src="data:image/png;base64,{html.escape(picture)}">' if picture else ""
    if outcome.get("page"):
        address = quote(Path(os.path.relpath(outcome["page"], folder)).as_posix(), errors="surrogateescape")
        image = f'<a href="./{address}">{image or "view"}</a>'
    name = _with_reason(outcome["input"], outcome.get("output") or "")
    cells = [*([f"<td>{image}</td>"] if pictures else []), _cell(outcome["input"], name, "name")]
    if failed:
        why = _with_reason(f"failed ({outcome['exit_code']})", outcome["error"])
        cells += [_cell("failed", why, "text"), *(_cell("", "", "") for _ in columns)]
    else:
        below = ["skipped"] if outcome["status"] == "skipped" else []
        below += [f"{BELOW} ({outcome['exit_code']}): {outcome['error']}"] if outcome["exit_code"] else []
        cells.append(_cell(outcome["verdict"], _with_reason(outcome["verdict"], ", ".join(below)), "text"))
        cells += [cell(outcome) for _, _, cell in columns]
    return f'<tr class="{"failed" if outcome["exit_code"] else html.escape(outcome["verdict"])}">{"".join(cells)}</tr>'


def _findings(outcome: Outcome) -> str:
    return "; ".join(f"{each['what']}: {each['then']}" for each in outcome["findings"])


def _with_reason(text: str, reason: str) -> str:
    return html.escape(text) + (f"<br><small>{html.escape(reason)}</small>" if reason else "")


def _cell(key: Any, content: str, kind: str) -> str:
    return f'<td class="{kind}" data-key="{html.escape(str(key))}">{content}</td>'


def _text(text: str) -> str:
    return _cell(text, html.escape(text), "text")


def _number(value: float | None, text: str) -> str:
    return _cell("" if value is None else value, html.escape(text), "number")


def _length(fraction: float | None, unit: float, mesh: dict[str, Any] | None = None) -> str:
    """A fraction with its length below. unit: as in `length_text`. mesh: whose tessellation to add, see
    `tessellation_text`."""
    if fraction is None:
        return _number(None, "")
    words = f"{error_text(fraction * unit)}{tessellation_text(mesh or {})}"
    return _cell(fraction, _with_reason(error_text(fraction), words), "number")


def _count(count: int | None) -> str:
    return _number(count, "" if count is None else f"{count:,}")


def _share(value: float | None, form: str) -> str:
    return _number(value, "" if value is None else f"{value:{form}}")
