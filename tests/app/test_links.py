"""Links for others: under which address they reach the page, and a code of it for cameras."""

from __future__ import annotations

import pytest

from draftscope_app.page import controls, opening_settings
from draftscope_app.page.host import LONGEST_QR, qr_rows
from draftscope_app.serve import network


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "127.3.2.1"])
def test_nobody_else_reaches_a_page_of_this_machine_alone(host: str) -> None:
    assert network.network_address(host, 7860) == ""


def test_a_page_served_everywhere_names_this_machines_address(monkeypatch: pytest.MonkeyPatch) -> None:
    assert network.network_address("192.0.2.7", 80) == "http://192.0.2.7:80/"
    assert network.network_address("2001:db8::7", 80) == "http://[2001:db8::7]:80/"
    monkeypatch.setattr(network, "_own_address", lambda: "192.0.2.9")
    assert network.network_address("0.0.0.0", 7860) == "http://192.0.2.9:7860/"
    monkeypatch.setattr(network, "_own_address", lambda: "")
    assert network.network_address("0.0.0.0", 7860) == ""


@pytest.mark.parametrize(
    ("host", "address"),
    [
        ("0.0.0.0", "http://127.0.0.1:80"),
        ("::", "http://[::1]:80"),
        ("::1", "http://[::1]:80"),
        ("box.example", "http://box.example:80"),
    ],
)
def test_the_address_that_is_printed_can_be_opened_here(host: str, address: str) -> None:
    """It said http://0.0.0.0, which browsers refuse, and http://::1:80, which is no address."""
    assert network.local_address(host, 80) == address


def test_a_link_becomes_a_square_of_dots() -> None:
    rows = qr_rows("http://192.0.2.9:7860/?drafter=sampled-tree&teach=1")
    assert len(rows) > 20
    assert all(len(row) == len(rows) and set(row) <= {"0", "1"} for row in rows)
    assert rows[0].startswith("11111110")  # the finder of a corner
    assert qr_rows("x" * (LONGEST_QR + 1)) == []
    assert qr_rows("") == []


OF_THE_HEAD = ("eagle3", "hybrid")  # drafters of the head that comes with SmolLM2


def test_every_setting_has_a_name_that_people_read() -> None:
    labels = controls.labels()
    assert labels["max_new_tokens"]["label"] == "Length, tokens"
    assert labels["rule"]["choices"]["block"] == "block (exact)"
    assert set(labels) == set(controls.names()) - {"prompt", "drafter"}


@pytest.mark.parametrize(("chat", "opens", "chain"), [(False, "sampled-tree", "draft"), (True, *OF_THE_HEAD)])
def test_the_page_opens_on_a_letter_or_a_sampled_tree_and_offers_the_chain(chat: bool, opens: str, chain: str) -> None:
    first = opening_settings.settings(chat=chat)
    assert first["drafter"] == opens
    assert (first["temperature"] == 0) == chat
    assert first["rule"] == "token"
    assert opening_settings.settings("eagle3").get("temperature") is None  # a drafter that somebody asked for
    fast = opening_settings.examples(chat)["Chain, for speed"]
    assert (fast["drafter"], fast["temperature"]) == (chain, 0.0)
    for values in opening_settings.examples(chat).values():
        assert set(values) <= set(controls.names())
