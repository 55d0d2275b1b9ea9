"""Events keep what they mean on the way out and back in, and say what is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bascule.core.actions import (
    Action,
    CmdRun,
    Condensation,
    FileEdit,
    FileRead,
    Finish,
    ListDir,
    McpCall,
    Message,
)
from bascule.core.editor_actions import VscodeCommand
from bascule.core.errors import InvalidAction, UnknownKind
from bascule.core.identity import EventId
from bascule.core.kinds import ACTIONS, OBSERVATIONS
from bascule.core.observations import (
    CellMetadata,
    CmdMetadata,
    CmdOutput,
    DirEntry,
    DirListing,
    Error,
    FileContent,
    FileEdited,
    GlobResult,
    IPythonOutput,
    Nothing,
    Observation,
)
from bascule.wire import (
    decode_action,
    decode_observation,
    encode_action,
    encode_observation,
    from_json,
    reply_envelope,
    to_json,
)

from .strategies import EVENTS, NAMES, events, json_values


def encode(event: Action | Observation) -> dict[str, Any]:
    return encode_action(event) if isinstance(event, Action) else encode_observation(event)


def decode(data: dict[str, Any]) -> Action | Observation:
    return decode_action(data) if "action" in data else decode_observation(data)


# There and back -------------------------------------------------------------------------


@pytest.mark.parametrize("cls", EVENTS, ids=NAMES)
@given(data=st.data())
@settings(max_examples=15, deadline=None)
def test_an_event_survives_encoding_and_decoding(cls: type, data: st.DataObject) -> None:
    event = data.draw(events(cls))
    encoded = encode(event)

    assert decode(encoded) == event
    assert from_json(to_json(encoded)) == encoded
    assert json.loads(json.dumps(encoded, allow_nan=False)) == encoded
    assert "\n" not in encoded["message"]
    assert len(encoded["message"]) < 140


@pytest.mark.parametrize("cls", EVENTS, ids=NAMES)
@given(data=st.data())
@settings(max_examples=5, deadline=None)
def test_fields_of_a_newer_peer_are_sent_on(cls: type, data: st.DataObject) -> None:
    encoded = encode(data.draw(events(cls)))
    part = "args" if "action" in encoded else "extras"
    encoded[part] = {**encoded[part], "a_new_field": data.draw(json_values), "id": "not ours"}

    assert encode(decode(encoded)) == encoded


def test_unknown_metadata_is_sent_on() -> None:
    encoded = encode(CmdOutput(command="ls"))
    encoded["extras"]["metadata"]["cpu_time"] = 0.5

    decoded = decode_observation(encoded)

    assert decoded.unknown == {"metadata": {"cpu_time": 0.5}}
    assert encode(decoded) == encoded


def test_keys_keep_their_order() -> None:
    action = encode_action(
        CmdRun(
            "ls", timestamp="t", source="agent", timeout=1, tool_call_metadata={}, llm_metrics={}
        )
    )
    observation = encode_observation(
        CmdOutput(
            command="ls",
            timestamp="t",
            cause=EventId("a"),
            tool_call_metadata={},
            llm_metrics={},
            note="n",
        )
    )

    assert " ".join(action) == (
        "id timestamp source message action tool_call_metadata llm_metrics args timeout"
    )
    assert " ".join(observation) == (
        "id timestamp source message cause observation tool_call_metadata llm_metrics"
        " content extras success note"
    )


def test_unset_fields_are_omitted() -> None:
    assert encode_action(CmdRun("ls", id=EventId("1"))).keys() == {
        "id",
        "message",
        "action",
        "args",
    }
    assert encode_observation(Nothing(id=EventId("1"))) == {
        "id": "1",
        "source": "environment",
        "message": "",
        "observation": "null",
        "content": "",
        "extras": {},
    }


def test_a_complete_run_event_has_the_documented_form() -> None:
    action = CmdRun("make test", id=EventId("7"), source="agent", timeout=60)

    assert encode_action(action) == {
        "id": "7",
        "source": "agent",
        "message": "Run `make test`",
        "action": "run",
        "args": {
            "command": "make test",
            "is_input": False,
            "thought": "",
            "blocking": False,
            "is_static": False,
            "cwd": None,
            "hidden": False,
            "confirmation_state": "confirmed",
            "security_risk": -1,
            "shell": "",
            "output_limit": None,
            "queue": False,
        },
        "timeout": 60,
    }


def test_nested_values_become_objects_and_come_back_as_values() -> None:
    listing = DirListing(path="/w", entries=(DirEntry(path="a", type="file", size=3),))
    encoded = encode_observation(listing)

    assert encoded["extras"]["entries"] == [
        {"path": "a", "type": "file", "size": 3, "modified": 0.0}
    ]
    assert decode_observation(encoded) == listing


def test_decoded_events_do_not_share_their_defaults() -> None:
    first, second = (decode_action({"action": "finish"}) for _ in range(2))

    assert isinstance(first, Finish)
    assert isinstance(second, Finish)
    assert first.outputs == {}
    assert first.outputs is not second.outputs


# Success and message --------------------------------------------------------------------


@pytest.mark.parametrize(("exit_code", "success"), [(0, True), (1, False), (-1, False)])
def test_a_run_succeeded_when_its_status_is_zero(exit_code: int, success: bool) -> None:
    observation = CmdOutput(command="x", metadata=CmdMetadata(exit_code=exit_code))

    assert encode_observation(observation)["success"] is success


def test_a_cell_without_an_exception_succeeded_and_other_kinds_report_nothing() -> None:
    assert encode_observation(IPythonOutput(code="1"))["success"] is True
    failed = IPythonOutput(code="1/0", metadata=CellMetadata(state="failed"))
    assert encode_observation(failed)["success"] is False
    assert "success" not in encode_observation(FileContent(path="a"))


def test_message_and_success_are_ignored_on_input() -> None:
    encoded = encode_observation(CmdOutput(command="ls", metadata=CmdMetadata(exit_code=0)))

    assert decode_observation({**encoded, "message": 5, "success": "no"}) == decode_observation(
        encoded
    )


@pytest.mark.parametrize(
    ("action", "message"),
    [
        (CmdRun("make\nmake test"), "Run `make…`"),
        (CmdRun("x" * 200_000), f"Run `{'x' * 79}…`"),
        (CmdRun(""), "Read more output"),
        (CmdRun("C-c", is_input=True), "Type `C-c`"),
        (FileRead("/a"), "Read /a"),
        (ListDir(), "List ."),
        (Finish(), "Finish"),
    ],
)
def test_the_message_of_an_action_is_one_short_line(action: Action, message: str) -> None:
    assert encode_action(action)["message"] == message


@pytest.mark.parametrize(
    ("observation", "message"),
    [
        (CmdOutput(command="a", metadata=CmdMetadata(exit_code=3)), "`a` ended with status 3"),
        (CmdOutput(command="a", metadata=CmdMetadata(state="running")), "`a` is still running"),
        (
            CmdOutput(command="a", metadata=CmdMetadata(state="refused")),
            "`a` was not run: the shell is busy",
        ),
        (CmdOutput(command="", metadata=CmdMetadata(state="idle")), "Nothing is running"),
        (Error(content="No such file\nreally", error_id="x"), "No such file…"),
        (FileEdited(path="/a"), "Edited /a"),
    ],
)
def test_the_message_of_an_observation_is_one_short_line(
    observation: Observation, message: str
) -> None:
    assert encode_observation(observation)["message"] == message


# Ids ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "inside"), [("a-b", "a-b"), (5, "5"), (0, "0"), (2**70, str(2**70))]
)
def test_ids_are_strings_inside(sent: object, inside: str) -> None:
    action = decode_action({"action": "null", "id": sent})
    observation = decode_observation({"observation": "null", "id": sent, "cause": sent})

    assert (action.id, observation.id, observation.cause) == (inside, inside, inside)


@pytest.mark.parametrize("unset", [{}, {"id": None, "cause": None}, {"id": -1, "cause": -1}])
def test_an_event_without_an_id_gets_a_new_one(unset: dict[str, Any]) -> None:
    first = decode_observation({"observation": "null", **unset})
    second = decode_observation({"observation": "null", **unset})

    assert first.cause is None
    assert len(first.id) == 36
    assert first.id != second.id


@pytest.mark.parametrize("wrong", ["", 1.5, True, [], {}])
def test_an_id_of_another_type_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidAction, match="null action: `id` must be a string"):
        decode_action({"action": "null", "id": wrong})


# Answers --------------------------------------------------------------------------------


def test_a_bascule_peer_gets_the_full_envelope() -> None:
    observation = FileContent(path="/a", content="x", unknown={"mtime": 1})

    reply = reply_envelope({"id": "q-1", "action": "read"}, observation)

    assert list(reply)[:5] == ["id", "timestamp", "source", "message", "cause"]
    assert reply["id"] == observation.id
    assert reply["timestamp"]
    assert reply["cause"] == "q-1"
    assert reply["extras"] == {
        "path": "/a",
        "impl_source": "default",
        "error_id": "",
        "mtime": 1,
    }


def test_a_timestamp_that_is_set_is_kept() -> None:
    assert reply_envelope({"id": "q"}, Nothing(timestamp="then"))["timestamp"] == "then"


def test_an_integer_id_is_answered_with_that_integer_and_no_generated_id() -> None:
    reply = reply_envelope({"id": 12}, CmdOutput(command="ls", cause=EventId("12")))

    assert reply["cause"] == 12
    assert reply.keys().isdisjoint({"id", "timestamp", "source"})


@pytest.mark.parametrize("request_", [{}, {"id": None}, {"id": -1}, {"id": 1.5}])
def test_a_request_without_an_id_is_answered_without_cause(request_: dict[str, Any]) -> None:
    reply = reply_envelope(request_, CmdOutput(command="ls", cause=EventId("made-here")))

    assert reply.keys().isdisjoint({"id", "timestamp", "source", "cause"})


@pytest.mark.parametrize("request_", [{}, {"id": 3}])
def test_openhands_gets_only_extras_that_its_classes_accept(request_: dict[str, Any]) -> None:
    edited = FileEdited(path="/a", diff="d", unknown={"encoding": "utf-8"})

    assert reply_envelope(request_, edited)["extras"].keys() == {
        "path",
        "prev_exist",
        "old_content",
        "new_content",
        "impl_source",
        "diff",
        "_diff_cache",
    }


def test_openhands_gets_all_extras_of_run_and_of_bascule_kinds() -> None:
    ran = CmdOutput(command="ls", unknown={"more": 1})
    found = GlobResult(path="/", pattern="*", unknown={"more": 1})

    assert reply_envelope({"id": 1}, ran)["extras"]["more"] == 1
    assert reply_envelope({"id": 1}, found)["extras"]["more"] == 1


def test_a_note_is_a_field_for_bascule_peers_and_part_of_output_for_openhands() -> None:
    metadata = CmdMetadata(suffix="\n[The command completed with exit code 0.]")
    ran = CmdOutput(command="ls", metadata=metadata, note="The user took back line 3 of a.py.")
    seen = decode_observation(encode_observation(ran))

    assert seen == ran
    assert reply_envelope({"id": "q"}, ran)["note"] == ran.note
    theirs = reply_envelope({"id": 1}, ran)
    assert "note" not in theirs
    assert theirs["extras"]["metadata"]["suffix"] == f"{metadata.suffix}\n[{ran.note}]"
    assert "note" not in reply_envelope({"id": 1}, Nothing(note="n"))


# Input that is older, or wrong ----------------------------------------------------------


def test_earlier_names_of_arguments_are_understood() -> None:
    run = decode_action(
        {"action": "run", "args": {"command": "ls", "is_confirmed": "rejected", "keep_prompt": 1}}
    )
    message = decode_action(
        {"action": "message", "args": {"content": "hi", "images_urls": ["data:,"]}}
    )
    finish = decode_action({"action": "finish", "args": {"task_completed": "true"}})
    edit = decode_action({"action": "edit", "args": {"path": "/a", "translated_ipython_code": "x"}})

    assert isinstance(run, CmdRun)
    assert run.confirmation_state == "rejected"
    assert isinstance(message, Message)
    assert message.image_urls == ("data:,",)
    assert isinstance(edit, FileEdit)
    assert [event.unknown for event in (run, message, finish, edit)] == [{}, {}, {}, {}]


def test_an_earlier_name_without_meaning_for_a_kind_is_unknown() -> None:
    read = decode_action({"action": "read", "args": {"path": "/a", "is_confirmed": "rejected"}})

    assert read.unknown == {"is_confirmed": "rejected"}


def test_earlier_names_of_extras_are_understood() -> None:
    observation = decode_observation(
        {
            "observation": "run",
            "content": "x",
            "extras": {
                "command": "ls",
                "exit_code": 2,
                "command_id": 41,
                "formatted_output_and_error": "x",
            },
        }
    )

    assert isinstance(observation, CmdOutput)
    assert observation.metadata == CmdMetadata(exit_code=2, pid=41)
    assert observation.unknown == {}


def test_metadata_overrides_its_earlier_spelling() -> None:
    observation = decode_observation(
        {
            "observation": "run",
            "extras": {"command": "ls", "exit_code": 2, "metadata": {"exit_code": 0, "pid": 7}},
        }
    )

    assert isinstance(observation, CmdOutput)
    assert observation.metadata == CmdMetadata(exit_code=0, pid=7)


def test_a_timestamp_among_the_arguments_moves_to_the_event() -> None:
    args = {"command": "ls", "timestamp": "inner"}

    lifted = decode_action({"action": "run", "args": args})
    given = decode_action({"action": "run", "args": args, "timestamp": "outer"})

    assert (lifted.timestamp, lifted.unknown) == ("inner", {})
    assert (given.timestamp, given.unknown) == ("outer", {})


@pytest.mark.parametrize("risk", ["HIGH", 3, -2, None, [], 0.5])
def test_an_unknown_security_risk_is_dropped(risk: object) -> None:
    action = decode_action({"action": "run", "args": {"command": "ls", "security_risk": risk}})

    assert isinstance(action, CmdRun)
    assert action.security_risk == -1


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            {"action": "run", "args": {"command": 5}},
            "run action: `args.command` must be a string, not 5",
        ),
        ({"action": "run", "args": {}}, "run action: `args.command` is missing"),
        ({"action": "run"}, "run action: `args.command` is missing"),
        ({"action": "run", "args": []}, "run action: `args` must be an object, not []"),
        (
            {"action": "run", "args": {"command": "a", "is_input": "yes"}},
            "run action: `args.is_input` must be true or false, not 'yes'",
        ),
        (
            {"action": "read", "args": {"path": "a", "view_range": [1, "x"]}},
            "read action: `args.view_range[1]` must be an integer, not 'x'",
        ),
        (
            {"action": "read", "args": {"path": "a", "view_range": "1-2"}},
            "read action: `args.view_range` must be a list, not '1-2'",
        ),
        (
            {"action": "edit", "args": {"path": "a", "insert_line": []}},
            "edit action: `args.insert_line` must be an integer or a string, not []",
        ),
        (
            {"action": "task_tracking", "args": {"command": "look"}},
            "task_tracking action: `args.command` must be 'view' or 'plan', not 'look'",
        ),
        (
            {"action": "call_tool_mcp", "args": {"name": "t", "arguments": [1]}},
            "call_tool_mcp action: `args.arguments` must be an object, not [1]",
        ),
        (
            {"action": "null", "source": "moon"},
            "null action: `source` must be 'agent', 'user' or 'environment', not 'moon'",
        ),
        ({"action": "null", "timeout": 0}, "null action: `timeout` must be more than 0, not 0"),
        (
            {"action": "null", "timeout": -1.5},
            "null action: `timeout` must be more than 0, not -1.5",
        ),
        ({"action": "null", "timeout": "5"}, "null action: `timeout` must be a number, not '5'"),
        ({"action": "null", "timeout": True}, "null action: `timeout` must be a number, not True"),
        (
            {"action": "null", "timeout": float("inf")},
            "null action: `timeout` must be a finite number, not inf",
        ),
        (
            {"action": "null", "timeout": float("nan")},
            "null action: `timeout` must be a finite number, not nan",
        ),
        ({"action": 5}, "action: `action` must be a string, not 5"),
        ({}, "action: `action` is missing"),
        ({"observation": "run"}, "action: `action` is missing"),
    ],
)
def test_a_wrong_action_is_refused_with_the_reason(data: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidAction) as caught:
        decode_action(data)

    assert caught.value.message == message


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            {"observation": "run", "extras": {"command": "a", "metadata": {"exit_code": "0"}}},
            "run observation: `extras.metadata.exit_code` must be an integer, not '0'",
        ),
        (
            {"observation": "run", "extras": {"command": "a", "metadata": 5}},
            "run observation: `extras.metadata` must be an object, not 5",
        ),
        (
            {"observation": "list", "extras": {"path": "/", "entries": [{"path": "a"}]}},
            "list observation: `extras.entries[0].type` is missing",
        ),
        (
            {"observation": "null", "content": None},
            "null observation: `content` must be a string, not None",
        ),
        ({"action": "run"}, "observation: `observation` is missing"),
    ],
)
def test_a_wrong_observation_is_refused_with_the_reason(data: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidAction) as caught:
        decode_observation(data)

    assert caught.value.message == message


@pytest.mark.parametrize("data", [None, [], "run", 5])
def test_a_value_that_is_not_an_object_is_not_an_event(data: Any) -> None:
    with pytest.raises(InvalidAction, match="must be an object"):
        decode_action(data)


def test_a_long_wrong_value_is_shown_shortened() -> None:
    with pytest.raises(InvalidAction) as caught:
        decode_action({"action": "run", "args": {"command": ["x" * 1000] * 1000}})

    assert len(caught.value.message) < 800
    assert caught.value.detail["field"] == "args.command"
    assert caught.value.detail["expected"] == "a string"


def test_an_unknown_kind_is_named_beside_the_known_ones() -> None:
    with pytest.raises(UnknownKind) as caught:
        decode_action({"action": "fly", "args": {}})
    with pytest.raises(UnknownKind, match="No observation is called 'fly'"):
        decode_observation({"observation": "fly"})

    assert "No action is called 'fly'" in caught.value.message
    assert caught.value.detail == {"kind": "fly", "known": sorted(ACTIONS)}
    assert "run, run_cells, run_ipython" in caught.value.message
    assert "run" in OBSERVATIONS


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"forgotten_event_ids": (1,), "forgotten_events_start_id": 1, "forgotten_events_end_id": 2},
        {"forgotten_events_start_id": 1},
        {"forgotten_event_ids": (1,), "summary": "s"},
        {"forgotten_event_ids": (1,), "summary_offset": 0},
    ],
)
def test_an_inconsistent_condensation_is_neither_decoded_nor_encoded(
    fields: dict[str, Any],
) -> None:
    with pytest.raises(InvalidAction, match="condensation action: "):
        decode_action({"action": "condensation", "args": fields})
    with pytest.raises(InvalidAction, match="condensation action: "):
        encode_action(Condensation(**fields))


# Text and values JSON cannot hold -------------------------------------------------------

dirty_text = st.text() | st.lists(
    st.characters() | st.integers(0xD800, 0xDFFF).map(chr), max_size=8
).map("".join)


@given(dirty_text, dirty_text, st.dictionaries(dirty_text, dirty_text))
@settings(max_examples=50, deadline=None)
def test_no_lone_surrogate_is_sent(content: str, path: str, unknown: dict[str, str]) -> None:
    encoded = encode_observation(
        GlobResult(content=content, path=path, pattern=path, paths=(path,), unknown=unknown)
    )

    json.dumps(encoded, ensure_ascii=False).encode()
    assert from_json(to_json(encoded)) == encoded


def test_a_file_name_that_is_not_utf8_keeps_its_readable_part() -> None:
    encoded = encode_observation(FileContent(path=b"caf\xe9.txt".decode(errors="surrogateescape")))

    assert encoded["extras"]["path"] == "caf\ufffd.txt"


@pytest.mark.parametrize(
    "value", [float("nan"), float("-inf"), object(), b"bytes", {1: 2}, Path("a")]
)
def test_a_value_json_cannot_represent_is_rejected(value: object) -> None:
    with pytest.raises(InvalidAction, match="cannot be written as JSON"):
        encode_action(McpCall("tool", arguments={"a": [value]}))


def test_a_self_referencing_value_is_rejected() -> None:
    endless: list[Any] = []
    endless.append(endless)

    with pytest.raises(InvalidAction, match="cannot be written as JSON"):
        encode_action(VscodeCommand("x", arguments=endless))
