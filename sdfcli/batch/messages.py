"""Settings and outcomes of builds and samplings, passed between processes as JSON."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from sdfcli.errors import SdfError
from sdfcli.params import BuildOptions, BuildParams, SampleParams
from sdfcli.runtime.remote import shown


@dataclass(frozen=True)
class Settings(BuildOptions):
    """Settings for all meshes in a batch, besides their builds' options.

    params         build parameters.
    previous       file with an earlier frame's field.
    force          replace existing files.
    skip_existing  skip a mesh whose output is its field with the same parameters. Any other existing file is an error
                   unless `force` is set.
    picture        add a thumbnail to outcomes.
    pages          write the fields' pages beside them; see batch/field_page.py.
    samples        draw training samples with these parameters in place of building fields; `params` is then unused.
    require        worst verdict with exit code 0, which also requires the tolerance; None: any.
    check          check meshes, without fields.
    """

    hashed: bool = True
    params: BuildParams = field(default_factory=BuildParams)
    previous: str | None = None
    force: bool = False
    skip_existing: bool = False
    picture: bool = False
    pages: bool = False
    samples: SampleParams | None = None
    require: str | None = None
    check: bool = False

    def as_json(self) -> dict[str, Any]:
        """The settings as JSON, for `of_json`."""
        return asdict(self)

    @classmethod
    def of_json(cls, settings: dict[str, Any]) -> Settings:
        """The settings of `as_json`. Raises UsageError for parameters out of range."""
        samples = settings["samples"] and SampleParams(**settings["samples"])
        return cls(**{**settings, "params": BuildParams(**settings["params"]), "samples": samples})


Outcome = dict[str, Any]
"""input, output, status (`ok`, `skipped` or `failed`), exit_code; and `error`, or the facts of the output or mesh, with
`error` if they fall short of `Settings.require`."""


def failure(mesh: str, output: str | None, error: SdfError) -> Outcome:
    """Outcome of a failed build or sampling."""
    return {
        "input": shown(mesh),
        "output": output and shown(output),
        "status": "failed",
        "exit_code": error.exit_code,
        "error": shown(" ".join(str(error).split())),
    }
