from __future__ import annotations

import os

import pytest
from click.testing import CliRunner

from telerank.cli.main import app
from telerank.errors import CollectionError, FormatError
from telerank.service.settings import make_settings, name_folders, read_keys, read_settings


@pytest.fixture
def served(monkeypatch):
    """The settings that the command would serve."""
    seen = []
    monkeypatch.setattr("telerank.service.workers.run_service", seen.append)
    return seen


def test_options_come_before_the_file(folder, tmp_path, served, monkeypatch):
    monkeypatch.delenv("TELERANK_KEYS", raising=False)
    file, keys = tmp_path / "service.yaml", tmp_path / "keys"
    lines = ("port: 9000", "model: bm25", "limits: {queue: 7}", "keys: [from-the-file]")
    file.write_text("\n".join((f"indexes: {{a: {folder}}}", *lines)))
    keys.write_text("# keys\nkey-of-ann  # Ann\n\nkey-of-bob\nkey-of-ann\n")
    result = CliRunner().invoke(
        app, ["serve", f"x={folder}", "--config", str(file), "--port", "0", "--key-file", str(keys)]
    )
    assert result.exit_code == 0, result.output
    [settings] = served
    assert settings.indexes == {"x": folder}
    assert (settings.port, settings.model, settings.limits.queue) == (0, "bm25", 7)
    assert settings.keys == ("key-of-ann", "key-of-bob")
    assert (settings.host, settings.cors, settings.log_queries) == ("127.0.0.1", (), False)
    assert "key-of" not in repr(settings)
    CliRunner().invoke(app, ["serve", "--config", str(file)], catch_exceptions=False)
    assert served[1].keys == ("from-the-file",)
    monkeypatch.setenv("TELERANK_KEYS", "key-of-bob, key-of-env")
    assert list(read_keys(keys)) == ["key-of-ann", "key-of-bob", "key-of-env"]


def test_a_folder_has_the_name_of_its_last_part(tmp_path):
    (tmp_path / "idx").mkdir()
    assert name_folders([f"{tmp_path}/idx/", "b=/c", "org/model"]) == {
        "idx": f"{tmp_path}/idx/",
        "b": "/c",
        "model": "org/model",
    }
    with pytest.raises(CollectionError, match="'b' comes twice"):
        name_folders(["b=/c", "b=/d"])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"indexes": {}}, "nothing to serve"),
        ({"prot": 1}, "did you mean 'port'"),
        ({"port": 70_000}, "port"),
        ({"prefix": "search"}, "a path such as /search"),
        ({"prefix": "/search/"}, "a path such as /search"),
        ({"keys": ["secret"]}, "8 to 256 visible ASCII characters"),
        ({"indexes": {"a b": "/a"}}, "a name has letters"),
        ({"allowed_hosts": ["https://a.org"]}, "names such as search.example.org"),
        ({"trusted_proxies": ["proxy"]}, "trusted_proxies"),
        ({"limits": {"queue": 0}}, "limits.queue"),
        ({"answer_confidence": 1.1}, "answer_confidence"),
        ({"answer_confidence": -0.1}, "answer_confidence"),
    ],
)
def test_a_wrong_setting_is_named_in_one_line(values, message):
    with pytest.raises(CollectionError) as raised:
        make_settings({"indexes": {"a": "/a"}, **values})
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
    assert "secret" not in str(raised.value)


def test_a_file_holds_settings_by_name(tmp_path):
    (tmp_path / "service.yaml").write_text("- 1\n")
    with pytest.raises(FormatError, match="settings by name"):
        read_settings(tmp_path / "service.yaml")


@pytest.mark.parametrize(
    ("content", "environment", "message"),
    [
        (b"", None, "keys has no API key"),
        (b"# the key of Ann is lost\n\n", "one-of-env", "keys has no API key"),
        (None, " , ", "TELERANK_KEYS has no API key"),
        (None, "", "TELERANK_KEYS has no API key"),
        (b"\xff\xfekey-of-ann", None, "keys: expected API keys, one a line, in UTF-8"),
    ],
)
def test_a_service_that_should_have_keys_is_not_served_without(
    tmp_path, monkeypatch, content, environment, message
):
    file = tmp_path / "keys"
    if content is not None:
        file.write_bytes(content)
    if environment is None:
        monkeypatch.delenv("TELERANK_KEYS", raising=False)
    else:
        monkeypatch.setenv("TELERANK_KEYS", environment)
    with pytest.raises((CollectionError, FormatError), match=message):
        read_keys(file if content is not None else None)


@pytest.mark.parametrize("option", ["--key-file", "--config", "--judgments"])
def test_a_file_that_may_not_be_read_is_said_in_one_line(tmp_path, served, option, monkeypatch):
    (tmp_path / "file").touch()
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: "file" not in str(path) and access(path, mode))
    result = CliRunner().invoke(app, ["serve", str(tmp_path), option, str(tmp_path / "file")])
    assert "Usage" not in result.output
