"""Schemas of `bench --json` and `profile --json`."""

from __future__ import annotations

from sdfcli.cli.schemas import (
    AMOUNT,
    COMMON,
    COUNT,
    NUMBER,
    TEXT,
    YES_OR_NO,
    Json,
    by_name,
    keyed,
    listed,
    one_of,
    or_null,
    pick,
    rows,
    told,
)

DEPTH = {"depth": told(COUNT, "the octree's depth: that of the option")}
QUERY_COSTS: dict[str, Json] = {
    "points": told(COUNT, "how many"),
    "milliseconds": told(AMOUNT, "median"),
    "boxes": told(AMOUNT, "measured a point"),
    "tests": told(AMOUNT, "triangles measured a point"),
}
MS: Json = or_null(AMOUNT)

OUTPUTS: dict[str, tuple[str, dict[str, Json]]] = {
    "bench": (
        "A line for each mesh.",
        {
            **pick(COMMON, "input", "triangles", "device"),
            "points": told(TEXT, "the option"),
            **DEPTH,
            "count": told(COUNT, "points that were asked for"),
            "query": told(TEXT, "that of the stages"),
            "stages_ms": told(by_name(AMOUNT), "milliseconds of each stage, and `total`"),
            "queries": told(
                by_name(
                    keyed(dict.fromkeys(("ms", "million_per_second", "boxes", "tests", "ratio"), AMOUNT)),
                ),
                "`ms`, `million_per_second`, `boxes`, `tests`, `ratio` of [each query](commands/bench.md)",
            ),
        },
    ),
    "bench --uniform": (
        "A line for each mesh.",
        {
            **pick(COMMON, "input", "device"),
            **DEPTH,
            "methods": told(
                listed(
                    keyed(
                        {
                            "method": TEXT,
                            "seconds": COMMON["seconds"],
                            **dict.fromkeys(("nodes", "field_bytes", "working_bytes", "queries", "left_out"), COUNT),
                            "seeds": or_null(COUNT),
                            **dict.fromkeys(("node_max", "node_rms", "node_wrong", "max_error", "rms_error"), AMOUNT),
                        }
                    )
                ),
                "a [row](commands/bench.md) each",
            ),
        },
    ),
    "bench --coherence": (
        "A line for each mesh.",
        {
            **pick(COMMON, "input", "triangles", "device"),
            **DEPTH,
            **rows(
                {"motion": TEXT, "amount": AMOUNT, "query": TEXT, "seed": TEXT, **QUERY_COSTS},
                "a motion with a query from a seed each: `motion`, `amount` (fraction of the diagonal), `query`, "
                "`seed` (`cold`, `earlier`, `exact`), `points`, `milliseconds`, `boxes`, `tests` (a point)",
            ),
            "lead": told(
                listed(keyed(dict.fromkeys(("amount", "cold", "earlier", "exact", "gain"), AMOUNT))),
                "an `amount` each: `cold`, `earlier`, `exact`: how many times as fast as `baseline` `cct` is from that "
                "seed; `gain`: how many times as fast `cct` is from the earlier triangle as cold; geometric means of "
                "the motions",
            ),
        },
    ),
    "bench --seeds knn": (
        "A line for each mesh.",
        {
            **pick(COMMON, "input", "triangles", "device"),
            **DEPTH,
            **rows(
                {"query": TEXT, "seed": TEXT, **QUERY_COSTS},
                "a query from a [seed](commands/bench.md) each: `query`, `seed`, `points`, `milliseconds`, `boxes`, "
                "`tests` (a point)",
            ),
        },
    ),
    "bench scan": (
        "A line for each measurement.",
        {
            "device": COMMON["device"],
            "what": told(TEXT, "`scan`, `library` or `copy`"),
            "where": told(TEXT, "`host to host` or `on devices`"),
            "devices": told(COUNT, "how many"),
            "elements": told(COUNT, "32-bit numbers"),
            "milliseconds": told(AMOUNT, "median"),
            "fastest": told(AMOUNT, "the lower quartile"),
            "slowest": told(AMOUNT, "the upper quartile"),
            "gigabytes": told(AMOUNT, "a second, for one read and one write of every element"),
            "speed_up": told(AMOUNT, "over one device"),
            "paper": told(MS, "the paper's milliseconds, or null"),
        },
    ),
    "bench knn": (
        "A line for each mesh.",
        {
            **pick(COMMON, "input", "triangles", "vertices", "device"),
            "k": told(COUNT, "neighbours"),
            "block": told(or_null(COUNT), "threads of a block; null without `--block`, and on a CPU"),
            "sizes": told(
                listed(
                    keyed(
                        {
                            "queries": COUNT,
                            "form": TEXT,
                            "search": AMOUNT,
                            "joint": AMOUNT,
                            **dict.fromkeys(("tree", "paper", "ann"), MS),
                        }
                    )
                ),
                "a number of queries in a form each, milliseconds: `queries`, `form`, `search`, `joint`, `tree`, "
                "`paper`, `ann`",
            ),
            "quality": told(
                listed(
                    keyed(
                        {
                            "form": TEXT,
                            "points": TEXT,
                            "shifts": COUNT,
                            **dict.fromkeys(
                                (
                                    "recall",
                                    "ratio",
                                    "ratio_median",
                                    "ratio_most",
                                    "nearest",
                                    "bound",
                                    "bound_median",
                                ),
                                MS,
                            ),
                        }
                    )
                ),
                "a form at points with a number of shifts each: `form`, `points`, `shifts`, `recall`, `ratio`, "
                "`ratio_median`, `ratio_most` (of 999 in 1,000), `nearest`, `bound`, `bound_median`",
            ),
            "ablation": told(
                listed(keyed({"variant": TEXT, "points": TEXT, "milliseconds": MS, "recall": MS})),
                "a variant at points each: `variant`, `points`, `milliseconds`, `recall`; null where there is none",
            ),
        },
    ),
    "bench scale": (
        "A line for each mesh.",
        {
            **pick(COMMON, "input", "device"),
            **rows(
                {
                    "made": TEXT,
                    "read": AMOUNT,
                    "seconds": AMOUNT,
                    "stages": by_name(AMOUNT),
                    **dict.fromkeys(("triangles", "leaves", "file_bytes", "field_bytes", "host_bytes"), COUNT),
                    "device_bytes": or_null(COUNT),
                },
                "a build each: `made` (`given`, `copies`, `subdivided`), `triangles`, `read` and `seconds` (of the "
                "file's bytes, of the process), `stages` (seconds, by column), `leaves`, `file_bytes`, `field_bytes`, "
                "`host_bytes`, `device_bytes` (null on a CPU)",
            ),
            "exponents": told(
                by_name(by_name(NUMBER)),
                "of `copies` and of `subdivided`, by name of a column, the exponent of its growth with the triangles",
            ),
        },
    ),
    "bench sequence": (
        "A line for each mesh.",
        {
            **pick(COMMON, "input", "triangles", "device"),
            **DEPTH,
            **rows(
                {
                    "way": TEXT,
                    "octree": TEXT,
                    "file": YES_OR_NO,
                    "frames": COUNT,
                    "seconds": AMOUNT,
                    "per_second": AMOUNT,
                    "steady": MS,
                },
                "an octree and a way each: `way`, `octree`, `file` (whether files are written), `frames`, `seconds`, "
                "`per_second` (frames), `steady` (frames a second after the first; null for a process each)",
            ),
        },
    ),
    "profile --dry-run": (
        "One line.",
        {"input": COMMON["input"], "command": told(listed(TEXT), "what would be run")},
    ),
    "profile": (
        "One line, with `variants` or `kernels`: figures by name.",
        {
            **pick(COMMON, "input", "device"),
            "repeat": told(COUNT, "launches that were counted"),
            "measured_by": told(one_of("ncu", "events"), "Nsight Compute, or events of CUDA"),
            "triangles?": told(COUNT, "of the mesh; not of `flow:LAYOUT`"),
            "points?": told(TEXT, "the option; not of `flow:LAYOUT`"),
            "depth?": told(COUNT, "the option; not of `flow:LAYOUT`"),
            "particles?": told(COUNT, "of `flow:LAYOUT`"),
            "variants?": told(by_name(by_name(or_null(NUMBER))), "figures of each of the query's variants"),
            "speedup?": told(by_name(or_null(NUMBER)), "of each variant over `baseline`"),
            "reduction_percent?": told(by_name(by_name(or_null(NUMBER))), "of each variant against `baseline`"),
            "model?": told(by_name(or_null(NUMBER)), "the reduction of transactions by the thesis's model, beside it"),
            "thesis?": told({"type": ["object", "null"]}, "the thesis's figures of this mesh; null where it has none"),
            "kernels?": told(by_name(by_name(or_null(NUMBER))), "`launches`, and figures of a launch, by kernel"),
        },
    ),
}
"""By output, as in the core."""
