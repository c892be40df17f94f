"""A small picture of a field, as text that a web page can hold."""

from __future__ import annotations

import base64
import io

import numpy as np

from sdfcli.field import Field

SIZE, STEPS = 96, 48


def thumbnail(field: Field) -> str:
    """A PNG image, in base64, of the zero level from the front, above and right: sphere tracing (Hart 1996)."""
    from PIL import Image

    ahead, right = np.array([-0.55, -0.45, -0.7]), np.array([0.79, 0.0, -0.62])
    ahead /= np.linalg.norm(ahead)
    up = np.cross(right, ahead)
    x, y = np.meshgrid(np.linspace(-0.62, 0.62, SIZE), np.linspace(0.62, -0.62, SIZE))
    length, middle = field.domain.length, field.domain.origin + field.domain.length / 2
    # Distances without signs need not come near 0 at the surface.
    level = 0.0 if field.info["sign"] != "none" else 2 * field.info["max_error"] * field.info["mesh"]["diagonal"]
    start = middle + length * (x[..., None] * right + y[..., None] * up - ahead).reshape(-1, 3)
    way, alive = np.full(len(start), 0.1 * length), np.arange(len(start))
    for _ in range(STEPS):
        distance = field.sample(start[alive] + way[alive, None] * ahead) - level
        way[alive] += distance
        alive = alive[(np.abs(distance) > 1e-3 * length) & (way[alive] < 2 * length)]
    hit = way < 2 * length
    normal = field.gradient(start[hit] + way[hit, None] * ahead)
    normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-30)
    image = np.full((SIZE * SIZE, 4), (255, 255, 255, 0), np.uint8)
    light = np.clip(normal @ (0.4 * up - 0.8 * ahead - 0.3 * right), 0, 1)[:, None]
    image[hit] = np.concatenate([(40 + 200 * light) * [0.85, 0.95, 1.0], np.full((int(hit.sum()), 1), 255)], axis=1)
    file = io.BytesIO()
    Image.fromarray(image.reshape(SIZE, SIZE, 4)).save(file, "PNG")
    return base64.b64encode(file.getvalue()).decode()
