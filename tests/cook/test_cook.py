"""Cooking: builds by content, a target's files, and what is left where meshes fail."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh

import sdfcli
from sdfcli.batch.messages import Settings
from sdfcli.cook import run as cooking
from sdfcli.cook.asset import Asset, read_asset
from sdfcli.cook.config import CookConfig
from sdfcli.cook.part import Cooked, Part, part_name
from sdfcli.cook.run import CookedPart, CookRequest, cook
from sdfcli.cook.scene import Scene
from sdfcli.errors import InputError, UsageError
from sdfcli.field.field import Field
from sdfcli.mesh.formats import threemf
from sdfcli.params import BuildKeywords


class Fake:
    """A target whose files hold distances at the part's centre."""

    SCENES = ("urdf",)

    def parameters(self, config: CookConfig, part: Part) -> BuildKeywords:
        return {"max_error": config.tolerance} if config.tolerance else {"tolerance": 4e-3}

    def predicted_bytes(self, config: CookConfig, part: Part) -> int:
        return len(part.faces)

    def write(self, field: Field, part: Part, config: CookConfig, folder: Path) -> Cooked:
        if part.name == "refused":
            raise InputError("cannot be held")
        name = f"{part.name}.bin"
        (folder / name).write_bytes(field.sample(part.vertices.mean(axis=0)[None]).tobytes())
        return Cooked([name])


class FakeScene(Scene):
    """A scene with parts, whose changed file names those that were cooked."""

    kind = "urdf"

    def __init__(self, parts: list[Part], faults: list[str]) -> None:
        super().__init__(Path("robot.urdf"))
        self.parts, self.faults = parts, faults

    def write(self, folder: Path, cooked: Mapping[str, Cooked], home: Path) -> list[str]:
        (folder / self.path.name).write_text(" ".join(sorted(cooked)))
        return [self.path.name]


@pytest.fixture(autouse=True)
def targets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cooking, "target_of", lambda name: Fake())


def part(name: str, mesh: trimesh.Trimesh) -> Part:
    return Part(name, np.asarray(mesh.vertices), np.asarray(mesh.faces, np.int64), f"robot.urdf: {name}", "")


def asset_of(*parts: Part, faults: tuple[str, ...] = ()) -> Asset:
    return Asset(Path("robot.urdf"), list(parts), list(faults), scene=FakeScene(list(parts), list(faults)))


def request(tmp_path: Path, asset: Asset, *targets: str, **others: Any) -> CookRequest:
    return CookRequest(asset, targets or ("bullet",), tmp_path / "out", tmp_path / "cache", **others)


