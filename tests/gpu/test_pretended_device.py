"""Everything that computes on a GPU computes on a pretended one: no tensor of the processor among the device's,
and few waits. The tests are those of ``on_device.py``, in a process of their own (see ``pretended.py``)."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

HERE = Path(__file__).parent


@pytest.fixture
def library(tmp_path):
    """The device for torch, compiled here."""
    if sys.platform != "linux" or shutil.which("g++") is None:
        pytest.skip("the pretended device is compiled by g++, on Linux")
    root = Path(find_spec("torch").origin).parent
    file = tmp_path / "pretended.so"
    flags = ["-std=c++20", "-O0", "-shared", "-fPIC", f"-I{root / 'include'}", f"-L{root / 'lib'}"]
    flags += [f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"]
    command = ["g++", *flags, str(HERE / "pretended_guard.cpp"), "-o", str(file), "-lc10", "-ltorch_cpu"]
    subprocess.run(command, check=True, timeout=300)
    return file


def test_everything_computes_on_a_device_with_few_waits(library, tmp_path):
    if torch.cuda.is_available():
        pytest.skip("there is a real device, which the pretended one would hide")
    command = [sys.executable, str(HERE / "pretend.py"), str(library), str(HERE / "on_device.py")]
    command += ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", f"--basetemp={tmp_path / 'device'}"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    run = {"capture_output": True, "text": True, "cwd": HERE.parents[1]}
    done = subprocess.run(command, check=False, env=environment, **run)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
