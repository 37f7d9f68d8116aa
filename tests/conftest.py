"""What every test may use."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

# Expected values are those of a processor; CUDA_VISIBLE_DEVICES=0 shows a GPU to the tests that need one.
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
# One thread adds a sum in the same order every time; and on a busy machine threads of OpenMP wait for each other by
# spinning, which takes longer than what small models compute. Processes that tests start inherit it.
os.environ["OMP_NUM_THREADS"] = "1"
# Names of collections would be looked for there, too; tests have real collections from the fixture `data` alone.
os.environ["REAL_DATA"] = os.environ.pop("TELERANK_DATA", os.environ.get("REAL_DATA", ""))

# A shell lets a command behind `&` ignore Ctrl-C, and so would the processes that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

import pytest
from hypothesis import HealthCheck, settings

from forked import ForkingParent

# no limits of time: a kernel's first call compiles it, and other tests may take the processors
settings.register_profile("telerank", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("telerank")


SKIPS = (
    "no GPU here",  # the machines that run every test have none
)
"""The reasons for which a test may be skipped where every test is to run (``--every-test``)."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--every-test", action="store_true", help="fail if a test is skipped without a listed reason"
    )


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A skipped test is a failure of ``--every-test``, unless its reason is listed."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if not session.config.getoption("--every-test") or reporter is None:
        return
    skipped = [report.longrepr for report in reporter.stats.get("skipped", ())]
    for file, line, reason in {skip for skip in skipped if not any(listed in skip[2] for listed in SKIPS)}:
        reporter.write_line(f"{file}:{line}: {reason}: no listed reason to skip a test", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real collections; a test that needs it is skipped where there is none."""
    if not os.environ["REAL_DATA"]:
        pytest.skip("TELERANK_DATA is not set: no real collections here")
    return Path(os.environ["REAL_DATA"])


@pytest.fixture(scope="session")
def forks() -> Iterator[ForkingParent]:
    """Starts processes that need not import torch."""
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    parent = ForkingParent()
    yield parent
    parent.close()
