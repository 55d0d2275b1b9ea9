"""What agents do in a real Chromium, with pages on loopback."""

from __future__ import annotations

import base64
import struct
from pathlib import Path

import pytest

from bascule.core.actions import Browse, BrowseInteractive
from bascule.core.observations import BrowserOutput, FileDownloaded

from .conftest import BrowserUser, bid, make_browser
from .pages import PageServer

pytestmark = [pytest.mark.browser, pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

PDF = b"""%PDF-1.4
1 0 obj <</Type/Catalog/Pages 2 0 R>> endobj
2 0 obj <</Type/Pages/Kids[3 0 R]/Count 1>> endobj
3 0 obj <</Type/Page/Parent 2 0 R/MediaBox[0 0 300 100]/Contents 4 0 R/Resources
<</Font<</F 5 0 R>>>>>> endobj
4 0 obj <</Length 43>> stream
BT /F 18 Tf 20 40 Td (Said in a PDF) Tj ET
endstream endobj
5 0 obj <</Type/Font/Subtype/Type1/BaseFont/Helvetica>> endobj
trailer <</Root 1 0 R>>
"""


def size_of(data_url: str) -> tuple[int, int]:
    data = base64.b64decode(data_url.removeprefix("data:image/png;base64,"))
    assert data.startswith(b"\x89PNG")
    width, height = struct.unpack("!II", data[16:24])
    return width, height


# Reading ----------------------------------------------------------------------------------


async def test_a_page_is_read_as_text_with_its_links(
    visitor: BrowserUser, pages: PageServer
) -> None:
    seen = await visitor.browse(pages.url)

    assert "# Welcome\n\nRead the [next page](/next).\n\n* one\n* two\n" in seen.content
    assert "secret" not in seen.content
    assert "nothing" not in seen.content
    assert (seen.url, seen.trigger_by_action, seen.error) == (f"{pages.url}/", "browse", False)
    assert list(seen.open_pages_urls) == [f"{pages.url}/"]
    assert seen.active_page_index == 0
    assert seen.last_browser_action == f'goto("{pages.url}")'
    assert seen.last_browser_action_error == ""


async def test_interactive_elements_are_listed_below_the_text(
    visitor: BrowserUser, pages: PageServer
) -> None:
    seen = await visitor.browse(f"{pages.url}/form")
    number = bid(seen, "button 'Press'")
    acted = await visitor.well(f"click('{number}')")

    assert "# Order" in seen.content.partition("END webpage content")[0]
    listed = seen.content.partition("END webpage content")[2]
    assert f"[{bid(seen, 'textbox')}] textbox 'Name'\n" in listed
    assert "combobox 'Size', value='Small'\n" in listed
    assert "heading" not in listed
    assert "option" not in listed
    assert "Pressed 1" in acted.content
    assert bid(acted, "button 'Press'") == number


async def test_a_truncated_element_list_says_how_much_is_omitted(
    visitor: BrowserUser, pages: PageServer
) -> None:
    pages.pages["/many"] = "<title>M</title>" + f"<button>{'long ' * 100}</button>" * 200
    seen = await visitor.browse(f"{pages.url}/many")
    listed = seen.content.partition("END webpage content")[2]

    assert listed.count("] button 'long long") == 150
    assert "[… 50 more; browse_interactive with noop(0) shows the page's whole tree …]" in listed
    assert len(listed) < 25_000
    assert "BEGIN elements" not in (await visitor.browse(f"{pages.url}/next")).content


async def test_a_page_is_also_returned_as_a_screenshot(
    visitor: BrowserUser, pages: PageServer
) -> None:
    seen = await visitor.browse(f"{pages.url}/form")
    acted = await visitor.do("noop(0)")

    assert size_of(seen.screenshot) == (1280, 720)
    assert seen.screenshot_path is not None
    kept = Path(seen.screenshot_path)
    assert kept.read_bytes() == base64.b64decode(seen.screenshot.partition(",")[2])
    assert kept.parent == visitor.directory / ".browser_screenshots"
    assert size_of(acted.set_of_marks) == (1280, 720)
    assert acted.set_of_marks != acted.screenshot


async def test_an_address_needs_no_scheme(visitor: BrowserUser, pages: PageServer) -> None:
    seen = await visitor.browse(f"localhost:{pages.port}/next")
    assert seen.url == f"http://localhost:{pages.port}/next"


async def test_an_unreachable_url_returns_an_answer_that_says_why(
    visitor: BrowserUser,
) -> None:
    seen = await visitor.browse("http://127.0.0.1:1987/")
    named = await visitor.browse("http://nowhere.invalid/")

    assert seen.error
    assert "connection refused" in seen.last_browser_action_error
    assert seen.last_browser_action_error in seen.content
    assert seen.url == "http://127.0.0.1:1987/"
    assert "the name is not known" in named.last_browser_action_error


async def test_a_link_to_an_unreachable_url_says_why(
    visitor: BrowserUser, pages: PageServer
) -> None:
    pages.pages["/dead"] = "<title>D</title><a href='http://127.0.0.1:1987/x'>Go</a>"
    page = await visitor.well(f"goto('{pages.url}/dead')")
    seen = await visitor.do(f"click('{bid(page, 'Go')}')")

    assert "http://127.0.0.1:1987/x could not be opened" in seen.last_browser_action_error
    assert "connection refused" in seen.last_browser_action_error
    assert seen.url == "http://127.0.0.1:1987/x"
    assert not (await visitor.browse(f"{pages.url}/next")).error


@pytest.mark.parametrize(
    ("url", "complaint"),
    [
        ("", "The address is empty"),
        ("  ", "The address is empty"),
        ("javascript:alert(1)", "javascript: is not a scheme"),
        ("JavaScript:alert(1)", "javascript: is not a scheme"),
        ("mailto:ann@example.org", "mailto: is not a scheme"),
        ("chrome://settings", "chrome: is not a scheme"),
        ("view-source:http://localhost/", "view-source: is not a scheme"),
        ("http://a\x00b/", "an invalid character, '\\x00' at position 8"),
        ("http://a/\nb", "an invalid character, '\\n' at position 9"),
        ("/etc/\x00", "an invalid character"),
        ("http://[::1", "is not a valid URL"),
        ("http://localhost:99999/", "is not a valid URL"),
    ],
)
async def test_an_invalid_url_is_rejected_with_a_clear_message(
    visitor: BrowserUser, pages: PageServer, url: str, complaint: str
) -> None:
    await visitor.browse(f"{pages.url}/next")
    browsed = await visitor.browse(url)
    gone = await visitor.do(f"goto({url!r})")

    for seen in (browsed, gone):
        assert seen.error
        assert complaint in seen.last_browser_action_error
        assert seen.last_browser_action_error in seen.content
        assert seen.url == f"{pages.url}/next"


@pytest.mark.timeout(400)
async def test_a_page_of_five_megabytes_is_answered_by_head_and_tail(
    tmp_path: Path, pages: PageServer
) -> None:
    """With time enough to load and read all of it on a busy machine."""
    async with await make_browser(
        tmp_path, load_timeout=150.0, look_timeout=150.0, timeout=180.0
    ) as browser:
        visitor = BrowserUser(browser, tmp_path)
        seen = await visitor.browse(f"{pages.url}/big")
        acted = await visitor.do("noop(0)")

    assert "Row 0 " in seen.content
    assert "Row 69999 " in seen.content
    assert "characters left out" in seen.content
    assert len(seen.content) < 70_000
    assert "only what is in view" in acted.content
    assert "Row" not in acted.content.partition("END accessibility")[2]
    assert len(acted.content) < 70_000


# The tree and its numbers -----------------------------------------------------------------


async def test_elements_keep_their_numbers_while_the_page_stays(
    visitor: BrowserUser, pages: PageServer
) -> None:
    before = await visitor.well(f"goto('{pages.url}/form')")
    button = bid(before, "button 'Press'")
    after = await visitor.well(f"click('{button}')", f"click({button})")

    assert "Pressed 2" in after.content
    assert bid(after, "button 'Press'") == button
    assert bid(after, "textbox 'Name'") == bid(before, "textbox 'Name'")


async def test_an_element_id_of_an_earlier_page_is_rejected(
    visitor: BrowserUser, pages: PageServer
) -> None:
    before = await visitor.well(f"goto('{pages.url}/form')")
    button = bid(before, "button 'Press'")
    seen = await visitor.do(f"goto('{pages.url}/dialogs')", f"click('{button}')")

    assert seen.error
    assert f"no element '{button}'" in seen.last_browser_action_error


async def test_the_accessibility_tree_is_returned_as_an_object_on_request(
    visitor: BrowserUser, pages: PageServer
) -> None:
    await visitor.well(f"goto('{pages.url}/form')")
    seen = await visitor.browser.act(BrowseInteractive("noop(0)", return_axtree=True))
    nodes = seen.axtree_object["nodes"]  # type: ignore[attr-defined]
    by_id = {node["nodeId"]: node for node in nodes}
    button = next(node for node in nodes if node["name"]["value"] == "Press")

    assert nodes[0]["role"]["value"] == "RootWebArea"
    assert button["role"]["value"] == "button"
    assert button["nodeId"] in by_id[button["parentId"]]["childIds"]
    properties = seen.extra_element_properties[button["browsergym_id"]]  # type: ignore[attr-defined]
    assert properties["clickable"]
    assert properties["visibility"] == 1.0
    assert len(properties["bbox"]) == 4


async def test_nested_frames_are_in_the_tree_and_usable(
    visitor: BrowserUser, pages: PageServer
) -> None:
    seen = await visitor.well(f"goto('{pages.url}/frames')")
    assert seen.content.count("button 'Inner'") == 2
    assert seen.content.count("Innermost") == 2

    after = await visitor.well(f"click('{bid(seen, 'Inner')}')")
    assert bid(after, "button 'Pressed'") == bid(seen, "button 'Inner'")
    assert after.content.count("button 'Inner'") == 1
    assert "Innermost" in (await visitor.browse(f"{pages.url}/frames")).content


async def test_shadow_dom_elements_are_in_the_tree_and_usable(
    visitor: BrowserUser, pages: PageServer
) -> None:
    seen = await visitor.well(f"goto('{pages.url}/shadow')")
    after = await visitor.well(f"click('{bid(seen, 'In the dark')}')")

    assert "StaticText 'light'" in seen.content
    assert "button 'Found'" in after.content


# Acting -----------------------------------------------------------------------------------


async def test_a_form_is_filled_and_sent(visitor: BrowserUser, pages: PageServer) -> None:
    seen = await visitor.well(f"goto('{pages.url}/form')")
    filled = await visitor.well(
        f"fill('{bid(seen, 'Name')}', 'Ann')",
        f"clear('{bid(seen, 'Enter mail')}')",
        f"select_option('{bid(seen, 'Size')}', 'l')",
        f"check('{bid(seen, 'checkbox')}')",
    )
    assert "textbox 'Name', value='Ann'" in filled.content
    assert "combobox 'Size', value='Large'" in filled.content
    assert "checked='true'" in filled.content
    assert filled.last_browser_action.splitlines()[-1].startswith("check(")

    sent = await visitor.well(f"press('{bid(seen, 'Name')}', 'Enter')")
    assert sent.url == f"{pages.url}/done?name=Ann&mail=&size=l&gift=on"


async def test_the_focused_element_is_reported(visitor: BrowserUser, pages: PageServer) -> None:
    seen = await visitor.well(f"goto('{pages.url}/form')")
    name = bid(seen, "Name")
    focused = await visitor.well(f"focus('{name}')", "keyboard_type('typed')")

    assert focused.focused_element_bid == bid(focused, "value='typed'")
    assert "typed" in focused.content


async def test_the_mouse_hovers_and_clicks_twice(visitor: BrowserUser, pages: PageServer) -> None:
    seen = await visitor.well(f"goto('{pages.url}/form')")

    assert "StaticText 'over'" in (await visitor.well(f"hover('{bid(seen, 'Hover')}')")).content
    assert (
        "StaticText 'twice'" in (await visitor.well(f"dblclick('{bid(seen, 'Double')}')")).content
    )


async def test_an_element_is_dragged_onto_another(visitor: BrowserUser, pages: PageServer) -> None:
    seen = await visitor.well(f"goto('{pages.url}/drag')")
    after = await visitor.well(f"drag_and_drop('{bid(seen, 'Thing')}', '{bid(seen, 'Target')}')")
    assert "Dropped" in after.content


async def test_a_page_is_scrolled(visitor: BrowserUser, pages: PageServer) -> None:
    before = await visitor.well(f"goto('{pages.url}/tall')")
    after = await visitor.well("scroll(0, 9000)")
    assert before.screenshot != after.screenshot


async def test_the_browser_waits_for_content_that_a_click_loads(
    visitor: BrowserUser, pages: PageServer
) -> None:
    seen = await visitor.well(f"goto('{pages.url}/late')")
    assert "arrived" in (await visitor.well(f"click('{bid(seen, 'Load')}')")).content


async def test_history_goes_back_and_forth(visitor: BrowserUser, pages: PageServer) -> None:
    await visitor.well(f"goto('{pages.url}/')", f"goto('{pages.url}/next')")
    assert (await visitor.well("go_back()")).url == f"{pages.url}/"
    assert (await visitor.well("go_forward()")).url == f"{pages.url}/next"


async def test_browser_calls_stop_at_the_first_failure(
    visitor: BrowserUser, pages: PageServer
) -> None:
    seen = await visitor.do(f"goto('{pages.url}/next')", "click('999')", f"goto('{pages.url}/')")

    assert seen.url == f"{pages.url}/next"
    assert "no element '999'" in seen.last_browser_action_error


async def test_an_unknown_browser_call_is_not_executed(
    visitor: BrowserUser, pages: PageServer
) -> None:
    await visitor.well(f"goto('{pages.url}/next')")
    seen = await visitor.do(f"goto('{pages.url}/')", "__import__('os').system('true')")

    assert seen.error
    assert "is not a known call" in seen.last_browser_action_error
    assert seen.url == f"{pages.url}/next"


async def test_messages_to_the_user_are_in_the_answer(visitor: BrowserUser) -> None:
    assert "All done" in (await visitor.well("send_msg_to_user('All done')")).content


# What pages do ----------------------------------------------------------------------------


async def test_dialogs_are_answered_and_reported(visitor: BrowserUser, pages: PageServer) -> None:
    page = await visitor.well(f"goto('{pages.url}/dialogs')")
    alert = await visitor.well(f"click('{bid(page, 'Alert')}')")
    sure = await visitor.well(f"click('{bid(page, 'Confirm')}')")
    refused = await visitor.well("answer_dialogs(False)", f"click('{bid(page, 'Confirm')}')")
    who = await visitor.well("answer_dialogs(text='Ann')", f"click('{bid(page, 'Prompt')}')")

    assert "dialog (alert): 'Mind this'" in alert.content
    assert "StaticText 'true'" in sure.content
    assert "answered Cancel" in refused.content
    assert "StaticText 'false'" in refused.content
    assert "StaticText 'Ann'" in who.content


async def test_a_page_with_endless_dialogs_does_not_fill_the_answer(
    visitor: BrowserUser, pages: PageServer
) -> None:
    pages.pages["/talk"] = (
        "<title>T</title><p>here</p>"
        "<script>for (let i = 0; i < 50; i++) alert('x'.repeat(100000))</script>"
    )
    seen = await visitor.browse(f"{pages.url}/talk")

    assert "here" in seen.content
    assert seen.content.count("The page showed a dialog") == 30
    assert "[… 20 more such notes …]" in seen.content
    assert len(seen.content) < 20_000


async def test_a_new_tab_comes_to_the_front(visitor: BrowserUser, pages: PageServer) -> None:
    page = await visitor.well(f"goto('{pages.url}/tabs')")
    opened = await visitor.well(f"click('{bid(page, 'Open')}')")
    back = await visitor.well("tab_focus(0)")
    alone = await visitor.well("tab_focus(1)", "tab_close()")
    missing = await visitor.do("tab_focus(7)")

    assert list(opened.open_pages_urls) == [f"{pages.url}/tabs", f"{pages.url}/next"]
    assert (opened.active_page_index, opened.url) == (1, f"{pages.url}/next")
    assert (back.active_page_index, back.url) == (0, f"{pages.url}/tabs")
    assert list(alone.open_pages_urls) == [f"{pages.url}/tabs"]
    assert "no tab 7; they are 0 to 0" in missing.last_browser_action_error


async def test_a_url_that_is_not_a_page_is_downloaded(
    visitor: BrowserUser, pages: PageServer
) -> None:
    seen = await visitor.browser.act(Browse(f"{pages.url}/file"))
    again = await visitor.browser.act(BrowseInteractive(f"goto('{pages.url}/file')"))

    assert isinstance(seen, FileDownloaded)
    assert isinstance(again, FileDownloaded)
    assert Path(seen.file_path).parent == visitor.directory / ".downloads"
    assert Path(seen.file_path).read_bytes() == b"the data"
    assert seen.file_path != again.file_path


async def test_a_file_is_uploaded(visitor: BrowserUser, pages: PageServer) -> None:
    (visitor.directory / "note.txt").write_text("from the sandbox")
    page = await visitor.well(f"goto('{pages.url}/upload')")
    chosen = await visitor.well(f"upload_file('{bid(page, 'Choose File')}', 'note.txt')")
    assert "value='note.txt'" in chosen.content
    await until_shown(visitor, chosen, "from the sandbox")

    page = await visitor.well(f"goto('{pages.url}/upload')")
    picked = await visitor.well(f"upload_file('{bid(page, 'Pick')}', 'note.txt')")
    missing = await visitor.do(f"upload_file('{bid(page, 'Pick')}', 'none.txt')")
    await until_shown(visitor, picked, "from the sandbox")
    assert "none.txt is not a file" in missing.last_browser_action_error


async def until_shown(visitor: BrowserUser, output: BrowserOutput, text: str) -> None:
    """The page reads the file after the action has ended."""
    while text not in output.content:
        output = await visitor.well("noop()")


# Files ------------------------------------------------------------------------------------


async def test_a_file_is_viewed_by_its_path(visitor: BrowserUser) -> None:
    picture = base64.b64decode((await visitor.browse("about:blank")).screenshot.partition(",")[2])
    (visitor.directory / "picture.png").write_bytes(picture)
    seen = await visitor.well(f"goto('{visitor.directory}/picture.png')")
    text = await visitor.browse(f"{visitor.directory}/note.md")

    assert "RootWebArea 'File Viewer - picture.png'" in seen.content
    assert "image 'picture.png'" in seen.content
    assert "key=" not in seen.content + seen.url + "".join(seen.open_pages_urls)
    assert "No such file" in text.content


async def test_a_pdf_is_rendered_and_its_text_extracted(visitor: BrowserUser) -> None:
    file = visitor.directory / "paper.pdf"
    file.write_bytes(PDF)
    (visitor.directory / "broken.pdf").write_bytes(b"%PDF-1.4 nothing more")
    seen = await visitor.well(f"goto('{file}')")
    read = await visitor.browse(str(file))
    broken = await visitor.browse(f"{visitor.directory}/broken.pdf")

    assert "RootWebArea 'File Viewer - paper.pdf'" in seen.content
    assert "Canvas 'Page 1 of 1'" in seen.content
    assert "Said in a PDF" in read.content
    assert "broken.pdf is a PDF that cannot be drawn here" in broken.content
