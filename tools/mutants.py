"""Mutation tests: `python tools/mutants.py [NAME ...] [--list] [--jobs N]`.

A mutant is one wrong line. Each is put into a copy of the source tree, whose kernels are rebuilt after a header change,
and its tests must fail there. NAME selects mutants whose name contains it; default: all. The exit status is 1 if a
mutant survives unexpectedly, or is killed although expected to survive.

Needs the test dependencies, CMake and g++. Kernels are built with little optimisation, which does not change their
bits.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
COPIED = ("pyproject.toml", "sample_meshes", "sdfcli", "tests", "tools")
LIBRARY = "libsdfcli_kernels.so"
PATIENCE = 900
"""Timeout in seconds, after which a mutant counts as killed."""
WITHOUT_REDIRECTION = """import sys
sys.meta_path[:] = [each for each in sys.meta_path if "ScikitBuild" not in type(each).__name__]
"""
"""A sitecustomize.py that removes an editable install's finder, which would precede all folders."""
SURVIVED = "survived"


class Mutant(NamedTuple):
    """A wrong line.

    name      one or few words.
    file      path from the root.
    old, new  original text, which occurs once, and the mutation.
    tests     tests that must fail, as pytest arguments, without parameters.
    reason    why no test can detect the mutant; empty where one must.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    reason: str = ""


COARSE = "tests/field/test_coarse.py"
GROWTH, GRID_SORT = "tests/octree/test_growth.py", "tests/backend/test_grid_sort.py"
PACKETS, INDEX = "tests/spatial/test_packets.py", "tests/spatial/test_index.py"
TRAVERSALS, PLOC = "tests/spatial/test_traversals.py", "tests/spatial/test_ploc.py"
ADAPTIVE, HASHES = "tests/octree/test_adaptive.py", "tests/test_hashes.py::test_bits"
CRITERIA, CAUSES = "tests/octree/test_criteria.py", "tests/octree/test_causes.py"
PROOF, WALLS = "tests/quality/test_prove.py", "tests/quality/test_walls.py"
FARTHEST = "tests/quality/test_hausdorff.py"
SIGN, CROSSING, REPAIR = "tests/sign/test_sign.py", "tests/sign/test_crossing.py", "tests/mesh/test_repair.py"
READERS, GLTF, LINES = "tests/mesh/test_readers.py", "tests/mesh/test_gltf.py", "tests/mesh/test_axis_lines.py"
SAMPLES, RESOLUTION = "tests/export/test_samples.py", "tests/extract/test_resolution.py"
BAND = "tests/export/test_narrow_band.py"
SCHEMAS, GRID = "tests/export/test_schemas.py", "tests/export/test_dual_grid.py"
K, FORMATS = "sdfcli/kernels", "sdfcli/mesh/formats"
LISTS, LIST_TESTS = f"{K}/neighbours/triangles_simd.h", ("tests/query/test_nearest_triangles.py",)

MUTANTS = [
    # ---- Particles ----
    Mutant(
        "copies in two layers",
        "sdfcli/apps/flow/slabs.py",
        "\nHALO = 3\n",
        "\nHALO = 2\n",
        ("tests/apps/flow/test_slabs.py::test_what_reaches_farthest",),
    ),
    Mutant(
        "last copies in three layers",
        "sdfcli/apps/flow/slabs.py",
        "LAST_HALO = 4",
        "LAST_HALO = 3",
        ("tests/apps/flow/test_slabs.py::test_what_reaches_farthest",),
    ),
    # ---- Flood ----
    Mutant(
        "flood from all sides",
        f"{K}/solid/flood.h",
        "beyond > 0.f && a.root[i] ?",
        "beyond > 0.f && !a.root[i] ?",
        ("tests/solid/test_flood.py::test_inside_is_what_the_dense_flood_does_not_reach",),
    ),
    Mutant(
        "flood through walls",
        f"{K}/solid/flood.h",
        "if (!(a.value[corner[low]] > a.radius)) continue;",
        "",
        ("tests/solid/test_flood.py::test_inside_is_what_the_dense_flood_does_not_reach",),
    ),
    Mutant(
        "labels do not spread",
        f"{K}/solid/flood.h",
        "if (!label) continue;",
        "continue;",
        ("tests/solid/test_flood.py::test_a_larger_gap_keeps_the_detail",),
    ),
    Mutant(
        "reached leaves are pockets",
        f"{K}/solid/flood.h",
        "a.value[corner[k]] > a.deep && a.root[corner[k]] != 0;",
        "a.value[corner[k]] > a.deep;",
        ("tests/solid/test_flood.py::test_a_wide_slot_lets_the_outside_in_and_is_reported",),
    ),
    Mutant(
        "no corner is beside a passage",
        f"{K}/solid/passages.h",
        "if (square > 16.f * edge * edge * a.slope * a.slope) return;",
        "return;",
        ("tests/solid/test_passages.py::test_corners_beside_passages",),
    ),
    Mutant(
        "walls across passages are moved to the mesh",
        f"{K}/solid/surface.h",
        "(way / a.radius - 1)) + max_of(way - a.wall, 0.0);",
        "(way / a.radius - 1));",
        ("tests/solid/test_flood.py::test_vertices_move_back_along_their_ways",),
    ),
    Mutant(
        "balls fit without their radius",
        f"{K}/solid/passages.h",
        "bool fits = a.distance[i] > a.radius;",
        "bool fits = a.distance[i] > 0.9 * a.radius;",
        ("tests/solid/test_passages.py::test_a_ball_between_plates",),
    ),
    Mutant(
        "cavities are shells",
        "sdfcli/solid/surface.py",
        "if room else volume > least",
        "if room else abs(volume) > least",
        ("tests/solid/test_soups.py",),
    ),
    # ---- Holes ----
    Mutant(
        "holes are closed inside out",
        "sdfcli/mesh/holes.py",
        "weights=same - opposite) > 0)",
        "weights=same - opposite) < 0)",
        ("tests/mesh/test_holes.py::test_scans_become_closed",),
    ),
    Mutant(
        "any triangulation",
        "sdfcli/mesh/fill.py",
        "best = total.argmin(axis=2)",
        "best = total.argmax(axis=2)",
        ("tests/mesh/test_fill.py::test_least_area_of_all_triangulations",),
    ),
    Mutant(
        "holes are verified open",
        "sdfcli/solid/again.py",
        "return treated(mesh.on(backend)",
        "return mesh or treated(mesh.on(backend)",
        ("tests/cli/test_holes.py::test_the_field_is_known_again",),
    ),
    Mutant(
        "advice for chosen signs",
        "sdfcli/pipeline.py",
        "if advised and params.sign == AUTO and",
        "if advised and",
        ("tests/solid/test_advice.py::test_no_advice_where_signs_are_certain_or_chosen",),
    ),
    Mutant(
        "advice without a test of the gap",
        "sdfcli/solid/advice.py",
        "smallest(found, radius, backend) /",
        "radius /",
        ("tests/solid/test_advice.py::test_the_gap_is_wide_enough_and_not_much_wider",),
    ),
    Mutant(
        "rooms are not turned",
        "sdfcli/pipeline.py",
        "return field._turned() if params.sign == INSIDE else field",
        "return field",
        ("tests/solid/test_inside.py::test_signs_and_proven_distances",),
    ),
    Mutant(
        "any pocket is the room",
        "sdfcli/solid/solidify.py",
        "if share < ROOM:",
        "if share < 0:",
        ("tests/solid/test_inside.py::test_no_room",),
    ),
    Mutant(
        "furniture is lost",
        "sdfcli/solid/surface.py",
        "(volume < 0) | (np.arange(len(volume)) == volume.argmax())",
        "(np.arange(len(volume)) == volume.argmax())",
        ("tests/solid/test_inside.py::test_signs_and_proven_distances",),
    ),
    # ---- Nearest points, tensors ----
    Mutant(
        "weights of edges are swapped",
        f"{K}/geometry/triangle.h",
        "out->w = from == VERTEX_A ? T(0) : from == VERTEX_B ? t : T(1) - t;",
        "out->w = from == VERTEX_A ? T(0) : from == VERTEX_B ? T(1) - t : t;",
        ("tests/query/test_nearest_points.py::test_weights_by_hand",),
    ),
    Mutant(
        "weights of the faces as turned",
        "sdfcli/query/mesh_distance.py",
        "face=self._face_as_given,\n            oriented",
        "face=mesh.face,\n            oriented",
        ("tests/query/test_nearest_points.py::test_normals",),
    ),
    Mutant(
        "no direction on the surface",
        f"{K}/distance/closest.h",
        "if (distance > 0.0) way = (1.0 / distance) * r;",
        "way = (1.0 / distance) * r;",
        ("tests/query/test_nearest_points.py::test_gradients_on_the_surface",),
    ),
    Mutant(
        "copies have the original's number",
        "sdfcli/runtime/numbered.py",
        'if name != "number"}',
        "}",
        ("tests/runtime/test_numbered.py",),
    ),
    Mutant(
        "rays graze edges",
        f"{K}/distance/rays.h",
        "k <= 2 && sign == 0",
        "k <= 0 && sign == 0",
        ("tests/query/test_rays.py::test_rays_through_edges_and_vertices",),
    ),
    # ---- Cell classification ----
    Mutant(
        "bend is half",
        f"{K}/octree/error.h",
        "return sum * edge * 0.125f;",
        "return sum * edge * 0.0625f;",
        (CRITERIA,),
    ),
    Mutant(
        "split without missed surface",
        f"{K}/octree/refine.h",
        "else if (misses_surface(a.own, a.points, a.allowed.tolerance, cell, corner, team))",
        "else if (false)",
        (CRITERIA,),
    ),
    Mutant(
        "surface without vertices",
        f"{K}/octree/error.h",
        "for (int v = 0; v < 3; v++) {",
        "for (int v = 0; v < 0; v++) {",
        (CRITERIA,),
    ),
    Mutant("bend told as error", f"{K}/octree/refine.h", "error.at_point ? BY_ERROR : BY_BEND", "BY_ERROR", (CAUSES,)),
    Mutant("error told as bend", f"{K}/octree/error.h", "at_point |= worst > limit", "at_point |= false", (CAUSES,)),
    Mutant(
        "last cause",
        f"{K}/octree/levels.h",
        "if (load_relaxed(request) == NOT_SPLIT) store_relaxed",
        "store_relaxed",
        (f"{CAUSES}::test_the_first_cause_stays",),
    ),
    Mutant(
        "jumps are not told",
        f"{K}/octree/assemble.h",
        "at.own.state[at.cell] == JUMP ? SDF_CAUSE_JUMP : 0u",
        "0u",
        (CAUSES,),
    ),
    Mutant("straight", f"{K}/octree/refine.h", "#define SDF_STRAIGHT 0.5f", "#define SDF_STRAIGHT 1.f", (CRITERIA,)),
    Mutant("doubtful", f"{K}/octree/refine.h", "SDF_DOUBTFUL 0.625f", "SDF_DOUBTFUL 1.25f", (CRITERIA,)),
    Mutant("between", f"{K}/octree/error.h", "#define SDF_BETWEEN 0.5f", "#define SDF_BETWEEN 0.25f", (CRITERIA,)),
    Mutant("between twice", f"{K}/octree/error.h", "#define SDF_BETWEEN 0.5f", "#define SDF_BETWEEN 1.f", (CRITERIA,)),
    Mutant("moved corners", f"{K}/octree/balance.h", "    1.1f  //", "    2.f  //", (CRITERIA,)),
    Mutant("safety", "sdfcli/octree/refine.py", "SAFETY = 0.8", "SAFETY = 0.95", (CRITERIA,)),
    Mutant("safety twice", "sdfcli/octree/refine.py", "SAFETY = 0.8", "SAFETY = 0.4", (CRITERIA,)),
    Mutant("jump edge", "sdfcli/octree/refine.py", "JUMP_EDGE = 4", "JUMP_EDGE = 8", (CRITERIA,)),
    Mutant(
        "no wave",
        "sdfcli/octree/balance.py",
        "MARGINAL = 8, 64, 0.8",
        "MARGINAL = 10**6, 64, 0.8",
        (f"{ADAPTIVE}::test_waves_are_run_ahead_of",),
    ),
    Mutant(
        "balance without corners",
        f"{K}/octree/balance.h",
        "sides < 8; sides++",
        "sides < 7; sides++",
        (f"{ADAPTIVE}::test_adaptive_octrees",),
    ),
    Mutant(
        "jump as far as it goes",
        f"{K}/octree/error.h",
        "if (empty_between(abs_of(corner[c]), abs_of(corner[e]), way)) return true;",
        "if (empty_between(abs_of(corner[c]), abs_of(corner[e]), 0.5f * way)) return true;",
        (HASHES,),
    ),
    # ---- Samples, surfaces, volumes ----
    Mutant(
        "samples: distances before rounding",
        "sdfcli/export/samples.py",
        "    at = place.back(stored)\n",
        "    at = points\n",
        (
            f"{SAMPLES}::test_distances_are_exact_at_the_stored_points",
            f"{SCHEMAS}::test_labels_are_exact_at_the_stored_points",
        ),
    ),
    Mutant(
        "samples: Hunyuan's labels negative inside",
        "sdfcli/export/schemas.py",
        "precision=np.float16,\n        inside=1,",
        "precision=np.float16,\n        inside=-1,",
        (f"{SCHEMAS}::test_labels_are_exact_at_the_stored_points",),
    ),
    Mutant(
        "sharp edges: by vertices",
        "sdfcli/mesh/sharp_edges.py",
        "corner = mesh.backend.to_host(mesh.position)[mesh.faces].astype",
        "corner = mesh.faces.astype",
        ("tests/mesh/test_sharp_edges.py::test_a_cube_in_pieces",),
    ),
    Mutant(
        "sharp edges: walls that end at a side",
        "sdfcli/export/outer_edges.py",
        "for k in (0, 1))",
        "for k in ())",
        (f"{SCHEMAS}::test_points_on_the_edges_of_a_cube",),
    ),
    Mutant(
        "dual grid: the two faces at a diagonal apart",
        "sdfcli/export/dual_grid.py",
        "(np.diff(share, prepend=0.0) > ROUNDING * cells)",
        "(np.diff(share, prepend=0.0) > -1)",
        (f"{GRID}::test_several_crossings_of_an_edge",),
    ),
    Mutant(
        "narrow band: without leaves where signs jump",
        "sdfcli/export/narrow_band.py",
        "    near[leaves_met(backend, field, np.float32(0))] = True\n",
        "",
        (f"{BAND}::test_signs_that_jump_between_leaves",),
    ),
    Mutant(
        "narrow band: blocks in several leaves, by their corners",
        "sdfcli/export/narrow_band.py",
        "    alone = (leaf == leaf[:, :1]).all(axis=1)",
        "    alone = (leaf == leaf).all(axis=1)",
        (f"{BAND}::test_a_band", f"{BAND}::test_a_window"),
    ),
    Mutant(
        "narrow band: no tiles of the root",
        "sdfcli/export/narrow_band.py",
        "    tiles.append(_kept_inside(field, lattice, roof))",
        "    tiles.append(_kept_inside(field, lattice, roof[:0]))",
        (f"{BAND}::test_tiles_of_all_sizes",),
    ),
    Mutant(
        "conforming: fans of faces around the first midpoint in the leaf's own order",
        "sdfcli/export/conforming.py",
        "first = 2 * middle.argmin(axis=1)[:, None] + 1",
        "first = 2 * (ring[:, 1::2] >= 0).argmax(axis=1)[:, None] + 1",
        ("tests/export/test_conforming.py::test_every_face_is_shared_by_two_cells",),
    ),
    Mutant(
        "NanoVDB: nodes may be linked twice",
        "sdfcli/vdb/nanovdb.py",
        "len(number) != len(nodes) or (np.sort(number) != np.arange(len(nodes))).any()",
        "(number >= len(nodes)).any()",
        ("tests/vdb/test_reading.py::test_nodes_linked_twice",),
    ),
    Mutant(
        "vdb: another grid name than Houdini's and Blender's",
        "sdfcli/vdb/level_set.py",
        'NAME = "surface"',
        'NAME = "distance"',
        ("tests/vdb/test_openvdb.py::test_tinyvdb",),
    ),
    Mutant(
        "cdf: nodes of edges along y in another order",
        "sdfcli/export/cdf.py",
        "+ [(a, t, b) for b, a in ENDS for t in (1, 2)]",
        "+ [(a, t, b) for a, b in ENDS for t in (1, 2)]",
        ("tests/export/test_grids.py::test_discregrid",),
    ),
    Mutant(
        "zarr: a coordinate without its origin",
        "sdfcli/export/zarr.py",
        "along = lattice.origin[axis] + lattice.spacing * np.arange(lattice.shape[axis])",
        "along = lattice.spacing * np.arange(lattice.shape[axis])",
        ("tests/export/test_grids.py::test_zarr",),
    ),
    Mutant(
        "level set: blocks below a block are left out",
        "sdfcli/field/level_set.py",
        "return _unique(np.concatenate((_below(block), beside)))",
        "return _unique(np.concatenate((block, beside)))",
        ("tests/field/test_level_set.py::test_between_the_voxels",),
    ),
    Mutant(
        "shards: without the samples that are there",
        "sdfcli/batch/shards.py",
        "if key in kept else None",
        "if False else None",
        ("tests/batch/test_shards.py::test_going_on",),
    ),
    Mutant(
        "samples: normals inwards",
        "sdfcli/export/samples.py",
        "np.where(distance < 0, -1.0, 1.0)",
        "np.where(distance < 0, 1.0, 1.0)",
        (f"{SAMPLES}::test_normals_are_the_gradient",),
    ),
    Mutant(
        "samples: any existing file is taken",
        "sdfcli/batch/sampling.py",
        "if found.get(name) != asked.get(name)]",
        "if False]",
        (f"{SAMPLES}::test_resuming",),
    ),
    Mutant(
        "default grid: four tolerances",
        "sdfcli/extract/resolution.py",
        "LEAST_SHARE = 1 / 2, 1 / 16, 1 / 8",
        "LEAST_SHARE = 4, 1 / 16, 1 / 8",
        (f"{RESOLUTION}::test_the_tolerance_is_kept_and_the_grid_no_finer",),
    ),
    Mutant(
        "default grid: thin walls as others",
        "sdfcli/extract/resolution.py",
        "LEAST_SHARE = 1 / 2, 1 / 16, 1 / 8",
        "LEAST_SHARE = 1 / 2, 1 / 16, 1 / 2",
        (f"{RESOLUTION}::test_thin_walls_are_kept",),
    ),
    Mutant(
        "volumes: extents start at 0",
        f"{FORMATS}/vtk_xml.py",
        "origin + spacing * first",
        "origin",
        ("tests/cli/test_extract.py::test_images_of_vtk",),
    ),
    Mutant(
        "metaballs: cubes above",
        f"{K}/surface/metaballs.h",
        "high[k] = min_of(cube + 1, balls.cubes[k] - 1);",
        "high[k] = cube;",
        ("tests/extract/test_metaballs.py::test_all_balls",),
    ),
    Mutant(
        "scan over devices: the sum before is not in the first number",
        f"{K}/base/scan.h",
        "if (count) sums[1] += base;",
        "",
        ("tests/extract/test_scan.py::test_parts",),
    ),
    Mutant(
        "marching cubes: cells of the next part are summed twice",
        f"{K}/surface/marching_cubes.h",
        "if (i >= a.own || !a.vertex_sum) return;",
        "if (!a.vertex_sum) return;",
        ("tests/extract/test_marching_cubes.py::test_parts_and_devices",),
    ),
    Mutant(
        "several levels: outlines as faint as the rest",
        "sdfcli/pictures/render.py",
        "(EDGE - VEIL) * (1 - facing) ** 2",
        "0 * facing",
        ("tests/pictures/test_render.py::test_levels_of_a_ball",),
    ),
    Mutant(
        "pages: a name as markup",
        "sdfcli/pictures/view/page.py",
        "name=html.escape(name)",
        "name=name",
        ("tests/pictures/test_view.py::test_names_are_text",),
    ),
    Mutant(
        "pages: metadata that ends its element",
        "sdfcli/pictures/view/page.py",
        r'.replace("<", "\\u003c")',
        "",
        ("tests/pictures/test_view.py::test_metadata_is_text",),
    ),
    Mutant(
        "pages: another file counts as the field's page",
        "sdfcli/batch/field_page.py",
        "path.is_file() and path.read_bytes() == view.html.encode()",
        "path.is_file()",
        ("tests/cli/test_batch.py::test_pages_beside_the_fields",),
    ),
    # ---- Overviews ----
    Mutant(
        "cut: twice the leaves",
        "sdfcli/field/coarse.py",
        "or count > most",
        "or count > 2 * most",
        (f"{COARSE}::test_cut_at_the_finest_level_that_fits",),
    ),
    Mutant(
        "cut: the first leaf's corners",
        "sdfcli/field/coarse.py",
        "key + np.uint64(c) * ones",
        "key",
        (f"{COARSE}::test_cut_at_the_finest_level_that_fits",),
    ),
    Mutant(
        "overview: any",
        "sdfcli/field/store.py",
        "if coarse.content_sha256 != text(file, COARSE_SUM):",
        "if False:",
        (f"{COARSE}::test_hostile_overviews",),
    ),
    Mutant(
        "ranges: a failed read is an answer",
        "sdfcli/runtime/ranges.py",
        "                if not self._missing:\n                    return found",
        "                return found",
        (f"{COARSE}::test_a_swallowed_read_counts",),
    ),
    Mutant(
        "water's surface: drops vanish",
        "sdfcli/apps/flow/surface.py",
        "cell, nodes, LEAST)",
        "cell, nodes)",
        ("tests/apps/flow/test_surface.py::test_a_drop_is_a_sphere_of_its_volume",),
    ),
    # ---- GPU thread cooperation ----
    Mutant("scan: sums before", f"{K}/base/grid.h", "if (k < warp) before += sums[k];", "", (GROWTH,)),
    Mutant(
        "scan: no meeting",
        f"{K}/base/grid.h",
        "if (lane == 0) sums[warp] = sum;\n            meet();",
        "if (lane == 0) sums[warp] = sum;",
        (GROWTH,),
    ),
    Mutant(
        "scan: no meeting at the end",
        f"{K}/base/grid.h",
        "        meet();\n        return all;",
        "        return all;",
        (GROWTH,),
    ),
    Mutant("running sums: last run", f"{K}/base/scan.h", "k < warp; k +=", "k + 1 < warp; k +=", (GRID_SORT,)),
    Mutant(
        "running sums: no meeting",
        f"{K}/base/scan.h",
        "sums[warp] = own;\n    grid.meet();",
        "sums[warp] = own;",
        (GRID_SORT,),
    ),
    Mutant(
        "sort: before runs",
        f"{K}/base/radix_sort.h",
        "counts[run] = before + until - own[j];",
        "counts[run] = before + until;",
        (GRID_SORT,),
    ),
    Mutant(
        "sort: no meeting after counts",
        f"{K}/base/radix_sort.h",
        "warp] = bins[k];\n        grid.meet();",
        "warp] = bins[k];",
        (GRID_SORT,),
    ),
    Mutant(
        "sort: no meeting after sums",
        f"{K}/base/radix_sort.h",
        "a.totals + digit, lane);\n        grid.meet();",
        "a.totals + digit, lane);",
        (GRID_SORT,),
    ),
    Mutant(
        "growth forgets the coarsest level",
        f"{K}/octree/growth.h",
        "t.coarsest = min_of(t.coarsest, t.level);",
        "",
        (GROWTH,),
    ),
    # ---- Traversal ----
    Mutant(
        "no margin of boxes",
        f"{K}/base/constants.h",
        "SDF_BOX_MARGIN = 9.5367431640625e-07f",
        "SDF_BOX_MARGIN = 0.f",
        (INDEX,),
    ),
    Mutant("wide: ties", f"{K}/distance/simd.h", "(WideInts(of_id) < id)", "(id < WideInts(of_id))", (INDEX,)),
    Mutant(
        "stack: ties",
        f"{K}/distance/stack.h",
        "a.triangle_id[slot] < a.triangle_id[other]",
        "a.triangle_id[slot] > a.triangle_id[other]",
        (INDEX,),
    ),
    Mutant(
        "stack: right child first",
        f"{K}/distance/stack.h",
        """        stack[depth++] = child.right;
        stack[depth++] = child.left;
