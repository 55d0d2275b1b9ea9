"""Everything that can go wrong, in one tree, sorted by who can act on it.

    BasculeError
      UsageError          the caller asked the impossible; asking differently helps
        InvalidAction       action.invalid          UnknownKind         action.unknown_kind
        NotSupported        capability.missing      InvalidSetting      setting.invalid
        MessageTooLarge     message.too_large       AccessDenied        access.denied
        InvalidShellName    shell.invalid_name      TooManyShells       shell.too_many
        ShellClosed         shell.closed            CommandInvalid      shell.command_invalid
        NoSuchShell         shell.not_found         LogRangeGone        shell.log_range_gone
        InvalidPath         path.invalid            PathOutsideRoots    path.outside_roots
        NoSuchPath          path.not_found          PathExists          path.exists
        IsADirectory        path.is_directory       NotADirectory       path.not_directory
        DirectoryNotEmpty   path.not_empty          BinaryFile          file.binary
        FileTooLarge        file.too_large          UndecodableFile     file.undecodable
        InvalidRange        file.invalid_range      InvalidPattern      search.invalid_pattern
        EditNoMatch         edit.no_match           EditAmbiguous       edit.ambiguous
        EditInvalid         edit.invalid            NoEditHistory       edit.no_history
        InvalidArchive      archive.invalid         InvalidRequest      request.invalid
        NoWindow            window.none             NoSuchWindow        window.not_found
        AmbiguousWindow     window.ambiguous        WindowTaken         window.taken
        InvalidNonce        nonce.invalid           InvalidPairing      pair.invalid
        VersionMismatch     version.mismatch        InvalidNet          net.invalid
        NoSuchElement       net.not_found           TraceMismatch       net.trace_mismatch
        NoSuchOperation     net.no_such_operation   NoSuchSession       session.not_found
        InvalidState        session.state           QuotaExceeded       quota.exceeded
        NoSuchSandbox       sandbox.not_found       AlreadyAnswered     approval.answered
      ExecutionError      the work could not be finished; the sandbox or machine said no
        PermissionRefused   path.permission         StorageFailed       file.storage
        EditConflict        edit.conflict           SandboxDied         sandbox.died
        SandboxStartFailed  sandbox.start_failed    InternalError       internal
        MissingTool         machine.missing_tool    ActionCancelled     action.cancelled
        ActionTimedOut      action.timed_out        ConsentDenied       consent.denied
        UntrustedWorkspace  workspace.untrusted     BrowserCrashed      browser.crashed
        InscriptionFailed   net.inscription_failed  CannotIsolate       machine.cannot_isolate
        TargetBroken        target.broken           CloneFailed         workspace.clone_failed
      LinkError           two ends lost each other; trying again may help
        SandboxUnreachable  sandbox.unreachable     RemoteError         (the peer's own code)
        HubUnreachable      hub.unreachable         WindowGone          window.gone
        WindowUnhealthy     window.unhealthy        OutcomeUnknown      outcome.unknown
        TargetUnreachable   target.unreachable      TargetTimedOut      target.timed_out
      BridgeError         a script asked its window and got no answer; a `RuntimeError` as well
        BridgeUnavailable   bridge.unavailable      BridgeRefused       bridge.refused
        BridgeClosed        bridge.closed           BridgeTimeout       bridge.timed_out
        BridgeCancelled     bridge.cancelled        BridgeProtocol      bridge.protocol
        BridgeTooLarge      bridge.too_large        BridgeBusy          bridge.busy
        UnknownRequest      bridge.unknown_type     InvalidParams       bridge.invalid_params
        NotAllowed          bridge.not_allowed      BridgeFailed        bridge.failed
        ChatUnavailable     chat.unavailable        ChatBlocked         chat.blocked
        CommandFailed       command.failed          NotSerializable     command.not_serializable
        BridgeRemoteError   bridge.remote

Every class has a `code`, stable across versions; over the wire an error is
`{code, message, detail}` and `bascule.wire.errors` turns the code back into the class.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar


class BasculeError(Exception):
    """The root: a message for people, a `code` for programs, `detail` for handlers."""

    code: ClassVar[str] = "internal"

    def __init__(self, message: str, **detail: Any) -> None:
        super().__init__(message)
        self.message = message
        self.detail: Mapping[str, Any] = detail


class UsageError(BasculeError):
    """The caller asked the impossible; the message says how to ask differently."""

    code = "usage"


class ExecutionError(BasculeError):
    """The request was fine, but the work could not be finished."""

    code = "execution"


class LinkError(BasculeError):
    """Two ends lost each other. Whether the work was done may be unknown."""

    code = "link"


# What was asked -------------------------------------------------------------------------


class InvalidAction(UsageError):
    """An event has the wrong shape: a field is missing or has the wrong type."""

    code = "action.invalid"


class UnknownKind(UsageError):
    """An action or observation kind nobody here knows."""

    code = "action.unknown_kind"


class NotSupported(UsageError):
    """The runtime lacks the capability this action needs."""

    code = "capability.missing"


class InvalidSetting(UsageError):
    """A setting, flag or environment variable has an impossible value."""

    code = "setting.invalid"


class InvalidRequest(UsageError):
    """An HTTP request the server cannot place: its path, method, query or kind of body."""

    code = "request.invalid"


class MessageTooLarge(UsageError):
    """A message is larger than the receiver accepts."""

    code = "message.too_large"


class AccessDenied(UsageError):
    """The key is missing or wrong, or the request comes from a place that may not ask."""

    code = "access.denied"


# Shells ---------------------------------------------------------------------------------


class InvalidShellName(UsageError):
    code = "shell.invalid_name"


class TooManyShells(UsageError):
    code = "shell.too_many"


class NoSuchShell(UsageError):
    code = "shell.not_found"


class ShellClosed(UsageError):
    """The shell was closed; open another."""

    code = "shell.closed"


class CommandInvalid(UsageError):
    """No shell could run this text (it holds a NUL byte, or is beyond the size limit)."""

    code = "shell.command_invalid"


class LogRangeGone(UsageError):
    """That part of the shell's log was dropped to stay within its bound on disk."""

    code = "shell.log_range_gone"


