"""All errors of Bascule, in one class tree, sorted by how the caller can react.

    BasculeError
      UsageError          the request cannot be fulfilled; the caller must change it
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
        NoSuchSymbol        symbol.not_found        NoSuchCodeAction    symbol.no_action
        NoDebugSession      debug.no_session        NoDebugConfiguration  debug.no_configuration
        ProgramRunning      debug.running           AlreadyDebugging    debug.already
        NoTestCommand       tests.no_command        NoSuchTest          tests.not_found
        InvalidArchive      archive.invalid         InvalidRequest      request.invalid
        NoWindow            window.none             NoSuchWindow        window.not_found
        AmbiguousWindow     window.ambiguous        WindowTaken         window.taken
        InvalidNonce        nonce.invalid           InvalidPairing      pair.invalid
        VersionMismatch     version.mismatch        InvalidNet          net.invalid
        NoSuchElement       net.not_found           TraceMismatch       net.trace_mismatch
        NoSuchOperation     net.no_such_operation   NoSuchSession       session.not_found
        InvalidState        session.state           QuotaExceeded       quota.exceeded
        NoSuchSandbox       sandbox.not_found       AlreadyAnswered     approval.answered
        NoSuchCheckpoint    checkpoint.not_found    CheckpointsUnavailable  checkpoint.unavailable
        ForkNotMerged       fork.not_merged         NoSuchUser          user.not_found
        NoSuchProgram       program.not_found       ProgramInputClosed  program.input_closed
        InvalidNotebook     notebook.invalid        NoSuchCell          notebook.no_cell
        NoSuchTask          task.not_found          TaskBusy            task.running
        NoSuchTerminal      terminal.not_found      TerminalUnreadable  terminal.unreadable
        NoRepository        git.no_repository       NoChanges           git.no_changes
        NothingStaged       git.nothing_staged
      ExecutionError      the request was valid, but running it failed
        PermissionRefused   path.permission         StorageFailed       file.storage
        EditConflict        edit.conflict           SandboxDied         sandbox.died
        SandboxStartFailed  sandbox.start_failed    InternalError       internal
        MissingTool         machine.missing_tool    ActionCancelled     action.cancelled
        ActionTimedOut      action.timed_out        ConsentDenied       consent.denied
        UntrustedWorkspace  workspace.untrusted     BrowserCrashed      browser.crashed
        InscriptionFailed   net.inscription_failed  CannotIsolate       machine.cannot_isolate
        TargetBroken        target.broken           CloneFailed         workspace.clone_failed
        MissingExtra        machine.missing_extra   DeniedByRule        rule.denied
        DebugFailed         debug.failed            LanguageServerFailed  language.server_failed
        NoTestResults       tests.no_results        NoNotebookKernel    notebook.no_kernel
        GitFailed           git.failed
      LinkError           a connection failed or was lost; a retry may help
        SandboxUnreachable  sandbox.unreachable     RemoteError         (the peer's own code)
        HubUnreachable      hub.unreachable         WindowGone          window.gone
        WindowUnhealthy     window.unhealthy        OutcomeUnknown      outcome.unknown
        TargetUnreachable   target.unreachable      TargetTimedOut      target.timed_out
      BridgeError         a script's request to its window failed; also a `RuntimeError`
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
    """Base class: a message for users, a stable `code` for programs, `detail` for handlers."""

    code: ClassVar[str] = "internal"

    def __init__(self, message: str, **detail: Any) -> None:
        super().__init__(message)
        self.message = message
        self.detail: Mapping[str, Any] = detail


class UsageError(BasculeError):
    """The request cannot be fulfilled as it is; the message says what to change."""

    code = "usage"


class ExecutionError(BasculeError):
    """The request was valid, but running it failed."""

    code = "execution"


class LinkError(BasculeError):
    """A connection failed or was lost. Whether the request was carried out may be unknown."""

    code = "link"


# Requests -------------------------------------------------------------------------------


class InvalidAction(UsageError):
    """An event has the wrong shape: a field is missing or has the wrong type."""

    code = "action.invalid"


class UnknownKind(UsageError):
    """The kind of an action or observation is unknown to this version."""

    code = "action.unknown_kind"


class NotSupported(UsageError):
    """The runtime lacks the capability this action needs."""

    code = "capability.missing"


class InvalidSetting(UsageError):
    """A setting, flag or environment variable has an impossible value."""

    code = "setting.invalid"


class InvalidRequest(UsageError):
    """The path, method, query or content type of an HTTP request is not valid."""

    code = "request.invalid"


class MessageTooLarge(UsageError):
    """A message is larger than the receiver accepts."""

    code = "message.too_large"


class AccessDenied(UsageError):
    """The key or token is missing or wrong, or the origin of the request is not allowed."""

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
    """No shell can run this text: it contains a NUL byte, or exceeds the size limit."""

    code = "shell.command_invalid"


class LogRangeGone(UsageError):
    """That part of the shell's log was dropped to stay within the log's size limit."""

    code = "shell.log_range_gone"


# Programs -------------------------------------------------------------------------------


class NoSuchProgram(UsageError):
    """No program with this id was started, or it ended long ago and is forgotten."""

    code = "program.not_found"


class ProgramInputClosed(UsageError):
    """The program's stdin cannot be written: it was closed, or the program has ended."""

    code = "program.input_closed"


