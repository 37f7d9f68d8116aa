"""NNCF without its output, and without its reports of each call to its authors."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO

_NO_REPORTS = "NNCF_CI"  # read when it is imported


@contextmanager
def silence(logger: str) -> Iterator[None]:
    """Print nothing, give no warnings, and log only errors of that logger."""
    log = logging.getLogger(logger)
    level, reports = log.level, os.environ.get(_NO_REPORTS)
    log.setLevel(logging.ERROR)
    os.environ[_NO_REPORTS] = "1"
    try:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(level)
        if reports is None:
            del os.environ[_NO_REPORTS]
