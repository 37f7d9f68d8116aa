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

import click
import httpx
import pytest

from served_process import served_process
from small_service import make_index
from telerank.cli.main import app
from telerank.service.settings import KEYS_VARIABLE, ServiceSettings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UNIT, CONTAINER = DEPLOY / "telerank.service", DEPLOY / "Containerfile"
UPDATE, TIMER = DEPLOY / "telerank-update.service", DEPLOY / "telerank-update.timer"
KILL_AFTER = 5  # seconds that the supervisor waits beyond the grace


@pytest.fixture(scope="module")
def unit() -> dict[str, list[str]]:
    """The values of each directive of the unit, with its section: ``Service.ExecStart``."""
    values, section = defaultdict(list), ""
    for line in UNIT.read_text().splitlines():
        if header := re.fullmatch(r"\[(\w+)\]", line):
            section = header[1]
        elif line and not line.startswith("#"):
            name, equals, value = line.partition("=")
            assert equals, line
            values[f"{section}.{name}"].append(value)
    return values


@pytest.fixture(scope="module")
def instructions() -> list[tuple[str, str]]:
    """The instructions of the container file: name and value, without comments, on one line."""
    text = re.sub(r"^#.*\n", "", CONTAINER.read_text(), flags=re.MULTILINE).replace("\\\n", "")
    return [tuple(line.split(maxsplit=1)) for line in text.splitlines() if line]


@pytest.fixture(scope="module")
def image(instructions) -> dict[str, str]:
    """The instructions of the last stage; ``ENV`` are all values together."""
    last = max(number for number, (name, _) in enumerate(instructions) if name == "FROM")
    stage = instructions[last:]
    return {**dict(stage), "ENV": " ".join(value for name, value in stage if name == "ENV")}


def variables(values: str) -> dict[str, str]:
    return dict(word.split("=", 1) for word in shlex.split(values))


def command_of(unit) -> list[str]:
    return shlex.split(unit["Service.ExecStart"][0])


def test_the_command_line_understands_the_commands_which_listen_on_their_own_network(unit, image):
    of_image = json.loads(image["ENTRYPOINT"]) + json.loads(image["CMD"])
    for words, host in ((command_of(unit), "127.0.0.1"), (of_image, "0.0.0.0")):
        program, command, *rest = words
        assert (Path(program).name, command) == ("telerank", "serve")
        given = app.get_command(click.Context(app), command).make_context("serve", rest).params
        assert given["config"] == Path("/srv/telerank/service.yaml")
        assert (given["host"], given["port"]) == (host, 8080)


def test_caches_are_in_a_folder_that_can_be_written(unit, image):
    state, cache = (
        f"/var/lib/{unit['Service.StateDirectory'][0]}",
        f"/var/cache/{unit['Service.CacheDirectory'][0]}",
    )
    assert unit["Service.WorkingDirectory"] == [state] == [image["VOLUME"]]
    [models] = unit["Service.ReadOnlyPaths"]
    assert not state.startswith(models)
    assert not cache.startswith(models)
    for values, folder in ((" ".join(unit["Service.Environment"]), cache), (image["ENV"], f"{state}/")):
        given = variables(values)
        assert all(
            given[name].startswith(folder) for name in ("XDG_CACHE_HOME", "NUMBA_CACHE_DIR", "HF_HOME")
        )
        assert given["TELERANK_MODELS"] == f"{models}/models"
        assert given["HF_HUB_OFFLINE"] == "1"
        assert KEYS_VARIABLE not in given


def test_the_unit_waits_until_open_requests_are_answered(unit, image):
    grace = ServiceSettings.model_fields["grace"].default
    assert int(unit["Service.TimeoutStopSec"][0]) > grace + KILL_AFTER
    assert unit["Service.KillSignal"] == ["SIGTERM"]
    assert unit["Service.Restart"] == ["on-failure"]
    assert image["STOPSIGNAL"] == "SIGTERM"


def test_the_unit_restricts_the_service(unit):
    expected = {
        "DynamicUser": "yes", "ProtectSystem": "strict", "NoNewPrivileges": "yes", "PrivateTmp": "yes",
        "CapabilityBoundingSet": "", "AmbientCapabilities": "", "ProtectHome": "yes",
    }  # fmt: skip
    assert {name: unit[f"Service.{name}"][0] for name in expected} == expected
    assert unit["Service.SystemCallFilter"]
    assert unit["Service.MemoryMax"]
    assert "Service.MemoryDenyWriteExecute" not in unit  # compiled code is made at run time


