"""What a session, or whoever owns one, can do to the hub and to the sessions of others: nothing.

A real hub with real isolated sandboxes of two owners. What is between sandboxes alone is in
`tests/runtime/spawn/local/test_isolation.py`, between client and proxy in `tests/hub/proxy`.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from fastapi.routing import APIRoute

from bascule.hub.guard import ARCHIVES_PATH
from tests.cgroups import groups_named, members_of

from .serving import LocalSessionHub, SessionsClient, open_local_session_hub

pytestmark = [
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(os.geteuid() != 0, reason="makes things for other users"),
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap"),
]


class TwoOwners:
    """A hub, and two people who have a session each."""

    def __init__(
        self, hub: LocalSessionHub, admin: SessionsClient, ada: SessionsClient, bob: SessionsClient
    ) -> None:
        self.hub = hub
        self.admin = admin
        self.ada = ada
        self.bob = bob
        self.adas = self.bobs = ""

    async def raw(self, head: str) -> tuple[int, bytes]:
        """One request as it is written here; its status, and all that came."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.hub.port)
        try:
            writer.write(head.encode("latin-1"))
            answer = await reader.read()
        finally:
            writer.close()
        return int(answer.split(b" ", 2)[1]), answer


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ground() -> AsyncIterator[TwoOwners]:
    async with AsyncExitStack() as stack:
        hub = await stack.enter_async_context(open_local_session_hub())
        tokens = [await hub.token(name, "agent", owner=name) for name in ("ada", "bob")]
        ada, bob = [
            await stack.enter_async_context(SessionsClient(hub.url, token=token))
            for token in tokens
        ]
        admin = await stack.enter_async_context(SessionsClient(hub.url))
        ground = TwoOwners(hub, admin, ada, bob)
        ground.adas, ground.bobs = await asyncio.gather(ada.ready(), bob.ready())
        yield ground


# Somebody else's ----------------------------------------------------------------------------


async def test_another_owner_cannot_detect_a_session(ground: TwoOwners) -> None:
    """Not even that it is there: all that comes is as for a session that never was."""
    for place in ("/sandbox/{}/alive", "/sandbox/{}/session/ports", "/vscode/{}/", "/apps/{}-0/"):
        theirs = await ground.bob.ask("GET", place.format(ground.adas))
        none = await ground.bob.ask("GET", place.format("0" * 25))
        assert theirs[0] == none[0] in (403, 404), place
        assert str(theirs[1]).replace(ground.adas, "") == str(none[1]).replace("0" * 25, "")
    for token in (ground.hub.agent, ground.hub.window):
        async with SessionsClient(ground.hub.url, token=token) as other:
            assert (await other.ask("GET", f"/sandbox/{ground.adas}/alive"))[0] in (403, 404)


