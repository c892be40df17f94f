"""PhysicsNeMo's `signed_distance_field`, by sdfcli."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from sdfcli.errors import InputError
from sdfcli.torch.arrays import check_points
from sdfcli.torch.mesh import nearest_on


def signed_distance_field(
    mesh_vertices: Tensor,
    mesh_indices: Tensor,
    input_points: Tensor,
    max_dist: float = 1e8,
    use_sign_winding_number: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Signed distances, nearest points and faces, with the arguments and results of
    `physicsnemo.nn.functional.signed_distance_field` 2.x. Distances are differentiable once in points and vertices.

    Degenerate faces count as the segments or points that they are. Without `use_sign_winding_number`, `sign="auto"`
    selects pseudonormals where they are safe; a mesh that turns its inner side outwards is turned.

    Args:
        mesh_vertices: (v, 3).
        mesh_indices: (f, 3), or (3 f,), whole numbers.
        input_points: (..., 3).
        max_dist: where the mesh is farther away, distances and nearest points are NaN, faces -1.
        use_sign_winding_number: signs by winding numbers.

    Returns:
        Distances (...) and nearest points (..., 3) in the points' dtype, faces (...) int64.

    Raises as `signed_distance`.
    """
    check_points(input_points)
    sign = "winding" if use_sign_winding_number else "auto"
    if mesh_indices.ndim == 1 and len(mesh_indices) % 3:
        raise InputError(f"faces must be (f, 3) or (3 f,), not {tuple(mesh_indices.shape)}")
    faces = mesh_indices.reshape(-1, 3) if mesh_indices.ndim == 1 else mesh_indices
    distance, _, nearest, face, _ = nearest_on(input_points, mesh_vertices, faces, sign, True)
    near = distance.detach().abs() <= max_dist
    return (
        torch.where(near, distance, math.nan),
        torch.where(near[..., None], nearest, math.nan),
        torch.where(near, face, -1),
    )
