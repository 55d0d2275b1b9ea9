"""Runs code through smolagents' executor for E2B."""

from __future__ import annotations

import sys

from smolagents import AgentError
from smolagents.monitoring import AgentLogger, LogLevel
from smolagents.remote_executors import E2BExecutor

executor = E2BExecutor([], AgentLogger(level=LogLevel.OFF), timeout=600)
try:
    executor.send_variables({"numbers": [1, 2, 3]})
    ran = executor("print('sum', sum(numbers))\nmax(numbers)")
    assert (ran.output, ran.logs, ran.is_final_answer) == ("3", "sum 6\n", False), ran
    problem = ""
    try:
        executor("1 / 0")
    except AgentError as error:
        problem = str(error)
    assert "ZeroDivisionError" in problem, problem
finally:
    executor.cleanup()
sys.stdout.write("passed\n")
