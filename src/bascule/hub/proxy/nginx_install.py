"""Installs the nginx configuration: tests it first and restores the old one if nginx refuses it."""

from __future__ import annotations

import os
import re
import shutil
import socket
import ssl
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, urlsplit

from bascule.core.errors import InvalidSetting, MissingTool, StorageFailed

from .nginx import LOADED_PREFIX

_DIRECTORIES: Final = ("/usr/sbin", "/usr/local/sbin", "/usr/local/nginx/sbin")
_MINIMAL_CONFIG: Final = """\
pid {directory}/pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {directory}/body;
    proxy_temp_path {directory}/proxy;
    include {candidate};
}}
"""
_TIMEOUT: Final = 30.0
"""Maximum seconds for one run of nginx."""
_LOADED_LOCATION: Final = re.compile(rf"location = ({LOADED_PREFIX}[0-9a-f]+) ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Nginx:
    """An nginx installation on this machine."""

    program: str
    flags: tuple[str, ...] = ()
    """Flags for a main configuration at another place than the default: `-c`, `-p`."""
    reload_timeout: float = 10.0
    """Seconds to wait for a reload."""

    @classmethod
    def find(cls, program: str | None = None, flags: tuple[str, ...] = ()) -> Nginx:
        """Find nginx in `PATH` or its usual directories. Raises `MissingTool`."""
        path = os.pathsep.join([os.environ.get("PATH", ""), *_DIRECTORIES])
        found = shutil.which(program or "nginx", path=path)
        if found is None:
            raise MissingTool(
                f"{program or 'nginx'} is not installed (Debian or Ubuntu, as root: "
                "apt-get install nginx-light); --print prints the configuration for another "
                "machine"
            )
        return cls(program=found, flags=flags)

    def install(self, text: str, file: Path, *, url: str = "", is_reloaded: bool = True) -> bool:
        """Replace `file` by `text` and reload a running nginx; returns whether nginx was reloaded.

        With `url`, the URL of the configured site, check that nginx has loaded the configuration.
        Raises `InvalidSetting`, with nginx's own message if there is one; `file` is then restored.
        """
        self._test_alone(text)
        previous = _contents(file)
        _write(file, text.encode())
        try:
            self._run("-t")
            if is_reloaded and self._is_running():
                self._reload(text, file, previous=previous, url=url)
                return True
        except BaseException:
            _restore(file, previous)
            raise
        return False

    def _reload(self, text: str, file: Path, *, previous: bytes | None, url: str) -> None:
        """Reload and check the result.

        The check is needed: `nginx -t` does not bind ports in use, and a reload reports no errors.
        """
        self._run("-s", "reload")
        location = _LOADED_LOCATION.search(text)
        if not url or location is None:
            return
        end = time.monotonic() + self.reload_timeout
        while not _answers(urlsplit(url), location[1], end - time.monotonic()):
            if time.monotonic() > end:
                _restore(file, previous)
                self._run("-s", "reload")
                raise InvalidSetting(
                    f"nginx did not load this configuration within {self.reload_timeout:g} "
                    f"seconds, and the previous file is restored: {url} does not answer with it. "
                    "Check whether another program uses the port; nginx's error log says why"
                )
            time.sleep(0.05)

    def _test_alone(self, text: str) -> None:
        """Test the configuration with a minimal main file, before any file is changed."""
        with tempfile.TemporaryDirectory(prefix="bascule-nginx-") as directory:
            candidate = Path(directory, "bascule.conf")
            candidate.write_text(text)
            main = Path(directory, "nginx.conf")
            main.write_text(_MINIMAL_CONFIG.format(directory=directory, candidate=candidate))
            _run([self.program, "-t", "-q", "-e", "stderr", "-p", directory, "-c", str(main)])

    def _run(self, *words: str) -> None:
        _run([self.program, "-q", "-e", "stderr", *self.flags, *words])

    def _is_running(self) -> bool:
        """Whether the process in nginx's PID file exists and accepts signals from this user."""
        result = subprocess.run(
            [self.program, "-T", *self.flags],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT,
            check=False,
        )
        words = result.stdout.split()
        pid_files = [words[at + 1].rstrip(";") for at, word in enumerate(words) if word == "pid"]
        prefix = Path(self.flags[self.flags.index("-p") + 1]) if "-p" in self.flags else Path("/")
        pid_file = prefix / (pid_files[0] if pid_files else "run/nginx.pid")
        try:
            os.kill(int(pid_file.read_text()), 0)
        except (OSError, ValueError):
            return False
        return True


def _answers(url: SplitResult, path: str, timeout: float) -> bool:
    """Whether the local nginx answers 204 at `path`. Its certificate is not verified."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    request = f"HEAD {path} HTTP/1.1\r\nHost: {url.netloc}\r\nConnection: close\r\n\r\n"
    try:
        with (
            socket.create_connection(("127.0.0.1", url.port or 443), max(timeout, 0.1)) as plain,
            context.wrap_socket(plain, server_hostname=url.hostname) as secure,
        ):
            secure.sendall(request.encode())
            return secure.recv(64).startswith(b"HTTP/1.1 204 ")
    except OSError:
        return False


def _run(command: list[str]) -> None:
    try:
        result = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MissingTool(f"cannot run {command[0]}: {error}") from error
    if result.returncode:
        lines = [line for line in result.stderr.splitlines() if "emerg" in line or "error" in line]
        message = (lines or result.stderr.splitlines() or ["nothing"])[0]
        raise InvalidSetting(
            f"nginx rejects this configuration, and nothing was changed: {message.strip()}"
        )


def _contents(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageFailed(f"cannot read {file}: {error}") from error


def _write(file: Path, content: bytes) -> None:
    """Write the file atomically: nginx may be reloaded at any moment."""
    new_file = file.with_name(f".{file.name}.new")  # does not match `include *.conf`
    try:
        with new_file.open("wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        new_file.replace(file)
    except OSError as error:
        raise StorageFailed(f"cannot write {file}: {error}") from error


def _restore(file: Path, previous: bytes | None) -> None:
    if previous is None:
        file.unlink(missing_ok=True)
    else:
        _write(file, previous)
