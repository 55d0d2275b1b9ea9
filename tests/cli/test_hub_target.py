"""Which hub a command asks, with which token, and what is said when there is none."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bascule.cli import main
from bascule.cli.hub_settings import HubFile, load
from bascule.cli.hub_state import lock_state, published_address, running_hubs
from bascule.cli.hub_target import find_hub, is_this_machine, use_hub
from bascule.core.errors import InvalidSetting


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Of a hub that runs here and listens on some port."""
    for name in HubFile.model_fields:
        monkeypatch.delenv(f"BASCULE_{name.upper()}", raising=False)
    for name in ("BASCULE_HUB", "BASCULE_TOKEN", "BASCULE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("BASCULE_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    state = tmp_path / "state"
    with lock_state(state), published_address(state, "http://127.0.0.1:4711"):
        (state / "admin-token").write_text("first\n")
        yield state


@pytest.mark.usefixtures("state")
def test_the_hub_of_this_machine_is_found_with_its_token() -> None:
    found = find_hub(None)

    assert (found.url, found.token) == ("http://127.0.0.1:4711", "first")


def test_a_hub_that_is_not_running_is_expected_at_the_default_port(state: Path) -> None:
    (state / "hub-address").unlink()

    assert find_hub(None).url == f"http://127.0.0.1:{load(None, {}, {}).port}"


def test_a_killed_hub_is_ignored(state: Path) -> None:
    killed = state / "up-1"
    killed.mkdir()
    (killed / "hub.lock").touch()
    (killed / "hub-address").write_text("http://127.0.0.1:4712\n")

    assert [each.url for each in running_hubs(state)] == ["http://127.0.0.1:4711"]
    assert find_hub(None).url == "http://127.0.0.1:4711"


def test_the_most_recently_started_hub_is_used_and_named_while_it_runs(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    second = state / "up-1"
    with (
        lock_state(second, folder=Path("/srv/work")),
        published_address(second, "http://127.0.0.1:4712"),
    ):
        assert use_hub(None).url == "http://127.0.0.1:4712"
        said = capsys.readouterr().err
        assert "http://127.0.0.1:4712 (bascule up --working-dir /srv/work)" in said
        assert "(1 more running here; choose with --hub)" in said
        use_hub("http://127.0.0.1:4711")
        assert not capsys.readouterr().err
    assert use_hub(None).url == "http://127.0.0.1:4711"
    assert not capsys.readouterr().err


def test_searching_for_hubs_does_not_prevent_a_hub_from_starting(tmp_path: Path) -> None:
    """Whoever looks has the lock for a moment."""
    state = tmp_path / "state"
    with lock_state(state), published_address(state, "http://127.0.0.1:4711"):
        pass
    (state / "hub-address").write_text("http://127.0.0.1:4711\n")
    with ThreadPoolExecutor() as threads:
        looking = threads.submit(lambda: [running_hubs(state) for _ in range(2000)])
        while not looking.done():
            with lock_state(state):
                pass


def test_the_settings_file_sets_the_hub_port(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BASCULE_STATE_DIR")
    Path("bascule.toml").write_text(f'state_dir = "{state}"\npublic_url = "https://hub.example"\n')

    assert find_hub("https://hub.example/").token == "first"


def test_without_any_hub_the_error_says_how_to_start_one(state: Path) -> None:
    (state / "hub-address").unlink()
    (state / "admin-token").unlink()

    with pytest.raises(
        InvalidSetting, match="no hub has been started on this machine: start one with `bascule up`"
    ):
        find_hub(None)


@pytest.mark.usefixtures("state")
def test_the_local_token_is_not_sent_to_other_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidSetting, match="no token for the hub at"):
        find_hub("https://hub.exmple")

    monkeypatch.setenv("BASCULE_TOKEN", "mine")
    assert find_hub("https://hub.exmple").token == "mine"


@pytest.mark.parametrize(
    ("url", "is_ours"),
    [
        ("http://127.0.0.1:8300", True),
        ("http://127.1.2.3", True),
        ("http://localhost:1", True),
        ("http://[::1]:8300", True),
        ("http://localhost.example", False),
        ("https://hub.example", False),
        ("nonsense", False),
    ],
)
def test_a_machine_knows_its_own_names(url: str, is_ours: bool) -> None:
    assert is_this_machine(url) is is_ours


@pytest.mark.usefixtures("state")
@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("http://127.0.0.1:1", "no hub answers at http://127.0.0.1:1; start one with `bascule up`"),
        ("no-such-hub.invalid", "check the address (--hub or BASCULE_HUB)"),
        ("htp://127.0.0.1", "'htp://127.0.0.1' is not an http:// or https:// address"),
    ],
)
def test_an_unreachable_hub_is_reported_with_advice(
    address: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("BASCULE_TOKEN", "mine")

    assert main(["session", "list", "--hub", address]) in (1, 2)
    assert said in capsys.readouterr().err
