"""The HTTP client against real sockets, driven byte by byte where it matters."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from bascule.core.errors import InvalidSetting, MessageTooLarge, SandboxUnreachable
from bascule.link.http import HttpClient, target

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@asynccontextmanager
async def serving(serve: Serve, port: int = 0) -> AsyncIterator[str]:
    open_connections: set[asyncio.Task[None] | None] = set()

    async def one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_connections.add(asyncio.current_task())
        try:
            await serve(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            open_connections.discard(asyncio.current_task())

    server = await asyncio.start_server(one, "127.0.0.1", port)
    host, port = server.sockets[0].getsockname()
    async with server:
        yield f"http://{host}:{port}"
        await asyncio.gather(*(task for task in open_connections if task))


async def head_of(reader: asyncio.StreamReader) -> bytes:
    return await reader.readuntil(b"\r\n\r\n")


async def test_a_connection_is_reused() -> None:
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while await head_of(reader):
            writer.write(OK)

    async with serving(serve) as url, HttpClient(url) as client:
        for _ in range(5):
            assert (await client.request("GET", "/")).body == b"ok"
    assert connections == 1


async def test_concurrent_requests_do_not_wait_for_each_other() -> None:
    all_here = asyncio.Barrier(10)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        await all_here.wait()
        writer.write(OK)

    async with serving(serve) as url, HttpClient(url) as client:
        replies = await asyncio.gather(*(client.request("GET", "/") for _ in range(10)))
    assert [reply.status for reply in replies] == [200] * 10


async def test_the_request_line_and_headers_are_sent_as_given() -> None:
    seen = b""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal seen
        seen = await head_of(reader) + await reader.readexactly(4)
        writer.write(OK)

    async with serving(serve) as url, HttpClient(url + "/base/", headers={"X-Key": "k"}) as client:
        await client.request(
            "POST", target("/a b", path="ü&/", none=None), body=b"body", headers={"X-Own": "o"}
        )
    assert seen.decode() == (
        "POST /base/a%20b?path=%C3%BC%26%2F HTTP/1.1\r\n"
        f"Host: {url.removeprefix('http://')}\r\n"
        "X-Key: k\r\nX-Own: o\r\nContent-Length: 4\r\n\r\nbody"
    )


@pytest.mark.parametrize("bad", ["/a b", "/a\r\nX-Evil: 1", "/ü"])
async def test_a_target_that_is_not_encoded_is_refused(bad: str) -> None:
    async with HttpClient("http://127.0.0.1:9") as client:
        with pytest.raises(ValueError, match="percent-encoded"):
            await client.request("GET", bad)


def test_a_header_value_cannot_inject_another_header() -> None:
    with pytest.raises(InvalidSetting, match="X-Key"):
        HttpClient("http://127.0.0.1:9", headers={"X-Key": "a\r\nX-Evil: 1"})


@pytest.mark.parametrize("url", ["localhost:80", "ftp://a", "http://", "unix:/a"])
def test_an_address_that_is_not_http_is_refused(url: str) -> None:
    with pytest.raises(InvalidSetting):
        HttpClient(url)


async def test_a_body_of_unknown_length_is_sent_chunked() -> None:
    received = bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert b"Transfer-Encoding: chunked" in await head_of(reader)
        while size := int(await reader.readline(), 16):
            received.extend(await reader.readexactly(size))
            await reader.readline()
        await reader.readline()
        writer.write(OK)

    async def body() -> AsyncIterator[bytes]:
        for piece in (b"one", b"", b"two" * 100_000):
            yield piece

    async with serving(serve) as url, HttpClient(url) as client:
        await client.request("POST", "/", body=body())
    assert bytes(received) == b"one" + b"two" * 100_000


async def test_an_early_response_stops_sending_the_request_body() -> None:
    sent = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        writer.write(b"HTTP/1.1 413 Too Large\r\nContent-Length: 0\r\n\r\n")
        while await reader.read(1 << 16):
            pass

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += 1
            yield bytes(1 << 16)
            await asyncio.sleep(0)

    async with serving(serve) as url, HttpClient(url) as client:
        assert (await client.request("POST", "/", body=endless(), timeout=10)).status == 413
    assert sent > 0


async def test_an_error_in_the_request_body_iterator_is_raised_unchanged() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async def broken() -> AsyncIterator[bytes]:
        yield b"begin"
        raise OSError("disk on fire")

    async with serving(serve) as url, HttpClient(url) as client:
        with pytest.raises(OSError, match="disk on fire"):
            await client.request("POST", "/", body=broken())


async def test_a_refused_connection_is_reported_as_nothing_sent() -> None:
    async with serving(_silent) as url:
        pass
    async with HttpClient(url) as client:
        with pytest.raises(SandboxUnreachable, match="cannot be reached") as lost:
            await client.request("GET", "/")
    assert lost.value.detail["sent"] is False


async def test_a_request_on_a_broken_connection_is_not_resent() -> None:
    requests = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal requests
        await head_of(reader)
        requests += 1

    async with serving(serve) as url, HttpClient(url) as client:
        with pytest.raises(SandboxUnreachable, match="closed the connection") as lost:
            await client.request("POST", "/")
    assert lost.value.detail["sent"] is True
    assert requests == 1


async def test_a_truncated_response_is_an_error() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")

    async with serving(serve) as url, HttpClient(url) as client:
        with pytest.raises(SandboxUnreachable):
            await client.request("GET", "/")


async def test_an_answer_without_a_length_ends_with_the_connection() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nall of it")

    async with serving(serve) as url, HttpClient(url) as client:
        assert (await client.request("GET", "/")).body == b"all of it"


async def test_a_response_that_is_not_http_is_an_error() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH_9.2\r\n")
        await reader.read()

    async with serving(serve) as url, HttpClient(url) as client:
        with pytest.raises(SandboxUnreachable):
            await client.request("GET", "/")


async def test_a_request_to_a_silent_server_times_out() -> None:
    async with serving(_silent) as url, HttpClient(url) as client:
        with pytest.raises(SandboxUnreachable, match=r"within 0\.05 seconds"):
            await client.request("GET", "/", timeout=0.05)


async def test_cancelling_a_request_closes_its_connection() -> None:
    asked, gone = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        asked.set()
        try:
            await reader.read()
        finally:
            gone.set()

    async with serving(serve) as url, HttpClient(url) as client:
        request = asyncio.create_task(client.request("GET", "/"))
        await asked.wait()
        request.cancel()
        await asyncio.wait_for(gone.wait(), 5)
        with pytest.raises(asyncio.CancelledError):
            await request


async def test_a_response_to_a_cancelled_request_is_no_part_of_the_next_one() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await head_of(reader):
            writer.write(OK)

    async with serving(serve) as url, HttpClient(url) as client:
        cancelled = asyncio.create_task(client.request("GET", "/"))
        while not any(connection.buffered for connection in client._busy):
            await asyncio.sleep(0)
        cancelled.cancel()  # the response is complete, and the task has not taken it
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        assert (await client.request("GET", "/")).body == b"ok"


async def test_closing_a_client_fails_pending_and_later_requests() -> None:
    asked = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        asked.set()
        await reader.read()

    async with serving(serve) as url:
        client = HttpClient(url)
        request = asyncio.create_task(client.request("GET", "/"))
        await asked.wait()
        await client.aclose()
        with pytest.raises(SandboxUnreachable):
            await request
        with pytest.raises(SandboxUnreachable, match="was closed"):
            await client.request("GET", "/")


async def test_a_response_past_the_limit_is_rejected() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + bytes(100))

    async with serving(serve) as url, HttpClient(url, max_reply=99) as client:
        with pytest.raises(MessageTooLarge):
            await client.request("GET", "/")


async def test_a_streamed_response_is_delivered_as_it_is_sent() -> None:
    next_piece = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n")
        await next_piece.wait()
        writer.write(b"3\r\ntwo\r\n0\r\n\r\n")

    async with serving(serve) as url, HttpClient(url) as client, client.stream("GET", "/") as reply:
        chunks = reply.chunks()
        assert await anext(chunks) == b"one"
        next_piece.set()
        assert [chunk async for chunk in chunks] == [b"two"]


async def test_a_slow_reader_leaves_unread_data_in_the_socket() -> None:
    size = 32 << 20

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        writer.write(bytes(size))
        await writer.drain()

    async with serving(serve) as url, HttpClient(url) as client, client.stream("GET", "/") as reply:
        got = 0
        async for chunk in reply.chunks():
            got += len(chunk)
            await asyncio.sleep(0)
            assert reply.buffered < 4 << 20
    assert got == size


@pytest.mark.parametrize("is_read", [True, False])
async def test_after_a_large_response_the_next_request_gets_its_own_response(is_read: bool) -> None:
    """Also when all of it had come before any was read, or none of it was."""
    size = (1 << 20) + 1000  # reading is paused by its last piece

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await head_of(reader):
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
            writer.write(bytes(size))

    async with serving(serve) as url, HttpClient(url) as client:
        for _ in range(3):
            async with client.stream("GET", "/") as reply:
                while reply.buffered < size:
                    await asyncio.sleep(0)
                read = [len(chunk) async for chunk in reply.chunks()] if is_read else [size]
                assert sum(read) == size
            assert len((await client.request("GET", "/", timeout=10)).body) == size


async def test_waiting_for_a_server_ends_once_it_listens() -> None:
    async with serving(_silent) as url:
        pass
    port = int(url.rpartition(":")[2])
    client = HttpClient(url)
    waiting = asyncio.create_task(client.wait_until_listening())
    async with serving(_silent, port), client:
        await asyncio.wait_for(waiting, 5)


async def test_waiting_for_a_server_that_never_listens_times_out() -> None:
    async with serving(_silent) as url:
        pass
    async with HttpClient(url, connect_timeout=0.05) as client:
        with pytest.raises(SandboxUnreachable):
            await client.wait_until_listening()


async def _silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


# A server that wants our memory --------------------------------------------------------------


async def _flood(writer: asyncio.StreamWriter, piece: bytes) -> None:
    """Until the client hangs up, or 64 MiB were taken, which is far past every limit here."""
    for _ in range((64 << 20) // len(piece)):
        writer.write(piece)
        await writer.drain()


@pytest.mark.parametrize(
    ("begin", "piece"),
    [
        (b"HTTP/1.1 200 OK\r\nX: ", b"x" * 65536),
        (b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n" * 8192),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", b"X-A: b\r\n" * 8192),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"x" * 65536),
    ],
    ids=["a header", "headers", "trailers", "an extension"],
)
async def test_response_headers_and_chunk_framing_are_bounded(begin: bytes, piece: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        writer.write(begin)
        await _flood(writer, piece)

    async with serving(serve) as url, HttpClient(url, max_reply=1 << 20) as client:
        with pytest.raises((MessageTooLarge, SandboxUnreachable)) as ended:
            await client.request("GET", "/", timeout=60)
        assert "closed" not in str(ended.value), "the server had sent all that it wanted"


async def test_tiny_chunks_use_memory_only_for_their_data() -> None:
    many = 1 << 19
    chunks = b"2\r\nab\r\n" * many

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        writer.write(chunks + b"0\r\n\r\n")
        await writer.drain()
        await reader.read()

    async with serving(serve) as url, HttpClient(url) as client:
        async with client.stream("GET", "/") as reply:
            connection = reply._connection
            await connection._wait_for_change()
            assert len(connection._chunks) < 1000
            body = await reply.read()
        assert body == b"ab" * many
        assert client._buffered_bytes.current == 0


async def test_the_error_body_of_a_stream_is_bounded() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        writer.write(b"HTTP/1.1 500 No\r\n\r\n")
        await _flood(writer, b"x" * 65536)

    async with (
        serving(serve) as url,
        HttpClient(url, max_reply=1 << 20) as client,
        client.stream("GET", "/") as reply,
    ):
        with pytest.raises(MessageTooLarge):
            await reply.read()


async def test_many_concurrent_large_responses_share_a_memory_limit() -> None:
    size = 1 << 20
    is_full = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        writer.write(b"x" * (size - 1))
        await writer.drain()
        await is_full.wait()
        writer.write(b"x")
        await writer.drain()

    async with serving(serve) as url, HttpClient(url, max_reply=size) as client:
        asked = [asyncio.create_task(client.request("GET", "/")) for _ in range(10)]
        done, _ = await asyncio.wait(asked, return_when=asyncio.FIRST_EXCEPTION, timeout=30)
        is_full.set()
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert done
        assert client._buffered_bytes.current == 0
    assert sum(isinstance(each, MessageTooLarge) for each in answers) >= 7
