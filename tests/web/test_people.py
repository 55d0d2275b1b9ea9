"""Users, the audit log and sharing on the hub's page."""

from __future__ import annotations

from playwright.async_api import expect

from tests.hub.sessions.serving import SessionsClient

from .conftest import Screen
from .test_page import ensure_usable_by_all


async def test_an_admin_sees_users_and_the_audit_log_and_shares_a_session(
    screen: Screen, admin: SessionsClient
) -> None:
    await admin.must("PUT", "/api/users/bob", {"role": "member"})
    session = await admin.ready({"name": "shared"})
    page = screen.page
    await screen.sign_in()
    await page.get_by_role("link", name="People").click()
    role = page.get_by_label("Role of bob")
    await expect(role).to_have_value("member")
    await expect(page.get_by_role("cell", name="user.add")).to_be_visible()
    await ensure_usable_by_all(screen)
    await role.select_option("viewer")
    await expect(page.get_by_role("cell", name="user.change")).to_be_visible()

    await page.goto(f"{screen.url}/sessions/{session}")
    await screen.tab("Sharing")
    await page.get_by_label("User").fill("bob")
    await page.get_by_label("Access").select_option("act")
    await ensure_usable_by_all(screen)
    await page.get_by_role("button", name="Share", exact=True).click()
    await expect(page.get_by_role("button", name="Stop sharing with bob")).to_be_visible()
    shares = await admin.must("GET", f"/api/sessions/{session}/shares")
    assert shares == [{"user": "bob", "access": "act"}]
    await page.get_by_role("button", name="Stop sharing with bob").click()
    await expect(page.get_by_text("Only its owner and admins")).to_be_visible()
