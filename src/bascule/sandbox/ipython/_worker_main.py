"""The worker process: one IPython kernel, controlled by JSON lines.

The worker runs as `python _worker_main.py DIRECTORY [--socket] [--rich] [--again]` with the
interpreter for the cells. It imports nothing from the package and needs only ipykernel. Both the
sandbox and the VS Code extension, which ships a copy, start a worker. The worker reads requests
from stdin and answers on stdout; with `--socket`, stdin is a socket used for both. `--again`: an
earlier worker had a kernel, whose variables are lost. At the end of stdin, the kernel, its process
group and the worker end. DIRECTORY holds the kernel's sockets; the worker removes it at the end.

Requests:
- `run {id, code, cwd, start_dir, timeout, prelude, init, is_input}`
- `interrupt {id, kill}`, `cancel {id}`

Answers:
- first `ready {python}` or `failed {message, missing}`
- `text {id, text}`: output of the cell as text, while it runs
- `begun {cell, count}`, `output {cell, output}`, `over {cell, error}`: the same for a notebook,
  with `--rich`; `cell` is the id of the request that started the cell
- `done {id, state, error, timed_out, new_kernel, notes, images, cwd, count}`
- `interrupted {id, was_running}`

One cell runs at a time; others wait. The first cell starts the kernel. After a crash, the next cell
starts a new kernel. A cell that times out or is cancelled is interrupted. A cell that ignores the
interrupt continues, and the kernel stays busy. When a cell asks for input, its request is answered
with the prompt. The next request answers the prompt (`is_input`) or interrupts the cell.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import secrets
import shutil
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

KERNEL_MAIN = str(Path(__file__).with_name("_kernel_main.py"))
START_TIMEOUT = 60.0
"""Timeout in seconds for the first answer of a kernel; a busy machine is slow."""
READY_POLL_INTERVAL = 0.3
"""Interval in seconds at which a starting kernel is asked whether it is ready."""
INTERRUPT_TIMEOUTS = (1.0, 1.0)
"""Seconds that a cell has to end after each interrupt. A cell that still runs after the last one
counts as ignoring interrupts."""
SETTLE_TIME = 0.02
"""Seconds of silence after an input prompt, in which earlier output may still arrive."""
DRAIN_TIME = 0.1
"""Seconds of silence after a kernel's exit, in which its last output may still arrive."""
MAX_IMAGE_CHARS = 24 << 20
"""Maximum characters of images in one answer; a note gives the number of omitted images."""
MAX_LATE_OUTPUT = 64 << 10
"""Maximum characters kept of output between cells."""
MAX_IPC_DIR = 80
"""Maximum length of a directory for unix sockets, whose paths are limited."""
INIT_FAILURE_NOTES = {
    "prelude": "The code that every kernel runs first failed",
    "init": "kernel_init_code failed",
}
"""Notes that report failed initialization code, by the request's field that holds the code."""

IMAGE_TYPES = ("image/png", "image/jpeg", "image/gif", "image/webp")
TEXT_TYPES = ("text/markdown", "text/latex", "text/html", "image/svg+xml", "application/json")
"""Media types used instead of an uninformative plain text, best first."""

_COLOURS = re.compile(r"\x1b\[[0-9;:]*m")
_UNINFORMATIVE = re.compile(r"<IPython\.core\.display\.\w+ object>")


SendMessage = Callable[..., None]
"""Sends a message to the parent process: its kind and its fields."""


# The kernel -------------------------------------------------------------------------------


