"""A workspace is filled by a clone or an archive: whole or not at all, and without its secrets."""

from __future__ import annotations

import base64
import http.server
import io
import os
import ssl
import stat
import subprocess
import tarfile
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bascule.core.errors import InvalidRequest
from bascule.sandbox.session.clone import Credential, read_repository

from .running import Session, launch_in, running, until

SECRET = "s3cret-of-the-test"
QUIET = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
AUTHOR = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in {"NAME": "Ann", "EMAIL": "ann@example.org"}.items()
}


def git(directory: Path, *words: str) -> str:
    env = {"PATH": os.environ["PATH"], **QUIET, **AUTHOR}
    done = subprocess.run(["git", *words], cwd=directory, env=env, check=True, capture_output=True)
    return done.stdout.decode().strip()


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two branches, a tag, a commit no branch has; ready to be served as plain files."""
    work = tmp_path_factory.mktemp("repository")
    git(work, "init", "-q", "-b", "main")
    (work / "readme.txt").write_text("first\n")
    (work / "run.sh").write_text("#!/bin/sh\n")
    (work / "run.sh").chmod(0o755)
    git(work, "add", ".")
    git(work, "commit", "-qm", "First")
    git(work, "tag", "v1")
    git(work, "checkout", "-qb", "other")
    (work / "readme.txt").write_text("other\n")
    git(work, "commit", "-qam", "Other")
    git(work, "checkout", "-q", "main")
    git(work, "update-server-info")
    return work


class GitOverHttps(http.server.SimpleHTTPRequestHandler):
    """Git's own backend, behind a password."""

    def do_GET(self) -> None:
        self.answer(b"")

    def do_POST(self) -> None:
        self.answer(self.rfile.read(int(self.headers["Content-Length"])))

    def answer(self, body: bytes) -> None:
        server: Any = self.server
        server.asked.append(self.path)
        word = base64.b64encode(f"ann:{SECRET}".encode()).decode()
        if self.headers.get("Authorization") != f"Basic {word}":
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="git"')
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        path, _, query = self.path.partition("?")
        done = subprocess.run(
            ["git", "http-backend"],
            input=body,
            capture_output=True,
            env={
                "PATH": os.environ["PATH"],
                "GIT_PROJECT_ROOT": str(server.root),
                "GIT_HTTP_EXPORT_ALL": "1",
                "PATH_INFO": path,
                "QUERY_STRING": query,
                "REQUEST_METHOD": self.command,
                "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                "GIT_CONFIG_COUNT": "1",
                "GIT_CONFIG_KEY_0": "safe.directory",
                "GIT_CONFIG_VALUE_0": "*",
            },
        )
        head, _, answer = done.stdout.partition(b"\r\n\r\n")
        lines = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
        self.send_response(int(lines.pop("Status", "200").split()[0]))
        for name, value in lines.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class Served:
    def __init__(self, url: str, certificate: Path) -> None:
        self.url = url
        self.certificate = certificate


