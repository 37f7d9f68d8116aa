"""The container file and the systemd unit: what can be checked without building an image or starting a service."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest
from typer.main import get_command

from telerank.cli.main import app
from telerank.service.settings import KEYS_VARIABLE, ServiceSettings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UNIT = DEPLOY / "telerank.service"
KILL_AFTER = 5  # seconds that the supervisor waits beyond the grace


def directives() -> dict[str, list[str]]:
    """The values of each directive of the unit, with its section: ``Service.ExecStart``."""
    found, section = defaultdict(list), ""
    for line in UNIT.read_text().splitlines():
        if header := re.fullmatch(r"\[(\w+)\]", line):
            section = header[1]
        elif line and not line.startswith("#"):
            name, equals, value = line.partition("=")
            assert equals, line
            found[f"{section}.{name}"].append(value)
    return found


def instructions(file: Path = DEPLOY / "Containerfile") -> list[tuple[str, str]]:
    """The instructions of the container file: name and value, without comments, on one line."""
    text = re.sub(r"^#.*\n", "", file.read_text(), flags=re.MULTILINE).replace("\\\n", "")
    return [tuple(line.split(maxsplit=1)) for line in text.splitlines() if line]


def last_stage() -> list[tuple[str, str]]:
    every = instructions()
    return every[max(number for number, (name, _) in enumerate(every) if name == "FROM") :]


def environment_of_the_unit() -> dict[str, str]:
    words = [word for value in directives()["Service.Environment"] for word in shlex.split(value)]
    return dict(word.split("=", 1) for word in words)


def environment_of_the_image() -> dict[str, str]:
    words = [word for name, value in last_stage() if name == "ENV" for word in shlex.split(value)]
    return dict(word.split("=", 1) for word in words)


def parsed(words: list[str]) -> dict:
    """The values of ``telerank serve`` that a command line gives; raises for an unknown option."""
    program, command, *rest = words
    assert (Path(program).name, command) == ("telerank", "serve")
    serve = get_command(app).commands["serve"]
    return serve.make_context("serve", rest).params


def command_of_the_image() -> list[str]:
    values = dict(last_stage())
    return json.loads(values["ENTRYPOINT"]) + json.loads(values["CMD"])


def command_of_the_unit() -> list[str]:
    return shlex.split(directives()["Service.ExecStart"][0])


@pytest.mark.parametrize("command", [command_of_the_image, command_of_the_unit])
def test_the_command_line_understands_the_command(command):
    given = parsed(command())
    assert given["config"] == Path("/srv/telerank/service.yaml")
    assert given["port"] == 8080


def test_the_unit_listens_on_this_machine_alone_and_the_image_within_its_own_network():
    assert parsed(command_of_the_unit())["host"] == "127.0.0.1"
    assert parsed(command_of_the_image())["host"] == "0.0.0.0"


def test_caches_are_in_a_folder_that_can_be_written():
    unit, service = environment_of_the_unit(), directives()
    written = [
        f"/var/lib/{service['Service.StateDirectory'][0]}",
        f"/var/cache/{service['Service.CacheDirectory'][0]}",
    ]
    image = environment_of_the_image()
    volume = dict(last_stage())["VOLUME"]
    for name in ("XDG_CACHE_HOME", "NUMBA_CACHE_DIR", "HF_HOME"):
        assert unit[name].startswith(written[1])
        assert image[name].startswith(f"{volume}/")
    assert service["Service.WorkingDirectory"] == [written[0]] == [volume]
    models = service["Service.ReadOnlyPaths"][0]
    assert unit["TELERANK_MODELS"] == image["TELERANK_MODELS"] == f"{models}/models"
    assert not any(one.startswith(models) for one in (*written, volume))
    assert unit["HF_HUB_OFFLINE"] == image["HF_HUB_OFFLINE"] == "1"


def test_the_unit_waits_until_open_requests_are_answered():
    service = directives()
    grace = ServiceSettings.model_fields["grace"].default
    assert int(service["Service.TimeoutStopSec"][0]) > grace + KILL_AFTER
    assert service["Service.KillSignal"] == ["SIGTERM"]
    assert service["Service.Restart"] == ["on-failure"]
    assert dict(last_stage())["STOPSIGNAL"] == "SIGTERM"


def test_the_unit_restricts_the_service():
    expected = {
        "DynamicUser": "yes", "ProtectSystem": "strict", "NoNewPrivileges": "yes", "PrivateTmp": "yes",
        "CapabilityBoundingSet": "", "AmbientCapabilities": "", "ProtectHome": "yes",
    }  # fmt: skip
    service = directives()
    assert {name: service[f"Service.{name}"][0] for name in expected} == expected
    assert service["Service.SystemCallFilter"]
    assert service["Service.MemoryMax"]
    assert "Service.MemoryDenyWriteExecute" not in service  # compiled code is made at run time


def test_keys_come_from_a_file_of_their_own_and_none_is_in_the_folder():
    assert directives()["Service.EnvironmentFile"] == ["/etc/telerank.env"]
    lines = (DEPLOY / "telerank.env").read_text().splitlines()
    assert f"#{KEYS_VARIABLE}=" in lines
    assert all(line.startswith("#") for line in lines)
    assert not {KEYS_VARIABLE} & {*environment_of_the_unit(), *environment_of_the_image()}


def test_the_image_installs_extras_that_exist():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    run = " ".join(value for name, value in instructions() if name == "RUN")
    extras = re.search(r'"\.\[([\w,]+)\]"', run)[1].split(",")
    assert {"serve", "files", "neural"} == set(extras) <= set(project["optional-dependencies"])
    [torch] = [one for one in project["optional-dependencies"]["neural"] if one.startswith("torch")]
    assert f'"{torch}"' in run
    [base] = {value.split()[0] for name, value in instructions() if name == "FROM"}
    version = tuple(map(int, re.search(r"python:(\d+)\.(\d+)-slim$", base).groups()))
    least, most = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", project["requires-python"]).groups()
    assert (3, int(least)) <= version < (3, int(most))
    for name, value in instructions():
        if name == "COPY" and not value.startswith("--from"):
            assert all((ROOT / source).exists() for source in value.split()[:-1])


def test_the_image_runs_as_a_user_of_its_own_and_knows_whether_it_is_ready():
    values = dict(last_stage())
    assert int(values["USER"].split(":")[0]) > 0
    check = values["HEALTHCHECK"]
    probe = json.loads(check[check.index("[") :])
    assert "http://127.0.0.1:8080/health/ready" in probe[-1]
    compile(probe[-1], "HEALTHCHECK", "exec")
    assert values["EXPOSE"] == "8080"


def test_systemd_understands_the_unit(tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed")
    command = command_of_the_unit()[0]
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace(f"={command} ", f"={sys.executable} "))
    ran = subprocess.run(
        ["systemd-analyze", "verify", copy], capture_output=True, text=True, check=False, timeout=60
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    rated = ["systemd-analyze", "security", "--offline=true", "--threshold=20", copy]
    ran = subprocess.run(rated, capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stdout  # an exposure of at most 2.0 of 10


def test_hadolint_has_no_complaint():
    hadolint = Path(sys.executable).with_name("hadolint")
    if not hadolint.exists():
        pytest.skip("hadolint is not installed")
    ran = subprocess.run(
        [hadolint, DEPLOY / "Containerfile"], capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.stdout == ""


@pytest.mark.process
def test_a_service_writes_to_its_state_alone(tmp_path):
    """As in the unit and the image: no home, caches and judgments in one folder, the index only read."""
    httpx = pytest.importorskip("httpx")
    pytest.importorskip("fastapi")
    from served_process import served_process
    from small_service import make_index

    folder, state, home = make_index(tmp_path / "idx"), tmp_path / "state", tmp_path / "none"
    state.mkdir()

    def written() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in (tmp_path / "idx").rglob("*")}

    before = written()
    environment = {
        "HOME": str(home),
        "XDG_CACHE_HOME": str(state / "cache"),
        "NUMBA_CACHE_DIR": str(state / "cache" / "numba"),
        "HF_HOME": str(state / "cache" / "huggingface"),
    }
    with served_process(folder, "--judgments", state / "judged.jsonl", **environment) as service:
        assert httpx.get(f"{service.url}/v1/search", params={"query": "q1"}).json()["hits"]
        assert httpx.get(f"{service.url}/search", params={"q": "q1"}).status_code == 200
        judged = {"query": "q1", "docno": "a", "grade": 1}
        assert httpx.post(f"{service.url}/v1/judgments", json=judged).status_code == 201
    assert written() == before
    assert not home.exists()
    assert (state / "judged.jsonl").exists()
    assert list((state / "cache" / "numba").rglob("*.nbc"))
