"""Client of the Docker engine: aiodocker, with the calls that it lacks and with our errors."""

from __future__ import annotations

import asyncio
import base64
import json
import tarfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import IO, Any, Final

import aiodocker
import aiohttp
from aiodocker.containers import DockerContainer
from aiodocker.jsonstream import json_stream_stream
from aiodocker.stream import Stream

from bascule.core.contracts import Closable
from bascule.core.errors import InvalidSetting, MissingTool, SandboxUnreachable
from bascule.core.sessions import Usage

from .container import ContainerInfo

_UNIX: Final = "unix://"
_NEVER_PREFIX: Final = "0001-"
"""Prefix of the engine's timestamps for events that have not happened."""
_STAT_HEADER: Final = "X-Docker-Container-Path-Stat"
_MAX_SMALL_FILE: Final = 1 << 20
_MIN_API_VERSION: Final = (1, 41)
"""Oldest supported API version: Docker 20.10."""


class Engine(Closable):
    """A Docker engine on this machine; any number of tasks may use it at once."""

    def __init__(self, address: str) -> None:
        if not address.startswith(_UNIX):
            raise InvalidSetting(
                f"The Docker engine must be on this machine, at unix:///...; not {address!r}"
            )
        self.address = address
        self.is_rootless = False
        self._docker: aiodocker.Docker | None = None
        self._connector: aiohttp.UnixConnector | None = None

    @property
    def docker(self) -> aiodocker.Docker:
        if self._docker is None:
            raise SandboxUnreachable("The spawner is not open")
        return self._docker

    async def open(self) -> None:
        """Connect. Raises `MissingTool` if no usable engine answers."""
        # No limit of connections: for each sandbox, one connection waits for the sandbox's end.
        self._connector = aiohttp.UnixConnector(self.address.removeprefix(_UNIX), limit=0)
        self._docker = aiodocker.Docker(url="unix://localhost", connector=self._connector)
        try:
            info = await self.docker.system.info()
            version = await self.docker.version()
        except (aiodocker.DockerError, aiohttp.ClientError, OSError) as error:
            await self.aclose()
            raise MissingTool(
                f"No Docker engine answers at {self.address}: {error}. Install one (Debian: "
                "apt-get install docker.io), or add this user to the group docker"
            ) from error
        if tuple(map(int, version["ApiVersion"].split("."))) < _MIN_API_VERSION:
            await self.aclose()
            raise MissingTool(f"Docker {version['Version']} is too old; 20.10 or newer is needed")
        self.is_rootless = "name=rootless" in (info.get("SecurityOptions") or ())

    async def aclose(self) -> None:
        if self._docker is not None:
            await self._docker.close()
        if self._connector is not None:
            await self._connector.close()
        self._docker = self._connector = None

    # Containers ---------------------------------------------------------------------------

    def container(self, name: str) -> DockerContainer:
        return self.docker.containers.container(name)

    async def find(self, name: str) -> ContainerInfo | None:
        with engine_errors():
            try:
                info_json = await self.container(name).show()
            except aiodocker.DockerError as error:
                if error.status == 404:
                    return None
                raise
        return ContainerInfo.read(
            info_json["Id"], info_json["Config"]["Labels"], info_json["State"]["Status"]
        )

    async def all(self, label: str) -> list[ContainerInfo]:
        """Every container with the label, `name=value`."""
        with engine_errors():
            listed = await self.docker.containers.list(
                all="true", filters=json.dumps({"label": [label]})
            )
        return [ContainerInfo.read(each["Id"], each["Labels"], each["State"]) for each in listed]

    async def idle_since(self, id: str) -> datetime:
        """When the container ended, or was created if it never ran. Now, if it was removed."""
        try:
            with engine_errors():
                info_json = await self.container(id).show()
        except aiodocker.DockerError:
            return datetime.now(UTC)
        finished = info_json["State"]["FinishedAt"]
        time = info_json["Created"] if finished.startswith(_NEVER_PREFIX) else finished
        return datetime.fromisoformat(time[:19]).replace(tzinfo=UTC)

    async def usage(self, id: str) -> Usage:
        # aiodocker's method takes a second to measure a CPU rate, which is not needed here.
        with engine_errors():
            stats = await self.docker._query_json(
                f"containers/{id}/stats", params={"stream": "0", "one-shot": "1"}
            )
        memory = stats.get("memory_stats", {})
        details = memory.get("stats", {})
        # Cached files that the kernel can drop at once do not count: cgroup v1, then v2.
        idle = details.get("total_inactive_file", details.get("inactive_file", 0))
        return Usage(
            cpu_seconds=stats["cpu_stats"]["cpu_usage"]["total_usage"] / 1e9,
            memory_bytes=max(0, memory.get("usage", 0) - idle),
            processes=stats.get("pids_stats", {}).get("current", 0),
        )

    async def has_file(self, container: DockerContainer, path: str) -> bool:
        return await self._size_in(container, path) is not None

    async def read_small_file(self, container: DockerContainer, path: str) -> bytes:
        """The contents of a file in a container. Empty if it does not exist, is larger than 1 MiB,
        or is no regular file."""
        size = await self._size_in(container, path)
        if size is None or size > _MAX_SMALL_FILE:
            return b""
        with engine_errors():
            archive = await container.get_archive(path)
        return await asyncio.to_thread(_first_file, archive)

    async def _size_in(self, container: DockerContainer, path: str) -> int | None:
        """The size of a file in a container; None if it does not exist."""
        with engine_errors():
            try:
                async with self.docker._query(
                    f"containers/{container.id}/archive", method="HEAD", params={"path": path}
                ) as response:
                    header = response.headers.get(_STAT_HEADER, "")
            except json.JSONDecodeError:
                # aiodocker expects JSON in a refusal, but the answer to HEAD has no body. The
                # container exists, so the file does not.
                return None
        return int(json.loads(base64.b64decode(header))["size"])

    async def run_in_network_of(
        self,
        id: str,
        image: str,
        command: list[str],
        *,
        mounts: Sequence[Mapping[str, Any]] = (),
    ) -> str:
        """Run a command with rights over the network of container `id`, and return its output.

        The command runs in a new container, which shares only the network with container `id` and
        is removed afterwards.
        """
        first, *rest = command
        configuration: dict[str, Any] = {
            "Image": image,
            "Entrypoint": [first],
            "Cmd": rest,
            "User": "0",
            "AttachStdout": True,
            "AttachStderr": True,
            "HostConfig": {
                "NetworkMode": f"container:{id}",
                "Mounts": [*mounts],
                "CapDrop": ["ALL"],
                "CapAdd": ["NET_ADMIN"],
                "SecurityOpt": ["no-new-privileges"],
                "ReadonlyRootfs": True,
                "AutoRemove": True,
            },
        }
        output = b""
        with engine_errors():
            container = await self.docker.containers.create(configuration)
            async with container.attach(stdout=True, stderr=True) as stream:
                await container.start()
                while (message := await stream.read_out()) is not None:
                    output += message.data
        return output.decode(errors="replace")

    async def written(self, id: str) -> int:
        """Bytes that a container has changed in its image's files, including `/tmp`; 0 if it was
        removed."""
        with engine_errors():
            try:
                info_json = await self.container(id).show(size="true")
            except aiodocker.DockerError as error:
                if error.status != 404:
                    raise
                return 0
        return int(info_json.get("SizeRw") or 0)

    async def log(self, id: str, lines: int) -> str:
        with engine_errors():
            pieces = await self.container(id).log(stdout=True, stderr=True, tail=lines)
        return "".join(pieces)

    # Images -------------------------------------------------------------------------------

    async def image(self, name: str) -> Mapping[str, Any] | None:
        with engine_errors():
            try:
                return await self.docker.images.inspect(name)
            except aiodocker.DockerError as error:
                if error.status == 404:
                    return None
                raise

    def pull(self, name: str) -> AsyncIterator[Mapping[str, Any]]:
        """Progress messages of the engine while it pulls."""
        return self.docker.images.pull(name, stream=True)

    async def build(
        self, context: IO[bytes], options: Mapping[str, str]
    ) -> AsyncIterator[Mapping[str, Any]]:
        """Progress messages of the engine while it builds.

        This replaces aiodocker's method, which lacks the options `target` and `networkmode`.
        """
        async with self.docker._query(
            "build",
            "POST",
            params=options,
            data=context,
            headers={"content-type": "application/x-tar"},
            timeout=aiohttp.ClientTimeout(),
        ) as response:
            async for message in json_stream_stream(response):
                yield message


def _first_file(archive: tarfile.TarFile) -> bytes:
    with archive:
        first = archive.next()
        file = archive.extractfile(first) if first is not None and first.isreg() else None
        return b"" if file is None else file.read(_MAX_SMALL_FILE)


def end_input(stream: Stream) -> None:
    """Close a container's stdin but keep reading its output. aiodocker would close both."""
    if stream._resp is not None and stream._resp.connection is not None:
        transport = stream._resp.connection.transport
        if transport is not None:
            transport.write_eof()


@contextmanager
def engine_errors() -> Iterator[None]:
    """Turns a lost connection to the engine into our error."""
    try:
        yield
    except (aiohttp.ClientError, OSError) as error:
        raise SandboxUnreachable(f"The Docker engine does not answer: {error}") from error
