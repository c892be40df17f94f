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
    described,
    keyed,
    listed,
    one_of,
    or_null,
    pick,
    rows,
)

DEPTH = {"depth": described(COUNT, "octree depth: `--depth` or its default")}
QUERY_COSTS: dict[str, Json] = {
    "points": described(COUNT, "point count"),
    "milliseconds": described(AMOUNT, "median milliseconds"),
    "boxes": described(AMOUNT, "boxes tested per point"),
    "tests": described(AMOUNT, "triangles tested per point"),
}
MS: Json = or_null(AMOUNT)

OUTPUTS: dict[str, tuple[str, dict[str, Json]]] = {
    "bench": (
        "A line per mesh.",
        {
            **pick(COMMON, "input", "triangles", "device"),
            "points": described(TEXT, "`--points`"),
            **DEPTH,
            "count": described(COUNT, "number of query points"),
            "query": described(TEXT, "query algorithm used in `stages_ms`"),
            "stages_ms": described(by_name(AMOUNT), "milliseconds per stage, and `total`"),
            "queries": described(
                by_name(
                    keyed(dict.fromkeys(("ms", "million_per_second", "boxes", "tests", "ratio"), AMOUNT)),
                ),
                "`ms`, `million_per_second`, `boxes`, `tests`, `ratio` of [each query](commands/bench.md)",
            ),
        },
    ),
    "bench --uniform": (
        "A line per mesh.",
        {
            **pick(COMMON, "input", "device"),
            **DEPTH,
            "methods": described(
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
                "a [row](commands/bench.md) per method",
            ),
        },
    ),
    "bench --coherence": (
        "A line per mesh.",
        {
            **pick(COMMON, "input", "triangles", "device"),
            **DEPTH,
            **rows(
                {"motion": TEXT, "amount": AMOUNT, "query": TEXT, "seed": TEXT, **QUERY_COSTS},
                "one per motion, query and seed: `motion`, `amount` (fraction of the diagonal), `query`, `seed` "
                "(`cold`, `earlier`, `exact`), `points`, `milliseconds`, `boxes`, `tests` (per point)",
            ),
            "lead": described(
                listed(keyed(dict.fromkeys(("amount", "cold", "earlier", "exact", "gain"), AMOUNT))),
                "one per `amount`: `cold`, `earlier`, `exact`: speed-up of `cct` over `baseline` from that seed; "
                "`gain`: speed-up of `cct` from the earlier triangle over cold; geometric means over the motions",
            ),
        },
    ),
    "bench --seeds knn": (
        "A line per mesh.",
        {
            **pick(COMMON, "input", "triangles", "device"),
            **DEPTH,
            **rows(
                {"query": TEXT, "seed": TEXT, **QUERY_COSTS},
                "one per query and [seed](commands/bench.md): `query`, `seed`, `points`, `milliseconds`, `boxes`, "
                "`tests` (per point)",
            ),
        },
    ),
    "bench scan": (
        "A line per measurement.",
        {
            "device": COMMON["device"],
            "what": described(TEXT, "`scan`, `library` or `copy`"),
            "where": described(TEXT, "`host to host` or `on devices`"),
            "devices": described(COUNT, "device count"),
            "elements": described(COUNT, "32-bit element count"),
            "milliseconds": described(AMOUNT, "median milliseconds"),
            "fastest": described(AMOUNT, "lower quartile, in milliseconds"),
            "slowest": described(AMOUNT, "upper quartile, in milliseconds"),
            "gigabytes": described(AMOUNT, "GB/s, counting one read and one write per element"),
            "speed_up": described(AMOUNT, "speed-up over one device"),
            "paper": described(MS, "the paper's milliseconds, or null"),
        },
    ),
    "bench knn": (
        "A line per mesh.",
        {
            **pick(COMMON, "input", "triangles", "vertices", "device"),
            "k": described(COUNT, "neighbour count"),
            "block": described(or_null(COUNT), "threads per block; null without `--block`, and on a CPU"),
            "sizes": described(
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
                "milliseconds per query count and form: `queries`, `form`, `search`, `joint`, `tree`, `paper`, `ann`",
            ),
            "quality": described(
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
                "one per form, point set and shift count: `form`, `points`, `shifts`, `recall`, `ratio`, "
                "`ratio_median`, `ratio_most` (of 999 in 1,000), `nearest`, `bound`, `bound_median`",
            ),
            "ablation": described(
                listed(keyed({"variant": TEXT, "points": TEXT, "milliseconds": MS, "recall": MS})),
                "one per variant and point set: `variant`, `points`, `milliseconds`, `recall`; null if not measured",
            ),
        },
    ),
    "bench scale": (
        "A line per mesh.",
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
                "one per build: `made` (`given`, `copies`, `subdivided`), `triangles`, `read` (seconds to read the "
                "file's bytes), `seconds` (of the process), `stages` (seconds, by column), `leaves`, `file_bytes`, "
                "`field_bytes`, `host_bytes`, `device_bytes` (null on a CPU)",
            ),
            "exponents": described(
                by_name(by_name(NUMBER)),
                "growth exponents with the triangle count, for `copies` and `subdivided`, by column",
            ),
        },
    ),
    "bench sequence": (
        "A line per mesh.",
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
                "one per octree and build method: `way`, `octree`, `file` (whether files are written), `frames`, "
                "`seconds`, `per_second` (frames), `steady` (frames per second after the first; null for a process per "
                "frame)",
            ),
        },
    ),
    "profile --dry-run": (
        "One line.",
        {"input": COMMON["input"], "command": described(listed(TEXT), "the command line that would be run")},
    ),
    "profile": (
        "One line, with `variants` or `kernels`: figures by name.",
        {
            **pick(COMMON, "input", "device"),
            "repeat": described(COUNT, "counted launches"),
            "measured_by": described(one_of("ncu", "events"), "Nsight Compute, or CUDA events"),
            "triangles?": described(COUNT, "mesh triangles; not for `flow:LAYOUT`"),
            "points?": described(TEXT, "`--points`; not for `flow:LAYOUT`"),
            "depth?": described(COUNT, "`--depth`; not for `flow:LAYOUT`"),
            "particles?": described(COUNT, "particle count; for `flow:LAYOUT`"),
            "variants?": described(by_name(by_name(or_null(NUMBER))), "figures by query variant"),
            "speedup?": described(by_name(or_null(NUMBER)), "speed-up over `baseline`, by variant"),
            "reduction_percent?": described(
                by_name(by_name(or_null(NUMBER))), "reduction against `baseline`, in percent, by variant"
            ),
            "model?": described(
                by_name(or_null(NUMBER)),
                "transaction reduction from `baseline` to `soa`, in percent: the thesis's model `at_p_1`, `measured` "
                "load requests, and the model's `p` at which both agree, or null",
            ),
            "thesis?": described(
                {"type": ["object", "null"]}, "the thesis's figures for this mesh; null if it has none"
            ),
            "kernels?": described(by_name(by_name(or_null(NUMBER))), "`launches`, and figures per launch, by kernel"),
        },
    ),
}
"""By output, as in the core."""
