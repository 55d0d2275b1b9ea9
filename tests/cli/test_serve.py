"""`bascule serve` and `bascule token`."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from bascule.cli import main
from bascule.cli.hub_settings import HubFile, load
from bascule.cli.spawners import local_settings, make_spawners
from bascule.core.errors import InvalidSetting
from bascule.runtime.spawn.docker import DockerSpawner

from .processes import BASCULE, environment
from .processes import bascule as run


@contextmanager
def serving(state: Path, *flags: str, cwd: Path, **env: str) -> Iterator[tuple[str, Any]]:
    """A hub in a process of its own; its address and process. Ends with a SIGTERM."""
    with tempfile.TemporaryDirectory(prefix="bsc-") as short:  # for sockets
        process = subprocess.Popen(
            [*BASCULE, "serve", "--port", "0", "--state-dir", str(state), *flags],
            cwd=cwd,
            env=environment(BASCULE_RUN_DIR=short, **env),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip(), process
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)


def get(url: str, token: str) -> tuple[int, Any]:
    request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


@pytest.mark.slow
def test_serve_prints_a_token_that_the_hub_accepts(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with serving(state, cwd=tmp_path) as (url, process):
        shown = run("token", "--state-dir", str(state)).stdout.strip()
        assert re.fullmatch(r"bsc_[\w-]{43}", shown)
        assert stat.S_IMODE((state / "admin-token").stat().st_mode) == 0o600
        assert get(f"{url}/api/vscode/instances", shown) == (200, [])
        assert get(f"{url}/api/vscode/instances", "wrong")[0] == 401
        made = run("token", "--create", "helper", "--state-dir", str(state)).stdout.strip()
        assert get(f"{url}/api/vscode/instances", made) == (200, [])
        assert get(f"{url}/api/tokens", made)[0] == 403
        listed = run("token", "--list", "--state-dir", str(state)).stdout
        assert listed == "helper  agent   owner admin, never expires\n"
        assert made not in listed
        assert run("token", "--revoke", "helper", "--state-dir", str(state)).returncode == 0
        assert get(f"{url}/api/vscode/instances", made)[0] == 401
    assert process.returncode == 0


@pytest.mark.slow
def test_bascule_token_replaces_the_first_token_and_logs_can_be_json(tmp_path: Path) -> None:
    state = tmp_path / "state"
    (tmp_path / "bascule.toml").write_text('log_format = "json"\n')
    with serving(state, cwd=tmp_path, BASCULE_TOKEN="given") as (url, process):
        assert get(f"{url}/api/vscode/instances", "given") == (200, [])
        assert not (state / "admin-token").exists()
        process.send_signal(signal.SIGTERM)
        said = process.stderr.read()
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert f"the hub answers at {url}" in [line["message"] for line in lines]
    assert lines[-1]["message"] == "the hub has stopped"


@pytest.mark.slow
def test_an_unusable_address_prints_a_one_sentence_error(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with tempfile.TemporaryDirectory(prefix="bsc-") as short:  # for sockets
        env = environment(BASCULE_RUN_DIR=short)
        with serving(state, cwd=tmp_path) as (url, _):
            taken = url.rpartition(":")[2]
            other = str(tmp_path / "second")
            second = run("serve", "--port", taken, "--state-dir", other, env=env)
        foreign = run("serve", "--host", "192.0.2.1", "--state-dir", str(state), env=env)

    for refused, complaint in ((second, f":{taken}: "), (foreign, "does not have the address")):
        assert refused.returncode == 2
        said = [line for line in refused.stderr.splitlines() if " WARNING " not in line]
        assert len(said) == 1
        assert complaint in said[0]


@pytest.mark.slow
def test_libraries_do_not_log_socket_connections(tmp_path: Path) -> None:
    with serving(tmp_path / "state", cwd=tmp_path, BASCULE_TOKEN="given") as (url, process):
        host = url.removeprefix("http://")
        for token, answer in (("wrong", b"401"), ("given", b"101")):
            with socket.create_connection(host.split(":")) as connection:  # type: ignore[arg-type]
                connection.sendall(
                    f"GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: {host}\r\n"
                    f"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                    f"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
                    f"Authorization: Bearer {token}\r\n\r\n".encode()
                )
                assert connection.recv(4096).split()[1] == answer
        process.send_signal(signal.SIGTERM)
        said = process.stderr.read()

    assert "uvicorn" not in said
    assert "WebSocket" not in said
    assert "handshake" not in said


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--create", ""], "--create needs a name"),
        (["--create", "a", "--days", "0"], "--days is 0; it must be a number above 0"),
        (["--create", "a", "--days", "nan"], "--days is nan"),
        (["--create", "a", "--revoke", "b"], "give only one of --create, --revoke and --list"),
    ],
)
def test_invalid_token_arguments_are_usage_errors(
    arguments: list[str],
    complaint: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["token", *arguments, "--state-dir", str(tmp_path / "state")]) == 2
    assert complaint in capsys.readouterr().err
    assert not (tmp_path / "state").exists()


def test_flags_override_variables_which_override_the_file(tmp_path: Path) -> None:
    file = tmp_path / "hub.toml"
    file.write_text('port = 1\nhost = "::1"\nheartbeat = 9\nallowed_hosts = ["a"]\n')
    variables = {"BASCULE_PORT": "2", "BASCULE_HOST": "0.0.0.0", "BASCULE_ALLOWED_ORIGINS": "b,c"}
    settings = load(file, variables, {"port": 3, "host": None})
    assert (settings.port, settings.host, settings.heartbeat) == (3, "0.0.0.0", 9)
    assert (settings.allowed_hosts, settings.allowed_origins) == (("a",), ("b", "c"))


def test_a_setting_is_accepted_under_its_old_name(tmp_path: Path) -> None:
    file = tmp_path / "hub.toml"
    file.write_text("look_every = 7\n")
    assert load(file, {}, {}).reconcile_interval == 7
    assert load(file, {"BASCULE_LOOK_EVERY": "8"}, {}).reconcile_interval == 8
    both = {"BASCULE_LOOK_EVERY": "8", "BASCULE_RECONCILE_INTERVAL": "9"}
    assert load(file, both, {}).reconcile_interval == 9


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("prot = 1", r"hub\.toml: prot: there is no such setting; did you mean port\?"),
        ("wholly_other = 1", r"hub\.toml: wholly_other: there is no such setting; docs/hub\.md"),
        ("port = 70000", r"hub\.toml: port: "),
        ("port", r"hub\.toml is not valid TOML"),
        ('public_url = "hub.example"', "public_url"),
        ("heartbeat = 0", "heartbeat"),
        ('open_networks = ["10.1.2.3/8"]', r"open_networks: .*10\.1\.2\.3/8 has host bits set"),
    ],
)
def test_an_invalid_setting_is_reported_with_its_location(
    tmp_path: Path, text: str, complaint: str
) -> None:
    file = tmp_path / "hub.toml"
    file.write_text(text)
    with pytest.raises(InvalidSetting, match=complaint):
        load(file, {}, {})


def test_open_networks_are_passed_to_every_spawner() -> None:
    settings = load(Path(os.devnull), {"BASCULE_OPEN_NETWORKS": "10.1.0.0/16,fd00::/64"}, {})
    wanted = ("10.1.0.0/16", "fd00::/64")
    assert settings.open_networks == wanted
    assert local_settings(settings).open_networks == wanted
    docker = make_spawners(settings.model_copy(update={"spawners": ("docker",)}))["docker"]
    assert isinstance(docker, DockerSpawner)
    assert docker.settings.open_networks == wanted
    settings.settings("a-token")  # the hub itself has no use for them


def test_an_invalid_environment_variable_is_reported_by_name() -> None:
    with pytest.raises(InvalidSetting, match="BASCULE_PORT"):
        load(Path(os.devnull), {"BASCULE_PORT": "x"}, {})


def test_every_setting_is_documented(project: Path) -> None:
    page = (project / "docs/hub.md").read_text()
    documented = dict(re.findall(r"^\| `(\w+)` \| (?:`([^`]*)`|[^|]+) \|", page, re.MULTILINE))
    settings = set(HubFile.model_fields)
    assert settings <= documented.keys()
    defaults = {name: str(HubFile.model_fields[name].default) for name in ("host", "port")}
    assert {name: documented[name] for name in defaults} == defaults
