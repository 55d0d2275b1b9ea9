"""Uses the home directory of E2B's sandboxes in paths, commands and cells."""

from __future__ import annotations

import sys

from e2b import SandboxException
from e2b_code_interpreter import Sandbox

with Sandbox.create(timeout=600) as box:
    box.files.write("/home/user/a.txt", "absolute\n")
    assert box.commands.run("cat a.txt; pwd; cd; pwd").stdout.split() == [
        "absolute",
        "/home/user",
        "/home/user",
    ]
    assert box.run_code("open('a.txt').read()").text == "'absolute\\n'"
    assert box.files.get_info("a.txt").path == "/home/user/a.txt"
    assert [each.path for each in box.files.list("/home/user")] == ["/home/user/a.txt"]
    assert box.files.read("/workspace/a.txt") == "absolute\n"
    problem = ""
    try:
        box.commands.run("true", user="root")
    except SandboxException as error:
        problem = str(error)
    assert "root" in problem, problem
    box.commands.run("test -w /home/user && test ! -w /etc")
sys.stdout.write("passed\n")
