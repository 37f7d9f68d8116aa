"""YAML files that are none: one error that names the file and, if there is one, the line."""

from __future__ import annotations

import pytest

from telerank.errors import FormatError
from telerank.yaml_files import read_yaml

LAUGHS = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 30))
WRONG = {
    "lists in lists": ("[" * 100_000, "YAML of fewer levels"),
    "objects in objects": ("a: " + "{a: " * 100_000, "YAML of fewer levels"),
    "lists of lines": ("- " * 100_000, "YAML of fewer levels"),
    "a date": ("a: 1\nb: 2001-99-99", ":2: expected YAML .'2001-99-99' is no timestamp"),
    "a time": ("a: 2001-01-01 25:61:61", ":1: .* is no timestamp"),
    "a tag of a number": ("a: !!int foo", ":1: expected YAML .'foo' is no int"),
    "a tag of a fraction": ("a: !!float foo", ":1: .*'foo' is no float"),
    "a tag of a truth": ("a: !!bool foo", ":1: .*'foo' is no bool"),
    "a tag of a time": ("a: !!timestamp foo", ":1: .*'foo' is no timestamp"),
    "a tag of bytes": ("a: !!binary é", ":1: .*"),
    "a tag of Python": ("a: !!python/object/apply:os.system [ls]", ":1: .*could not determine a constructor"),
    "digits": ("a: " + "9" * 5000, ":1: .*'9{60}' is no int"),
    "a list as a key": ("? [a]\n: 1", ":1: .*unhashable key"),
    "an object as a key": ("{{}: 1}", ":1: .*unhashable key"),
    "a control character": ("a: \x00", "YAML"),
    "an alias of itself": ("a: &a [*a]", ":1: .*an alias is within what it stands for"),
    "aliases of aliases": (LAUGHS, r": .*more than 1,000,000 values"),
    "merged aliases": (
        LAUGHS.replace("[x]", "{x: 1}") + "z: {<<: [*a29, *a28]}",
        r": .*more than 1,000,000 values",
    ),
    "a merge of a word": ("a: {<<: x}", ":1: .*expected a mapping"),
}


@pytest.mark.parametrize(("text", "says"), WRONG.values(), ids=WRONG)
def test_what_is_no_yaml_is_named(text, says, tmp_path):
    file = tmp_path / "settings.yaml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(FormatError, match=says) as refused:
        read_yaml(file)
    assert str(refused.value).startswith(str(file))
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 300


def test_aliases_and_dates_are_read(tmp_path):
    file = tmp_path / "settings.yaml"
    file.write_text("a: &a {x: 1}\nb: *a\nc: {<<: *a, y: 2}\nd: 2001-02-03\ne: !!int 3")
    record = read_yaml(file)
    assert (record["b"], record["c"], record["e"]) == ({"x": 1}, {"x": 1, "y": 2}, 3)