def content(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_fields_are_those_of_the_meshes_and_cached_by_content(tmp_path: Path) -> None:
    box, ball = trimesh.creation.box((1, 2, 3)), trimesh.creation.icosphere(2)
    asset = asset_of(part("box", box), part("ball", ball), part("twin", box))
    found = {each.part.name: each for each in cook(request(tmp_path, asset))}
    assert [each.error for each in found.values()] == [None] * 3
    assert content(tmp_path / "out").keys() == {"box.bin", "ball.bin", "twin.bin", "robot.urdf"}
    (depth,) = np.frombuffer((tmp_path / "out" / "box.bin").read_bytes())
    assert abs(depth + 0.5) <= found["box"].tolerance == pytest.approx(4e-3 * np.sqrt(14))
    assert len(list((tmp_path / "cache").iterdir())) == 2  # the twin's is the box's

    again = list(cook(request(tmp_path, asset, settings=Settings(force=True))))
    assert all(each.cached for each in again)
    finer = request(tmp_path, asset, config=CookConfig(tolerance=0.01), settings=Settings(force=True))
    changed = {each.part.name: each for each in cook(finer)}
    assert not changed["ball"].cached
    assert changed["ball"].tolerance == pytest.approx(0.01)


def test_a_damaged_field_in_the_cache_is_built_again(tmp_path: Path) -> None:
    asset = asset_of(part("ball", trimesh.creation.icosphere(1)))
    (first,) = cook(request(tmp_path, asset))
    (kept,) = (tmp_path / "cache").iterdir()
    kept.write_bytes(kept.read_bytes()[:-100])
    (second,) = cook(request(tmp_path, asset, settings=Settings(force=True)))
    assert (second.cached, second.error, second.max_error) == (False, None, first.max_error)


def test_a_scene_goes_on_after_bad_meshes(tmp_path: Path) -> None:
    good, refused = part("good", trimesh.creation.icosphere(1)), part("refused", trimesh.creation.box())
    bad = Part("bad", np.full((3, 3), np.nan), np.array([[0, 1, 2]]), "robot.urdf: bad", "")
    asset = asset_of(bad, refused, good, faults=("robot.urdf: gone: no such file",))
    found = {each.part.name: each for each in cook(request(tmp_path, asset))}
    assert found["good"].error is None
    for name in ("bad", "refused"):
        assert str(found[name].error).startswith(f"robot.urdf: {name}")
        assert isinstance(found[name].error, InputError)
        assert str(tmp_path) not in str(found[name].error)
        assert "\n" not in str(found[name].error)
    assert (tmp_path / "out" / "robot.urdf").read_text() == "good"
    assert content(tmp_path / "out").keys() == {"good.bin", "robot.urdf"}


def test_nothing_is_left_where_nothing_was_cooked(tmp_path: Path) -> None:
    asset = asset_of(part("refused", trimesh.creation.box()))
    (failed,) = cook(request(tmp_path, asset))
    assert failed.error is not None
    assert not (tmp_path / "out").exists()


def test_existing_files_are_kept(tmp_path: Path) -> None:
    asset = asset_of(part("a", trimesh.creation.box()), part("b", trimesh.creation.icosphere(1)))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "b.bin").write_text("mine")
    with pytest.raises(UsageError, match=r"b\.bin: exists"):
        list(cook(request(tmp_path, asset)))
    assert content(tmp_path / "out") == {"b.bin": b"mine"}
    assert [each.error for each in cook(request(tmp_path, asset, settings=Settings(force=True)))] == [None] * 2
    assert content(tmp_path / "out").keys() == {"a.bin", "b.bin", "robot.urdf"}


def test_several_targets_have_folders_and_share_fields(tmp_path: Path) -> None:
    asset = asset_of(part("a", trimesh.creation.box()))
    found = list(cook(request(tmp_path, asset, "bullet", "newton")))
    assert [each.target for each in found] == ["bullet", "newton"]
    made = content(tmp_path / "out")
    assert made.keys() == {f"{target}/{name}" for target in ("bullet", "newton") for name in ("a.bin", "robot.urdf")}
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_files_above_the_limit_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Larger(Fake):
        def write(self, field: Field, part: Part, config: CookConfig, folder: Path) -> Cooked:
            made = super().write(field, part, config, folder)
            (folder / made.files[0]).write_bytes(bytes(len(part.faces)))
            return made

    monkeypatch.setattr(cooking, "target_of", lambda name: Larger())
    asset = asset_of(part("a", trimesh.creation.box()), part("b", trimesh.creation.icosphere(1)))
    small, large = cook(request(tmp_path, asset, config=CookConfig(max_bytes=12)))
    assert small.error is None
    assert "80 bytes, more than --max-bytes 12" in str(large.error)
    assert content(tmp_path / "out").keys() == {"a.bin", "robot.urdf"}