@pytest.fixture
def served(repository: Path, tmp_path: Path) -> Iterator[Served]:
    """The repository over https, with a certificate only those know who are told."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    words = [*command.split(), "-addext", "subjectAltName=DNS:localhost"]
    words += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(words, check=True, capture_output=True)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), GitOverHttps)
    server.root, server.asked = repository.parent, []  # type: ignore[attr-defined]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        name = f"{repository.name}/.git"
        yield Served(f"https://localhost:{server.server_port}/{name}", certificate)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def trusting(served: Served, directory: Path, **more: str) -> Any:
    launch = launch_in(directory)
    environment = {**launch.environment, **QUIET, "GIT_SSL_CAINFO": str(served.certificate), **more}
    return launch_in(directory, environment=environment)


def secrets_left(*directories: Path) -> list[Path]:
    files = [path for each in directories for path in each.rglob("*") if path.is_file()]
    return [path for path in files if SECRET.encode() in path.read_bytes()]


# Addresses ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/a.git",
        "file:///etc",
        "/etc",
        "ext::sh -c evil",
        "--upload-pack=evil",
        "git://example.org/a.git",
        "https://",
        "ssh://-oProxyCommand=evil/a",
        "https://example.org/a b",
        "ssh://ann:word@example.org/a",
        "https://example.org:port/a",
    ],
)
def test_only_https_and_ssh_are_taken(url: str) -> None:
    with pytest.raises(InvalidRequest):
        read_repository(url, Credential())


@pytest.mark.parametrize(
    "url",
    ["https://example.org:8443/a.git", "ssh://git@example.org:2222/a.git", "git@example.org:a/b"],
)
def test_a_clone_url_without_secrets_is_unchanged(url: str) -> None:
    assert read_repository(url, Credential()).url == url


def test_a_password_is_removed_from_the_clone_url() -> None:
    read = read_repository("https://ann:p%40ss@example.org/a.git", Credential())

    assert read.url == "https://example.org/a.git"
    assert read.credential == Credential(username="ann", password="p@ss")
    assert "p@ss" not in repr(read)


# Clones ---------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_clone_behind_a_password_leaves_no_trace_of_it(
    served: Served, repository: Path, tmp_path: Path
) -> None:
    asked = {"kind": "git", "url": served.url}
    asked["credential"] = {"username": "ann", "password": SECRET}  # type: ignore[assignment]
    async with running(trusting(served, tmp_path)) as session, session.events() as events:
        assert (await until(events, "state"))["workspace"]["state"] == "empty"
        status, answer = await session.post("/session/workspace", asked)
        progress = await until(events, "workspace.progress")
        ready = await until(events, "workspace.ready")
        clean = (await session.act("git status --porcelain && git log --format=%s"))["content"]
        standing = await session.get("/session/workspace")

        assert status == 200, answer
        assert answer["state"] == "ready"
        assert answer["commit"] == git(repository, "rev-parse", "main") == ready["commit"]
        assert standing == answer
        assert {"stage", "percent"} == progress.keys()
        assert clean == "First\n"
        assert (session.workspace / "run.sh").stat().st_mode & 0o100
        assert {path.stat().st_uid for path in session.workspace.rglob("*")} == {os.getuid()}
        assert secrets_left(tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("ref", ["other", "v1", "commit"])
async def test_a_branch_a_tag_or_a_commit_is_checked_out(
    served: Served, repository: Path, tmp_path: Path, ref: str
) -> None:
    commit = git(repository, "rev-parse", "other" if ref == "commit" else ref)
    url = served.url.replace("https://", f"https://ann:{SECRET}@")
    asked = {"kind": "git", "url": url, "ref": commit if ref == "commit" else ref}
    async with running(trusting(served, tmp_path)) as session:
        status, answer = await session.post("/session/workspace", asked)
        branch = (await session.act("git branch --show-current"))["content"].strip()

        assert (status, answer.get("commit")) == (200, commit), answer
        assert branch == ("other" if ref == "other" else "")
        assert secrets_left(tmp_path) == []


@pytest.mark.slow
async def test_a_clone_that_fails_says_why_without_the_secret_and_leaves_nothing(
    served: Served, tmp_path: Path
) -> None:
    credential = {"username": "ann", "password": "wrong-word"}
    asked = {"kind": "git", "url": served.url, "credential": credential}
    async with running(trusting(served, tmp_path)) as session:
        status, answer = await session.post("/session/workspace", asked)
        standing = await session.get("/session/workspace")
        left = list(session.workspace.iterdir())
        right = {**asked, "credential": {"username": "ann", "password": SECRET}}
        again, _ = await session.post("/session/workspace", right)

    assert (status, answer["error"]["code"]) == (500, "workspace.clone_failed")
    assert "wrong-word" not in str(answer)
    assert "Authentication failed" in answer["error"]["message"]
    assert standing["state"] == "failed"
    assert left == []
    assert again == 200


@pytest.mark.slow
async def test_a_non_empty_workspace_is_not_changed(tmp_path: Path) -> None:
    async with running(launch_in(tmp_path)) as session:
        (session.workspace / "mine.txt").write_text("mine")
        asked = {"kind": "git", "url": "https://example.org/a.git"}
        cloned, why = await session.post("/session/workspace", asked)
        unpacked, _ = await session.upload(zip_of({"a": b"a"}))
        standing = await session.get("/session/workspace")

        assert (cloned, unpacked) == (409, 409)
        assert why["error"]["code"] == "path.not_empty"
        assert [path.name for path in session.workspace.iterdir()] == ["mine.txt"]
        assert standing["state"] == "ready"


@pytest.mark.slow
async def test_a_clone_over_ssh_has_the_key_while_it_runs(repository: Path, tmp_path: Path) -> None:
    """In the place of ssh is a program that notes what it was given and goes to this machine."""
    programs = tmp_path / "bin"
    programs.mkdir()
    script = f"""#!/bin/bash
    {{ printf '%s\\n' "$@"; while [ "$1" ]; do [ "$1" = -i ] && cat "$2" && stat -Lc %a "$2"; shift
    done; }} >{tmp_path}/given
    exec git-upload-pack {repository}
    """
    (programs / "ssh").write_text(script)
    (programs / "ssh").chmod(0o755)
    launch = launch_in(tmp_path)
    core = subprocess.run(["git", "--exec-path"], capture_output=True, text=True, check=True)
    path = f"{programs}:{os.environ['PATH']}:{core.stdout.strip()}"
    launch = launch_in(tmp_path, environment={**launch.environment, **QUIET, "PATH": path})
    key = f"-----BEGIN KEY-----\n{SECRET}\n-----END KEY-----"
    asked = {
        "kind": "git",
        "url": "ssh://git@example.org/a.git",
        "credential": {"private_key": key, "known_hosts": "example.org ssh-ed25519 AAAA"},
    }
    async with running(launch) as session:
        status, answer = await session.post("/session/workspace", asked)
        given = (tmp_path / "given").read_text()
        (tmp_path / "given").unlink()

        assert (status, answer.get("state")) == (200, "ready"), answer
        assert key in given
        assert "600" in given.splitlines()
        assert "StrictHostKeyChecking=yes" in given
        assert secrets_left(tmp_path / "workspace", tmp_path / "home", tmp_path / "state") == []


@pytest.mark.slow
async def test_the_next_sandbox_removes_a_partial_workspace(tmp_path: Path) -> None:
    launch = launch_in(tmp_path)
    (tmp_path / "state/workspace.filling").touch()
    (tmp_path / "workspace/half").mkdir()
    async with running(launch) as session:
        standing = await session.get("/session/workspace")

    assert standing["state"] == "empty"
    assert not (tmp_path / "workspace/half").exists()


# Archives -------------------------------------------------------------------------------


def zip_of(entries: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return stream.getvalue()


def tar_of(*members: tuple[str, str, bytes | str], mode: Any = "w:gz") -> bytes:
    """Members by kind: file, dir, link, hard, pipe."""
    stream = io.BytesIO()
    kinds = {"dir": tarfile.DIRTYPE, "link": tarfile.SYMTYPE, "hard": tarfile.LNKTYPE}
    with tarfile.open(fileobj=stream, mode=mode) as archive:
        for kind, name, content in members:
            info = tarfile.TarInfo(name)
            info.type = kinds.get(kind, tarfile.FIFOTYPE if kind == "pipe" else tarfile.REGTYPE)
            info.mode = 0o4755
            if isinstance(content, str):
                info.linkname = content
                archive.addfile(info)
            else:
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return stream.getvalue()


@pytest.fixture
async def session(tmp_path: Path) -> Any:
    async with running(launch_in(tmp_path)) as session:
        yield session


@pytest.mark.slow
async def test_a_zip_is_unpacked(session: Session) -> None:
    async with session.events() as events:
        status, answer = await session.upload(zip_of({"src/a.py": b"a = 1\n", "b.txt": b"b"}))
        await until(events, "workspace.ready")

    assert (status, answer["state"]) == (200, "ready")
    assert (session.workspace / "src/a.py").read_text() == "a = 1\n"


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
async def test_a_tar_is_unpacked_with_any_compression(session: Session, mode: str) -> None:
    members = [
        ("dir", "./", ""),
        ("dir", "src", ""),
        ("file", "src/run.sh", b"#!/bin/sh\n"),
        ("hard", "src/same.sh", "src/run.sh"),
        ("link", "link", "src/run.sh"),
    ]
    status, answer = await session.upload(tar_of(*members, mode=mode))  # type: ignore[arg-type]
    workspace = session.workspace

    assert status == 200, answer
    assert (workspace / "src/run.sh").read_text() == "#!/bin/sh\n"
    assert stat.S_IMODE((workspace / "src/run.sh").stat().st_mode) == 0o755
    assert os.path.samefile(workspace / "src/same.sh", workspace / "src/run.sh")
    assert os.readlink(workspace / "link") == "src/run.sh"
    assert (workspace / "src/run.sh").stat().st_uid == os.getuid()


@pytest.mark.slow
async def test_an_invalid_or_escaping_archive_leaves_nothing(
    session: Session, tmp_path: Path
) -> None:
    escapes = [
        b"no archive at all",
        zip_of({"../up": b"x"}),
        tar_of(("file", "../up", b"x")),
        tar_of(("file", "/etc/up", b"x")),
        tar_of(("link", "out", "/etc"), ("file", "out/up", b"x")),
        tar_of(("link", "out", "../..")),
        tar_of(("hard", "own", "../../home")),
        tar_of(("hard", "own", "nothing")),
        tar_of(("pipe", "pipe", "")),
        tar_of(("file", "ok", b"x"), ("file", "ok", b"y")),
        tar_of(("file", "a", b"x"))[:-20],
        tar_of(("file", "n" * 3_000_000, b"x")),
    ]
    for archive in escapes:
        status, answer = await session.upload(archive)
        assert (status, answer["error"]["code"]) == (400, "archive.invalid"), archive[:40]
        assert list(session.workspace.iterdir()) == []
    assert not (tmp_path / "up").exists()
    assert not Path("/etc/up").exists()
