"""Have OpenHands' own remote runtime make a file, and print where it says that VS Code is.

`show_vscode.py STORE`, by tests/e2e, in the environment that has OpenHands and with the variables
that choose the runtime. It is left as it is.
"""

from __future__ import annotations

import os
import sys

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

from openhands.core.config import load_openhands_config
from openhands.core.setup import create_runtime
from openhands.events.action import FileWriteAction
from openhands.events.observation import FileWriteObservation
from openhands.utils.async_utils import call_async_from_sync


def main(store: str) -> None:
    config = load_openhands_config()
    config.file_store, config.file_store_path = "local", store
    config.sandbox.keep_runtime_alive = True
    runtime = create_runtime(config, sid="shown", headless_mode=False)
    call_async_from_sync(runtime.connect)
    seen = runtime.run_action(FileWriteAction("/workspace/by-openhands.txt", "hello\n"))
    assert isinstance(seen, FileWriteObservation), seen
    print(runtime.vscode_url)  # noqa: T201
    runtime.close()


if __name__ == "__main__":
    main(sys.argv[1])
