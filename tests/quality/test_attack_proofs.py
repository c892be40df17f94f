"""tools/attack_proofs.py finds no error above a proven bound, and finds one above a bound that is too small."""

import dataclasses

import attack_proofs
import numpy as np
import pytest

import sdfcli
from sdfcli.backend import any_backend
from sdfcli.field.proven import UNBOUNDED


@pytest.mark.parametrize("name", ["crossing boxes", "needles"])
def test_bounds_hold_and_lowered_ones_do_not(name: str) -> None:
    rng = np.random.default_rng()
    mesh = dict(attack_proofs.shapes(rng))[name]
    field = sdfcli.build(mesh, tolerance=0.01, prove=True, device="cpu")
    share, _, above = attack_proofs.attack(mesh, field, 200_000, any_backend(), 1)
    assert above == 0
    assert 0.5 < share <= 1.0
    bound = field.leaf_bound
    assert bound is not None
    lower = np.where(bound < UNBOUNDED, bound - np.minimum(bound, 16), bound).astype(np.uint8)  # halved
    broken = dataclasses.replace(field, leaf_bound=lower)
    assert attack_proofs.attack(mesh, broken, 200_000, any_backend(), 1)[2] > 0
