"""Groups are put into a configuration file without touching anything else in it."""

from __future__ import annotations

import tomllib

import pytest

from infra import presets
from infra.advise.rewrite import GroupText, diff, names_groups, with_groups
from infra.config_file import commented
from streams.errors import ConfigError

TASTE = GroupText("taste", ("watched", "saved"), "exact", "change together")
HISTORY = GroupText("history", ("liked",), "partial", "rows shift")

FILE = """\
# mine
[event]
user = "u"  # the user

# about groups
[[groups]]
name = "old"
# inside
features = [
  "a",
]

[[groups]]
name = "older"
features = ["b"]

# about the model
[model]
layers = [1]
"""


def test_groups_take_the_place_of_those_that_were_there_and_the_rest_stays() -> None:
    changed = with_groups(FILE, [TASTE])
    assert changed == (
        '# mine\n[event]\nuser = "u"  # the user\n\n# about groups\n[[groups]]\n# recd advise: change together\n'
        'name = "taste"\nfeatures = ["watched", "saved"]\n\n# about the model\n[model]\nlayers = [1]\n'
    )


def test_a_file_without_groups_gets_them_behind_its_commented_out_ones() -> None:
    text = commented(presets.minimal("clicks"))
    changed = with_groups(text, [GroupText("history", ("recent",), "partial", "rows shift")])
    kept = [line for line in changed.splitlines() if line not in text.splitlines()]
    assert kept == [
        "[[groups]]",
        "# recd advise: rows shift",
        'name = "history"',
        'features = ["recent"]',
        'form = "partial"',
    ]
    lines = changed.splitlines()
    assert lines.index("#[[groups]]") < lines.index("[[groups]]") < lines.index("[model]")


def test_a_file_that_knows_nothing_of_groups_gets_them_at_its_end() -> None:
    assert with_groups("[event]\nuser = 1\n", [TASTE]).endswith(
        '\n\n[[groups]]\n# recd advise: change together\nname = "taste"\nfeatures = ["watched", "saved"]\n'
    )


def test_what_was_written_is_what_is_read() -> None:
    found = tomllib.loads(with_groups(FILE, [TASTE, HISTORY]))
    assert found["groups"] == [
        {"name": "taste", "features": ["watched", "saved"]},
        {"name": "history", "features": ["liked"], "form": "partial"},
    ]


def test_dense_features_of_a_group_are_written_with_it() -> None:
    who = GroupText("who", ("user",), "partial", "never changes", ("age", "tenure"))
    (group,) = tomllib.loads(with_groups(FILE, [who]))["groups"]
    assert group == {"name": "who", "features": ["user"], "dense": ["age", "tenure"], "form": "partial"}


def test_no_groups_at_all_removes_those_that_were_there() -> None:
    changed = with_groups(FILE, [])
    assert not names_groups(changed)
    assert "# about the model\n[model]" in changed


def test_writing_the_same_groups_again_changes_nothing() -> None:
    once = with_groups(FILE, [TASTE, HISTORY])
    assert with_groups(once, [TASTE, HISTORY]) == once


def test_line_ends_of_the_file_are_kept() -> None:
    changed = with_groups(FILE.replace("\n", "\r\n"), [TASTE])
    assert changed.count("\r\n") == changed.count("\n")


def test_groups_in_another_spelling_are_refused_with_the_text_to_put_in() -> None:
    text = 'groups = [{name = "old", features = ["a"]}]\n[event]\nuser = "u"\n'
    assert names_groups(text)
    with pytest.raises(ConfigError, match=r"put in by hand:\n\[\[groups\]\]"):
        with_groups(text, [TASTE])


def test_a_line_inside_a_string_that_looks_like_groups_is_not_cut() -> None:
    text = 'note = """\n[[groups]]\nname = "no"\n"""\n'
    with pytest.raises(ConfigError, match="cannot be replaced line by line"):
        with_groups(text, [TASTE])


def test_the_diff_shows_what_changes() -> None:
    shown = diff(FILE, with_groups(FILE, [TASTE]), "recd.toml")
    assert '-name = "old"' in shown
    assert '+name = "taste"' in shown
    assert '-user = "u"' not in shown
