"""The package's logger, `sdfcli`: warnings about results, and at DEBUG the progress of builds. Silent by default."""

import logging

LOG = logging.getLogger("sdfcli")
LOG.addHandler(logging.NullHandler())
