"""What IPython must do wherever it runs. A kind's tests subclass `IPythonSuite` and give `make`.

The kernel shares a machine with the tests, so its files and processes are looked at from both
sides.
"""

from __future__ import annotations

import asyncio
import base64
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from textwrap import dedent

import pytest

from bascule.core.actions import IPythonRun
from bascule.core.errors import CommandInvalid, InvalidShellName
from bascule.core.observations import IPythonOutput
from bascule.runtime import Verbs

from .runtime import Make, Seen, gone, settings

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
SHOW_PIXEL = f"from IPython.display import Image, display\ndisplay(Image(data={PIXEL!r}))"
STUBBORN = """
import time
print("up")
while True:
    try:
        time.sleep(600)
    except KeyboardInterrupt:
        pass
"""
INTERRUPTED_AS_IT_ENDS = """
import os, signal
kernel = get_ipython().kernel
after_request = kernel.post_handler_hook
def interrupt_first():
    os.kill(os.getpid(), signal.SIGINT)
    after_request()
kernel.post_handler_hook = interrupt_first
"""


@pytest.mark.slow
class IPythonSuite:
    @pytest.fixture
    def workspace(self, tmp_path: Path) -> Path:
        path = tmp_path / "workspace"
        path.mkdir()
        return path

    @pytest.fixture
    async def runtime(self, make: Make, workspace: Path) -> AsyncIterator[Verbs]:
        async with make(settings(workspace)) as runtime:
            yield runtime

    async def close_the_place(self, runtime: Verbs) -> None:
        """Close the runtime and, where that is another thing, the kernel behind it."""
        await runtime.aclose()

    # State and output ---------------------------------------------------------------------

    async def test_a_kernel_keeps_variables_between_cells(self, runtime: Verbs) -> None:
        await runtime.run_ipython("import math\nx = 41")
        seen = await runtime.run_ipython("math.floor(x + 1.5)")
        assert (seen.content, seen.succeeded) == ("42", True)
        assert (await runtime.run_ipython("_ + 1")).content == "43"
        assert seen.metadata.execution_count == 2

    async def test_a_cell_that_cannot_be_sent_to_a_kernel_is_rejected(self, runtime: Verbs) -> None:
        await runtime.run_ipython("x = 1")
        with pytest.raises(CommandInvalid, match="no UTF-8 form, at position 5"):
            await runtime.run_ipython("x = '\ud800'")
        assert (await runtime.run_ipython("x")).content == "1"

    async def test_the_output_has_the_format_that_openhands_agents_expect(
        self, runtime: Verbs, workspace: Path
    ) -> None:
        action = IPythonRun("print('test')")
        seen = await runtime.act(action)
        assert isinstance(seen, IPythonOutput)
        python = seen.metadata.py_interpreter_path
        assert seen.content == (
            f"test\n[Jupyter current working directory: {workspace}]\n"
            f"[Jupyter Python interpreter: {python}]"
        )
        assert (seen.cause, seen.code) == (action.id, "print('test')")
        assert seen.image_urls is None
        silent = await runtime.run_ipython("y = 1")
        assert silent.content == "[Code executed successfully with no output]"

    async def test_prints_results_and_errors_appear_in_order(self, runtime: Verbs) -> None:
        seen = await runtime.run_ipython("import sys\nprint('out', end='')\n'value'")
        assert seen.content == "out\n'value'"
        seen = await runtime.run_ipython("print('ünï 漢 🙂', file=sys.stderr)\nmissing")
        assert seen.content.startswith("ünï 漢 🙂\n")
        assert "NameError: name 'missing' is not defined" in seen.content
        assert "\x1b" not in seen.content

    async def test_output_of_a_child_program_is_returned(self, runtime: Verbs) -> None:
        """IPython reads it from a pipe beside the cell: it may come a moment after the cell."""
        seen = await runtime.run_ipython("import os\nos.system('echo program')\nos.getpid()")
        after = await runtime.run_ipython("import time; time.sleep(0.1)")
        assert "program\n" in f"{seen.content}\n{after.content}\n"

    async def test_an_error_is_marked_as_one(self, runtime: Verbs) -> None:
        seen = await runtime.run_ipython("1 / 0")
        assert not seen.succeeded
        about = seen.metadata
        assert (about.state, about.error_name) == ("failed", "ZeroDivisionError")
        assert about.error_value == "division by zero"
        broken = await runtime.run_ipython("x = = 1")
        assert (broken.metadata.state, broken.metadata.error_name) == ("failed", "SyntaxError")
        assert (await runtime.run_ipython("'usable'")).succeeded

    async def test_an_image_is_a_data_url(self, runtime: Verbs) -> None:
        seen = await runtime.run_ipython(SHOW_PIXEL)
        assert seen.image_urls is not None
        (url,) = seen.image_urls
        assert url.startswith("data:image/png;base64,")
        assert base64.b64decode(url.partition(",")[2]) == PIXEL
        assert seen.succeeded

    async def test_rich_results_are_returned_as_text(self, runtime: Verbs) -> None:
        code = "from IPython.display import *\ndisplay(Markdown('# head'))\nHTML('<b>bold</b>')"
        assert (await runtime.run_ipython(code)).content == "# head\n<b>bold</b>"
        assert (await runtime.run_ipython("{'a': [1, 2]}")).content == "{'a': [1, 2]}"
        help_text = (await runtime.run_ipython("len?")).content
        assert "Return the number of items in a container" in help_text
        assert "\x1b" not in help_text

    async def test_pip_is_the_one_of_the_kernels_python(self, runtime: Verbs) -> None:
        seen = await runtime.run_ipython("%pip --version\nimport pip\nprint(pip.__path__[0])")
        first, *_, path = seen.content.splitlines()
        assert first.startswith("pip ")
        assert path in first

    async def test_output_is_streamed_while_the_cell_runs(self, runtime: Verbs) -> None:
        seen = Seen()
        running = asyncio.create_task(
            runtime.run_ipython("print('first')\nword = input()\nprint(word)", on_progress=seen)
        )
        await seen.wait_for(b"first\n")
        assert {piece.shell for piece in seen.pieces} == {"ipython"}
        await running

    async def test_ten_megabytes_of_output_keep_head_and_tail_and_the_log_keeps_all(
        self, runtime: Verbs
    ) -> None:
        seen = await runtime.run_ipython("for n in range(100_000): print(f'{n:099d}')")
        about = seen.metadata
        assert about.output_bytes == 10_000_000
        assert len(seen.content) <= 30_000
        assert seen.content.startswith(f"{0:099d}\n{1:099d}\n")
        assert seen.content.endswith(f"\n{99_999:099d}")
        assert "bytes left out" in seen.content
        assert about.log_path is not None
        with Path(about.log_path).open("rb") as log:
            log.seek(about.log_start)
            whole = log.read(about.log_end - about.log_start)
        assert whole == b"".join(b"%099d\n" % n for n in range(100_000))

    async def test_output_limit_sets_the_length_of_cell_output(self, runtime: Verbs) -> None:
        code = "print('x' * 50_000 + 'end')"
        assert len((await runtime.run_ipython(code, output_limit=0)).content) == 50_003
        short = await runtime.run_ipython(code, output_limit=1000)
        assert len(short.content) <= 1000 + 200
        assert short.content.endswith("xend")
        with pytest.raises(CommandInvalid):
            await runtime.run_ipython("1", output_limit=-1)

    async def test_late_output_of_a_thread_is_returned_with_the_next_cell(
        self, runtime: Verbs, workspace: Path
    ) -> None:
        os.mkfifo(workspace / "gate")
        code = (
            "import threading\n"
            "def late():\n    open('gate').read(); print('late words', flush=True)\n"
            "thread = threading.Thread(target=late); thread.start()"
        )
        await runtime.run_ipython(code)
        await asyncio.to_thread((workspace / "gate").write_text, "")
        assert "late words" in (await runtime.run_ipython("thread.join()")).content

    # Time and turns -----------------------------------------------------------------------

    async def test_an_interrupt_ends_the_cell_and_keeps_the_variables(self, runtime: Verbs) -> None:
        seen = Seen()
        code = "x = 1\nprint('up')\nimport time; time.sleep(600)"
        running = asyncio.create_task(runtime.run_ipython(code, on_progress=seen))
        await seen.wait_for(b"up")
        answer = await runtime.interrupt("ipython")
        assert (answer.was_running, answer.shell) == (True, "ipython")
        about = (await running).metadata
        assert (about.state, about.error_name) == ("failed", "KeyboardInterrupt")
        assert not (await runtime.interrupt("ipython")).was_running
        assert (await runtime.run_ipython("x")).content == "1"

    async def test_an_interrupt_reaches_the_program_a_cell_runs(self, runtime: Verbs) -> None:
        seen = Seen()
        running = asyncio.create_task(runtime.run_ipython("!echo up; sleep 600", on_progress=seen))
        await seen.wait_for(b"up")
        await runtime.interrupt("ipython")
        await running
        assert (await runtime.run_ipython("'usable'")).succeeded

    async def test_cancelling_interrupts_the_cell_and_leaves_the_kernel_usable(
        self, runtime: Verbs
    ) -> None:
        await runtime.run_ipython("x = 1")
        seen = Seen()
        code = "print('up')\nimport time; time.sleep(600)"
        running = asyncio.create_task(runtime.run_ipython(code, on_progress=seen))
        await seen.wait_for(b"up")
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (await runtime.run_ipython("x")).content == "1"

    async def test_a_timeout_at_the_moment_a_cell_ends_has_no_effect(self, runtime: Verbs) -> None:
        await runtime.run_ipython("import time; kept = 1")
        for number in range(12):
            await runtime.run_ipython("time.sleep(0.05)", timeout=0.05 + number / 1000)
            # The traceback of a cell that was interrupted late may come before the answer.
            answer = await runtime.run_ipython("kept", timeout=60)
            assert answer.content.splitlines()[-1] == "1"

    async def test_an_interrupt_as_the_kernel_leaves_a_cell_does_not_end_the_kernel(
        self, runtime: Verbs
    ) -> None:
        await runtime.run_ipython("kept = 1\n" + INTERRUPTED_AS_IT_ENDS)
        answer = await runtime.run_ipython("kept")
        assert (answer.content, answer.metadata.new_kernel) == ("1", False)

    async def test_a_timed_out_cell_is_interrupted_and_returns_its_output(
        self, runtime: Verbs
    ) -> None:
        await runtime.run_ipython("x = 1")
        code = "print('partial')\nimport time; time.sleep(600)"
        seen = await runtime.run_ipython(code, timeout=3)
        assert seen.content.startswith("partial\n")
        assert "[Execution timed out (3 seconds)." in seen.content
        assert (seen.metadata.state, seen.metadata.timed_out) == ("failed", True)
        assert (await runtime.run_ipython("x")).content == "1"

    async def test_a_cell_that_ignores_interrupts_blocks_later_cells_until_killed(
        self, runtime: Verbs
    ) -> None:
        await runtime.run_ipython("1")  # the kernel has started
        seen = await runtime.run_ipython(STUBBORN, timeout=3)
        assert (seen.metadata.state, seen.metadata.timed_out) == ("running", True)
        refused = await runtime.run_ipython("1", timeout=0.2)
        assert refused.metadata.state == "refused"
        assert "NOT run" in refused.content
        assert (await runtime.interrupt("ipython", kill=True)).was_running
        again = await runtime.run_ipython("'new'")
        assert again.metadata.new_kernel
        assert again.succeeded

    async def test_cells_take_turns(self, runtime: Verbs) -> None:
        await runtime.run_ipython("seen = []")
        cells = [f"import time; time.sleep(0.01); seen.append({n}); print({n})" for n in range(5)]
        answers = await asyncio.gather(*map(runtime.run_ipython, cells))
        assert [answer.content for answer in answers] == ["0", "1", "2", "3", "4"]
        assert (await runtime.run_ipython("seen")).content == "[0, 1, 2, 3, 4]"

    async def test_a_kernel_start_delays_only_cells(self, runtime: Verbs) -> None:
        cells = [asyncio.create_task(runtime.run_ipython(f"{n}")) for n in range(3)]
        assert (await runtime.run("echo prompt")).content == "prompt\n"
        assert not any(cell.done() for cell in cells)
        assert [(await cell).content for cell in cells] == ["0", "1", "2"]

    # Death --------------------------------------------------------------------------------

    async def test_a_kernel_that_dies_is_replaced_and_the_output_says_so(
        self, runtime: Verbs
    ) -> None:
        await runtime.run_ipython("x = 1")
        died = await runtime.run_ipython("import os; os._exit(7)")
        assert died.metadata.state == "died"
        assert "exit status 7" in died.content
        after = await runtime.run_ipython("'x' in globals()")
        assert after.metadata.new_kernel
        assert after.content.startswith("False\n[This is a new kernel")
        assert not (await runtime.run_ipython("1")).metadata.new_kernel

    async def test_a_kernel_killed_between_cells_is_replaced_and_reported(
        self, runtime: Verbs
    ) -> None:
        pid = int((await runtime.run_ipython("import os; os.getpid()")).content)
        os.kill(pid, signal.SIGKILL)
        await gone(pid)
        after = await runtime.run_ipython("'fresh'")
        if after.metadata.state == "died":  # it was given before the death was known
            after = await runtime.run_ipython("'fresh'")
        assert after.metadata.new_kernel
        assert after.content.startswith("'fresh'\n")

    async def test_exit_ends_the_kernel(self, runtime: Verbs) -> None:
        await runtime.run_ipython("x = 1")
        assert "next cell gets a new one" in (await runtime.run_ipython("exit")).content
        assert (await runtime.run_ipython("'x' in globals()")).metadata.new_kernel

    async def test_closing_ends_the_kernel_and_what_it_started(
        self, make: Make, workspace: Path
    ) -> None:
        code = (
            "import os, subprocess\n"
            "other = subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
            "print(os.getpid(), os.getppid(), other.pid)"
        )
        async with make(settings(workspace)) as runtime:
            pids = [int(word) for word in (await runtime.run_ipython(code)).content.split()]
            await self.close_the_place(runtime)
        for pid in pids:
            await gone(pid)

    # Input --------------------------------------------------------------------------------

    async def test_a_question_is_answered_by_the_next_action(self, runtime: Verbs) -> None:
        asked = await runtime.run_ipython("name = input('name? ')\nprint('hello', name)")
        assert asked.metadata.state == "input"
        assert asked.content.startswith("name?")
        assert "is_input" in asked.content
        answered = await runtime.run_ipython("Ada", is_input=True)
        assert (answered.content, answered.succeeded) == ("hello Ada", True)

    async def test_several_questions_are_answered_in_turn(self, runtime: Verbs) -> None:
        code = "from getpass import getpass\na, b = input('a'), getpass('b')\nprint(a + b)"
        assert (await runtime.run_ipython(code)).metadata.state == "input"
        assert (await runtime.run_ipython("1", is_input=True)).metadata.state == "input"
        assert (await runtime.run_ipython("2", is_input=True)).content == "12"

    async def test_another_cell_interrupts_an_unanswered_input_prompt(self, runtime: Verbs) -> None:
        await runtime.run_ipython("x = 1; input()")
        seen = await runtime.run_ipython("x")
        assert seen.content.startswith("1\n")
        assert "interrupted" in seen.content
        idle = await runtime.run_ipython("Ada", is_input=True)
        assert idle.metadata.state == "idle"

    async def test_an_interrupted_input_prompt_that_ends_late_is_still_reported(
        self, runtime: Verbs
    ) -> None:
        """A busy machine takes seconds to end it; so does this cell, on any machine."""
        code = """
            import signal, time
            x = 1
            try:
                input()
            except KeyboardInterrupt:
                before = signal.signal(signal.SIGINT, signal.SIG_IGN)
                time.sleep(3)
                signal.signal(signal.SIGINT, before)
        """
        await runtime.run_ipython(dedent(code))
        seen = await runtime.run_ipython("x")
        assert seen.content.startswith("1\n")
        assert "interrupted" in seen.content

    # Directory ----------------------------------------------------------------------------

    async def test_the_kernel_follows_the_shells_working_directory(
        self, runtime: Verbs, workspace: Path
    ) -> None:
        await runtime.run("mkdir -p one two && cd one")
        where = "import os; print(os.getcwd())"
        assert (await runtime.run_ipython(where)).content == f"{workspace}/one"
        await runtime.run("cd ../two")
        seen = await runtime.run_ipython(where)
        assert seen.content == seen.metadata.working_dir == f"{workspace}/two"
        await runtime.run_ipython("os.chdir('/')")
        assert (await runtime.run_ipython(where)).content == "/"

    async def test_init_code_runs_once_in_every_kernel(self, runtime: Verbs) -> None:
        def cell(code: str) -> IPythonRun:
            return IPythonRun(code, kernel_init_code="runs = globals().get('runs', 0) + 1")

        await runtime.act(cell("runs"))
        assert (await runtime.act(cell("print(runs)"))).content.startswith("1\n")
        await runtime.act(cell("exit"))
        assert (await runtime.act(cell("print(runs)"))).content.startswith("1\n")

    async def test_no_shell_can_be_named_ipython(self, runtime: Verbs) -> None:
        with pytest.raises(InvalidShellName, match="run_ipython"):
            await runtime.run("true", shell="ipython")
