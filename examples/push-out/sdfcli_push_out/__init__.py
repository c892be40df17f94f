"""`sdfcli push-out`: a command of another package, with a kernel of its own."""
