"""The package's logger, `sdfcli`: warnings about results, and at INFO the stages of builds. Silent by default."""

import logging

LOG = logging.getLogger("sdfcli")
LOG.addHandler(logging.NullHandler())