# Paths, files, edits --------------------------------------------------------------------


class InvalidPath(UsageError):
    code = "path.invalid"


class PathOutsideRoots(UsageError):
    """Confinement is on and the path, links resolved, leads outside the allowed roots."""

    code = "path.outside_roots"


class NoSuchPath(UsageError):
    code = "path.not_found"


class PathExists(UsageError):
    code = "path.exists"


class IsADirectory(UsageError):
    code = "path.is_directory"


class NotADirectory(UsageError):
    code = "path.not_directory"


class DirectoryNotEmpty(UsageError):
    code = "path.not_empty"


class BinaryFile(UsageError):
    """The file is not text and has no media type we can show."""

    code = "file.binary"


class FileTooLarge(UsageError):
    code = "file.too_large"


class UndecodableFile(UsageError):
    """The file looks like text, but in no encoding we can keep exactly."""

    code = "file.undecodable"


class InvalidRange(UsageError):
    code = "file.invalid_range"


class InvalidPattern(UsageError):
    code = "search.invalid_pattern"


class EditInvalid(UsageError):
    """The edit command is unknown, or lacks a parameter it needs."""

    code = "edit.invalid"


class EditNoMatch(UsageError):
    code = "edit.no_match"


class EditAmbiguous(UsageError):
    """The text to replace occurs more than once; replacing any of them could be wrong."""

    code = "edit.ambiguous"


class NoEditHistory(UsageError):
    code = "edit.no_history"


class InvalidArchive(UsageError):
    """An archive that is broken, or holds entries that would leave the destination."""

    code = "archive.invalid"


# Windows --------------------------------------------------------------------------------


class NoWindow(UsageError):
    """No window is connected to the hub, or none answers to the selector."""

    code = "window.none"


class NoSuchWindow(UsageError):
    """The hub knows no window by this id."""

    code = "window.not_found"


