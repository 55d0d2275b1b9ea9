"""Which requests a server admits."""

from __future__ import annotations

import pytest

from bascule.serving.asgi import Message
from bascule.serving.refusals import Refused
from bascule.serving.request_rules import HostRules, bounded, is_loopback, split_host

WITH_PAGES = HostRules(
    "hub",
    listens_on="127.0.0.1",
    names=["Hub.example"],
    origins=["https://ide.example/"],
    has_pages=True,
)
WITHOUT_PAGES = HostRules("server", listens_on="0.0.0.0", origins=["https://ide.example"])
ANY_NAME = HostRules("server", listens_on="127.0.0.1", names=["*"])


def refused(rules: HostRules, *headers: tuple[str, str]) -> tuple[int, str]:
    with pytest.raises(Refused) as caught:
        rules.checked_headers([(name.encode(), value.encode()) for name, value in headers])
    return caught.value.status, caught.value.error.message


def admits(rules: HostRules, *headers: tuple[str, str]) -> bool:
    encoded = [(name.encode(), value.encode()) for name, value in headers]
    return rules.checked_headers(encoded) == dict(encoded)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.3.2.1:80", "[::1]:9"])
def test_loopback_hosts_are_always_accepted(host: str) -> None:
    assert admits(WITH_PAGES, ("host", host))
    assert admits(WITHOUT_PAGES, ("host", host))


def test_a_configured_host_is_accepted_in_any_case_and_with_any_port() -> None:
    assert admits(WITH_PAGES, ("host", "hub.EXAMPLE:8300"))


@pytest.mark.parametrize("host", ["Evil.example", "127.0.0.1.evil.example", "10.0.0.7", "[::2]"])
def test_another_host_is_rejected_and_named(host: str) -> None:
    assert refused(WITH_PAGES, ("host", host)) == (
        403,
        f"This hub does not accept the host name {host!r}; add it to `allowed_hosts`",
    )


def test_a_server_on_all_addresses_accepts_every_address_but_no_host_name() -> None:
    assert admits(WITHOUT_PAGES, ("host", "10.0.0.7:80"))
    assert refused(WITHOUT_PAGES, ("host", "evil.example"))[0] == 403


@pytest.mark.parametrize("host", ["", "a b", "localhost:", "localhost:x", "[::1]x", "a@localhost"])
def test_an_invalid_host_is_rejected_even_if_every_name_is_accepted(host: str) -> None:
    assert admits(ANY_NAME, ("host", "any.example"))
    assert refused(ANY_NAME, ("host", host))[0] == 403


def test_no_host_and_several_hosts_are_refused() -> None:
    assert refused(WITH_PAGES, ("accept", "*/*"))[0] == 403
    assert refused(WITH_PAGES, ("host", "localhost"), ("host", "localhost"))[0] == 400
    assert admits(WITH_PAGES, ("host", "localhost"), ("x", "1"), ("x", "2"))


@pytest.mark.parametrize("rules", [WITH_PAGES, WITHOUT_PAGES])
@pytest.mark.parametrize(
    "origin", ["https://evil.example", "http://localhost:1", "null", "", "https://ide.example.evil"]
)
def test_a_foreign_page_is_refused(rules: HostRules, origin: str) -> None:
    assert refused(rules, ("host", "localhost"), ("origin", origin))[0] == 403


@pytest.mark.parametrize("rules", [WITH_PAGES, WITHOUT_PAGES])
def test_a_page_of_an_allowed_origin_is_accepted(rules: HostRules) -> None:
    assert admits(rules, ("host", "localhost"), ("origin", "https://IDE.example"))


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_servers_own_pages_are_accepted_hosts_if_it_has_any(scheme: str) -> None:
    headers = (("host", "localhost:8300"), ("origin", f"{scheme}://localhost:8300"))

    assert admits(WITH_PAGES, *headers)
    assert refused(WITHOUT_PAGES, *headers) == (403, "Web pages may not call this server")


def test_a_host_is_a_name_and_a_port() -> None:
    assert split_host("Hub.example:8300") == ("hub.example", ":8300")
    assert split_host("[::1]") == ("::1", "")
    assert split_host("a/b") == ("", "")


def test_a_host_longer_than_dns_allows_is_rejected() -> None:
    longest = "a" * 253
    assert split_host(f"{longest}:8300") == (longest, ":8300")
    assert split_host(f"{longest}a") == ("", "")
    assert split_host(f"[{'1' * 46}]") == ("", "")
    assert refused(ANY_NAME, ("host", f"{longest}a"))[0] == 403


def test_unknown_hosts_do_not_evict_known_ones_from_the_cache() -> None:
    rules = HostRules("hub", listens_on="127.0.0.1", names=["hub.example"])
    for number in range(1000):
        refused(rules, ("host", f"{number}.evil.example"))
    assert admits(rules, ("host", "hub.example"))
    assert rules._accepted_hosts == {b"hub.example"}


@pytest.mark.parametrize(
    ("host", "is_here"),
    [("x.localhost:1", True), ("127.0.0.1", True), ("[::1]:8", True), ("10.0.0.7", False)],
)
def test_loopback_is_told_from_other_hosts(host: str, is_here: bool) -> None:
    assert is_loopback(host) is is_here


async def _pieces() -> Message:
    return {"type": "http.request", "body": b"12345", "more_body": True}


def test_a_declared_body_length_is_checked_without_counting_the_body() -> None:
    with pytest.raises(Refused, match="larger than 5 bytes"):
        bounded({b"content-length": b"6"}, _pieces, 5)

    assert bounded({b"content-length": b"5"}, _pieces, 5) is _pieces
    assert bounded({}, _pieces, 5) is _pieces


async def test_a_body_of_unknown_length_is_counted() -> None:
    receive = bounded({b"transfer-encoding": b"chunked"}, _pieces, 10)
    await receive()
    await receive()

    with pytest.raises(Refused, match="larger than 10 bytes"):
        await receive()
