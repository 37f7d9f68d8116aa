"""NNCF without what it prints, and without what it tells its makers of each call."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO

_UNTOLD = "NNCF_CI"  # read when it is imported


@contextmanager
def silence(logger: str) -> Iterator[None]:
    """Nothing on standard output and standard error, no warnings, and of that logger errors alone."""
    log = logging.getLogger(logger)
    before, told = log.level, os.environ.get(_UNTOLD)
    log.setLevel(logging.ERROR)
    os.environ[_UNTOLD] = "1"
    try:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.setLevel(before)
        if told is None:
            del os.environ[_UNTOLD]
