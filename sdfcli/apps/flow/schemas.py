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
    "frames": told(COUNT, "states written after the initial one"),
    **KEPT,
    "water": told(COUNT, "initial water particles"),
    "wall_particles": told(COUNT, "initial wall particles"),
    "lost": told(COUNT, "particles that left the tank"),
    "behind": told(COUNT, "number of times that a particle was behind the field's wall at the end of a step"),
    "too_fast": told(
        COUNT, "number of times that a particle moved so far in a step that it may have missed a neighbour"
    ),
    "clearance": told(
        or_null(NUMBER),
        "minimum distance of water from the field's wall over all states, in metres; null without a field",
    ),
    "particle_spacing": told(NUMBER, "particle spacing, in metres"),
    "energies": told(listed(NUMBER, 2), "the water's kinetic plus potential energy at start and end, in joules"),
    "flow_seconds": told(NUMBER, "time of the last state, in seconds"),
    "time_step": told(NUMBER, "time step, in seconds"),
    "time_steps": told(COUNT, "time steps computed"),
    "steps_per_second": told(NUMBER, "computed time steps per second"),
    "pictures?": told(TEXT, "picture folder; with `--pictures`"),
}

OUTPUTS: dict[str, tuple[str, dict[str, Json]]] = {
    "flow": ("Around a field, or in it.", {"input": COMMON["input"], **FLOW}),
    "flow --case": ("Without a field.", {"case": told(TEXT, "`--case`"), **FLOW}),
    "bench flow": (
        "One line.",
        {
            "device": COMMON["device"],
            "steps": told(COUNT, "time steps run"),
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
                "one per layout: `particles`, `order` (`lattice`, `shuffled`), `layout`, `block` (null on a CPU), "
                "`seconds` (for 2,000 steps), `stages` (milliseconds per step, by name), `paper` (seconds in the "
                "paper, or null)",
            ),
        },
    ),
}
"""By output, as in the core."""