""",
        """        stack[depth++] = child.left;
        stack[depth++] = child.right;
""",
        (TRAVERSALS,),
    ),
    Mutant(
        "traffic: sectors of 4 bytes",
        f"{K}/distance/traffic.h",
        "(offset[k] + shift) / 32 != (offset[k - 1] + shift) / 32",
        "(offset[k] + shift) / 4 != (offset[k - 1] + shift) / 4",
        (TRAVERSALS,),
    ),
    Mutant(
        "ploc: right child first",
        f"{K}/trees/ploc.h",
        "{from, cluster[other]}",
        "{cluster[other], from}",
        (PLOC,),
    ),
    Mutant("ploc: any height", f"{K}/trees/ploc.h", "bool halve = rounds <= 32", "bool halve = rounds < 0", (PLOC,)),
    Mutant(
        "ploc: window",
        f"{K}/trees/ploc.h",
        "min_of(count - 1, i + radius)",
        "min_of(count - 1, i + radius - 1)",
        (PLOC,),
    ),
    Mutant("lone: ties", f"{K}/distance/packet.h", "other.id < best.id", "other.id > best.id", (PACKETS,)),
    Mutant(
        "packet: bound of no margin",
        f"{K}/distance/packet.h",
        "* SDF_NEARER - less",
        "- less",
        (PACKETS,),
        "axes of boxes are shorter by as much, which is more than all that is rounded",
    ),
    Mutant(
        "packet: bound too far",
        f"{K}/distance/packet.h",
        "* SDF_NEARER - less",
        "* SDF_FARTHER * SDF_FARTHER - less",
        (PACKETS,),
    ),
    Mutant(
        "packet: all points at the middle", f"{K}/distance/packet.h", "* SDF_NEARER - less", "* SDF_NEARER", (PACKETS,)
    ),
    Mutant(
        "packet: limit of the middle",
        f"{K}/distance/packet.h",
        "* SDF_FARTHER + forward, 0.f",
        "* SDF_FARTHER, 0.f",
        (PACKETS,),
    ),
    Mutant(
        "turned boxes of no margin",
        f"{K}/geometry/turned.h",
        "SDF_TURNED_MARGIN 3.8147e-06f",
        "SDF_TURNED_MARGIN 0.f",
        (PACKETS,),
    ),
    Mutant(
        "axes of full length",
        f"{K}/geometry/turned.h",
        "#define SDF_NEARER 0.99999f",
        "#define SDF_NEARER 1.f",
        (PACKETS,),
    ),
    Mutant(
        "limit of no margin",
        f"{K}/trees/packed.h",
        "#define SDF_FARTHER 1.00003f",
        "#define SDF_FARTHER 1.f",
        (PACKETS,),
        "bounds are smaller by twice as much as lengths along axes are",
    ),
    Mutant(
        "limit too near",
        f"{K}/trees/packed.h",
        "#define SDF_FARTHER 1.00003f",
        "#define SDF_FARTHER 0.9999f",
        (PACKETS,),
    ),
    Mutant(
        "packet: last pairs",
        f"{K}/distance/packet.h",
        "if (search.pairs > 0) search.measure(search.pairs);",
        "",
        (PACKETS,),
    ),
    Mutant(
        "packet: last parts",
        f"{K}/distance/packet.h",
        "if (search.parts > 0) search.look(search.parts);",
        "",
        (PACKETS,),
    ),
    Mutant(
        "crew keeps who failed",
        "sdfcli/spatial/query_pool.py",
        "            self._helpers.remove(helper)\n",
        "",
        ("tests/spatial/test_query_pool.py",),
    ),
    # ---- Signs ----
    Mutant(
        "no error of distances",
        f"{K}/base/constants.h",
        "SDF_DISTANCE_ERROR = 1.6e-5f",
        "SDF_DISTANCE_ERROR = 0.f",
        (f"{SIGN}::test_beside_a_needle",),
    ),
    Mutant(
        "nodes too near",
        "sdfcli/spatial/moments.py",
        "BETA, LOST = 1.5, 0.1",
        "BETA, LOST = 1.1, 0.1",
        (f"{SIGN}::test_nodes_far_enough_err_by_less_than_the_margin",),
    ),
    Mutant(
        "first moments",
        f"{K}/winding/moments.h",
        "- 3.f * (along * i2)",
        "- 2.f * (along * i2)",
        (f"{SIGN}::test_a_node_leaves_out_what_its_second_moments_give",),
    ),
    Mutant(
        "moments about no centre",
        f"{K}/winding/moments.h",
        "o = m.centre - centre;",
        "o = m.centre;",
        (f"{SIGN}::test_moments_are_sums_over_the_triangles",),
    ),
    Mutant(
        "sums by their order",
        f"{K}/winding/simd.h",
        "return x + Doubles(98304.0) - Doubles(98304.0);",
        "return x;",
        (f"{SIGN}::test_sums_are_of_multiples",),
    ),
    Mutant(
        "touching is crossing", f"{K}/sign/crossing.h", "#define SDF_TOUCH 3e-7", "#define SDF_TOUCH 0.0", (CROSSING,)
    ),
    Mutant(
        "signs through holes",
        f"{K}/sign/inherit.h",
        "float reach = room[j] - length;",
        "float reach = room[j];",
        ("tests/backend/test_lanes.py::test_inherited_signs_in_lanes",),
    ),
    Mutant(
        "signs through holes, in lanes",
        f"{K}/sign/inherit_simd.h",
        "float reach = cell.room[j] - length[j];",
        "float reach = cell.room[j];",
        (f"{ADAPTIVE}::test_the_room_that_is_handed_on_is_no_larger_than_it_is",),
    ),
    Mutant(
        "caps of no reach",
        f"{K}/sign/caps.h",
        "(T(1.f) - sqrt_of(sum))",
        "T(1.f)",
        (f"{SIGN}::test_room_around_the_caps",),
    ),
    Mutant(
        "shells in solids",
        "sdfcli/mesh/repair.py",
        "np.where(outwards, around < 0, around <= 0)",
        "np.where(outwards, around < 0, around < 0)",
        (REPAIR,),
    ),
    Mutant(
        "cavities as large",
        "sdfcli/mesh/repair.py",
        "larger = size[outer] > size[inner]",
        "larger = size[outer] > 0",
        (REPAIR,),
    ),
    Mutant(
        "edges are not compared",
        "sdfcli/mesh/repair.py",
        "MOST_MEETING = 64",
        "MOST_MEETING = 0",
        (REPAIR, "tests/sign/test_solids.py"),
    ),
    Mutant(
        "radial order without a direction",
        "sdfcli/mesh/repair.py",
        "np.where(y >= 0, 1 - x, 3 + x)",
        "np.where(y >= 0, 1 - x, 1 - x)",
        ("tests/sign/test_solids.py",),
    ),
    Mutant(
        "walls close from behind",
        "sdfcli/mesh/repair.py",
        "np.where(back[one] == back[other], 1, -1)",
        "np.where(back[one] == back[other], -1, 1)",
        ("tests/sign/test_solids.py",),
    ),
    Mutant("sheets are solids", "sdfcli/mesh/repair.py", "WIDE_OPEN = 0.25", "WIDE_OPEN = 1.0", (REPAIR,)),
    Mutant("walls count", "sdfcli/mesh/repair.py", "two_sided = 2 * int(", "two_sided = 0 * int(", (REPAIR,)),
    Mutant(
        "lines on corners", "sdfcli/mesh/axis_lines.py", "upwards = after_v > 0 ", "upwards = after_v >= 0 ", (LINES,)
    ),
    Mutant(
        "insides turned",
        "sdfcli/mesh/axis_lines.py",
        "(np.cumsum(way)[:-1] != 0)",
        "(np.cumsum(way)[:-1] > 0)",
        (LINES,),
    ),
    Mutant("boxes in themselves", "sdfcli/mesh/axis_lines.py", " & (inner != outer)", "", (LINES,)),
    # ---- Readers ----
    Mutant(
        "strips all one way",
        f"{FORMATS}/ply.py",
        "odd = within[last] % 2 == 1",
        "odd = within[last] % 2 == 2",
        (READERS,),
    ),
    Mutant(
        "one vertex more",
        f"{FORMATS}/lines.py",
        "(polygons.corner >= vertices)",
        "(polygons.corner > vertices)",
        (READERS,),
    ),
    Mutant(
        "fans of concave faces",
        f"{FORMATS}/polygons.py",
        "np.all(turn >= -1e-12, axis=1)",
        "np.all(turn >= -9e9, axis=1)",
        (READERS,),
    ),
    Mutant(
        "buffers of any length",
        f"{FORMATS}/gltf_data.py",
        "if start + length > len(buffer):",
        "if start > len(buffer):",
        (GLTF,),
    ),
    Mutant(
        "sparse rows",
        f"{FORMATS}/gltf_data.py",
        "found[hit] = self.patch[near[hit]]",
        "found[hit] = self.patch[0]",
        (GLTF,),
    ),
    Mutant(
        "matrices in the other order",
        f"{FORMATS}/gltf_nodes.py",
        "product(world[parents[number]], world[number])",
        "product(world[number], world[parents[number]])",
        (GLTF,),
    ),
    Mutant(
        "items in the other order",
        f"{FORMATS}/threemf.py",
        "_after(each.matrix, matrices)",
        "_after(matrices, each.matrix)",
        ("tests/mesh/test_threemf.py",),
    ),
    *(
        Mutant(name, f"{FORMATS}/collada.py", old, new, ("tests/mesh/test_collada.py",))
        for name, old, new in (
            ("COLLADA strips all one way", "made[1::2] = made[1::2, [1, 0, 2]]", "pass"),
            ("mirrored parts inside out", "np.linalg.det(matrix[:3, :3]) < 0", "False"),
            (
                "node transforms in the other order",
                "matrix = matrix @ _transform(each)",
                "matrix = _transform(each) @ matrix",
            ),
        )
    ),
    Mutant(
        "quaternions turn back",
        "sdfcli/query/pose_files.py",
        "2 * (y * z - x * w)",
        "2 * (y * z + x * w)",
        ("tests/query/test_poses.py",),
    ),
    Mutant(
        "background in the colour of edges",
        f"{K}/surface/render.h",
        "!a.cover || look.hit",
        "true",
        ("tests/pictures/test_render.py",),
    ),
    Mutant("STL colours", f"{FORMATS}/readers.py", 'if np.all(wide["more"] == more):', "if True:", (READERS,)),
    Mutant("numbers nearly right", f"{K}/mesh/text.h", "return low == *value;", "return true;", (READERS,)),
    # ---- Memory, threads and files ----
    *(
        Mutant(name, "sdfcli/octree/budget.py", old, new, ("tests/octree/test_budget.py",))
        for name, old, new in (
            ("points of few bytes", "BYTES = 63, 370, 64", "BYTES = 6, 370, 64"),
            ("rows of few bytes", "BYTES = 63, 370, 64", "BYTES = 63, 37, 64"),
            ("cells of few bytes", "BYTES = 63, 370, 64", "BYTES = 63, 370, 6"),
            ("estimates of few bytes", "BYTES_PER_CELL = 1.2, 140", "BYTES_PER_CELL = 1.2, 14"),
            ("budgets of many bytes", "BYTES = 63, 370, 64", "BYTES = 200, 900, 200"),
        )
    ),
    Mutant(
        "estimates without reserves",
        "sdfcli/octree/budget.py",
        "PEAK_BYTES = 280",
        "PEAK_BYTES = 140",
        ("tests/quality/test_estimate.py",),
    ),
    Mutant(
        "a limit without room",
        "sdfcli/backend/overflow.py",
        "    return used + LEAST_ROOM\n",
        "    return used\n",
        ("tests/quality/test_estimate.py",),
    ),
    Mutant(
        "lines to a closed pipe",
        "sdfcli/cli/output.py",
        """    with standard_output():
        _echo(plain(line), verdict)""",
        """    with suppress():
        _echo(plain(line), verdict)""",
        ("tests/backend/test_streams.py",),
    ),
    Mutant(
        "arrays are not kept",
        "sdfcli/pipeline.py",
        "        loading.release_source()\n",
        "",
        ("tests/mesh/test_load.py",),
    ),
    Mutant(
        "hash of the caller's arrays",
        "sdfcli/mesh/load.py",
        "own = _without_arrays_of(self._source, mesh)",
        "own = mesh",
        ("tests/mesh/test_load.py",),
    ),
    Mutant(
        "made twice",
        "sdfcli/runtime/schedule.py",
        "        with self._lock:\n            if self._work is not None:\n                try:",
        "        if True:\n            if self._work is not None:\n                try:",
        ("tests/field/test_field.py::test_what_comes_later_is_made_once",),
    ),
    Mutant(
        "the driver sleeps on",
        "sdfcli/startup/driver.py",
        "        Thread(target=_driver, daemon=True).start()",
        "        pass",
        ("tests/startup/test_driver.py",),
    ),
    Mutant(
        "files not on the disk",
        "sdfcli/runtime/files.py",
        "            os.fsync(written.fileno())",
        "            pass",
        ("tests/field/test_store.py",),
    ),
    Mutant(
        "plugins replace commands",
        "sdfcli/cli/registry.py",
        "        if entry.name in BUILT_IN:",
        "        if entry.name in ():",
        ("tests/cli/test_plugins.py",),
    ),
    Mutant(
        "plugins that are broken",
        "sdfcli/cli/app.py",
        "except (Exception, SystemExit) as error:",
        "except ImportError as error:",
        ("tests/cli/test_plugins.py",),
    ),
    Mutant(
        "flood doubles downwards",
        "sdfcli/apps/bench/jump_flood.py",
        '"doubling": halving[::-1],',
        '"doubling": halving,',
        ("tests/apps/bench/test_jump_flood.py::test_passes",),
    ),
    Mutant(
        "neighbours at the radius",
        f"{K}/neighbours/exact.h",
        "if (distance > a.radius) return;",
        "if (distance >= a.radius) return;",
        ("tests/query/test_neighbours.py::test_all_within_a_radius",),
    ),
    Mutant(
        "lists: ties at the radius",
        f"{K}/distance/simd.h",
        "if (d[k] <= q->best[own])",
        "if (d[k] < q->best[own])",
        LIST_TESTS,
    ),
    Mutant("lists: a neighbour too many", LISTS, "j + k <= room ? -1", "j + k < room ? -1", LIST_TESTS),
    Mutant(
        "lists: radii of the last triangle",
        LISTS,
        "max_of(farthest, triangle_distance_sq(",
        "max_of(FloatV(0.f), triangle_distance_sq(",
        LIST_TESTS,
    ),
    Mutant(
        "neighbours' codes end at words",
        f"{K}/neighbours/code.h",
        "if (place % 64 > 0 && place / 64 + 1 < words)",
        "if (place % 64 > 64)",
        ("tests/spatial/test_shifted_sort.py::test_codes",),
    ),
    Mutant(
        "blocks: hanging points",
        f"{K}/field/blocks.h",
        "            hangs |= is_leaf(cell) && cell != SDF_NONE;\n            first",
        "            hangs |= is_leaf(cell);\n            first",
        ("tests/field/test_blocks.py::test_order_and_code",),
    ),
    Mutant(
        "blocks: a shared point's first lister",
        f"{K}/field/blocks.h",
        "if (cell < lister) lister = cell, at = point;",
        "if (cell < lister) lister = cell, at = j;",
        ("tests/field/test_blocks.py::test_order_and_code",),
    ),
    Mutant(
        "blocks: values of other levels",
        f"{K}/field/blocks.h",
        "if (next[level] != begin[level + 1]) fault(a.all, COUNT_FAULT);",
        "if (next[level] > begin[level + 1]) fault(a.all, COUNT_FAULT);",
        ("tests/field/test_stored.py::test_more_values_than_a_block_needs",),
    ),
    Mutant(
        "blocks: steps beside the nearest",
        f"{K}/field/blocks.h",
        "int near = nearest + (k == 1) - (k == 2);",
        "int near = nearest;",
        ("tests/field/test_blocks.py::test_steps_that_rounding_hides",),
    ),
    Mutant(
        "blocks: values of the subtrees before",
        "sdfcli/kernels/field/blocks.h",
        "starts[level] + a.sums[place];",
        "starts[level];",
        ("tests/field/test_blocks.py::test_order_and_code",),
    ),
    Mutant(
        "blocks: rounds a half step up",
        "sdfcli/kernels/field/blocks.h",
        "whole = shifted / parts - (shifted % parts < 0);",
        "whole = shifted / parts;",
        ("tests/test_hashes.py::test_bits",),
    ),
    Mutant(
        "blocks: values of the blocks before",
        "sdfcli/field/blocks.py",
        "first = place + len(level), first + np.uint32(of_blocks.sum())",
        "first = place + len(level), first",
        ("tests/field/test_blocks.py::test_the_same_bits",),
    ),
    Mutant(
        "leaves that are not checked before kernels",
        "sdfcli/field/encoding.py",
        "    check_leaves(key, level)\n",
        "",
        ("tests/field/test_blocks.py::test_leaves_that_do_not_fill_the_domain",),
    ),
    Mutant(
        "blocks in numbers that no octree has",
        "sdfcli/field/blocks.py",
        "len(table) % 7 == 1 and not",
        "not",
        ("tests/field/test_stored.py::test_hostile_files",),
    ),
    Mutant(
        "leaves that wrap around",
        "sdfcli/field/blocks.py",
        " | (own >= np.uint64(whole))",
        "",
        ("tests/field/test_blocks.py::test_leaves_that_do_not_fill_the_domain",),
    ),
    Mutant(
        "leaves across pieces of the check",
        "sdfcli/field/blocks.py",
        "int(own[0]) != filled or ",
        "",
        ("tests/field/test_blocks.py::test_leaves_that_do_not_fill_the_domain",),
    ),
    Mutant(
        "blocks that disagree",
        "sdfcli/field/stored.py",
        "        if int(marks[0]):\n",
        "        if False:\n",
        ("tests/field/test_stored.py::test_hostile_files",),
    ),
    Mutant(
        "late reads without checksums",
        "sdfcli/field/stored.py",
        "        if _sha256(self.entries[here]) != self._sums[number].tobytes():\n",
        "        if False:\n",
        ("tests/field/test_stored.py::test_entries_that_fit_the_sums_of_hdf5",),
    ),
    Mutant(
        "fewer blocks than points need",
        "sdfcli/field/stored.py",
        'np.searchsorted(self.blocks.key, key, "right") - 1',
        'np.searchsorted(self.blocks.key, key, "left") - 1',
        ("tests/field/test_stored.py::test_corners_of_blocks_belong_to_them",),
    ),
    Mutant(
        "another file by the same name",
        "sdfcli/field/hdf5.py",
        "not os.path.sameopenfile(number, handle.get_vfd_handle())",
        "False",
        ("tests/field/test_stored.py::test_a_file_that_is_replaced_while_it_is_opened",),
    ),
    Mutant(
        "contacts by the least bound of all leaves",
        f"{K}/contact/bounds.h",
        "own.near = error.value[error.code[leaf]];",
        "own.near = error.value[0];",
        ("tests/query/test_proven_contacts.py::test_intervals_hold",),
    ),
    Mutant(
        "contacts of open fields by proven bounds",
        "sdfcli/field/proven.py",
        "if closed and near < band else None",
        "if near < band else None",
        ("tests/query/test_proven_contacts.py::test_a_field_is_proven_everywhere_or_as_stated",),
    ),
    Mutant(
        "level range by corners only",
        f"{K}/field/range.h",
        "range.high = max_of(range.high, sum / 6.0);",
        "if (i == k) range.high = max_of(range.high, sum / 6.0);",
        ("tests/extract/test_proven.py::test_no_point_exceeds_its_triangles_bound",),
    ),
    Mutant(
        "level bound without the way from a corner",
        f"{K}/surface/proven.h",
        "most + 1.000001 * sqrt(edge_sq) / SDF_SQRT3",
        "most",
        ("tests/extract/test_proven.py::test_no_point_exceeds_its_triangles_bound",),
    ),
    Mutant(
        "sharp edges at the middle of their line",
        f"{K}/surface/sharp.h",
        "(both > 0 ? (t * to + u * from) / both : 0.5 * (t + u))",
        "0.0",
        ("tests/extract/test_sharp.py::test_the_corners_of_a_box_are_vertices",),
    ),
    Mutant(
        "no corners between three planes",
        f"{K}/surface/sharp.h",
        "has = meet(plane, middle, SDF_SHARP_BEND, &found);",
        "has = false;",
        ("tests/extract/test_sharp.py::test_the_corners_of_a_box_are_vertices",),
    ),
    Mutant(
        "sharp vertices stay where marching cubes puts them",
        "sdfcli/extract/sharp.py",
        "for _ in range(SLIDES):",
        "for _ in range(0):",
        ("tests/extract/test_sharp.py::test_smooth_surfaces_are_only_moved",),
    ),
    Mutant(
        "cells without the field's sign change have no mesh",
        "sdfcli/extract/proven.py",
        "self.value.min(axis=1) <= self.near",
        "self.value.min(axis=1) <= 0",
        ("tests/extract/test_proven.py::test_a_field_that_lost_a_part",),
    ),
    Mutant(
        "proof loses too little between corners",
        f"{K}/verify/prove.h",
        "loss += 1.0 - slope * slope;",
        "loss += 0.5 - 0.5 * slope * slope;",
        (f"{PROOF}::test_no_error_exceeds_its_leafs_bound",),
    ),
    Mutant(
        "proof by supports in too small a ball",
        f"{K}/verify/prove.h",
        "far + 2.0 * cell.rho + 2.0 * a.slack,",
        "far + 0.2 * cell.rho + 2.0 * a.slack,",
        (f"{PROOF}::test_no_error_exceeds_its_leafs_bound",),
    ),
    Mutant(
        "proof without a witness's sign",
        f"{K}/verify/prove.h",
        "if (there == sign)",
        "if (there != 0.0)",
        (f"{PROOF}::test_no_error_exceeds_its_leafs_bound",),
    ),
    Mutant(
        "proof without jumps",
        f"{K}/verify/prove.h",
        "sum += a.boundary.multiplicity[k]",
        "sum += 0.0 * a.boundary.multiplicity[k]",
        (f"{PROOF}::test_no_error_exceeds_its_leafs_bound",),
    ),
    # ---- Wall thickness ----
    Mutant(
        "walls opposed by side faces",
        f"{K}/verify/walls.h",
        "#define SDF_WALL_OPPOSED -0.642",
        "#define SDF_WALL_OPPOSED 0.1",
        (f"{WALLS}::test_plates_have_their_thickness_up_to_sharp_edges",),
    ),
    Mutant(
        "walls through the air",
        f"{K}/verify/walls.h",
        "if (ball.width < width && sees_contact(a.mesh, ball))",
        "if (ball.width < width)",
        (f"{WALLS}::test_other_parts_are_not_seen",),
    ),
    Mutant(
        "a part bounded by two corners",
        f"{K}/verify/hausdorff.h",
        "for (int c = 0; c < 3; c++) largest = max_of",
        "for (int c = 0; c < 2; c++) largest = max_of",
        (f"{FARTHEST}::test_no_point_exceeds_its_parts_bound",),
    ),
    Mutant(
        "a part bounded by half the way from its centroid",
        f"{K}/verify/hausdorff.h",
        "bound = min_of(bound, d + reach",
        "bound = min_of(bound, d + 0.5 * reach",
        (f"{FARTHEST}::test_no_point_exceeds_its_parts_bound",),
    ),
    Mutant(
        "a part of a part lost",
        f"{K}/verify/hausdorff.h",
        "add_part(parts, half[0], half[1], half[2]);",
        "",
        (f"{FARTHEST}::test_parts_and_the_closed_piece_cover_the_whole",),
    ),
    Mutant(
        "only one triangle outside a face",
        f"{K}/verify/hausdorff.h",
        "for (int c = 1; c + 1 < above.corners; c++)",
        "for (int c = 1; c < 2 && c + 1 < above.corners; c++)",
        (f"{FARTHEST}::test_parts_and_the_closed_piece_cover_the_whole",),
    ),
    Mutant(
        "proof by one corner of each face",
        f"{K}/verify/prove.h",
        "least = min_of(least, b.excess[k] + reach_of(b.way[k], p, q, r));",
        "least = min_of(least, b.excess[k] + dot(b.way[k], p));",
        (f"{PROOF}::test_no_error_exceeds_its_leafs_bound",),
    ),
    Mutant(
        "proof by too few nodes",
        f"{K}/verify/prove.h",
        "sqrt(seed.distance_sq) + 2.0 * whole.rho",
        "sqrt(seed.distance_sq) - 0.2 * whole.rho",
        (f"{PROOF}::test_no_error_exceeds_its_leafs_bound",),
    ),
    Mutant(
        "proof with signs across the surface",
        f"{K}/verify/prove.h",
        "dot(p - before, p - before) < reach * reach",
        "dot(p - before, p - before) < 25.0 * reach * reach",
        (
            f"{PROOF}::test_no_error_exceeds_its_leafs_bound",
            f"{PROOF}::test_fields_that_hold_their_tolerance_are_certified",
        ),
    ),
    Mutant(
        "surface lost beside surface",
        "sdfcli/quality/proven_surface.py",
        "lost=np.flatnonzero(known & faces & ~_near(backend, corner, len(value), crossed))",
        "lost=np.flatnonzero(known & faces & crossed)",
        (f"{PROOF}::test_surface_that_is_lost_and_surface_without_faces",),
    ),
    Mutant(
        "proof of changed leaves left out",
        "sdfcli/quality/certify.py",
        "for c in range(8):",
        "for c in range(0):",
        ("tests/quality/test_certify.py::test_changed_leaves_are_bounded_anew",),
    ),
    Mutant(
        "proven bounds rounded down",
        "sdfcli/field/proven.py",
        "np.searchsorted(VALUES[:UNBOUNDED] * tolerance, bound)",
        "(np.searchsorted(VALUES[:UNBOUNDED] * tolerance, bound) - 1)",
        ("tests/quality/test_proven_fields.py::test_codes_round_up",),
    ),
    # ---- Fields for simulators ----
    Mutant(
        "sparse grid: blocks are chosen by the band alone",
        "sdfcli/cook/sparse_grid.py",
        "reach = plan.band + plan.tolerance + np.sqrt(3) / 2 * SIZE * cell\n    centre",
        "reach = plan.band\n    centre",
        ("tests/cook/test_physx.py::test_distances",),
    ),
    Mutant(
        "sparse grid: y and z of a block's values swapped",
        "sdfcli/cook/sparse_grid.py",
        "value.transpose(0, 3, 2, 1)",
        "value.transpose(0, 2, 3, 1)",
        ("tests/cook/test_physx.py::test_distances", "tests/cook/test_newton.py::test_distances"),
    ),
    Mutant(
        "cdf: nodes on edges along y in another order",
        "sdfcli/export/cdf.py",
        "for b, a in ENDS",
        "for a, b in ENDS",
        ("tests/cook/test_scenes.py::test_box_at_rest", "tests/cook/test_scenes.py::test_chain_of_links"),
    ),
    Mutant(
        "grids: the field takes all of the tolerance",
        "sdfcli/cook/plan.py",
        "tolerance=min(FIELD_SHARE * plan.tolerance / diagonal, 0.1),",
        "tolerance=min(plan.tolerance / diagonal, 0.1),",
        ("tests/cook/test_scenes.py::test_peg_in_hole", "tests/cook/test_scenes.py::test_nut_on_bolt"),
    ),
    Mutant(
        "Genesis: nodes half a cell off",
        "sdfcli/cook/genesis.py",
        "x, y, z = (low + step * np.arange(n) for",
        "x, y, z = (low + step * (np.arange(n) + 0.5) for",
        ("tests/cook/test_genesis.py::test_distances",),
    ),
    Mutant(
        "Newton: the key of unwelded vertices",
        "sdfcli/cook/newton.py",
        "_plan(config, part), welded(part)",
        "_plan(config, part), replace(part)",
        ("tests/cook/test_newton.py::test_soup",),
    ),
    Mutant(
        "Newton: a USD prim's key without its scale",
        "sdfcli/cook/newton.py",
        "vertices = part.vertices.astype(np.float32) * np.array(scale, np.float32)",
        "vertices = part.vertices",
        ("tests/cook/test_newton_import.py::test_usd",),
    ),
    Mutant(
        "Newton: lengths of a USD prim in more digits than its attributes have",
        "sdfcli/cook/newton.py",
        "return float(np.float32(length))",
        "return length",
        ("tests/cook/test_newton_import.py::test_usd",),
    ),
    Mutant(
        "Newton: vertices split by their last normal",
        "sdfcli/cook/scene/usd_drawn.py",
        "one[0] + x, one[1] + y, one[2] + z",
        "x, y, z",
        ("tests/cook/test_newton_import.py::test_usd",),
    ),
    Mutant(
        "a scale for importers in seven digits",
        "sdfcli/cook/scene/usd_reader.py",
        "np.array(Gf.Transform(matrix).GetScale(), np.float32).tolist()",
        "list(collider.scale)",
        ("tests/cook/test_scene_usd.py::test_scales",),
    ),
    Mutant(
        "Drake: glTF files mirrored",
        "sdfcli/cook/drake.py",
        "np.column_stack((x, -z, y))",
        "np.column_stack((x, z, y))",
        ("tests/cook/test_drake.py::test_axes",),
    ),
    Mutant(
        "packages by their folders' names only",
        "sdfcli/cook/scene/paths.py",
        "if package in (up.name, _called(up))",
        "if package == up.name",
        ("tests/cook/test_urdf.py::test_a_package_in_a_folder_of_another_name",),
    ),
    Mutant(
        "masses of cooked meshes computed in another way",
        "sdfcli/cook/scene/mjcf.py",
        "element.attrib.update(kept)",
        "element.attrib.update({})",
        ("tests/cook/test_mjcf.py::test_masses_stay",),
    ),
    Mutant(
        "PhysX: a file may be longer than its counts",
        "sdfcli/cook/physx_sdf.h",
        "std::fread(data.get(), 1, size, file.get()) != size || std::fgetc(file.get()) != EOF",
        "std::fread(data.get(), 1, size, file.get()) != size",
        ("tests/cook/test_physx.py::test_damaged",),
    ),
    Mutant(
        "mirrored meshes inside out",
        "sdfcli/cook/scene/base.py",
        "np.prod(np.sign(factors)) < 0",
        "np.prod(np.sign(factors)) < -1",
        ("tests/cook/test_urdf.py::test_scales", "tests/cook/test_scene_usd.py::test_scales"),
    ),
    Mutant(
        "scenes' files outside of the root",
        "sdfcli/cook/scene/paths.py",
        "if found and inside:",
        "if found:",
        ("tests/cook/test_urdf.py::test_faults_are_lines", "tests/cook/test_mjcf.py::test_bad_includes"),
    ),
    Mutant(
        "includes in a cycle",
        "sdfcli/cook/scene/mjcf.py",
        "if path in seen:",
        "if path is seen:",
        ("tests/cook/test_mjcf.py::test_bad_includes",),
    ),
    Mutant(
        "a mirrored matrix's scale",
        "sdfcli/cook/scene/usd_reader.py",
        "np.linalg.det(turn) < 0",
        "np.linalg.det(turn) < -2",
        ("tests/cook/test_scene_usd.py::test_scales",),
    ),
    Mutant(
        "children of octrees in another order",
        "sdfcli/mujoco/octree.py",
        "child[self.split] = np.arange(1, n, dtype=np.int32).reshape(-1, 8)",
        "child[self.split] = np.arange(1, n, dtype=np.int32).reshape(-1, 8)[:, ::-1]",
        ("tests/cook/test_octree.py::test_mujoco_s_rule_gives_the_field",),
    ),
    Mutant(
        "plugin without the distance to the domain",
        "sdfcli/mujoco/plugin/octree.h",
        "double result = away * length,",
        "double result = 0,",
        ("tests/cook/test_octree.py::test_damaged_files",),
    ),
    Mutant(
        "plugin that keeps unused fields",
        "sdfcli/mujoco/plugin/plugin.cpp",
        "if (!field || --field->users) return;",
        "if (!field || field->users--) return;",
        ("tests/cook/test_octree.py::test_threads",),
    ),
]


class Copy:
    """A copy of the source tree, with its own kernels."""

    def __init__(self, folder: Path) -> None:
        self.tree, self._build = folder / "tree", folder / "build"
        self.tree.mkdir(parents=True)
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, self.tree / name, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
            else:
                shutil.copy(source, self.tree)
        (self.tree / "sitecustomize.py").write_text(WITHOUT_REDIRECTION)
        setup = ["cmake", "-S", self.tree / K, "-B", self._build, "-DSDFCLI_OPTIMISATION=1", "-DCMAKE_CXX_FLAGS=-w"]
        subprocess.run(setup, check=True, stdout=subprocess.DEVNULL)
        self._library = folder / LIBRARY
        self._environment = {
            **os.environ,
            "CI": "1",  # reproducible Hypothesis examples
            "PYTHONPATH": str(self.tree),
            "SDFCLI_KERNEL_LIBRARY": str(self._library),
            "PYTEST_DEBUG_TEMPROOT": str(folder),
        }
        shutil.copy(self._built(), self._library)
        self._plain = self._library.read_bytes()

    def tested(self, mutant: Mutant) -> str:
        """The mutant's first failing test; SURVIVED if none fails."""
        file = self.tree / mutant.file
        text = file.read_text()
        if text.count(mutant.old) != 1:
            sys.exit(f"{mutant.name}: its line is in {mutant.file} {text.count(mutant.old)} times, not once")
        file.write_text(text.replace(mutant.old, mutant.new))
        try:
            if file.suffix == ".h":
                shutil.copy(self._built(), self._library)
            return self.failure(mutant.tests)
        except subprocess.CalledProcessError:
            sys.exit(f"{mutant.name}: its kernels do not compile")
        finally:
            file.write_text(text)
            self._library.write_bytes(self._plain)

    def failure(self, tests: tuple[str, ...]) -> str:
        """The first failing test; SURVIVED if none fails."""
        run = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "", *tests]
        try:
            ended = subprocess.run(
                run,
                cwd=self.tree,
                env=self._environment,
                check=False,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=PATIENCE,
            )
        except subprocess.TimeoutExpired:
            return f"no end within {PATIENCE} s"
        if ended.returncode == 0:
            return SURVIVED
        if ended.returncode < 0:
            at = re.search(r'([^/"]+\.py)", line \d+ in (test_\w+)', ended.stdout)  # faulthandler's format
            return f"{'::'.join(at.groups()) if at else 'a process'}, signal {-ended.returncode}"
        failed = re.search(r"^FAILED (?:\S*/)?(.+?)(?: - |$)", ended.stdout, re.MULTILINE)
        if failed is None:
            sys.exit(f"{' '.join(tests)}: no test has failed, but pytest has:\n{ended.stdout[-3000:]}")
        return failed[1]

    def _built(self) -> Path:
        subprocess.run(["cmake", "--build", self._build, "--parallel"], check=True, stdout=subprocess.DEVNULL)
        return self._build / LIBRARY


