"""Forks are shown side by side, merged and deleted on the hub's page."""

from __future__ import annotations

from playwright.async_api import expect

from tests.hub.sessions.serving import SessionsClient

from .conftest import TIMEOUT, Screen

expect.set_options(timeout=TIMEOUT)


async def test_a_user_sees_overlapping_forks_and_merges_one(
    screen: Screen, admin: SessionsClient
) -> None:
    session = await admin.ready({"name": "work"})
    await admin.run(session, "printf 'one\\ntwo\\n' > notes")
    made = await admin.must("POST", f"/api/sessions/{session}/forks", {"count": 2})
    one, two = (each["id"] for each in made)
    for fork in (one, two):
        await admin.reaches(fork, "ready")
        await admin.run(fork, f"echo {fork} >> notes; echo {fork} > {fork}")
    page = screen.page
    await screen.sign_in(f"/sessions/{session}")
    await screen.tab("Forks")
    forks = page.locator(".forks")
    await expect(forks.locator(".controls .badge")).to_have_text(
        "Overlap: notes (work-fork-1, work-fork-2)"
    )
    first = forks.get_by_role("article", name="work-fork-1")
    changes = {one: f"A {one}", "notes": "M notes changed in two"}
    await expect(first.get_by_role("listitem")).to_have_text(
        [changes[key] for key in sorted(changes)]
    )
    await first.get_by_role("button", name="Merge…").click()
    await first.get_by_role("button", name="Merge", exact=True).click()
    await expect(first).to_contain_text("Nothing changed.")
    assert await admin.run(session, "cat notes") == f"one\ntwo\n{one}\n"
    await expect(forks.locator(".controls .badge")).to_have_text(
        "Overlap: notes (this session, work-fork-2)"
    )

    second = forks.get_by_role("article", name="work-fork-2")
    await second.get_by_role("button", name="Merge…").click()
    await expect(second).to_contain_text("conflict notes: the same lines were changed in both")
    await second.get_by_role("link", name="work-fork-2").click()
    await page.get_by_role("button", name="Delete").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_role("button", name="Delete").click()
    await expect(dialog).to_contain_text("has changes that are not merged")
    await dialog.get_by_role("button", name="Delete anyway").click()
    await expect(dialog).to_be_hidden()
    assert [each["id"] for each in await admin.must("GET", "/api/sessions")] == [session, one]
    screen.complaints = [each for each in screen.complaints if "409" not in each]
