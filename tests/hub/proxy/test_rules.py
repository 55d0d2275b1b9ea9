"""The rules alone: paths, cookies, chunks, heads, seals, addresses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bascule.core.errors import InvalidRequest, InvalidSetting
from bascule.hub.proxy import HubAddresses, SessionEndpoint
from bascule.hub.proxy.chunks import LAST_CHUNK, BadChunk, Chunks, framed
from bascule.hub.proxy.cookies import confine_cookie, without_hub_cookies
from bascule.hub.proxy.endpoints import EndpointPath, ensure_plain, read_target
from bascule.hub.proxy.request import RequestHead
from bascule.hub.proxy.response import (
    InvalidResponse,
    ResponseRules,
    incoming_head,
    parse_response_head,
)
from bascule.hub.proxy.signed_cookies import SignedCookies, SignIn

from .targets import APP, SESSION, VSCODE

KEY = "k" * 32


# Paths --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "asked"),
    [
        (f"/vscode/{SESSION}/a?b", EndpointPath(VSCODE, VSCODE.path, b"/a?b")),
        (f"/vscode/{SESSION}", EndpointPath(VSCODE, VSCODE.path, b"")),
        (f"/vscode/{SESSION}?a=/", EndpointPath(VSCODE, VSCODE.path, b"")),
        (f"/apps/{SESSION}-0/", EndpointPath(APP, APP.path, b"/")),
        (
            f"/apps/{SESSION}-12/x",
            EndpointPath(SessionEndpoint("apps", SESSION, 12), f"/apps/{SESSION}-12", b"/x"),
        ),
        (f"/apps/{SESSION}-0/~{KEY}/x", EndpointPath(APP, f"{APP.path}/~{KEY}", b"/x", KEY)),
        (
            f"/sandbox/{SESSION}/alive",
            EndpointPath(SessionEndpoint("sandbox", SESSION), f"/sandbox/{SESSION}", b"/alive"),
        ),
    ],
)
def test_a_path_selects_a_proxy_target(target: str, asked: EndpointPath) -> None:
    assert read_target(target.encode()) == asked


@pytest.mark.parametrize(
    "target",
    [
        *("/vscode/", "/vscode/short/", "/vscode/UPPERCASE1234/", f"//vscode/{SESSION}/"),
        *(
            f"/vscode/{SESSION}x.y/",
            f"/apps/{SESSION}/",
            f"/apps/{SESSION}-007/",
            f"/apps/{SESSION}-100/",
        ),
        *(f"/vscode%2f{SESSION}/", f"/vscode/{SESSION}%2f", f"/apps/{SESSION}-0\\x"),
    ],
)
def test_other_paths_select_no_target(target: str) -> None:
    assert read_target(target.encode()) is None


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/vscode/a/../b",
            "/vscode/a/./b",
            "/vscode/a/..",
            "/a/%2e%2e/b",
            "/a/.%2E/b",
            "/a/%2e/b",
        ),
        *(
            "/a/..%2fb",
            "/a%2f..%2fb",
            "/a/..\\b",
            "/a/..%5cb",
            "/a/%252e%252e/b",
            "/a/%252e%252e%252fb",
        ),
        *("http://a/b", "*", "a", "/a b", "/a#b", "/a\tb", "/ä", "/a%00b", "/a\x7f"),
    ],
)
def test_an_ambiguous_path_is_rejected(path: str) -> None:
    with pytest.raises(InvalidRequest):
        ensure_plain(path.encode())


@pytest.mark.parametrize(
    "path",
    ["/a", "/a..b/c", "/.hidden/x", "/a%20b", "/@scope%2fname", "/a?b=../..", "/...", "/%7Ea"],
)
def test_harmless_dots_and_slashes_are_accepted(path: str) -> None:
    ensure_plain(path.encode())


@pytest.mark.parametrize(
    ("target", "method", "headers", "is_visit"),
    [
        ("/vscode/sessionone123456/", b"GET", {b"sec-fetch-mode": b"navigate"}, True),
        ("/vscode/sessionone123456/a.js", b"GET", {b"sec-fetch-mode": b"no-cors"}, False),
        ("/apps/sessionone123456-0/poll", b"POST", {b"sec-fetch-mode": b"cors"}, False),
        ("/apps/sessionone123456-0/ws", b"GET", {b"origin": b"https://hub.example"}, False),
        ("/apps/sessionone123456-0/x", b"GET", {}, True),
        ("/sandbox/sessionone123456/alive", b"GET", {}, False),
        ("/sandbox/sessionone123456/execute_action", b"POST", {}, True),
        ("/sandbox/sessionone123456/server_info", b"GET", {}, True),
    ],
)
def test_a_page_visit_is_distinguished_from_requests_of_an_open_page(
    target: str, method: bytes, headers: dict[bytes, bytes], is_visit: bool
) -> None:
    asked = read_target(target.encode())
    assert asked is not None
    request = RequestHead(method, target.encode(), "1.1", list(headers.items()), peer="")
    assert request.is_visit(asked) == is_visit


# Cookies ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("header", "seen"),
    [
        ("a=1; b=2", "a=1; b=2"),
        ("a=1; __Host-bascule=x; b=2", "a=1; b=2"),
        ("__Host-bascule=x; __Host-bascule=y", ""),
        (f"__Secure-bascule-{SESSION}=x;a=1", "a=1"),
        ("__hOST-bascule=x; Bascule=y; a=1", "a=1"),
        ("a=bascule", "a=bascule"),
    ],
)
def test_hub_cookies_are_not_forwarded_to_a_target(header: str, seen: str) -> None:
    assert without_hub_cookies(header.encode()).decode() == seen


@pytest.mark.parametrize(
    ("header", "kept"),
    [
        ("a=1", "a=1; Path=/p/"),
        ("a=1; Path=/", "a=1; Path=/p/"),
        ("a=1; path=/x; HttpOnly", "a=1; HttpOnly; Path=/p/x"),
        ("a=1; Path=/p/x", "a=1; Path=/p/x"),
        ("a=1; Path=/pq", "a=1; Path=/p/pq"),
        ("a=1; Path=/p/x; PATH = /", "a=1; Path=/p/"),
        ("a=1; Domain=example.org; Max-Age=3", "a=1; Max-Age=3; Path=/p/"),
        ("__Host-x=1; Path=/; Secure", None),
        ("__host-bascule=1", None),
        ("__Secure-bascule-x=1", None),
        ("bascule=1", None),
        ("=bascule=1", None),
        ("bascule", None),
    ],
)
def test_a_targets_cookie_stays_below_its_prefix(header: str, kept: str | None) -> None:
    found = confine_cookie(header.encode(), "/p")
    assert (None if found is None else found.decode()) == kept


# Chunks -------------------------------------------------------------------------------------


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=8), st.integers(1, 30))
def test_chunked_bodies_are_parsed_wherever_they_are_split(pieces: list[bytes], step: int) -> None:
    whole = b"".join(b"".join(framed([piece])) for piece in pieces) + LAST_CHUNK
    chunks, found = Chunks(), b""
    for at in range(0, len(whole), step):
        found += b"".join(chunks.feed(whole[at : at + step]))

    assert (found, chunks.is_over, chunks.after) == (b"".join(pieces), True, b"")


@pytest.mark.parametrize(
    "data",
    [
        *(
            b"zz\r\n",
            b"0x1\r\na",
            b"-1\r\n",
            b"1\na",
            b"1\r\nab\r\n",
            b"\r\n",
            b" 1\r\na\r\n",
            b"+1\r\n",
        ),
        *(b"1" * 13 + b"\r\n", b"1;" + b"x" * 5000, b"1\r\na\n", b"0\r\n" + b"a: b\r\n" * 4000),
    ],
)
def test_malformed_chunks_are_rejected(data: bytes) -> None:
    with pytest.raises(BadChunk):
        Chunks().feed(data)


def test_data_after_the_last_chunk_is_detected() -> None:
    chunks = Chunks()
    assert chunks.feed(b"1;x=y\r\na\r\n0\r\nTrailer: x\r\n\r\nHTTP/1.1 200 OK") == [b"a"]
    assert (chunks.is_over, chunks.after) == (True, b"HTTP/1.1 200 OK")


# Answers ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "lines",
    [
        *("HTTP/2 200 OK", "HTTP/1.1 20 OK", "HTTP/1.1 600 OK", "ICY 200 OK", "HTTP/1.1  200"),
        *(
            "HTTP/1.1 200 OK\r\n a: folded",
            "HTTP/1.1 200 OK\r\na : b",
            "HTTP/1.1 200 OK\r\na: b\r\n c",
        ),
        *(
            "HTTP/1.1 200 OK\r\na: b\nc: d",
            "HTTP/1.1 200 OK\r\na: b\rc: d",
            "HTTP/1.1 200 OK\r\n: x",
        ),
        *("HTTP/1.1 200 OK\r\na: b\0", "HTTP/1.1 200 OK\r\nplain", "HTTP/1.1 200 O\rK"),
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 1",
        "HTTP/1.1 200 OK\r\nContent-Length: 1, 1",
        "HTTP/1.1 200 OK\r\nContent-Length: +1",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
    ],
)
def test_an_ambiguous_response_is_rejected(lines: str) -> None:
    with pytest.raises(InvalidResponse):
        parse_response_head(lines.encode("latin-1") + b"\r\n\r\n", method=b"GET")


@pytest.mark.parametrize(
    ("location", "moved"),
    [
        ("/login", "/p/login"),
        ("/p/login", "/p/login"),
        ("login", "login"),
        ("http://hub.example/login", "/p/login"),
        ("https://hub.example", "/p/"),
        ("https://elsewhere.example/", "https://elsewhere.example/"),
        ("//elsewhere.example/", "//elsewhere.example/"),
    ],
)
def test_a_redirect_stays_below_the_prefix(location: str, moved: str) -> None:
    answer = parse_response_head(
        f"HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode(),
        method=b"GET",
    )
    response_rules = ResponseRules(prefix="/p", is_stripped=True, host="hub.example")
    head, _ = incoming_head(
        answer, response_rules, method=b"GET", is_http_1_0=False, keep_alive=True
    )

    assert f"location: {moved}\r\n".encode() in head


def test_headers_that_speak_for_the_whole_origin_are_dropped() -> None:
    names = ("Clear-Site-Data", "Strict-Transport-Security", "Alt-Svc", "Service-Worker-Allowed")
    lines = "".join(f"{name}: x\r\n" for name in (*names, "Keep-Alive", "X-Mine"))
    answer = parse_response_head(f"HTTP/1.1 200 OK\r\n{lines}\r\n".encode(), method=b"GET")
    response_rules = ResponseRules(prefix="/p", is_stripped=True, host="h")
    head, _ = incoming_head(
        answer, response_rules, method=b"GET", is_http_1_0=False, keep_alive=True
    )

    assert head == b"HTTP/1.1 200 OK\r\nx-mine: x\r\ntransfer-encoding: chunked\r\n\r\n"


# Seals and addresses ------------------------------------------------------------------------


def test_a_seal_is_valid_for_its_purpose_until_it_expires() -> None:
    now = 1000.0
    cookies = SignedCookies(b"secret", clock=lambda: now)
    sign_in = SignIn(b"12345678", "ab" * 32, 2000)
    text = cookies.sign(sign_in, "hub")

    assert cookies.verify(text, "hub") == sign_in
    assert cookies.verify(text, "session x") is None
    assert SignedCookies(b"other", clock=lambda: now).verify(text, "hub") is None
    for spoilt in ("", "x" * len(text), text[:-1], "B" + text[1:], text + "A", "ä" * len(text)):
        assert cookies.verify(spoilt, "hub") is None
    now = 2000.0
    assert cookies.verify(text, "hub") is None


def _addresses(apps_origin: str = "") -> HubAddresses:
    return HubAddresses(lambda: "https://hub.example", b"secret", apps_origin)


def test_every_url_is_derived_from_the_public_url() -> None:
    assert _addresses().vscode(SESSION) == f"https://hub.example/vscode/{SESSION}/"
    assert _addresses().app(SESSION, 3) == f"https://hub.example/apps/{SESSION}-3/"


def test_the_base_path_of_an_app_is_the_final_path_of_its_pages() -> None:
    key = _addresses().key(APP)
    assert _addresses().base_path(APP) == f"{APP.path}/~{key}"
    assert _addresses().base_path(APP, is_sandboxed=False) == APP.path
    assert _addresses("https://apps.example").base_path(APP) == APP.path
    assert _addresses("https://*.apps.example").base_path(APP) == ""


def test_an_app_key_is_valid_for_one_app_of_one_hub() -> None:
    key = _addresses().key(APP)
    other = HubAddresses(lambda: "https://hub.example", b"other")
    assert _addresses().is_key(APP, key)
    assert not _addresses().is_key(SessionEndpoint("apps", SESSION, 1), key)
    assert not other.is_key(APP, key)


@pytest.mark.parametrize(
    "origin", ["apps.example", "https://*.apps.example/x", "https://a b", "ftp://x"]
)
def test_an_invalid_apps_origin_is_rejected(origin: str) -> None:
    with pytest.raises(InvalidSetting, match="apps_origin"):
        _addresses(origin)