def main() -> None:
    """Lists mutants, or tests them."""
    from rich.console import Console
    from rich.table import Table

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--list", action="store_true", help="list mutants, with what is wrong")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="mutants that are tested at a time")
    options = parser.parse_args()
    chosen = [each for each in MUTANTS if not options.names or any(name in each.name for name in options.names)]
    if not chosen:
        sys.exit(f"no mutant has {' or '.join(options.names)} in its name; --list names all")
    if options.list:
        table = Table("mutant", "file", "old", "new")
        for each in chosen:
            table.add_row(each.name, each.file, *(" ".join(text.split()) for text in (each.old, each.new)))
        Console().print(table)
        return
    found = results(chosen, options.jobs)
    table = Table("mutant", "killed by", "why no test can")
    for each in chosen:
        table.add_row(each.name, found[each.name], each.reason)
    Console().print(table)
    wrong = [each.name for each in chosen if (found[each.name] == SURVIVED) != bool(each.reason)]
    sys.exit(f"not as expected: {', '.join(wrong)}" if wrong else 0)


def results(mutants: list[Mutant], jobs: int) -> dict[str, str]:
    """The killer of each mutant, by name; `jobs` mutants run concurrently, each in its own copy. Without mutants, all
    tests must pass."""
    copies: SimpleQueue[Copy] = SimpleQueue()

    def tested(mutant: Mutant) -> str:
        copy = copies.get()
        try:
            found = copy.tested(mutant)
        finally:
            copies.put(copy)
        print(f"{mutant.name}: {found}", file=sys.stderr, flush=True)
        return found

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        made = list(pool.map(Copy, (Path(folder, str(k)) for k in range(jobs))))
        before = made[0].failure(tuple(dict.fromkeys(test for mutant in mutants for test in mutant.tests)))
        if before != SURVIVED:
            sys.exit(f"{before} fails without a mutant")
        for copy in made:
            copies.put(copy)
        return dict(zip((each.name for each in mutants), pool.map(tested, mutants), strict=True))


if __name__ == "__main__":
    main()