class AmbiguousWindow(UsageError):
    """Several windows answer to the selector; acting in any of them could be the wrong one."""

    code = "window.ambiguous"


class WindowTaken(UsageError):
    """The window id belongs to somebody with another key."""

    code = "window.taken"


class InvalidNonce(UsageError):
    """The nonce was used, is too old, or was given to another socket."""

    code = "nonce.invalid"


class InvalidPairing(UsageError):
    """The pairing code is wrong, used or too old, or too many wrong ones came lately."""

    code = "pair.invalid"


class VersionMismatch(UsageError):
    """The two ends speak different versions of the protocol; one of them needs an update."""

    code = "version.mismatch"


# Sessions -------------------------------------------------------------------------------


class NoSuchSession(UsageError):
    """The hub has no session by this id, or none that whoever asks may see."""

    code = "session.not_found"


class InvalidState(UsageError):
    """The session is in a state in which this cannot be done; the message names both."""

    code = "session.state"


class AlreadyAnswered(UsageError):
    """Somebody else was first to answer what a window asked, or nobody asks any more."""

    code = "approval.answered"


class QuotaExceeded(UsageError):
    """A limit would be passed; the message names it and the setting that raises it."""

    code = "quota.exceeded"


class NoSuchSandbox(UsageError):
    """No sandbox runs for this session."""

    code = "sandbox.not_found"


# Nets -----------------------------------------------------------------------------------


class InvalidNet(UsageError):
    """The file is no net; the message has what is wrong, line by line."""

    code = "net.invalid"


class NoSuchElement(UsageError):
    """A net has no place or transition of this name."""

    code = "net.not_found"


class TraceMismatch(UsageError):
    """A trace tells of firings that this net cannot have made."""

    code = "net.trace_mismatch"


class NoSuchOperation(UsageError, RuntimeError):
    """A net asks for a kind of asynchronous operation that is not offered here.

    A `RuntimeError` too, which is what nets written for other engines catch.
    """

    code = "net.no_such_operation"


# The work could not be finished ---------------------------------------------------------


class PermissionRefused(ExecutionError):
    """The operating system refused access to a path."""

    code = "path.permission"


class StorageFailed(ExecutionError):
    """The disk or file system failed (full, read-only, too many links)."""

    code = "file.storage"


class EditConflict(ExecutionError):
    """The file changed under the edit; nothing was written."""

    code = "edit.conflict"


class ActionCancelled(ExecutionError):
    """Somebody other than the one who waits for it cancelled the action."""

    code = "action.cancelled"


class ActionTimedOut(ExecutionError):
    """The action took longer than it was given; what it had begun may still take effect."""

    code = "action.timed_out"


class ConsentDenied(ExecutionError):
    """The user of the window refused the action, or did not answer in time."""

    code = "consent.denied"


class UntrustedWorkspace(ExecutionError):
    """The user has not trusted the window's workspace; nothing is done in it."""

    code = "workspace.untrusted"


class InscriptionFailed(ExecutionError):
    """Code in a net raised; the firing was undone, and the message says at which line."""

    code = "net.inscription_failed"


class SandboxDied(ExecutionError):
    """The sandbox ended while it was needed."""

    code = "sandbox.died"


class SandboxStartFailed(ExecutionError):
    """A sandbox or one of its parts did not come up; the message has the cause."""

    code = "sandbox.start_failed"


class BrowserCrashed(ExecutionError):
    """The browser ended during the action; the next action starts another, without its tabs."""

    code = "browser.crashed"


class CloneFailed(ExecutionError):
    """A workspace could not be cloned; the message has git's own words."""

    code = "workspace.clone_failed"


class CannotIsolate(ExecutionError):
    """This machine cannot keep sessions apart from each other and from itself."""

    code = "machine.cannot_isolate"


class TargetBroken(ExecutionError):
    """A server in a session answered, but not with anything that can be passed on."""

    code = "target.broken"


class MissingTool(ExecutionError):
    """The machine lacks a program this needs; the message says how to get it."""

    code = "machine.missing_tool"


