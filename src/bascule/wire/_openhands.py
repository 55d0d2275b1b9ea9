"""The fields that the event classes of OpenHands V0 accept.

These classes raise an error for an unknown field, except the observation `run`. So only the fields
in these tables are sent to OpenHands. Kinds that are not listed are Bascule's own.
"""

from __future__ import annotations

from collections.abc import Mapping

EXTRAS: Mapping[str, frozenset[str]] = {
    kind: frozenset(names.split())
    for kind, names in {
        "run_ipython": "code image_urls",
        "read": "path impl_source",
        "write": "path",
        "edit": "path prev_exist old_content new_content impl_source diff _diff_cache",
        "browse": "url trigger_by_action screenshot screenshot_path set_of_marks error"
        " goal_image_urls open_pages_urls active_page_index dom_object axtree_object"
        " extra_element_properties last_browser_action last_browser_action_error"
        " focused_element_bid filter_visible_only",
        "error": "error_id",
        "download": "file_path",
        "mcp": "name arguments",
        "task_tracking": "command task_list",
        "null": "",
        "success": "",
        "user_rejected": "",
        "condense": "",
        "think": "",
        "loop_detection": "",
        "delegate": "outputs",
        "agent_state_changed": "agent_state reason",
        "recall": "recall_type repo_name repo_directory repo_branch repo_instructions"
        " runtime_hosts additional_agent_instructions date custom_secrets_descriptions"
        " conversation_instructions working_dir microagent_knowledge",
    }.items()
}
"""Extras of each OpenHands kind except `run`, whose class ignores unknown extras."""

_FILE = "path thought security_risk"
ARGS: Mapping[str, frozenset[str]] = {
    kind: frozenset(names.split())
    for kind, names in {
        "run": "command is_input thought blocking is_static cwd hidden confirmation_state"
        " security_risk",
        "run_ipython": "code thought include_extra confirmation_state security_risk"
        " kernel_init_code",
        "read": f"{_FILE} start end impl_source view_range",
        "write": f"{_FILE} content start end",
        "edit": f"{_FILE} command file_text old_str new_str insert_line content start end"
        " impl_source",
        "browse": "url thought security_risk return_axtree",
        "browse_interactive": "browser_actions thought browsergym_send_msg_to_user security_risk"
        " return_axtree",
        "call_tool_mcp": "name arguments thought security_risk",
        "null": "",
        "message": "content file_urls image_urls wait_for_response security_risk",
        "system": "content tools openhands_version agent_class",
        "think": "thought",
        "finish": "final_thought outputs thought",
        "reject": "outputs thought",
        "delegate": "agent inputs thought",
        "recall": "recall_type query thought",
        "change_agent_state": "agent_state thought",
        "condensation": "forgotten_event_ids forgotten_events_start_id forgotten_events_end_id"
        " summary summary_offset",
        "condensation_request": "",
        "task_tracking": "command task_list thought",
        "loop_recovery": "option",
    }.items()
}
"""Arguments of each OpenHands kind. Its classes refuse other arguments."""
