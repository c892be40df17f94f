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
    described,
    listed,
    or_null,
    pick,
    rows,
)

FLOW: dict[str, Json] = {
    **pick(COMMON, "output", "bytes", "seconds", "device"),
    "frames": described(COUNT, "states written after the initial one"),
    **KEPT,
    "water": described(COUNT, "initial water particles"),
    "wall_particles": described(COUNT, "initial wall particles"),
    "lost": described(COUNT, "particles that left the tank"),
    "behind": described(COUNT, "number of times that a particle was behind the field's wall at the end of a step"),
    "too_fast": described(
        COUNT, "number of times that a particle moved so far in a step that it may have missed a neighbour"
    ),
    "clearance": described(
        or_null(NUMBER),
        "minimum distance of water from the field's wall over all states, in metres; null without a field",
    ),
    "particle_spacing": described(NUMBER, "particle spacing, in metres"),
    "energies": described(listed(NUMBER, 2), "the water's kinetic plus potential energy at start and end, in joules"),
    "flow_seconds": described(NUMBER, "time of the last state, in seconds"),
    "time_step": described(NUMBER, "time step, in seconds"),
    "time_steps": described(COUNT, "time steps computed"),
    "steps_per_second": described(NUMBER, "computed time steps per second"),
    "pictures?": described(TEXT, "picture folder; with `--pictures`"),
}

OUTPUTS: dict[str, tuple[str, dict[str, Json]]] = {
    "flow": ("Around a field, or in it.", {"input": COMMON["input"], **FLOW}),
    "flow --case": ("Without a field.", {"case": described(TEXT, "`--case`"), **FLOW}),
    "bench flow": (
        "One line.",
        {
            "device": COMMON["device"],
            "steps": described(COUNT, "time steps run"),
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
