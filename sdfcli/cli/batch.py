"""What people and programs see of a batch: lines on standard error, JSON Lines on standard output, a summary."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from sdfcli.cli.output import error_text, print_json, say

if TYPE_CHECKING:
    from sdfcli.batch.terms import Outcome

WORDS = {"ok": "built", "skipped": "skipped", "failed": "failed"}


def follow(outcomes: Iterable[Outcome], total: int, json: bool, quiet: bool, done: list[Outcome]) -> None:
    """Tells of every outcome as it comes, and in the end of all; adds them to `done`."""
    start = time.perf_counter()
    try:
        for outcome in outcomes:
            done.append(outcome)
            if json:
                print_json(without_picture(outcome))
            if outcome["status"] == "failed":
                message = outcome["error"]
                say(f"sdfcli: {message}" if quiet else f"{_place(len(done), total)} FAILED {message}")
            elif not quiet:
                say(f"{_place(len(done), total)} {_line(outcome)}")
    finally:
        if done and not quiet:
            for line in _summary(done, total, time.perf_counter() - start):
                say(line)


def without_picture(outcome: Outcome) -> dict[str, Any]:
    """An outcome for programs."""
    return {name: value for name, value in outcome.items() if name != "picture"}


def _place(number: int, total: int) -> str:
    return f"[{number:>{len(str(total))}}/{total}]"


def _line(outcome: Outcome) -> str:
    missed = f" misses the tolerance {error_text(outcome['tolerance'])}" if outcome["error_limit"] else ""
    facts = f"{outcome['verdict']}, {outcome['leaves']:,} leaves, error {error_text(outcome['max_error'])}{missed}"
    name = " ".join(outcome["input"].split())
    if outcome["status"] == "skipped":
        return f"{name}: skipped, {outcome['output']} is there ({facts})"
    if outcome["sign"] == "none":
        facts += ", no sign"
    return f"{name}: {facts}, {outcome['seconds']['total']:.2f} s on {outcome['device']}"


def counts(done: list[Outcome], total: int) -> str:
    """How many meshes were built, skipped and failed."""
    count = Counter(outcome["status"] for outcome in done)
    parts = [f"{count[status]} {word}" for status, word in WORDS.items() if count[status]]
    if len(done) < total:
        parts.append(f"{total - len(done)} not done")
    return f"{total} mesh{'es' if total > 1 else ''}: {', '.join(parts)}"


def _summary(done: list[Outcome], total: int, seconds: float) -> list[str]:
    lines = [f"{counts(done, total)}, in {seconds:.1f} s"]
    lines += [f"  failed ({each['exit_code']}): {each['input']}" for each in done if each["status"] == "failed"]
    if len(done) < total:
        lines.append("  the same command with --skip-existing goes on from here")
    return lines
