"""`file_editor`: OpenHands' schema over our editor, or over the buffers of a VS Code window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from openhands.sdk.llm import ImageContent, TextContent
from openhands.sdk.tool import ToolAnnotations
from openhands.tools.file_editor.definition import (
    TOOL_DESCRIPTION,
    FileEditorAction,
    FileEditorObservation,
    FileEditorTool,
)

from bascule.core.actions import FileEdit, FileRead
from bascule.core.observations import FileContent, FileEdited, Observation

from ._conversation_runtime import RuntimeHold, hold
from ._diff import revert
from ._executor import RuntimeExecutor, failure

if TYPE_CHECKING:
    from openhands.sdk.conversation import LocalConversation

_IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp")


class EditorExecutor(RuntimeExecutor[FileEditorAction, FileEditorObservation]):
    def __init__(self, held: RuntimeHold, *, sees_images: bool) -> None:
        super().__init__(held)
        self._sees_images = sees_images

    def _do(
        self,
        action: FileEditorAction,
        conversation: LocalConversation | None,  # noqa: ARG002
    ) -> FileEditorObservation:
        path = self._runtime.path(action.path)
        if action.command == "view":
            return self._view(action, path)
        seen = self._runtime.act(
            FileEdit(
                path,
                action.command,
                file_text=action.file_text,
                old_str=action.old_str,
                new_str=action.new_str,
                insert_line=action.insert_line,
            )
        )
        return self._edited(action, path, seen)

    def _view(self, action: FileEditorAction, path: str) -> FileEditorObservation:
        if self._sees_images and path.lower().endswith(_IMAGES):
            return self._picture(action, path)
        seen = self._runtime.act(
            FileRead(path, impl_source="oh_aci", view_range=action.view_range),
        )
        why = failure(seen)
        return _observation(action, path, why or seen.content, is_error=bool(why))

    def _picture(self, action: FileEditorAction, path: str) -> FileEditorObservation:
        seen = self._runtime.act(FileRead(path))
        if (why := failure(seen)) or not seen.content.startswith("data:image/"):
            return _observation(action, path, why or "This is not a picture", is_error=True)
        return FileEditorObservation(
            command=action.command,
            content=[
                TextContent(text=f"The picture {path}:"),
                ImageContent(image_urls=[seen.content]),
            ],
            path=path,
        )

    def _edited(
        self, action: FileEditorAction, path: str, seen: Observation
    ) -> FileEditorObservation:
        if (why := failure(seen)) or not isinstance(seen, FileEdited):
            return _observation(action, path, why or seen.content, is_error=True)
        old, new = self._contents(action, path, seen)
        return _observation(
            action,
            path,
            seen.content,
            prev_exist=seen.prev_exist,
            old_content=old,
            new_content=new,
        )

    def _contents(
        self, action: FileEditorAction, path: str, seen: FileEdited
    ) -> tuple[str | None, str | None]:
        """The whole file before and after the edit, which OpenHands shows as a diff.

        The old text is restored from the diff in `seen`. If the diff does not match the file,
        somebody else has changed the file meanwhile, and both results are None.
        """
        if action.command == "create":
            return None, action.file_text
        now = self._runtime.act(FileRead(path))
        if failure(now) or not isinstance(now, FileContent):
            return None, None
        old = revert(now.content, seen.diff or "")
        return (None, None) if old is None else (old, now.content)


class BasculeFileEditor(FileEditorTool):
    """Creates OpenHands' own `file_editor` with our executor."""

    name = "file_editor"

    @classmethod
    def create(cls, conv_state: Any) -> Sequence[FileEditorTool]:
        held = hold(conv_state)
        sees_images = conv_state.agent.llm.vision_is_active()
        images = "\n* `view` of an image file shows the image" if sees_images else ""
        tool = FileEditorTool(
            action_type=FileEditorAction,
            observation_type=FileEditorObservation,
            description=f"{TOOL_DESCRIPTION}{images}\n"
            f"Your working directory is {held.runtime.working_dir}; start there, not at the root.",
            annotations=ToolAnnotations(
                title="file_editor",
                readOnlyHint=False,
                destructiveHint=True,
                idempotentHint=False,
                openWorldHint=False,
            ),
            executor=EditorExecutor(held, sees_images=sees_images),
        )
        return [tool]


def _observation(
    action: FileEditorAction, path: str, text: str, *, is_error: bool = False, **fields: Any
) -> FileEditorObservation:
    return FileEditorObservation.from_text(
        text, is_error=is_error, command=action.command, path=path, **fields
    )
