"""`sdfcli cook`: assets in, simulators' files out."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest
import trimesh
from typer.testing import CliRunner, Result

import sdfcli
from commands import reports
from sdfcli.cli.app import app
from sdfcli.cook import TARGETS, CookConfig, cook

COARSE = ["--tolerance", 0.1, "--device", "cpu", "--threads", 2]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "sdfcli" / "fields"


@pytest.fixture
def robot(tmp_path: Path) -> Path:
    """Two links with the same mesh, one mirrored and scaled, and a link whose mesh is missing."""
    trimesh.creation.box((1, 2, 3)).export(tmp_path / "box.obj")
    links = [
        f'<link name="{name}"><collision><geometry><mesh filename="{file}" scale="{scale}"/></geometry></collision>'
        "</link>"
        for name, file, scale in (("a", "box.obj", "1 1 1"), ("b", "box.obj", "-1 1 2"), ("c", "gone.obj", "1 1 1"))
    ]
    (tmp_path / "robot.urdf").write_text(f'<robot name="r">{"".join(links)}</robot>')
    return tmp_path / "robot.urdf"


def invoke(*words: object) -> Result:
    return CliRunner().invoke(app, ["cook", *(str(word) for word in words)])


def test_a_robot(robot: Path, cache: Path, tmp_path: Path) -> None:
    done = invoke(robot, "--for", "bullet", "-o", tmp_path / "out", "--json", *COARSE)
    assert done.exit_code == 3
    told = reports("cook", done.stdout)
    failed = [each for each in told if each.get("status") == "failed"]
    good = [each for each in told if each.get("status") == "ok"]
    (scene,) = (each for each in told if "meshes" in each)
    assert len(failed) == 1
    assert "gone.obj" in failed[0]["error"]
    assert (scene["meshes"], scene["left"]) == (2, 1)
    for each in good:
        assert each["largest_error"] <= each["allowed_error"]
        assert each["bytes"] == sum(Path(name).stat().st_size for name in each["files"])
    tree = ElementTree.parse(scene["output"])
    names = [each.get("filename") for each in tree.iter("cdf")]
    assert {(tmp_path / "out" / str(name)).resolve() for name in names} == {
        Path(each["output"]).resolve() for each in good
    }
    (left,) = tree.iter("mesh")
    assert left.get("filename", "").endswith("gone.obj")
    assert len(list(cache.iterdir())) == 2

    again = invoke(robot, "--for", "bullet", "-o", tmp_path / "out", *COARSE)
    assert again.exit_code != 0
    assert "exists; use --force" in again.stderr
    forced = invoke(robot, "--for", "bullet", "-o", tmp_path / "out", "--force", *COARSE)
    assert forced.exit_code == 3
    assert forced.stdout.count("cached") == 2
    assert "gone.obj" in forced.stderr


def test_what_would_be_cooked(robot: Path, cache: Path, tmp_path: Path) -> None:
    done = invoke(robot, "--for", "bullet", "--for", "drake", "-o", tmp_path / "out", "--dry-run", "--json", *COARSE)
    told = [each for each in reports("cook", done.stdout) if "predicted_bytes" in each]
    assert [(each["target"], each["size"]) for each in told] == [
        (target, size) for target in ("bullet", "drake") for size in ([1, 2, 3], [1, 2, 6])
    ]
    assert not (tmp_path / "out").exists()
    assert not cache.exists()
    table = invoke(robot, "--for", "bullet", "-o", tmp_path / "out", "--dry-run", *COARSE)
    assert "nothing was built" in table.stderr
    assert "1e+03 x 2e+03 x 3e+03" in table.stdout


@pytest.mark.parametrize("target", TARGETS)
def test_the_prediction_is_near(target: str, cache: Path, tmp_path: Path) -> None:
    """Within the factor that the interface states."""
    if target == "mujoco-warp":
        pytest.importorskip("mujoco", reason="MuJoCo is not installed")
    trimesh.creation.torus(1, 0.3).export(tmp_path / "a.ply")
    words = [tmp_path / "a.ply", "--for", target, "-o", tmp_path / "out", "--json", *COARSE]
    (planned,) = reports("cook", invoke(*words, "--dry-run", "-q").stdout)
    (made,) = reports("cook", invoke(*words, "-q").stdout)
    assert 1 / 3 < planned["predicted_bytes"] / made["bytes"] < 3


def test_several_simulators(cache: Path, tmp_path: Path) -> None:
    trimesh.creation.icosphere(2).export(tmp_path / "ball.ply")
    done = invoke(tmp_path / "ball.ply", "--for", "bullet", "--for", "physx", "-o", tmp_path / "out", *COARSE)
    assert done.exit_code == 0, done.output
    assert {each.name for each in (tmp_path / "out").iterdir()} == {"bullet", "physx"}
    assert {each.name for each in (tmp_path / "out" / "bullet").iterdir()} == {"ball.cdf", "ball.urdf"}
    assert "ball for physx" in done.stdout
    assert "the file names no unit: taken as metres" in done.stderr


@pytest.mark.parametrize("target", ["bullet", "drake", "newton"])
def test_a_robot_of_one_link(target: str, cache: Path, tmp_path: Path) -> None:
    """For a mesh without a scene; PyBullet, Drake and Newton load it where they are installed."""
    trimesh.creation.icosphere(2).export(tmp_path / "ball.ply")
    done = invoke(tmp_path / "ball.ply", "--for", target, "-o", tmp_path / "out", *COARSE)
    assert done.exit_code == 0, done.output
    path = tmp_path / "out" / "ball.urdf"
    (geometry,) = ElementTree.parse(path).iter("geometry")
    assert (tmp_path / "out" / geometry[0].attrib["filename"]).is_file()
    if target == "bullet":
        pybullet = pytest.importorskip("pybullet")
        client = pybullet.connect(pybullet.DIRECT)
        assert pybullet.loadURDF(str(path), useFixedBase=True, physicsClientId=client) >= 0
        pybullet.disconnect(client)
    elif target == "drake":
        parsing = pytest.importorskip("pydrake.multibody.parsing")
        plant = pytest.importorskip("pydrake.multibody.plant").MultibodyPlant(0.001)
        assert parsing.Parser(plant).AddModels(str(path))


def test_one_configuration(cache: Path, tmp_path: Path) -> None:
    """Options from a settings file, lists and sizes included."""
    trimesh.creation.icosphere(1).export(tmp_path / "ball.ply")
    settings = '[cook]\nfor = ["newton"]\ntolerance = 0.05\nset = ["newton.max_resolution=32"]\nmax-bytes = "90M"\n'
    (tmp_path / "cook.toml").write_text(settings)
    words = ["--config", tmp_path / "cook.toml", "cook", tmp_path / "ball.ply", "-o", tmp_path / "a"]
    done = CliRunner().invoke(app, [*map(str, words), "--device", "cpu", "--json"])
    assert done.exit_code == 0, done.output
    other = invoke(
        tmp_path / "ball.ply", "--for", "newton", "-o", tmp_path / "b", "--tolerance", 0.05, "--device", "cpu"
    )
    assert other.exit_code == 0, other.output
    names = [{each.name for each in (tmp_path / folder).glob("*.npz")} for folder in "ab"]
    assert len(names[0]) == len(names[1]) == 1
    assert names[0] != names[1]  # the key has the resolution


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["--for", "unity"], 2, "--for unity: use mujoco"),
        (["--for", "bullet", "--tolerance", "0"], 2, "--tolerance 0.0"),
        (["--for", "newton", "--set", "newton.colour=1"], 2, "--set newton.colour=1: use NAME=VALUE"),
        (
            ["--for", "newton", "--set", "newton.margin=big"],
            2,
            "--set newton.margin=big: use a value of",
        ),
        (["--for", "physx", "--set", "physx.bits=7"], 2, "physx.bits 7: use 8, 16 or 32"),
        (["--for", "bullet", "--max-bytes", "1k"], 3, "--max-bytes"),
        (["--for", "bullet", "--scale", "0"], 2, "--scale"),
    ],
)
def test_errors(words: list[str], code: int, says: str, cache: Path, tmp_path: Path) -> None:
    trimesh.creation.icosphere(1).export(tmp_path / "ball.ply")
    done = invoke(tmp_path / "ball.ply", "-o", tmp_path / "out", *words)
    assert (done.exit_code, says in done.output) == (code, True), done.output
    assert not (tmp_path / "out").exists()


def test_assets_that_cannot_be_read(cache: Path, tmp_path: Path) -> None:
    for name, text in (("a.urdf", "<robot"), ("b.xml", "<html/>"), ("c.urdf", "<robot/>"), ("d.stl", "")):
        (tmp_path / name).write_text(text)
        done = invoke(tmp_path / name, "--for", "bullet", "-o", tmp_path / "out")
        assert done.exit_code == 3, (name, done.output)
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert not (tmp_path / "out").exists()


def test_from_python(cache: Path, tmp_path: Path) -> None:
    trimesh.creation.icosphere(2).export(tmp_path / "ball.ply")
    (found,) = cook(tmp_path / "ball.ply", "physx", tmp_path / "out", config=CookConfig(tolerance=0.02), device="cpu")
    assert found.error is None
    assert all((tmp_path / "out" / name).is_file() for name in found.files)
    assert found.max_error <= found.tolerance


def test_a_solid(cache: Path, tmp_path: Path) -> None:
    """Of a box without a lid."""
    walls = trimesh.creation.box((1, 1, 1))
    walls.update_faces(walls.triangles_center[:, 2] < 0.4)
    walls.export(tmp_path / "open.ply")
    for words in [], ["--solid"]:
        done = invoke(tmp_path / "open.ply", "--for", "bullet", "-o", tmp_path / "a", "--force", *words, *COARSE)
        assert done.exit_code == 0, done.output
    assert {sdfcli.load(each).info["parameters"]["sign"] for each in cache.iterdir()} == {"auto", "flood"}


def test_a_doubtful_mesh_is_told(cache: Path, tmp_path: Path) -> None:
    cap = trimesh.creation.icosphere(2)
    cap.update_faces(cap.triangles_center[:, 2] > 0.5)
    cap.export(tmp_path / "open.ply")
    done = invoke(tmp_path / "open.ply", "--for", "bullet", "-o", tmp_path / "a", "--json", *COARSE)
    (told,) = reports("cook", done.stdout)
    assert told["verdict"] == "doubtful", done.output
    assert "doubtful: its inside is uncertain; --solid" in done.stderr
