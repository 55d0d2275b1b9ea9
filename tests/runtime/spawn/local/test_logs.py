"""What servers of sandboxes said, however much that was."""

from __future__ import annotations

from pathlib import Path

from bascule.core.sessions import new_session_id
from bascule.runtime.spawn.local.logs import SandboxLogs


def test_an_oversized_log_keeps_its_end_and_stays_writable(tmp_path: Path) -> None:
    logs, session, other = SandboxLogs(tmp_path / "logs"), new_session_id(), new_session_id()
    logs.open()
    (logs.directory / other).write_text("small\n")
    with (logs.directory / session).open("ab", buffering=0) as server:
        server.write(b"x" * (5 << 20) + b"\nlast words\n")
        logs.trim()
        server.write(b"and more\n")
    assert (logs.directory / session).stat().st_size < 100_000
    assert logs.tail(session, 2) == "last words\nand more"
    assert logs.tail(other, 9) == "small"
    logs.forget(session)
    assert logs.tail(session, 9) == ""
