"""Schemas of `flow --json` and `bench flow --json`."""

from __future__ import annotations

from sdfcli.cli.schemas import (
    AMOUNT,
    COMMON,
    COUNT,
    KEPT,
    NUMBER,
    TEXT,
    Json,
    by_name,
    listed,
    or_null,
    pick,
    rows,
    told,
)

FLOW: dict[str, Json] = {
    **pick(COMMON, "output", "bytes", "seconds", "device"),
    "frames": told(COUNT, "how many frames there are, beside the state at the start"),
    **KEPT,
    "water": told(COUNT, "particles of water at the start"),
    "wall_particles": told(COUNT, "particles of walls at the start"),
    "lost": told(COUNT, "particles that left the tank"),
    "behind": told(COUNT, "how often a particle was behind a wall of the field at the end of a step"),
    "too_fast": told(COUNT, "how often a particle moved so far in a step that it may have missed a neighbour"),
    "clearance": told(
        or_null(NUMBER), "least distance of water from a wall of the field, of all states, in metres; null without one"
    ),
    "particle_spacing": told(NUMBER, "in metres"),
    "energies": told(
        listed(NUMBER, 2), "kinetic and potential energy of the water at the start and the end, in joules"
    ),
    "flow_seconds": told(NUMBER, "the time of the last state"),
    "time_step": told(NUMBER, "its seconds"),
    "time_steps": told(COUNT, "how many were computed"),
    "steps_per_second": told(NUMBER, "those that were computed, by the seconds that they took"),
    "pictures?": told(TEXT, "the folder of the pictures; with `--pictures`"),
}

OUTPUTS: dict[str, tuple[str, dict[str, Json]]] = {
    "flow": ("Around a field, or in it.", {"input": COMMON["input"], **FLOW}),
    "flow --case": ("Without a field.", {"case": told(TEXT, "the case"), **FLOW}),
    "bench flow": (
        "One line.",
        {
            "device": COMMON["device"],
            "steps": told(COUNT, "time steps that were run"),
            **rows(
                {
                    "particles": COUNT,
                    "order": TEXT,
                    "layout": TEXT,
                    "block": or_null(COUNT),
                    "seconds": AMOUNT,
                    "stages": by_name(AMOUNT),
                    "paper": or_null(AMOUNT),
                },
                "a layout each: `particles`, `order` (`lattice`, `shuffled`), `layout`, `block` (null on a CPU), "
                "`seconds` (of 2,000 steps), `stages` (milliseconds a step, by name), `paper` (its seconds, or null)",
            ),
        },
    ),
}
"""By output, as in the core."""