# Paths, files, edits --------------------------------------------------------------------


class InvalidPath(UsageError):
    code = "path.invalid"


class PathOutsideRoots(UsageError):
    """Confinement is on, and the path with links resolved is outside the allowed roots."""

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
    """The file is not text, and not of a media type that can be shown."""

    code = "file.binary"


class FileTooLarge(UsageError):
    code = "file.too_large"


class UndecodableFile(UsageError):
    """The file seems to be text, but no known encoding would preserve it exactly."""

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
    """The text to replace occurs more than once, so the right occurrence is unknown."""

    code = "edit.ambiguous"


class NoEditHistory(UsageError):
    code = "edit.no_history"


class NoSuchSymbol(UsageError):
    """The named text is not in the named line. The message shows the line."""

    code = "symbol.not_found"


class NoSuchCodeAction(UsageError):
    """There is no code action with this title there. The message lists the titles there are."""

    code = "symbol.no_action"


class NoDebugSession(UsageError):
    """The agent debugs nothing in this window."""

    code = "debug.no_session"


class NoDebugConfiguration(UsageError):
    """There is no such launch configuration or type of debugger. The message lists the others."""

    code = "debug.no_configuration"


class ProgramRunning(UsageError):
    """The program in the debugger runs, so it has no stack to look at or step in."""

    code = "debug.running"


class AlreadyDebugging(UsageError):
    """The agent debugs a program already, and can debug one at a time."""

    code = "debug.already"


class NoTestCommand(UsageError):
    """The workspace has no such test command. The message lists those there are."""

    code = "tests.no_command"


class NoSuchTest(UsageError):
    """No test fits the arguments."""

    code = "tests.not_found"


class InvalidNotebook(UsageError):
    """The file is not a notebook, or its JSON is broken."""

    code = "notebook.invalid"


class NoSuchCell(UsageError):
    """The notebook has no such cell, or the cell has no code."""

    code = "notebook.no_cell"


class NoSuchTask(UsageError):
    """The window has no such task, several of this name, or the task does not run; the message
    lists those there are."""

    code = "task.not_found"


class TaskBusy(UsageError):
    """The task already runs. `stop_task` ends it."""

    code = "task.running"


class NoSuchTerminal(UsageError):
    """The window has no such terminal, or several of this name; the message lists those there
    are."""

    code = "terminal.not_found"


class TerminalUnreadable(UsageError):
    """VS Code does not hand out the output of this terminal: its shell integration is off, or the
    terminal belongs to an extension or a task."""

    code = "terminal.unreadable"


class NoRepository(UsageError):
    """The window has no such git repository, or several; the message lists those there are."""

    code = "git.no_repository"


class NoChanges(UsageError):
    """A path has no changes to stage, or none that are staged; the message lists paths that
    have."""

    code = "git.no_changes"


class NothingStaged(UsageError):
    """There is nothing to commit. `git_stage` stages changes."""

    code = "git.nothing_staged"


class InvalidArchive(UsageError):
    """The archive is damaged, or has entries with paths outside the destination."""

    code = "archive.invalid"


# Windows --------------------------------------------------------------------------------


class NoWindow(UsageError):
    """No window is connected to the hub, or none matches the selector."""

    code = "window.none"


class NoSuchWindow(UsageError):
    """The hub has no window with this id."""

    code = "window.not_found"


class AmbiguousWindow(UsageError):
    """Several windows match the selector, so the right one is unknown."""

    code = "window.ambiguous"


class WindowTaken(UsageError):
    """The window id is registered by a client with another key."""

    code = "window.taken"


class InvalidNonce(UsageError):
    """The nonce was used already, has expired, or was issued to another socket."""

    code = "nonce.invalid"


class InvalidPairing(UsageError):
    """The pairing code is wrong, used or expired, or too many wrong codes were sent recently."""

    code = "pair.invalid"


