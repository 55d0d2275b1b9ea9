"""What the script of an app's page can do in its owner's browser: nothing but reach its app."""

from __future__ import annotations

import json
import os
import shutil
from typing import Final

import pytest
from playwright.async_api import async_playwright

from bascule.sandbox.browser.settings import BrowserSettings, find_chromium

from .serving import SessionsClient, open_local_session_hub

CHROMIUM: Final = find_chromium(BrowserSettings())
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium"),
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="makes things for other users"),
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="needs bubblewrap"),
]

TIMEOUT: Final = 60_000

_PAGE: Final = """<!doctype html><title>app</title><script type="module">
const HUB = "%(hub)s", OWN = "%(own)s", OTHER = "%(other)s";
const tried = {};
const attempt = async (name, what) => {
  try { tried[name] = String(await what()); } catch (error) { tried[name] = 'refused'; }
};
const ask = async (path, more) => {
  return (await fetch(HUB + path, { credentials: 'include', ...more })).status;
};
const socket = (path) => new Promise((resolve, reject) => {
  const made = new WebSocket(HUB.replace('http', 'ws') + path);
  made.onopen = () => resolve('open');
  made.onerror = () => reject(new Error());
});
const json = { method: 'POST', body: '{}', headers: { 'Content-Type': 'application/json' } };
const plain = { method: 'POST', mode: 'no-cors', body: '{}' };
await attempt('asset', async () => (await (await fetch('data.txt')).text()).trim());
await attempt('sessions', () => ask('/api/sessions'));
await attempt('create', () => ask('/api/sessions', json));
await attempt('create plainly', () => ask('/api/sessions', plain));
await attempt('sign out', () => ask('/sign-out', plain));
await attempt('own sandbox', () => ask(`/sandbox/${OWN}/alive`));
await attempt('own actions', () => ask(`/sandbox/${OWN}/execute_action`, json));
await attempt('other sandbox', () => ask(`/sandbox/${OTHER}/alive`));
await attempt('other app', () => ask(`/apps/${OTHER}-0/`));
await attempt('own vscode', () => ask(`/vscode/${OWN}/`));
await attempt('own vscode socket', () => socket(`/vscode/${OWN}/`));
await attempt('other vscode socket', () => socket(`/vscode/${OTHER}/`));
await attempt('hub socket', () => socket('/socket.io/?EIO=4&transport=websocket'));
await attempt('cookie', () => document.cookie);
document.title = JSON.stringify(tried);
</script>"""


@pytest.mark.parametrize("apps_origin", ["", "http://*.apps.localhost:{port}"])
async def test_an_apps_script_reaches_only_its_app(apps_origin: str) -> None:
    async with open_local_session_hub(apps_origin=apps_origin) as hub:
        tokens = [await hub.token(name, "agent", owner=name) for name in ("ada", "bob")]
        async with (
            SessionsClient(hub.url, token=tokens[0]) as ada,
            SessionsClient(hub.url, token=tokens[1]) as bob,
            async_playwright() as playwright,
        ):
            own, other = await ada.ready(), await bob.ready()
            for asker, session in ((ada, own), (bob, other)):
                page = _PAGE % {"hub": hub.url, "own": own, "other": other}
                event = {"action": "write", "args": {"path": "index.html", "content": page}}
                await asker.must("POST", f"/api/sessions/{session}/actions", event)
                await asker.run(session, "echo mine > data.txt")
                await asker.run(session, "python3 -m http.server 8000 >/dev/null 2>&1 &")
                async for name, _ in asker.events(session):
                    if name == "port.opened":
                        break
            browser = await playwright.chromium.launch(
                executable_path=CHROMIUM, args=["--no-sandbox"]
            )
            try:
                tab = await browser.new_page()
                await tab.goto(f"{hub.url}/apps/{own}-0/")
                await tab.get_by_label("Token").fill(tokens[0])
                await tab.get_by_role("button", name="Sign in").click()
                await tab.wait_for_function("document.title.startsWith('{')", timeout=TIMEOUT)
                tried = json.loads(await tab.title())
                assert tried.pop("asset") == "mine"
                assert tried.pop("cookie") in ("refused", "")
                # A request that cannot be read (status 0) may have been sent; it did nothing.
                assert set(tried.values()) <= {"refused", "0", "401", "403"}, tried
                assert [each["id"] for each in await ada.must("GET", "/api/sessions")] == [own]
                await tab.goto(f"{hub.url}/apps/{own}-0/")
                await tab.wait_for_function("document.title.startsWith('{')", timeout=TIMEOUT)
                await tab.goto(f"{hub.url}/apps/{other}-0/")
                assert "mine" not in await tab.content()
                assert not (await tab.title()).startswith("{")
            finally:
                await browser.close()