def test_keys_come_from_a_file_of_their_own_and_none_is_in_the_folder(unit):
    assert unit["Service.EnvironmentFile"] == ["/etc/telerank.env"]
    lines = (DEPLOY / "telerank.env").read_text().splitlines()
    assert f"#{KEYS_VARIABLE}=" in lines
    assert all(line.startswith("#") for line in lines)


def test_the_image_installs_extras_that_exist(instructions):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    run = " ".join(value for name, value in instructions if name == "RUN")
    extras = re.search(r'"\.\[([\w,]+)\]"', run)[1].split(",")
    assert {"serve", "files", "neural", "e5"} == set(extras) <= set(project["optional-dependencies"])
    [torch] = [name for name in project["optional-dependencies"]["neural"] if name.startswith("torch")]
    assert f'"{torch}"' in run
    [base] = {value.split()[0] for name, value in instructions if name == "FROM"}
    version = tuple(map(int, re.search(r"python:(\d+)\.(\d+)-slim$", base).groups()))
    least, most = re.fullmatch(r">=3\.(\d+),<3\.(\d+)", project["requires-python"]).groups()
    assert (3, int(least)) <= version < (3, int(most))
    for name, value in instructions:
        if name == "COPY" and not value.startswith("--from"):
            assert all((ROOT / source).exists() for source in value.split()[:-1])


def test_the_image_runs_as_a_user_of_its_own_and_knows_whether_it_is_ready(image):
    assert int(image["USER"].split(":")[0]) > 0
    check = image["HEALTHCHECK"]
    probe = json.loads(check[check.index("[") :])
    assert "http://127.0.0.1:8080/health/ready" in probe[-1]
    compile(probe[-1], "HEALTHCHECK", "exec")
    assert image["EXPOSE"] == "8080"


def complaints(*command: object) -> str:
    ran = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False, timeout=60)
    return f"{ran.stdout}{ran.stderr}" if ran.returncode else ran.stderr


def test_systemd_understands_the_unit(unit, tmp_path):
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed")
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text().replace(f"={command_of(unit)[0]} ", f"={sys.executable} "))
    assert not complaints("systemd-analyze", "verify", copy)
    # an exposure of at most 2.0 of 10
    assert not complaints("systemd-analyze", "security", "--offline=true", "--threshold=20", copy)


def test_systemd_understands_the_timer_of_updates_and_the_command_line_its_command(tmp_path):
    [command] = re.findall(r"^ExecStart=(.*)", UPDATE.read_text(), re.MULTILINE)
    program, *words, folder, index = shlex.split(command)
    assert (Path(program).name, words) == ("telerank", ["index", "update"])
    update = app.get_command(click.Context(app), "index").get_command(click.Context(app), "update")
    given = update.make_context("update", [folder, index]).params
    assert (given["folder"], given["index"]) == (folder, index)
    assert f"ReadWritePaths={index}\n" in UPDATE.read_text()
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed")
    copy = tmp_path / UPDATE.name
    copy.write_text(UPDATE.read_text().replace(program, sys.executable).replace("User=telerank-index\n", ""))
    shutil.copy(TIMER, tmp_path)
    assert not complaints("systemd-analyze", "verify", tmp_path / TIMER.name)


def test_hadolint_has_no_complaint():
    hadolint = Path(sys.executable).with_name("hadolint")
    if not hadolint.exists():
        pytest.skip("hadolint is not installed")
    assert not complaints(hadolint, CONTAINER)


@pytest.mark.process
def test_a_service_writes_to_its_state_alone(tmp_path):
    """As in the unit and the image: no home, caches and judgments in one folder, the index only read."""
    folder, state, home = make_index(tmp_path / "idx"), tmp_path / "state", tmp_path / "none"
    state.mkdir()

    def written() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in (tmp_path / "idx").rglob("*")}

    before = written()
    environment = {
        "NUMBA_OPT": "0",  # compiles faster
        "HOME": str(home),
        "XDG_CACHE_HOME": str(state / "cache"),
        "NUMBA_CACHE_DIR": str(state / "cache" / "numba"),
        "HF_HOME": str(state / "cache" / "huggingface"),
    }
    with served_process(folder, "--judgments", state / "judged.jsonl", **environment) as service:
        assert httpx.get(f"{service.url}/v1/search", params={"query": "q1"}).json()["hits"]
        assert httpx.get(f"{service.url}/search", params={"query": "q1"}).status_code == 200
        judged = {"query": "q1", "docno": "a", "grade": 1}
        assert httpx.post(f"{service.url}/v1/judgments", json=judged).status_code == 201
    assert written() == before
    assert not home.exists()
    assert (state / "judged.jsonl").exists()
    assert list((state / "cache" / "numba").rglob("*.nbc"))