class VersionMismatch(UsageError):
    """The two sides speak different versions of the protocol; one of them needs an update."""

    code = "version.mismatch"


# Sessions -------------------------------------------------------------------------------


class NoSuchSession(UsageError):
    """The hub has no session with this id, or the caller may not see it."""

    code = "session.not_found"


class NoSuchUser(UsageError):
    """The hub has no user with this name."""

    code = "user.not_found"


class InvalidState(UsageError):
    """The operation is not possible in the session's state; the message names both."""

    code = "session.state"


class ForkNotMerged(UsageError):
    """The fork has changes that were not merged, so it is not removed."""

    code = "fork.not_merged"


class NoSuchCheckpoint(UsageError):
    """There is no checkpoint with this id, or it was removed to save space."""

    code = "checkpoint.not_found"


class CheckpointsUnavailable(UsageError):
    """The workspace gets no checkpoints: it is too large, or not a project's folder."""

    code = "checkpoint.unavailable"


class AlreadyAnswered(UsageError):
    """The approval a window asked for was already answered, or the request was withdrawn."""

    code = "approval.answered"


class QuotaExceeded(UsageError):
    """The request would exceed a limit; the message names it and the setting that raises it."""

    code = "quota.exceeded"


class NoSuchSandbox(UsageError):
    """No sandbox runs for this session."""

    code = "sandbox.not_found"


# Nets -----------------------------------------------------------------------------------


class InvalidNet(UsageError):
    """The file is not a valid net; the message lists the problems with their lines."""

    code = "net.invalid"


class NoSuchElement(UsageError):
    """The net has no place or transition with this name."""

    code = "net.not_found"


class TraceMismatch(UsageError):
    """A trace contains firings that are impossible in this net."""

    code = "net.trace_mismatch"


class NoSuchOperation(UsageError, RuntimeError):
    """A net uses a kind of asynchronous operation that is not registered.

    Also a `RuntimeError`, which nets written for other engines catch.
    """

    code = "net.no_such_operation"


# Failures of valid requests -------------------------------------------------------------


class PermissionRefused(ExecutionError):
    """The operating system refused access to a path."""

    code = "path.permission"


class StorageFailed(ExecutionError):
    """The disk or file system failed (full, read-only, too many links)."""

    code = "file.storage"


class EditConflict(ExecutionError):
    """The file changed during the edit; nothing was written."""

    code = "edit.conflict"


class ActionCancelled(ExecutionError):
    """The action was cancelled, but not by the caller that waits for it."""

    code = "action.cancelled"


class ActionTimedOut(ExecutionError):
    """The action reached its timeout; parts that it had started may still take effect."""

    code = "action.timed_out"


class ConsentDenied(ExecutionError):
    """A person refused the action, did not answer in time, or could not be asked."""

    code = "consent.denied"


class LanguageServerFailed(ExecutionError):
    """A language server could not start, ended, or refused a request. The message has its reason.
    The next action starts it again."""

    code = "language.server_failed"


class DebugFailed(ExecutionError):
    """The debugger could not do it: start the program, evaluate the expression, and so on."""

    code = "debug.failed"


class NoTestResults(ExecutionError):
    """A test command ended without results. The message has its exit code and the end of its
    output."""

    code = "tests.no_results"


class NoNotebookKernel(ExecutionError):
    """No cell has started: the user has not chosen a kernel, or the kernel refused the cells."""

    code = "notebook.no_kernel"


class GitFailed(ExecutionError):
    """git could not do it; the message has what git said."""

    code = "git.failed"


class DeniedByRule(ExecutionError):
    """A rule denies the command; the message names the rule and its reason."""

    code = "rule.denied"


class UntrustedWorkspace(ExecutionError):
    """The user has not trusted the window's workspace, so the window runs no action."""

    code = "workspace.untrusted"


class InscriptionFailed(ExecutionError):
    """Code in a net raised an exception; the firing was undone. The message names the line."""

    code = "net.inscription_failed"


class SandboxDied(ExecutionError):
    """The sandbox ended while it was needed."""

    code = "sandbox.died"


class SandboxStartFailed(ExecutionError):
    """A sandbox or one of its servers failed to start; the message has the cause."""

    code = "sandbox.start_failed"


class BrowserCrashed(ExecutionError):
    """The browser ended during the action. The next action starts a new one, without the tabs."""

    code = "browser.crashed"


class CloneFailed(ExecutionError):
    """A workspace could not be cloned; the message contains git's error."""

    code = "workspace.clone_failed"