class InternalError(ExecutionError):
    """A fault of ours. The traceback is in the log of the process that raised it."""

    code = "internal"


# Links ----------------------------------------------------------------------------------


class SandboxUnreachable(LinkError):
    """The action server does not answer; it may be gone, starting or paused."""

    code = "sandbox.unreachable"


class HubUnreachable(LinkError):
    """The hub does not answer, or is stopping."""

    code = "hub.unreachable"


class WindowGone(LinkError):
    """The window is not connected. It does an action id once, so the same may be sent again."""

    code = "window.gone"


class WindowUnhealthy(LinkError):
    """The window is connected, but its editor does not answer."""

    code = "window.unhealthy"


class OutcomeUnknown(LinkError):
    """The action was begun and nobody can tell how it ended; it is not done a second time."""

    code = "outcome.unknown"


class TargetUnreachable(LinkError):
    """A server in a session takes no connection; it may not have started, or have ended."""

    code = "target.unreachable"


class TargetTimedOut(LinkError):
    """A server in a session took a connection but did not answer in time."""

    code = "target.timed_out"


class RemoteError(LinkError):
    """The peer reported an error whose code this version does not know."""

    code = "remote"

    def __init__(self, message: str, *, remote_code: str, **detail: Any) -> None:
        super().__init__(message, **detail)
        self.remote_code = remote_code


# Bridges --------------------------------------------------------------------------------


class BridgeError(BasculeError, RuntimeError):
    """A script asked something of its window and got no answer.

    A `RuntimeError` too, so that scripts can catch it without knowing this tree.
    """

    code = "bridge"


class BridgeUnavailable(BridgeError):
    """There is no window to ask; the message says how to start the script so that there is."""

    code = "bridge.unavailable"


class BridgeRefused(BridgeError):
    """The window does not take this token: it is wrong, or its run has ended."""

    code = "bridge.refused"


class BridgeClosed(BridgeError):
    """The connection was lost, or closed, before the answer; it may have been done all the same."""

    code = "bridge.closed"


class BridgeTimeout(BridgeError, TimeoutError):
    """No answer in the time that was given; the window was told to stop."""

    code = "bridge.timed_out"


class BridgeCancelled(BridgeError):
    """The user, or the one who asked, cancelled it."""

    code = "bridge.cancelled"


class BridgeProtocol(BridgeError):
    """The peer sent something that is no message of the bridge."""

    code = "bridge.protocol"


class BridgeTooLarge(BridgeError):
    """A question or its answer is larger than a message may be."""

    code = "bridge.too_large"


class BridgeBusy(BridgeError):
    """Too many questions of this run wait for an answer already."""

    code = "bridge.busy"


class UnknownRequest(BridgeError):
    """The window does not know this type of request; a newer extension may."""

    code = "bridge.unknown_type"


class InvalidParams(BridgeError):
    """A parameter is missing or has the wrong type; the message names it."""

    code = "bridge.invalid_params"


class NotAllowed(BridgeError):
    """The user, the settings or an untrusted workspace do not allow it."""

    code = "bridge.not_allowed"


class BridgeFailed(BridgeError):
    """The window tried and could not; the message has the cause."""

    code = "bridge.failed"


class ChatUnavailable(BridgeError):
    """The window has no language model, or not the one that was asked for."""

    code = "chat.unavailable"


class ChatBlocked(BridgeError):
    """The model refused, or the user has not let this extension use it."""

    code = "chat.blocked"


class CommandFailed(BridgeError):
    """VS Code does not know the command, or it threw."""

    code = "command.failed"


class NotSerializable(BridgeError):
    """The command was run, but JSON has no words for what it returned."""

    code = "command.not_serializable"


class BridgeRemoteError(BridgeError):
    """The window reported an error whose code this version does not know."""

    code = "bridge.remote"

    def __init__(self, message: str, *, remote_code: str = "", **detail: Any) -> None:
        super().__init__(message, **detail)
        self.remote_code = remote_code
