"""`python -m sdfcli`."""

from sdfcli.cli.app import main

main()