class CannotIsolate(ExecutionError):
    """This machine cannot isolate sessions from each other and from the host."""

    code = "machine.cannot_isolate"


class TargetBroken(ExecutionError):
    """A server in a session sent an invalid response, which cannot be forwarded."""

    code = "target.broken"


class MissingTool(ExecutionError):
    """A required program is not installed; the message says how to install it."""

    code = "machine.missing_tool"


class MissingExtra(ExecutionError, ImportError):
    """An optional part of Bascule is not installed; the message has the command to install it."""

    code = "machine.missing_extra"

    def __str__(self) -> str:
        return self.message  # `ImportError` has its own text, which is empty here


class InternalError(ExecutionError):
    """A bug in Bascule. The traceback is in the log of the process that raised it."""

    code = "internal"


# Links ----------------------------------------------------------------------------------


class SandboxUnreachable(LinkError):
    """The action server does not answer; it may have ended, be starting or be paused."""

    code = "sandbox.unreachable"


class HubUnreachable(LinkError):
    """The hub does not answer, or is stopping."""

    code = "hub.unreachable"


class WindowGone(LinkError):
    """The window is not connected. The same action may be sent again: windows run an id once."""

    code = "window.gone"


class WindowUnhealthy(LinkError):
    """The window is connected, but its editor does not respond."""

    code = "window.unhealthy"


class OutcomeUnknown(LinkError):
    """The action was started, but its result is lost. It is not run a second time."""

    code = "outcome.unknown"


class TargetUnreachable(LinkError):
    """A server in a session accepts no connection; it may not have started, or have ended."""

    code = "target.unreachable"


class TargetTimedOut(LinkError):
    """A server in a session accepted a connection but did not answer in time."""

    code = "target.timed_out"


class RemoteError(LinkError):
    """The peer reported an error whose code this version does not know."""

    code = "remote"

    def __init__(self, message: str, *, remote_code: str, **detail: Any) -> None:
        super().__init__(message, **detail)
        self.remote_code = remote_code


# Bridges --------------------------------------------------------------------------------


class BridgeError(BasculeError, RuntimeError):
    """A script's request to its window failed.

    Also a `RuntimeError`, so that scripts can catch it without importing this module.
    """

    code = "bridge"


class BridgeUnavailable(BridgeError):
    """The script has no window; the message says how to start the script with one."""

    code = "bridge.unavailable"


class BridgeRefused(BridgeError):
    """The window rejected the token: it is wrong, or its run has ended."""

    code = "bridge.refused"


class BridgeClosed(BridgeError):
    """The connection was lost or closed before the answer; the request may have taken effect."""

    code = "bridge.closed"


class BridgeTimeout(BridgeError, TimeoutError):
    """The request reached its timeout; the window was asked to cancel it."""

    code = "bridge.timed_out"


class BridgeCancelled(BridgeError):
    """The user or the caller cancelled the request."""

    code = "bridge.cancelled"


class BridgeProtocol(BridgeError):
    """The peer sent data that is not a valid bridge message."""

    code = "bridge.protocol"


class BridgeTooLarge(BridgeError):
    """A request or its answer exceeds the size limit of a message."""

    code = "bridge.too_large"


class BridgeBusy(BridgeError):
    """The run already has too many pending requests."""

    code = "bridge.busy"


class UnknownRequest(BridgeError):
    """The window does not know this type of request; a newer extension may."""

    code = "bridge.unknown_type"


class InvalidParams(BridgeError):
    """A parameter is missing or has the wrong type; the message names it."""

    code = "bridge.invalid_params"


class NotAllowed(BridgeError):
    """The user, the settings or an untrusted workspace do not allow the request."""

    code = "bridge.not_allowed"


class BridgeFailed(BridgeError):
    """The window could not carry out the request; the message has the cause."""

    code = "bridge.failed"


class ChatUnavailable(BridgeError):
    """The window has no language model, or not the requested one."""

    code = "chat.unavailable"


class ChatBlocked(BridgeError):
    """The model refused, or the user has not allowed the extension to use it."""

    code = "chat.blocked"


class CommandFailed(BridgeError):
    """VS Code does not know the command, or the command threw an error."""

    code = "command.failed"


class NotSerializable(BridgeError):
    """The command ran, but its result cannot be serialized as JSON."""

    code = "command.not_serializable"


class BridgeRemoteError(BridgeError):
    """The window reported an error whose code this version does not know."""

    code = "bridge.remote"

    def __init__(self, message: str, *, remote_code: str = "", **detail: Any) -> None:
        super().__init__(message, **detail)
        self.remote_code = remote_code
