"""An agent of OpenHands V1 debugs and renames in a window. Run by test_agent_skills.py.

Prints what the model was told after each call, as a JSON list.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bascule.adapters.openhands_v1 import use_bascule
from tests.adapters.openhands_v1.talk import call, converse, text_of

folder = sys.argv[1]
program = {"type": "debugpy", "program": f"{folder}/invoice.py", "console": "internalConsole"}
seen = converse(
    Path.cwd() / "openhands",
    use_bascule("window"),
    call("vscode_debug_start", name="Nothing"),
    call("vscode_set_breakpoints", path="rates.py", add=[{"line": 2}]),
    call("vscode_debug_start", configuration=program),
    call("vscode_debug_evaluate", expression="net * rate"),
    call("vscode_debug_step", step="out"),
    call("vscode_debug_stop"),
    call("file_editor", command="str_replace", path="rates.py", old_str="+", new_str="*"),
    call("vscode_rename_symbol", path="rates.py", line=1, symbol="nothing", new_name="tax_of"),
    call("vscode_rename_symbol", path="rates.py", line=1, symbol="tax", new_name="tax_of"),
    call("terminal", command="python3 invoice.py"),
)
sys.stdout.write(json.dumps([text_of(each) for each in seen]) + "\n")
