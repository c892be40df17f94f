"""glTF extensions, by their effect on triangles."""

from __future__ import annotations

from sdfcli.errors import InputError

DRACO, INSTANCES, HIDING = "KHR_draco_mesh_compression", "EXT_mesh_gpu_instancing", "KHR_node_visibility"
LEVELS, RESTART = "MSFT_lod", "KHR_mesh_primitive_restart"
MESHOPT = ("EXT_meshopt_compression", "KHR_meshopt_compression")
GEOMETRY = {DRACO, INSTANCES, HIDING, LEVELS, RESTART, "KHR_mesh_quantization", *MESHOPT}
"""Extensions that change triangles: supported, or rejected where used."""

AT_REST = {
    "AGI_articulations", "KHR_interactivity", "KHR_physics_rigid_bodies", "VRMC_node_constraint", "VRMC_springBone",
}  # fmt: skip
"""Extensions that move nodes at run time."""

LOOKS = {
    "ADOBE_materials_clearcoat_specular", "ADOBE_materials_clearcoat_tint", "ADOBE_materials_thin_transparency",
    "AGI_stk_metadata", "CESIUM_primitive_outline", "EXT_feature_metadata", "EXT_instance_features",
    "EXT_lights_ies", "EXT_lights_image_based", "EXT_materials_bump", "EXT_mesh_features", "EXT_mesh_manifold",
    "EXT_mesh_primitive_edge_visibility", "EXT_mesh_primitive_restart", "EXT_structural_metadata",
    "EXT_texture_avif", "EXT_texture_video", "EXT_texture_webp", "FB_geometry_metadata", "FB_ngon_encoding",
    "GODOT_single_root", "GRIFFEL_bim_data", "KHR_animation_pointer", "KHR_audio_emitter", "KHR_gaussian_splatting",
    "KHR_implicit_shapes", "KHR_lights_punctual", "KHR_materials_anisotropy", "KHR_materials_clearcoat",
    "KHR_materials_common", "KHR_materials_diffuse_transmission", "KHR_materials_dispersion",
    "KHR_materials_emissive_strength", "KHR_materials_ior", "KHR_materials_iridescence",
    "KHR_materials_pbrSpecularGlossiness", "KHR_materials_sheen", "KHR_materials_specular",
    "KHR_materials_transmission", "KHR_materials_unlit", "KHR_materials_variants", "KHR_materials_volume",
    "KHR_materials_volume_scatter", "KHR_node_hoverability", "KHR_node_selectability", "KHR_techniques_webgl",
    "KHR_texture_basisu", "KHR_texture_procedurals", "KHR_texture_transform", "KHR_xmp", "KHR_xmp_json_ld",
    "MOZ_hubs_components", "MOZ_lightmap", "MSFT_packing_normalRoughnessMetallic",
    "MSFT_packing_occlusionRoughnessMetallic", "MSFT_texture_dds", "NV_materials_mdl", "VRM",
    "VRMC_materials_hdr_emissiveMultiplier", "VRMC_materials_mtoon", "VRMC_vrm",
}  # fmt: skip
"""Extensions without effect on triangles: materials, textures, lights, sound, metadata. Gaussian splats are drawn as
points, and EXT_mesh_primitive_restart joins primitives that the file also holds individually."""


def check_extensions(required: set[str]) -> None:
    """Raises InputError with the names of unknown required extensions, if any."""
    if names := unknown(required):
        raise InputError(f"needs extensions of glTF that are not read: {names}")


def unknown(names: set[str]) -> str:
    """Unknown extension names, as a list in words."""
    return ", ".join(sorted(map(ascii, names - GEOMETRY - AT_REST - LOOKS)))[:200]