class KernelProcess:
    """The kernel process that runs cells, from `start` until it exits."""

    def __init__(self, directory: Path, on_input: Callable[[Cell], None]) -> None:
        self._directory = directory
        self._on_input = on_input
        self._cells: dict[str, Cell] = {}
        self._is_ready = asyncio.Event()
        self._ready_queries: set[str] = set()
        self._end_queries: dict[str, Cell] = {}
        self._ready_channels: set[str] = set()
        self._readers: list[asyncio.Task[None]] = []
        self._message_received = asyncio.Event()
        self.running: Cell | None = None
        self.late: Callable[[str], None] = ignore
        self.inits: set[str] = set()
        self.is_introduced = False
        """A caller has been told that this is a new kernel."""
        self.starting: asyncio.Future[str | None]
        self._process: asyncio.subprocess.Process | None = None
        """None until `start` has started the process. Requests may be cancelled before that."""
        self.dead = asyncio.Event()
        self.status = 0

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    async def start(self, cwd: str) -> str | None:
        """Start the kernel. Returns None once it answers, or the reason of the failure."""
        try:
            process, connection_file = await self._start_process(cwd)
        except OSError as error:
            return f"the kernel could not be started: {error}"
        self._process = process
        self._connect(process, connection_file)
        return await self._wait_for_channels()

    async def _start_process(self, cwd: str) -> tuple[asyncio.subprocess.Process, str]:
        """Returns the kernel's process and its connection file."""
        from jupyter_client.connect import write_connection_file

        file, transport = await asyncio.to_thread(self._connection_file)
        name = str(file)
        self._stderr_path = file.with_suffix(".err")
        write_connection_file(
            name,
            transport=transport,
            ip=f"{name}-ipc" if transport == "ipc" else "127.0.0.1",
            key=secrets.token_hex(16).encode(),
        )
        with self._stderr_path.open("wb") as stderr:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-Xfrozen_modules=off", KERNEL_MAIN, "-f", name),
                "--HistoryManager.hist_file=:memory:",
                cwd=cwd,
                env=kernel_environment(cwd),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=stderr,
                start_new_session=True,
            )
        return process, name

    def _connect(self, process: asyncio.subprocess.Process, connection_file: str) -> None:
        from jupyter_client.asynchronous.client import AsyncKernelClient

        self._client = client = AsyncKernelClient()
        client.load_connection_file(connection_file)
        # Unlimited receive queue: by default, ZeroMQ drops output that arrives faster than we read.
        client.context.rcvhwm = 0
        client.context.reconnect_ivl = 10
        client.start_channels(hb=False)
        self._readers = [
            asyncio.ensure_future(work)
            for work in (
                self._watch(process),
                self._listen(client.shell_channel, self._on_reply),
                self._listen(client.iopub_channel, self._on_iopub),
                self._listen(client.stdin_channel, self._on_question),
            )
        ]

    def execute(self, cell: Cell, *, quietly: bool = False) -> None:
        content = {
            "code": cell.code,
            "silent": False,
            "store_history": not quietly,
            "user_expressions": {},
            "allow_stdin": not quietly,
            "stop_on_error": False,
        }
        self._cells[self._send(self._client.shell_channel, "execute_request", content)] = cell
        self.running = cell

    def answer(self, text: str) -> None:
        self._send(self._client.stdin_channel, "input_reply", {"value": text})

    def signal(self, number: int) -> None:
        """Signal the kernel and its child processes, like a terminal does."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def cwd(self) -> str:
        """The kernel's working directory; "" if there is no process."""
        if self._process is None:
            return ""
        try:
            return os.readlink(f"/proc/{self._process.pid}/cwd")  # noqa: PTH115
        except OSError:
            return ""

    async def settle(self) -> None:
        """Wait for output that was printed before an input prompt. Output and prompt have different
        channels, so the output may arrive later."""
        self._message_received.clear()
        while await first_of(self._message_received.wait(), timeout=SETTLE_TIME):
            self._message_received.clear()

    def log_tail(self) -> str:
        try:
            return self._stderr_path.read_text(errors="replace")[-2000:].strip()
        except OSError:
            return ""

    async def end(self) -> None:
        if self._process is None:
            # Cancelling also ends a process that is just being started.
            self.starting.cancel()
            await asyncio.wait([self.starting])
            if self._process is None:
                self.dead.set()
                return
        self.signal(signal.SIGKILL)
        await self.dead.wait()

    def _connection_file(self) -> tuple[Path, str]:
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_short = len(str(self._directory)) <= MAX_IPC_DIR
        file = self._directory / f"k{secrets.token_hex(4)}"
        return file, "ipc" if is_short and sys.platform != "win32" else "tcp"

    async def _wait_for_channels(self) -> str | None:
        """Wait until the kernel answers on both channels, shell and iopub; otherwise the first
        output could be lost."""
        deadline = asyncio.get_running_loop().time() + START_TIMEOUT
        while not self._is_ready.is_set():
            if self.dead.is_set():
                return f"the kernel ended at once, {describe_exit(self.status)}: {self.log_tail()}"
            if asyncio.get_running_loop().time() > deadline:
                await self.end()
                return (
                    f"the kernel did not answer within {START_TIMEOUT:g} seconds: {self.log_tail()}"
                )
            self._ready_queries.add(
                self._send(self._client.shell_channel, "kernel_info_request", {})
            )
            await first_of(self._is_ready.wait(), self.dead.wait(), timeout=READY_POLL_INTERVAL)
        return None

    async def _watch(self, process: asyncio.subprocess.Process) -> None:
        """Handle the exit of the kernel, after all its output has been read."""
        self.status = await process.wait()
        while await first_of(self._message_received.wait(), timeout=DRAIN_TIME):
            self._message_received.clear()
        self.signal(signal.SIGKILL)  # its remaining child processes
        self.dead.set()
        if self.running is not None:
            self.running.end()
            self.running = None
        for reader in self._readers[1:]:
            reader.cancel()
        self._client.stop_channels()

    async def _listen(self, channel: Any, handle: Callable[[str, Any, str], None]) -> None:
        while True:
            message = await channel.get_msg()
            self._message_received.set()
            parent = message["parent_header"].get("msg_id", "")
            handle(message["header"]["msg_type"], message["content"], parent)

    def _send(self, channel: Any, kind: str, content: dict[str, Any]) -> str:
        """Send a message. The client's own methods bypass the asyncio socket that `_listen` waits
        on, which then might never wake up for the answer."""
        message = self._client.session.msg(kind, content)
        channel.socket.send_multipart(self._client.session.serialize(message))
        return str(message["header"]["msg_id"])

    def _on_reply(self, kind: str, content: Any, parent: str) -> None:
        if parent in self._ready_queries:
            self._mark_channel_ready("shell")
        elif (cell := self._cells.get(parent)) is not None and kind == "execute_reply":
            cell.on_reply(content)
            self._end_if_complete(parent, cell)

    def _on_iopub(self, kind: str, content: Any, parent: str) -> None:
        cell = self._cells.get(parent)
        if parent in self._ready_queries:
            self._mark_channel_ready("iopub")
        elif cell is None:
            if kind == "stream":
                self.late(content["text"])
            elif kind == "status" and content["execution_state"] == "idle":
                self._end_unreplied(self._end_queries.pop(parent, None))
        elif kind == "status":
            cell.is_idle = content["execution_state"] == "idle"
            self._end_if_complete(parent, cell)
        elif kind == "execute_input":
            # From here on an interrupt reaches the cell; the kernel ignores earlier ones.
            cell.begin(content["execution_count"])
        else:
            cell.on_output(kind, content)

    def _on_question(self, kind: str, content: Any, parent: str) -> None:
        cell = self._cells.get(parent)
        if cell is not None and kind == "input_request":
            cell.on_question(content["prompt"])
            self._on_input(cell)

    def _mark_channel_ready(self, channel: str) -> None:
        self._ready_channels.add(channel)
        if self._ready_channels == {"shell", "iopub"}:
            self._is_ready.set()

    def ask_if_over(self, cell: Cell) -> None:
        """Send a request whose answer shows that the cell is over.

        A signal that arrives just as a cell ends can suppress its reply. The kernel answers this
        request only after the cell, so the answer counts as the end of the cell.
        """
        self._end_queries[self._send(self._client.shell_channel, "kernel_info_request", {})] = cell

    def _end_unreplied(self, cell: Cell | None) -> None:
        for parent, each in list(self._cells.items()):
            if each is cell:
                cell.is_replied = cell.is_idle = True
                self._end_if_complete(parent, cell)

    def _end_if_complete(self, parent: str, cell: Cell) -> None:
        """End the cell after both its reply and the idle status; the reply may precede output."""
        if cell.is_replied and cell.is_idle:
            del self._cells[parent]
            if self.running is cell:
                self.running = None
            cell.end()