@pytest.mark.parametrize(
    "walk",
    [
        "/vscode/{own}/../{other}/",
        "/vscode/{own}/%2e%2e/{other}/",
        "/vscode/{own}/%2E%2E%2F{other}/",
        "/vscode/{own}/..%2f{other}/",
        "/vscode/{own}/..%5c{other}/",
        "/vscode/{own}/..\\{other}/",
        "/vscode/{own}/%252e%252e/{other}/",
        "/vscode/{own}/%c0%ae%c0%ae/{other}/",
        "/vscode/{own}/..;/{other}/",
        "/vscode/{own}//../{other}/",
        "/sandbox/{own}/../{other}/alive",
        "/sandbox/{own}/..%2f{other}/alive",
        "/apps/{own}-0/../{other}-0/",
        "//sandbox/{other}/alive",
        "/./sandbox/{other}/alive",
        "/api/../sandbox/{other}/alive",
        "/sandbox/{other}%2falive",
        "http://127.0.0.1/sandbox/{other}/alive",
    ],
)
async def test_no_spelling_of_a_path_leads_from_one_session_to_another(
    ground: TwoOwners, walk: str
) -> None:
    target = walk.format(own=ground.adas, other=ground.bobs)
    token = await ground.hub.token(f"once {walk}", "agent", owner="ada")
    status, answer = await ground.raw(
        f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{ground.hub.port}\r\n"
        f"Authorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    )
    assert status >= 400, answer
    assert b'"status":"ok"' not in answer.replace(b" ", b"")


async def test_a_smuggled_request_reaches_no_session(ground: TwoOwners) -> None:
    """Into a real sandbox: what is behind a body is a request of its own, with no rights."""
    token = await ground.hub.token("smuggler", "agent", owner="ada")
    where = f"http://x/sandbox/{ground.bobs}"
    hidden = f"GET /sandbox/{ground.bobs}/alive HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    start = (
        f"POST /sandbox/{ground.adas}/execute_action HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Authorization: Bearer {token}\r\nContent-Type: application/json\r\n"
    )
    for head, body in (
        (f"Content-Length: {len(hidden)}\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
        ("Transfer-Encoding: chunked\r\n", "0;\n\r\n\r\n"),
        ("Transfer-Encoding: chunked\r\n", "0\r\nX: y\n\r\n"),
        ("Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nContent-Length: 2\r\n", "{}"),
        (f"Content-Length: 2\r\nX-Original-URI: {where}\r\nConnection: close\r\n", "{}"),
    ):
        status, answer = await ground.raw(f"{start}{head}\r\n{body}{hidden}")
        assert status >= 400, head
        assert answer.count(b"HTTP/1.1 ") == 1, answer
    status, answer = await ground.raw(f"{start}Content-Length: 2\r\n\r\n{{}}{hidden}")
    assert b"HTTP/1.1 401" in answer


async def test_a_session_token_cannot_call_the_hub(ground: TwoOwners) -> None:
    """Every call there is, by the table the hub itself has, but for those meant for it."""
    own = {"/api/sessions", "/api/sessions/{session_id}"}
    own |= {f"/api/sessions/{{session_id}}/{verb}" for verb in ("ports", "events", "logs")}
    token = await ground.hub.token("inside", "session", owner="ada", session_id=ground.adas)
    tried = 0
    async with SessionsClient(ground.hub.url, token=token) as inside:
        for route in _routes(ground.hub):
            target = route.path.format(**dict.fromkeys(route.param_convertors, ground.bobs))
            for method in (route.methods or set()) - {"HEAD"}:
                if (method, route.path in own) == ("GET", True) and "session_id" not in route.path:
                    continue
                kind = "application/octet-stream" if target == ARCHIVES_PATH else "application/json"
                status, said = await inside.ask(method, target, {}, headers={"Content-Type": kind})
                assert status in (401, 403, 404, 405, 422), (method, target, said)
                tried += 1
    assert tried > 20
    assert (await ground.bob.show(ground.bobs))["state"] == "ready"


def _routes(hub: LocalSessionHub) -> list[APIRoute]:
    public = ("/health", "/openapi.json", "/docs")
    found = [route for route in hub.hub._api.app.routes if isinstance(route, APIRoute)]
    return [route for route in found if not route.path.startswith(public)]


async def test_a_session_can_only_act_as_a_window_on_the_hubs_socket(
    ground: TwoOwners,
) -> None:
    paths = (
        *("/api/sessions", "/api/tokens", "/api/audit", "/metrics", "/api/archives"),
        *(f"/sandbox/{ground.bobs}/alive", f"/vscode/{ground.bobs}/", "//api/sessions"),
        *("/health/../api/sessions", "/socket.io/../api/sessions", "/socket.io%2f../api/tokens"),
        *("/api/vscode/register/../instances", "/api/vscode/instances", "/sign-in"),
    )
    for path in paths:
        ask = "curl -s --path-as-is -o /dev/null -w '%{http_code}'"
        token = f"-H 'Authorization: Bearer {ground.hub.settings.admin_token}'"
        told = await ground.ada.run(
            ground.adas, f"{ask} {token} --unix-socket /run/hub/hub.sock 'http://localhost{path}'"
        )
        assert told.strip()[-3:] in ("400", "403", "404"), path


# In the place of a sandbox ------------------------------------------------------------------

_IMPOSTOR = r"""
import http.server, json, os, socketserver, sys

PLACE = "/run/bascule/sandbox.sock"
TOLD = {
    "/session/activity": {"cpu_seconds": "all of it", "last_action": [], "last_keystroke": 1e400},
    "/session/ports": {"ports": [{"n": "../../api", "port": -1}]},
    "/session/workspace": [],
}
FORGED = [
    ("action", {"who": "admin", "action": "run", "id": "x", "args": {}, "observation": "y"}),
    ("state", {"state": "failed", "cause": "forged"}),
    ("removed", {}),
    ("port.opened", {"n": 7, "port": 7777, "command": "real"}),
]


class Impostor(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        open("/workspace/asked", "a").write(self.path + "\n")
        if self.path == "/session/events":
            self.send_response(200)
            self.end_headers()
            for name, data in FORGED:
                self.wfile.write(f"event: {name}\ndata: {json.dumps(data)}\n\n".encode())
            self.wfile.flush()
            while True:  # a line without end
                self.wfile.write(b"x" * 65536)
        body = json.dumps(TOLD.get(self.path, "?")).encode()
        if self.path == "/alive":
            self.send_response(200)
            self.send_header("Content-Length", str(1 << 40))
            self.end_headers()
            while True:
                self.wfile.write(b"y" * 65536)
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def address_string(self):
        return ""


class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


os.unlink(PLACE)
with Server(PLACE, Impostor) as server:
    os.chmod(PLACE, 0o666)
    open("/workspace/up", "w").close()
    server.serve_forever()
"""


async def test_a_fake_sandbox_server_harms_only_its_own_session(
    ground: TwoOwners,
) -> None:
    """Answers without form, forged events and endless ones; the hub is restarted under it."""
    mallory = SessionsClient(
        ground.hub.url, token=await ground.hub.token("mallory", "agent", owner="m")
    )
    session = await mallory.ready()
    event = {"action": "write", "args": {"path": "impostor.py", "content": _IMPOSTOR}}
    await mallory.must("POST", f"/api/sessions/{session}/actions", event)
    start = "setsid python3 impostor.py >said 2>&1 & until [ -e up ]; do :; done"
    await mallory.run(session, start)
    await mallory.aclose()
    await ground.hub.stop()
    await ground.hub.start()
    ask = f"/api/sessions/{session}"
    assert (await ground.admin.ask("GET", f"{ask}/ports"))[0] == 503
    status, refused = await ground.admin.ask(
        "POST", f"{ask}/actions", {"action": "run", "args": {"command": "true"}}
    )
    assert status >= 400 or refused["observation"] == "error", refused
    await ground.hub.hub.sessions.reconcile()
    told = await _until_told(ground.admin, session, "port.opened")
    assert {name for name, _ in told} == {"state", "stage", "action", "port.opened"}
    assert [data["who"] for name, data in told if name == "action"] == ["mallory", "mallory"]
    assert await ground.bob.run(ground.bobs, "echo well") == "well\n"
    asked = ground.hub.directory / "sessions" / session / "workspace" / "asked"
    assert "/session/activity" in asked.read_text()
    await ground.admin.must("DELETE", ask)


async def _until_told(asker: SessionsClient, session: str, wanted: str) -> list[tuple[str, Any]]:
    seen = []
    async for name, data in asker.events(session):
        seen.append((name, data))
        if name == wanted:
            return seen
    raise AssertionError(seen)


async def test_symlinks_and_foreign_sockets_in_the_socket_directory_are_not_used(
    ground: TwoOwners,
) -> None:
    """By what is in the directory when the hub comes, not by what was there before."""
    serve = "echo bobs > index.html; python3 -m http.server 8000 >/dev/null 2>&1 &"
    await ground.bob.run(ground.bobs, serve)
    await _until_told(ground.bob, ground.bobs, "port.opened")
    assert b"bobs" in (await ground.bob.ask("GET", f"/apps/{ground.bobs}-0/"))[1]
    run = ground.hub.directory / "run"
    planted = (
        f"ln -sfn ../{ground.bobs}/app0.sock",
        f"ln -sfn {run}/{ground.bobs}/app0.sock",
        f"ln -sfn {run}/.doors/{ground.bobs}/hub.sock",
        "ln -sfn /proc/1/cwd/etc/passwd",
        "mkdir -p",
        "mkfifo",
        "touch",
    )
    for number, plant in enumerate(planted, start=1):
        place = f"/run/bascule/app{number}.sock"
        await ground.ada.run(ground.adas, f"{plant} {place}")
        status, body = await ground.ada.ask("GET", f"/apps/{ground.adas}-{number}/")
        assert status == 502, (plant, status)
        assert b"bobs\n" not in body
    swap = "mv /run/bascule/sandbox.sock /tmp; ln -s ../{}/sandbox.sock /run/bascule/sandbox.sock"
    await ground.ada.run(ground.adas, swap.format(ground.bobs))
    await ground.hub.hub.sessions._lifecycle._drop_client(ground.hub.session(ground.adas))
    assert (await ground.ada.ask("GET", f"/api/sessions/{ground.adas}/ports"))[0] == 503
    assert (await ground.ada.ask("GET", f"/sandbox/{ground.adas}/alive"))[0] == 502
    await ground.ada.must("POST", f"/api/sessions/{ground.adas}/stop")
    await ground.ada.must("POST", f"/api/sessions/{ground.adas}/resume")
    await ground.ada.reaches(ground.adas, "ready")
    assert await ground.ada.run(ground.adas, "echo well") == "well\n"


# What is asked for --------------------------------------------------------------------------


async def test_hostile_requests_are_refused_at_once(ground: TwoOwners) -> None:
    git = {"kind": "git", "url": "https://127.0.0.1/x.git"}
    for body in (
        {"name": "a\nb"},
        {"name": "\x1b[31mred"},
        {"name": "safe\u202etxt.exe"},
        {"name": "x" * 201},
        {"environment": {"A": "b\0c"}},
        {"environment": {"A=B": "c"}},
        {"environment": {"": "c"}},
        {"environment": {"A": 1}},
        {"secrets": {"S": "\0"}},
        {"shells": "zsh"},
        {"workspace": git | {"url": "--upload-pack=id"}},
        {"workspace": git | {"url": "ssh://-oProxyCommand=id/x"}},
        {"workspace": git | {"url": "-oProxyCommand=id@host:x"}},
        {"workspace": git | {"url": "git@-oProxyCommand:x"}},
        {"workspace": git | {"url": "git@host:--upload-pack=id"}},
        {"workspace": git | {"url": "ext::sh -c id"}},
        {"workspace": git | {"url": "https://host/x\n--config=a"}},
        {"workspace": git | {"ref": "--upload-pack=id"}},
        {"workspace": {"kind": "archive", "archive": "../hub.sqlite"}},
        {"workspace": {"kind": "folder", "folder": "/etc"}},
        {"limits": {"memory": None}},
        {"limits": {"processes": None}},
        {"limits": {"memory": 1 << 62}},
        {"limits": {"processes": 1 << 30}},
        {"limits": {"cpus": float("1e300")}},
        {"limits": {"memory": -1}},
        {"image": "evil"},
        {"egress": {"mode": "open"}},
        {"id": "0" * 25},
        {"owner": "bob"},
    ):
        status, refused = await ground.ada.ask("POST", "/api/sessions", body)
        assert status in (400, 403, 422, 429), (body, refused)
    half = await ground.ada.request(
        "POST",
        "/api/sessions",
        body=b'{"name": "\\ud800"}',
        headers={"Content-Type": "application/json"},
    )
    assert half.status == 422
    assert len(await ground.ada.must("GET", "/api/sessions")) == 1
    many = {"limits": {"processes": 1 << 20}}
    _, refused = await ground.ada.ask("POST", "/api/sessions", many)
    assert refused["detail"]["setting"] == "max_session_processes"


async def test_session_environment_variables_reach_no_privileged_process(
    ground: TwoOwners,
) -> None:
    given = {
        "LD_PRELOAD": "/workspace/evil.so",
        "LD_LIBRARY_PATH": "/workspace",
        "PYTHONPATH": "/workspace",
        "PYTHONSTARTUP": "/workspace/evil.py",
        "BASH_ENV": "/workspace/evil.sh",
        "GIT_SSH_COMMAND": "/workspace/evil",
        "MINE": "mine",
    }
    session = await ground.ada.ready({"environment": given})
    try:
        assert await ground.ada.run(session, "echo $MINE") == "mine\n"
        servers = [
            pid for pid in members_of(session) if Path(f"/proc/{pid}/comm").read_text() != "bash\n"
        ]
        assert servers
        for pid in servers:
            assert b"/workspace" not in Path(f"/proc/{pid}/environ").read_bytes()
            assert "evil" not in Path(f"/proc/{pid}/maps").read_text()
    finally:
        await ground.ada.must("DELETE", f"/api/sessions/{session}")


async def test_a_folder_replaced_by_a_symlink_is_not_entered(tmp_path: Path) -> None:
    root, outside = tmp_path / "root", tmp_path / "outside"
    for each in (tmp_path, root, root / "mine", outside):
        each.mkdir(exist_ok=True)
        os.chown(each, 54321, 54321)
    (outside / "secret").write_text("secret")
    async with (
        open_local_session_hub(workspace_roots=(root,)) as hub,
        SessionsClient(hub.url) as admin,
    ):
        asked = {"workspace": {"kind": "folder", "folder": str(root / "mine")}}
        session = await admin.ready(asked)
        await admin.must("POST", f"/api/sessions/{session}/stop")
        (root / "mine").rename(root / "was")
        (root / "mine").symlink_to(outside)
        await admin.must("POST", f"/api/sessions/{session}/resume")
        await admin.reaches(session, "failed")
        assert "links are not followed" in (await admin.show(session))["cause"]
        await admin.must("DELETE", f"/api/sessions/{session}")
        assert (outside / "secret").read_text() == "secret"


async def test_removing_a_session_follows_no_symlink_out_of_it(ground: TwoOwners) -> None:
    session = await ground.ada.ready()
    kept = ground.hub.directory / "kept"
    kept.mkdir(mode=0o777)
    (kept / "file").write_text("kept")
    await ground.ada.run(
        session,
        f"ln -s {kept} out; ln -s / ~/root; mkdir -p deep/er; ln -s ../../../.. deep/er/up; "
        f"ln -s {kept}/file /var/lib/bascule/state; chmod 000 deep/er; "
        f"ln -s {ground.hub.directory}/sessions/{ground.bobs} /run/bascule/bobs",
    )
    await ground.ada.must("DELETE", f"/api/sessions/{session}")
    assert (kept / "file").read_text() == "kept"
    assert not (ground.hub.directory / "sessions" / session).exists()
    assert not (ground.hub.directory / "run" / session).exists()
    assert (ground.hub.directory / "sessions" / ground.bobs / "workspace").is_dir()


@pytest.mark.timeout(400)
async def test_deep_directory_trees_do_not_prevent_removing_a_session(ground: TwoOwners) -> None:
    """Wherever a session can make them: in its workspace, and beside its sockets."""
    session = await ground.ada.ready()
    one = f"/api/sessions/{session}"
    dig = "import os\nfor _ in range(3000): os.mkdir('d'); os.chdir('d')"
    for place in ("/workspace", "/home/bascule", "/run/bascule"):
        assert await ground.ada.run(session, f'cd {place} && python3 -c "{dig}"') == ""
    assert (await ground.ada.must("POST", f"{one}/stop"))["state"] == "stopped"
    assert groups_named(session) == []
    assert not (ground.hub.directory / "run" / session).exists()
    await ground.ada.must("POST", f"{one}/resume")
    await ground.ada.reaches(session, "ready")
    await ground.ada.must("DELETE", one)
    assert not (ground.hub.directory / "sessions" / session).exists()


# Races --------------------------------------------------------------------------------------


async def test_twenty_concurrent_requests_do_not_exceed_a_quota() -> None:
    async with (
        open_local_session_hub(max_running=3, max_sessions_per_owner=5) as hub,
        SessionsClient(hub.url) as admin,
    ):
        asked = [admin.ask("POST", "/api/sessions", {}) for _ in range(20)]
        statuses = [status for status, _ in await asyncio.gather(*asked)]
        assert sorted(statuses) == [200] * 3 + [429] * 17
        rows = await admin.must("GET", "/api/sessions")
        assert len(rows) == len(os.listdir(hub.directory / "secrets")) == 3
        for row in rows:
            await admin.reaches(row["id"], "ready")
            await admin.must("POST", f"/api/sessions/{row['id']}/stop")
        for _ in range(2):
            more = await admin.create()
            await admin.must("POST", f"/api/sessions/{more['id']}/stop")
        rows = await admin.must("GET", "/api/sessions")
        asked = [admin.ask("POST", f"/api/sessions/{row['id']}/resume") for row in rows * 4]
        await asyncio.gather(*asked)
        states = [row["state"] for row in await admin.must("GET", "/api/sessions")]
        assert states.count("stopped") == 2


async def test_twenty_identical_concurrent_requests_create_one_session(ground: TwoOwners) -> None:
    made = await asyncio.gather(*(ground.ada.create({"name": "x"}, key="k") for _ in range(20)))
    (session,) = {each["id"] for each in made}
    other = await ground.bob.create({"name": "x"}, key="k")
    assert other["id"] != session
    wrong = await ground.ada.ask(
        "POST", "/api/sessions", {"name": "y"}, headers={"Idempotency-Key": "k"}
    )
    assert wrong[0] == 400
    await asyncio.gather(
        ground.ada.must("DELETE", f"/api/sessions/{session}"),
        ground.bob.must("DELETE", f"/api/sessions/{other['id']}"),
    )


async def test_concurrent_remove_stop_and_resume_leave_a_consistent_state(
    ground: TwoOwners,
) -> None:
    session = await ground.ada.ready()
    one = f"/api/sessions/{session}"
    verbs = ("stop", "resume", "pause", "resume", "stop", "resume") * 3
    asked = [ground.ada.ask("POST", f"{one}/{verb}") for verb in verbs]
    answers = await asyncio.gather(*asked, ground.ada.ask("DELETE", one))
    assert {status for status, _ in answers} <= {200, 404, 409}
    await ground.hub.hub.sessions.reconcile()
    assert (await ground.ada.ask("GET", one))[0] == 404
    assert groups_named(session) == []
    assert not (ground.hub.directory / "sessions" / session).exists()
    assert not (ground.hub.directory / "secrets" / f"{session}.json").exists()


# Taking everything --------------------------------------------------------------------------


async def test_a_fork_bomb_and_a_memory_hog_affect_only_their_session(
    ground: TwoOwners,
) -> None:
    small = {"limits": {"memory": 256 << 20, "cpus": 1.0, "processes": 64}}
    bomb, hog = await asyncio.gather(ground.ada.ready(small), ground.ada.ready(small))
    await ground.ada.run(bomb, "b() { b | b & }; b 2>/dev/null; (b 2>/dev/null &)")
    await ground.ada.run(hog, "(tail /dev/zero >/dev/null 2>&1 &); (tail /dev/zero 2>&1 &)")
    async with asyncio.timeout(30):
        assert await ground.bob.run(ground.bobs, "echo well; seq 1000 | tail -1") == "well\n1000\n"
        assert (await ground.admin.ask("GET", "/health"))[0] == 200
    async with asyncio.timeout(60):
        for session in (bomb, hog):
            await ground.ada.must("DELETE", f"/api/sessions/{session}")
            assert groups_named(session) == []


async def test_data_a_session_writes_into_its_server_log_is_not_kept(
    ground: TwoOwners,
) -> None:
    """The descriptor is in reach of all that run as the session's user, the file is root's."""
    session = await ground.ada.ready()
    code = (
        "import ctypes, os\n"
        "take = ctypes.CDLL(None).syscall\n"
        "for pid in filter(str.isdigit, os.listdir('/proc')):\n"
        "    got = take(438, os.pidfd_open(int(pid)), 2, 0)\n"  # pidfd_getfd
        "    if got >= 0 and session in os.readlink(f'/proc/self/fd/{got}'):\n"
        "        os.write(got, b'x' * (20 << 20))\n"
    )
    await ground.ada.run(session, f"python3 -c \"session = '{session}'\n{code}\"")
    log = ground.hub.directory / "warden" / "logs" / session
    await ground.hub.hub.sessions.reconcile()
    assert log.stat().st_size < 1 << 20
    async with ground.ada.stream("GET", f"/api/sessions/{session}/logs?lines=1") as reply:
        assert len(await reply.read()) < 1 << 20
    await ground.ada.must("DELETE", f"/api/sessions/{session}")
    assert not log.exists()


async def test_the_hub_survives_a_full_disk_and_removing_the_session_frees_it() -> None:
    """The worst case: hub and sessions share the disk, and nothing is left of it."""
    disk = Path(tempfile.mkdtemp(prefix="bsc-"))
    await _must("mount", "-t", "tmpfs", "-o", "size=48m,mode=755", "tmpfs", str(disk))
    try:
        async with open_local_session_hub(disk) as hub, SessionsClient(hub.url) as admin:
            filler, other = await asyncio.gather(admin.ready(), admin.ready())
            await admin.run(filler, "cat /dev/zero > all 2>/dev/null; echo >> all; true")
            assert shutil.disk_usage(disk).free < 1 << 16
            assert len(await admin.must("GET", "/api/sessions")) == 2
            status, refused = await admin.ask("POST", "/api/sessions", {})
            assert status in (429, 503, 507), refused
            await admin.must("DELETE", f"/api/sessions/{filler}")
            assert shutil.disk_usage(disk).free > 32 << 20
            assert await admin.run(other, "echo well > f; cat f") == "well\n"
            await admin.ready()
    finally:
        await _must("umount", str(disk))
        disk.rmdir()


async def _must(*command: str) -> None:
    process = await asyncio.create_subprocess_exec(*command)
    assert await process.wait() == 0