def test_a_field_in_another_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a target that moves meshes: it gets the field of the moved mesh, and the part as it was."""

    class Moving(Fake):
        def placed(self, part: Part) -> Part:
            if part.name == "refused":
                raise InputError("is flat")
            return replace(part, vertices=part.vertices + 5)

        def write(self, field: Field, part: Part, config: CookConfig, folder: Path) -> Cooked:
            return super().write(field, replace(part, vertices=part.vertices + 5), config, folder)

    monkeypatch.setattr(cooking, "target_of", lambda name: Moving())
    ball = trimesh.creation.icosphere(2)
    sdfcli.build(ball, tolerance=5e-3).save(tmp_path / "ball.h5")
    for asset in asset_of(part("refused", ball), part("ball", ball)), read_asset(tmp_path / "ball.h5"):
        *others, found = cook(request(tmp_path, asset, settings=Settings(force=True)))
        assert found.error is None
        assert [str(each.error) for each in others] == ["robot.urdf: refused: is flat"] * len(others)
        (depth,) = np.frombuffer((tmp_path / "out" / "ball.bin").read_bytes())
        assert abs(depth + 1) < 0.05


def test_a_target_that_does_not_load_such_scenes(tmp_path: Path) -> None:
    class Other(FakeScene):
        kind = "usd"

    asset = Asset(Path("robot.usda"), [part("a", trimesh.creation.box())], scene=Other([], []))
    with pytest.raises(InputError, match="bullet loads scenes in urdf, this is usd"):
        list(cook(request(tmp_path, asset)))
    assert not (tmp_path / "out").exists()


def test_a_solid_has_a_solids_field(tmp_path: Path) -> None:
    open_box = trimesh.creation.box()
    open_box.update_faces(np.arange(len(open_box.faces)) > 1)
    (found,) = cook(request(tmp_path, asset_of(part("a", open_box)), config=CookConfig(solid=True)))
    assert found.error is None
    (kept,) = (tmp_path / "cache").iterdir()
    assert sdfcli.load(kept).info["parameters"]["sign"] == "flood"


@pytest.mark.parametrize("given", [{"tolerance": 0}, {"tolerance": -1}, {"band": np.nan}, {"margin": -1}, {"cells": 8}])
def test_configurations_out_of_range(given: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=next(iter(given))):
        CookConfig(**given)  # type: ignore[arg-type]


def test_names_of_parts() -> None:
    assert part_name("../a b/ç") == "a_b"
    assert part_name("") == part_name("///") == "part"
    assert part_name("a", {"a", "a_2"}) == "a_3"
    assert len(part_name("x" * 500)) == 60


def test_a_mesh_without_a_unit_is_in_metres(tmp_path: Path) -> None:
    mesh = trimesh.creation.box((20, 10, 30))
    mesh.export(tmp_path / "a b.stl")
    asset = read_asset(tmp_path / "a b.stl")
    assert [each.name for each in asset.parts] == ["a_b"]
    assert "20 x 10 x 30; --scale 0.001" in asset.notes[0]
    scaled = read_asset(tmp_path / "a b.stl", scale=1e-3)
    assert not scaled.notes
    np.testing.assert_allclose(np.ptp(scaled.parts[0].vertices, axis=0), (0.02, 0.01, 0.03), rtol=1e-6)


@pytest.mark.parametrize(("unit", "metres"), [("mm", 1e-3), ("0.5 m", 0.5)])
def test_a_mesh_with_a_unit_becomes_metres(
    unit: str, metres: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trimesh.creation.box((20, 10, 30)).export(tmp_path / "a.3mf")  # trimesh writes millimetres
    monkeypatch.setitem(threemf.UNITS, "millimeter", unit)
    asset = read_asset(tmp_path / "a.3mf")
    np.testing.assert_allclose(np.ptp(asset.parts[0].vertices, axis=0), metres * np.array((20, 10, 30)), rtol=1e-6)


def test_a_field_is_cooked_as_it_is(tmp_path: Path) -> None:
    field = sdfcli.build(trimesh.creation.icosphere(2), tolerance=5e-3)
    field.save(tmp_path / "ball.h5")
    asset = read_asset(tmp_path / "ball.h5")
    (found,) = cook(request(tmp_path, asset))
    assert (found.error, found.leaves) == (None, field.leaves)
    (depth,) = np.frombuffer((tmp_path / "out" / "ball.bin").read_bytes())
    assert abs(depth + 1) < 0.05
    with pytest.raises(UsageError, match="--scale is for mesh files"):
        read_asset(tmp_path / "ball.h5", scale=2)
    dataclasses.replace(field, info={}).save(tmp_path / "bare.h5")
    with pytest.raises(InputError, match=r"bare\.h5: the field does not state its error"):
        read_asset(tmp_path / "bare.h5")


def test_interrupted_cooks_leave_nothing(tmp_path: Path) -> None:
    parts = cook(
        request(tmp_path, asset_of(part("a", trimesh.creation.box()), part("b", trimesh.creation.icosphere(1))))
    )
    assert isinstance(next(parts), CookedPart)
    parts.close()  # type: ignore[attr-defined]
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    with pytest.raises(UsageError, match="out"):
        list(cook(request(tmp_path, asset_of(part("a", trimesh.creation.box())))))