class Cell:
    """One execution of a cell. Its output goes to the request that waits for the cell."""

    def __init__(
        self,
        request_id: str,
        code: str,
        *,
        send_message: SendMessage,
        late: Callable[[str], None],
        is_rich: bool,
    ) -> None:
        self.name = self.request_id = request_id
        self.code = code
        self.begun = asyncio.Event()
        self.over = asyncio.Event()
        self.asked = asyncio.Event()
        self.is_replied = False
        self.is_idle = False
        self.is_abandoned = False
        """The cell was interrupted but did not end."""
        self.wants_exit = False
        self.count: int | None = None
        self.error: dict[str, str] | None = None
        self.images: list[str] = []
        self.images_left_out = 0
        self._send_message = send_message
        self.late = late
        self._is_rich = is_rich
        self._at_line_start = True

    def begin(self, count: int) -> None:
        self.count = count
        self.begun.set()
        self._send("begun", count=count)

    def end(self) -> None:
        self.over.set()
        self._send("over", error=self.error)

    def on_output(self, kind: str, content: Any) -> None:
        if kind == "stream":
            self.text(content["text"])
        elif kind in ("display_data", "execute_result", "update_display_data"):
            self._take_images(content["data"])
            self.line(text_of(content["data"]))
        elif kind == "error":
            self.error = {"name": content["ename"], "value": content["evalue"]}
            self.line(_COLOURS.sub("", "\n".join(content["traceback"])))
        elif kind != "clear_output":
            return
        self._send("output", output={"output_type": kind, **content})

    def on_reply(self, content: Any) -> None:
        self.is_replied = True
        if content["status"] != "ok" and self.error is None:
            name = content.get("ename", "Aborted")
            self.error = {"name": name, "value": content.get("evalue", "")}
        for payload in content.get("payload") or ():
            if payload.get("source") == "page":  # the help text of `name?`
                self.line(_COLOURS.sub("", text_of(payload.get("data", {}))))
            elif payload.get("source") == "ask_exit":
                self.wants_exit = True

    def on_question(self, prompt: str) -> None:
        self.text(prompt)
        self._at_line_start = True  # later output belongs to another answer
        self.asked.set()

    def text(self, text: str) -> None:
        if text:
            self._at_line_start = text.endswith("\n")
            if self.request_id:
                self._send_message("text", id=self.request_id, text=text)
            else:
                self.late(text)

    def line(self, text: str) -> None:
        """Write a separate line, even after a `print` without newline."""
        if text:
            self.text(("" if self._at_line_start else "\n") + text.rstrip("\n") + "\n")

    def _send(self, kind: str, **message: Any) -> None:
        if self._is_rich:
            self._send_message(kind, cell=self.name, **message)

    def _take_images(self, bundle: Any) -> None:
        for kind in IMAGE_TYPES:
            data = bundle.get(kind)
            if not isinstance(data, str):
                continue
            if sum(map(len, self.images)) + len(data) > MAX_IMAGE_CHARS:
                self.images_left_out += 1
            else:
                self.images.append(f"data:{kind};base64,{''.join(data.split())}")
            return


