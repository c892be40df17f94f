"""(c) Adaptive octree, grown level by level, with exact signed distances at its points."""

from __future__ import annotations

from sdfcli.octree.assemble import assemble
from sdfcli.octree.grown import Busy, Grown, Limits, Progress
from sdfcli.octree.growth import Growth
from sdfcli.scene import Scene


def build(scene: Scene, limits: Limits, progress: Progress | None = None, busy: Busy = lambda: None) -> Grown:
    """Grows and assembles the octree; see grown.py. Raises OutOfMemoryError if it does not fit."""
    scene.release_sign_data()
    growth = Growth(scene, limits, busy=busy)
    octree, criteria = growth.octree, growth.criteria
    finest = criteria.thin_depth
    growth.run(progress and (lambda level, cells: progress(f"level {level + 1} of {finest}: {cells:,} cells")))
    queries, working_bytes = growth.distances.queries, octree.nbytes
    del growth  # with its room
    scene.release_index()
    counted = octree.jump_and_sheet_leaves()
    arrays, parts = assemble(octree, criteria, scene.order, limits.length, limits.step, limits.why)
    jump_leaves, sheet_leaves = counted()
    thinnest_kept, backend = criteria.thinnest_kept, scene.backend
    del octree, criteria
    if not backend.memory.scarce:
        backend.release_cached()  # the C library retains half of an octree's arrays
    return Grown(
        arrays,
        queries,
        working_bytes,
        step=None if limits.step is None else limits.step / parts,
        parts=parts,
        jump_leaves=jump_leaves,
        sheet_leaves=sheet_leaves,
        thinnest_kept=thinnest_kept,
    )
