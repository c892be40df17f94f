"""`python FOLDER/sdfcli/start.py MODULE [ARGUMENT ...]`: runs a module's `main` from the package in FOLDER.

For runtime/processes.py. `python -m` would search the current folder first, for this package and Python's own modules.
"""

import os
import sys


def main() -> None:
    """Imports this copy of the package, whichever copy is first on Python's path, and runs the module."""
    here = os.path.dirname(__file__)
    sys.path[:] = [folder for folder in sys.path if folder != here]  # Python puts it first, so `errors` would be ours
    from importlib.util import module_from_spec, spec_from_file_location

    spec = spec_from_file_location("sdfcli", os.path.join(here, "__init__.py"), submodule_search_locations=[here])
    assert spec
    assert spec.loader
    sys.modules["sdfcli"] = package = module_from_spec(spec)
    spec.loader.exec_module(package)
    del sys.argv[0]
    from importlib import import_module

    import_module(sys.argv[0]).main()


if __name__ == "__main__":
    main()