def text_of(bundle: Any) -> str:
    """A result as text: its plain text, or another representation if the plain text is not
    informative."""
    plain = str(bundle.get("text/plain", ""))
    if plain and not _UNINFORMATIVE.fullmatch(plain):
        return plain
    for kind in TEXT_TYPES:
        if (found := bundle.get(kind)) is not None:
            return found if isinstance(found, str) else json.dumps(found, indent=2)
    return plain


# Requests ---------------------------------------------------------------------------------


class KernelWorker:
    """Executes requests and replies to each of them."""

    def __init__(
        self, directory: Path, send_message: SendMessage, *, is_rich: bool, had_kernel: bool
    ) -> None:
        self._directory = directory
        self._send_message = send_message
        self._is_rich = is_rich
        self._requests: dict[str, asyncio.Task[None]] = {}
        self._turn = asyncio.Lock()
        self._kernel: KernelProcess | None = None
        self._had_kernel = had_kernel
        self._waiting: Cell | None = None
        self._late = ""
        self._last_shell_cwd: str | None = None

    def take(self, request: dict[str, Any]) -> None:
        kind = request["op"]
        if kind == "cancel":
            if task := self._requests.get(request["id"]):
                # Later, because a task that is cancelled before its first step sends no answer.
                asyncio.get_running_loop().call_soon(task.cancel)
            return
        work = self._run(request) if kind == "run" else self._interrupt(request)
        task = self._requests[request["id"]] = asyncio.ensure_future(work)
        task.add_done_callback(lambda _: self._requests.pop(request["id"], None))

    async def end(self) -> None:
        if self._kernel is not None and not self._kernel.dead.is_set():
            await self._kernel.end()

    async def _run(self, request: dict[str, Any]) -> None:
        reply = CellReply(request["id"])
        cell: Cell | None = None
        try:
            if request["is_input"]:
                cell = self._answer_question(request, reply)
            else:
                async with self._turn:
                    if await self._wait_until_free(request, reply):
                        cell = await self._begin(request, reply)
            if cell is not None:
                await self._follow(cell, request, reply)
        except asyncio.CancelledError:
            running = None if self._kernel is None else self._kernel.running
            if running is not None and running.request_id == request["id"]:
                await self._stop(running)
            reply.state = "cancelled"
        except Exception as error:  # noqa: BLE001 - every request is answered
            reply.state = "lost"
            reply.notes.append(f"{type(error).__name__}: {error}")
        kernel = self._kernel
        reply.cwd = kernel.cwd() if kernel else ""
        self._send_message("done", **reply.__dict__)

    async def _wait_until_free(self, request: dict[str, Any], reply: CellReply) -> bool:
        """Wait until the kernel is free; False if it is still busy after the timeout."""
        interrupted: Cell | None = None
        while (kernel := self._kernel) is not None and (busy := kernel.running) is not None:
            if busy is self._waiting:
                self._waiting = None
                busy.late = ignore  # drop the cell's traceback: our note says the same
                await self._stop(busy)
                interrupted = busy
            elif not busy.is_abandoned:
                await first_of(busy.over.wait(), busy.asked.wait(), kernel.dead.wait())
            elif not await first_of(busy.over.wait(), timeout=request["timeout"]):
                reply.state = "refused"
                reply.notes.append(
                    "[This cell was NOT run. The kernel is still busy with an earlier one that "
                    f"does not react to interrupts. {how_to_end_kernel(kernel.pid)}]"
                )
                return False
        # Check here, not right after `_stop`: on a busy machine the cell may end later.
        if interrupted is not None and interrupted.over.is_set():
            reply.notes.append(
                "[The cell before waited for input. It was interrupted to run this one.]"
            )
        return True

    async def _begin(self, request: dict[str, Any], reply: CellReply) -> Cell | None:
        kernel = await self._ready_kernel(request, reply)
        if kernel is None:
            return None
        cell = Cell(
            *(request["id"], request["code"]),
            send_message=self._send_message,
            late=self._add_late_output,
            is_rich=self._is_rich,
        )
        if self._late:
            cell.line(f"[Printed since the cell before:]\n{self._late}")
            self._late = ""
        kernel.execute(cell)
        return cell

    async def _ready_kernel(
        self, request: dict[str, Any], reply: CellReply
    ) -> KernelProcess | None:
        kernel = self._kernel
        if kernel is None or kernel.dead.is_set():
            kernel = self._kernel = KernelProcess(self._directory, self._set_waiting)
            kernel.late = self._add_late_output
            self._late = ""
            where = next(
                (p for p in (request["cwd"], request["start_dir"]) if p and is_dir(p)), "/"
            )
            self._last_shell_cwd = request["cwd"]
            kernel.starting = asyncio.ensure_future(kernel.start(where))
        # If this caller is cancelled, the start continues for the next one.
        if error := await asyncio.shield(kernel.starting):
            self._kernel = None
            reply.state = "lost"
            reply.notes.append(error)
            return None
        if not kernel.is_introduced and self._had_kernel:
            reply.new_kernel = True
            reply.notes.append(
                "[This is a new kernel: variables and imports of the one before are gone.]"
            )
        kernel.is_introduced = self._had_kernel = True
        if request["cwd"] is not None and request["cwd"] != self._last_shell_cwd:
            self._last_shell_cwd = request["cwd"]
            code = f"__import__('os').chdir({request['cwd']!r})"
            await self._prepare(kernel, code, reply, "The kernel could not follow the shell")
        for name, failure_note in INIT_FAILURE_NOTES.items():
            init_code = request.get(name)
            if init_code and init_code not in kernel.inits:
                kernel.inits.add(init_code)
                await self._prepare(kernel, init_code, reply, failure_note)
        return kernel

    async def _prepare(
        self, kernel: KernelProcess, code: str, reply: CellReply, failure_note: str
    ) -> None:
        cell = Cell("", code, send_message=ignore, late=ignore, is_rich=False)
        kernel.execute(cell, quietly=True)
        await first_of(cell.over.wait(), kernel.dead.wait())
        if cell.error is not None:
            reply.notes.append(f"[{failure_note}: {cell.error['name']}: {cell.error['value']}]")

    def _answer_question(self, request: dict[str, Any], reply: CellReply) -> Cell | None:
        cell, self._waiting = self._waiting, None
        if cell is None or self._kernel is None:
            reply.state = "idle"
            reply.notes.append("ERROR: No cell waits for input.")
            return None
        cell.request_id = request["id"]
        cell.asked.clear()
        late, self._late = self._late, ""
        cell.text(late)
        self._kernel.answer(request["code"].rstrip("\n"))
        return cell

    async def _follow(self, cell: Cell, request: dict[str, Any], reply: CellReply) -> None:
        """Wait until the cell ends, asks for input or times out; fill in the reply."""
        kernel = self._kernel
        assert kernel is not None
        if not await first_of(cell.over.wait(), cell.asked.wait(), timeout=request["timeout"]):
            reply.timed_out = True
            was_interrupted = await self._stop(cell)
            reply.notes.append(timeout_note(request["timeout"], was_interrupted, kernel.pid))
        elif cell.asked.is_set():
            await kernel.settle()
        reply.take(cell)
        if not cell.over.is_set():
            cell.request_id = ""  # its later output goes to the next request
        if cell.over.is_set():
            if kernel.dead.is_set() and not cell.is_replied:
                reply.state = "died"
                reply.notes.append(
                    f"[The kernel died, {describe_exit(kernel.status)}. All variables are gone; "
                    "the next cell gets a new kernel.]"
                )
            elif cell.wants_exit:
                await kernel.end()
                reply.notes.append("[The kernel was ended; the next cell gets a new one.]")
        elif cell.asked.is_set():
            reply.state = "input"
            reply.notes.append(
                "[The cell asks for input and waits. Answer with run_ipython and is_input, the "
                "answer as code; any other cell interrupts it.]"
            )
        else:
            reply.state = "running"

    async def _stop(self, cell: Cell) -> bool:
        """Interrupt the cell; False if it does not end."""
        kernel = self._kernel
        assert kernel is not None
        await first_of(cell.begun.wait(), cell.over.wait(), timeout=INTERRUPT_TIMEOUTS[0])
        for timeout in INTERRUPT_TIMEOUTS:
            if cell.over.is_set():
                return True
            kernel.signal(signal.SIGINT)
            kernel.ask_if_over(cell)
            if await first_of(cell.over.wait(), timeout=timeout):
                return True
        cell.is_abandoned = True
        return False

    async def _interrupt(self, request: dict[str, Any]) -> None:
        kernel = self._kernel
        cell = None if kernel is None else kernel.running
        if cell is not None and kernel is not None:
            if request["kill"]:
                await kernel.end()
            else:
                await first_of(cell.begun.wait(), cell.over.wait())
                kernel.signal(signal.SIGINT)
                kernel.ask_if_over(cell)
                if cell is self._waiting:
                    self._waiting = None
        self._send_message("interrupted", id=request["id"], was_running=cell is not None)

    def _set_waiting(self, cell: Cell) -> None:
        self._waiting = cell

    def _add_late_output(self, text: str) -> None:
        """Handle output of a thread that outlived its cell: add it to the current or next cell."""
        running = self._kernel.running if self._kernel else None
        if running is not None and running.request_id:
            running.text(text)
        else:
            self._late = (self._late + text)[-MAX_LATE_OUTPUT:]


class CellReply:
    """The reply to a request."""

    def __init__(self, request_id: str) -> None:
        self.id = request_id
        self.state = "done"
        self.error: dict[str, str] | None = None
        self.timed_out = False
        self.new_kernel = False
        self.notes: list[str] = []
        self.images: list[str] = []
        self.cwd = ""
        self.count: int | None = None

    def take(self, cell: Cell) -> None:
        self.error, self.count = cell.error, cell.count
        self.images, cell.images = cell.images, []
        if cell.images_left_out:
            self.notes.append(f"[… {cell.images_left_out} more images left out …]")
        if cell.error is not None:
            self.state = "failed"


def ignore(*_: Any, **__: Any) -> None:
    """Ignores all arguments."""


def timeout_note(seconds: float, was_interrupted: bool, pid: int) -> str:
    next_step = (
        "The cell was interrupted; variables are kept. Give it a longer timeout, or run long work "
        "in a shell."
        if was_interrupted
        else f"The cell does not react to interrupts and still runs. {how_to_end_kernel(pid)}"
    )
    return f"[Execution timed out ({seconds:g} seconds). {next_step}]"


def how_to_end_kernel(pid: int) -> str:
    return (
        "Wait with another cell, or end the kernel with an interrupt action (shell 'ipython', "
        f"kill) or `kill -9 {pid}` in a shell; variables are lost then."
    )


def describe_exit(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = str(-status)
    return f"killed by {name}" + (", maybe out of memory" if name == "SIGKILL" else "")


def kernel_environment(cwd: str) -> dict[str, str]:
    env = {**os.environ, "JPY_PARENT_PID": str(os.getpid()), "PWD": cwd}
    # With this variable, ipykernel would not capture the output of programs that a cell starts.
    env.pop("PYTEST_CURRENT_TEST", None)
    return env


def is_dir(path: str) -> bool:
    return os.path.isdir(path)  # noqa: PTH112


async def first_of(*waits: Awaitable[Any], timeout: float | None = None) -> bool:
    """Wait until one of `waits` is done; False after the timeout."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        return bool(done)
    finally:
        for task in tasks:
            task.cancel()


# The connection to the parent process -----------------------------------------------------


async def open_streams(is_socket: bool) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Move stdin and stdout to other descriptors, where a stray `print` cannot write."""
    limit = 1 << 30  # bytes of a request, which is one line
    if is_socket:
        line = socket.socket(fileno=os.dup(0))
        streams = await asyncio.open_connection(sock=line, limit=limit)
    else:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=limit)
        protocol = asyncio.StreamReaderProtocol(reader)
        await loop.connect_read_pipe(lambda: protocol, os.fdopen(os.dup(0), "rb", 0))
        transport, _ = await loop.connect_write_pipe(
            asyncio.streams.FlowControlMixin, os.fdopen(os.dup(1), "wb", 0)
        )
        streams = reader, asyncio.StreamWriter(transport, _, reader, loop)
    devnull = os.open(os.devnull, os.O_RDWR)
    os.dup2(devnull, 0)
    os.dup2(2 if not is_socket else devnull, 1)
    return streams


def missing_packages() -> Sequence[str]:
    from importlib.util import find_spec

    return [name for name in ("ipykernel", "jupyter_client") if find_spec(name) is None]


async def serve(directory: Path, flags: set[str]) -> None:
    reader, writer = await open_streams("--socket" in flags)

    def send_message(kind: str, **message: Any) -> None:
        if not writer.transport.is_closing():
            writer.write(json.dumps({"op": kind, **message}).encode() + b"\n")

    if missing_names := missing_packages():
        send_message(
            "failed",
            missing=missing_names,
            message=f"IPython cells need {' and '.join(missing_names)}, which this Python does not "
            f"have: {sys.executable} -m pip install ipykernel",
        )
    else:
        send_message("ready", python=sys.executable)
        worker = KernelWorker(
            directory, send_message, is_rich="--rich" in flags, had_kernel="--again" in flags
        )
        while line := await reader.readline():
            worker.take(json.loads(line))
        await worker.end()
    writer.close()


def main() -> None:
    del sys.path[0]  # the directory of this file, whose modules must not be importable
    directory, flags = Path(sys.argv[1]), set(sys.argv[2:])
    # A separate IPython directory, so that cells do not depend on the user's configuration.
    os.environ["IPYTHONDIR"] = str(directory / "ipython")
    try:
        asyncio.run(serve(directory, flags))
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main()
