"""What a session sees and may do, found out by a program that runs in it. Standard library only.

`python3 probe.py MARK`: prints one JSON object. `attacks` has for each attack what it gained, which
should be nothing; `seen` has facts. MARK is part of a path of the host that nobody in here knows.
Nothing is changed by an attack that succeeds: files of the kernel are opened and not written.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import json
import mmap
import os
import platform
import socket
import stat
import struct
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
IS_X86 = platform.machine() == "x86_64"

MAX_SHOWN = 20
"""Of what one attack gained; the rest is not told."""

REFUSED = {errno.EPERM, errno.EACCES, errno.ENOSYS, errno.EAFNOSUPPORT}

NAMESPACES = {
    "mount": 0x00020000,
    "cgroup": 0x02000000,
    "uts": 0x04000000,
    "ipc": 0x08000000,
    "user": 0x10000000,
    "pid": 0x20000000,
    "network": 0x40000000,
    "time": 0x80,
}

SYSTEM_CALLS: dict[
    str, tuple[int, int | None, tuple[object, ...]]
] = {  # by name: x86_64, aarch64, arguments that do no harm
    "mount": (165, 40, (None, b"/tmp", None, 0x1000, None)),
    "umount2": (166, 39, (b"/workspace", 0x8)),
    "pivot_root": (155, 41, (b"/tmp", b"/tmp")),
    "chroot": (161, 51, (b"/",)),
    "setns": (308, 268, (-1, 0)),
    "open_tree": (428, 428, (-100, b"/", 1)),
    "fsopen": (430, 430, (b"tmpfs", 0)),
    "move_mount": (429, 429, (-1, b"", -1, b"", 0)),
    "mount_setattr": (442, 442, (-1, b"", 0, None, 0)),
    "keyctl": (250, 219, (0, -3, 0)),
    "add_key": (248, 217, (b"user", b"probe", b"x", 1, -3)),
    "request_key": (249, 218, (b"user", b"probe", None, 0)),
    "io_uring_setup": (425, 425, (1, bytes(120))),
    "bpf": (321, 280, (0, bytes(72), 72)),
    "perf_event_open": (298, 241, (bytes(112), 0, -1, -1, 0)),
    "userfaultfd": (323, 282, (1,)),
    "open_by_handle_at": (304, 265, (-1, bytes(16), 0)),
    "pidfd_getfd": (438, 438, (-1, 0, 0)),
    "kexec_load": (246, 104, (0, 0, None, 0)),
    "kexec_file_load": (320, 294, (-1, -1, 0, b"", 0)),
    "init_module": (175, 105, (b"", 0, b"")),
    "finit_module": (313, 273, (-1, b"", 0)),
    "delete_module": (176, 106, (b"none", 0x800)),
    "reboot": (169, 142, (0, 0, 0, None)),
    "swapon": (167, 224, (b"/nowhere", 0)),
    "acct": (163, 89, (b"/nowhere",)),
    "quotactl": (179, 60, (0x800000, b"/nowhere", 0, None)),
    "syslog": (103, 116, (10, None, 0)),
    "personality": (135, 92, (0x0400000,)),
    "iopl": (172, None, (0,)),
    "ioperm": (173, None, (0, 1, 0)),
    "modify_ldt": (154, None, (0, bytes(16), 16)),
    "a later one than are known": (470, 470, (0,)),
}

SECRETS = (
    *("/etc/shadow", "/etc/gshadow", "/etc/ssl/private", "/etc/ssh", "/etc/sudoers"),
    os.path.join("/root", ".ssh"),
    *("/etc/NetworkManager", "/etc/docker", "/etc/kubernetes", "/etc/machine-id", "/etc/fstab"),
    *("/var/run/docker.sock", "/run/docker.sock", "/run/dbus", "/run/systemd", "/var/log"),
    *("/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/interrupts", "/proc/kmsg"),
    *("/proc/sched_debug", "/dev/kmsg", "/dev/mem", "/dev/port", "/dev/kvm", "/dev/net/tun"),
    *("/sys/kernel/debug", "/sys/kernel/tracing", "/sys/kernel/security", "/sys/firmware/acpi"),
)


# What is tried ----------------------------------------------------------------------------


def capabilities() -> list[str]:
    names = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
    return [f"{name} {status()[name]}" for name in names if int(status()[name], 16)]


def new_privileges() -> list[str]:
    return [] if status()["NoNewPrivs"] == "1" else ["a program may have more rights than we have"]


def kernel_files_to_write() -> list[str]:
    """Settings of the kernel, and whatever else of it is a file."""
    tops = [*("/proc/sys", "/proc/irq", "/proc/bus", "/proc/fs", "/proc/acpi", "/proc/scsi")]
    found = [path for top in (*tops, "/sys") for path in below(top)]
    names = ("sysrq-trigger", "mtrr", "timer_stats", "latency_stats", "slabinfo", "kcore", "kmem")
    return [path for path in (*found, *(f"/proc/{name}" for name in names)) if opens(path)]


def secrets_to_read() -> list[str]:
    return [path for path in SECRETS if reads(path)]


def devices() -> list[str]:
    usual = {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "console"}
    found = [each for each in Path("/dev").iterdir() if not each.is_symlink()]
    nodes = [each for each in found if stat.S_ISCHR(mode(each)) or stat.S_ISBLK(mode(each))]
    gained = [str(each) for each in nodes if each.name not in usual]
    for kind, place in ((stat.S_IFCHR, os.makedev(1, 1)), (stat.S_IFBLK, os.makedev(254, 0))):
        with contextlib.suppress(OSError):
            os.mknod("/tmp/probe-device", kind | 0o600, place)
            gained.append(f"made a device {place}")
            os.unlink("/tmp/probe-device")
    return gained


def namespaces() -> list[str]:
    gained = [f"unshare {name}" for name, flag in NAMESPACES.items() if in_child(unshares(flag))]
    clone = 56 if IS_X86 else 220
    for name, flag in NAMESPACES.items():
        if name != "time" and in_child(clones(clone, flag | 17)):
            gained.append(f"clone {name}")
        if in_child(clones_3(flag)):
            gained.append(f"clone3 {name}")
    return gained


def system_calls() -> list[str]:
    gained = []
    for name, (x86_64, aarch64, words) in SYSTEM_CALLS.items():
        number = x86_64 if IS_X86 else aarch64
        if number is not None and in_child(answers(number, words)):
            gained.append(name)
    return gained


def other_numbers() -> list[str]:
    """System calls as programs of 32 bits make them, for which there are other numbers."""
    if not IS_X86:
        return []
    gained = [] if not in_child(answers(39 | 1 << 30, ())) else ["getpid of x32"]
    return gained + (["getpid of i386"] if in_child(calls_as_i386) else [])


def socket_families() -> list[str]:
    return [name for name in families() if name not in ("UNIX", "INET", "INET6", "NETLINK")]


def raw_sockets() -> list[str]:
    gained = []
    for family in (socket.AF_INET, socket.AF_INET6, socket.AF_PACKET):
        with contextlib.suppress(OSError):
            socket.socket(family, socket.SOCK_RAW, 1).close()
            gained.append(f"raw {family.name}")
    return gained


def keys_of_whoever_started_us() -> list[str]:
    """A test puts one of this name into its own keyring."""
    search, read = 10, 11
    keyctl = 250 if IS_X86 else 219
    for keyring in (-3, -4, -5):
        key = libc.syscall(keyctl, search, keyring, b"user", b"bascule-attack", 0)
        text = ctypes.create_string_buffer(64)
        if key >= 0 and libc.syscall(keyctl, read, key, text, 64) >= 0:
            return [text.value.decode()]
    return []


def set_id_files() -> list[str]:
    """In the workspace, which may be somebody's folder."""
    made = []
    ways: dict[str, Callable[[str], object]] = {
        "chmod": lambda path: os.chmod(touched(path), 0o6755),
        "fchmod": lambda path: os.fchmod(os.open(path, os.O_CREAT | os.O_RDWR), 0o6755),
        "open": lambda path: os.open(path, os.O_CREAT | os.O_RDWR, 0o6755),
        "mknod": lambda path: os.mknod(path, stat.S_IFREG | 0o6755),
        "creat": lambda path: libc.creat(path.encode(), 0o6755),
        "O_TMPFILE": lambda path: links(os.open(".", os.O_TMPFILE | os.O_RDWR, 0o6755), path),
        "openat2": lambda path: libc.syscall(
            *(437, -100, path.encode(), struct.pack("3Q", os.O_CREAT | os.O_RDWR, 0o6755, 0), 24)
        ),
        "fchmodat2": lambda path: libc.syscall(452, -100, touched(path).encode(), 0o6755, 0),
    }
    os.umask(0)
    for name, make in ways.items():
        path = f"probe-{name}"
        with contextlib.suppress(OSError):
            make(path)
        with contextlib.suppress(FileNotFoundError):
            if mode(path) & 0o6000:
                made.append(name)
            os.unlink(path)
    return made


def mounts_that_keep_set_id_bits() -> list[str]:
    return [each for each, options in mounts().items() if "nosuid" not in options]


def paths_of_the_host(mark: str) -> list[str]:
    """In what any process in here tells. A mount tells where it is from, which cannot be helped."""
    gained = []
    for name in ("cmdline", "environ"):
        for path in Path("/proc").glob(f"[0-9]*/{name}"):
            with contextlib.suppress(OSError):
                if path.parent.name != str(os.getpid()) and mark.encode() in path.read_bytes():
                    gained.append(str(path))
    return gained


def other_users_processes() -> list[str]:
    """Those that are not ours: the first ones, which hold the namespaces, may be another's."""
    first = {1, *(int(Path(f"/proc/{os.getpid()}/stat").read_text().split()[3]),)}
    gained = []
    for entry in Path("/proc").glob("[0-9]*"):
        pid = int(entry.name)
        with contextlib.suppress(OSError, ProcessLookupError):
            if entry.stat().st_uid != os.getuid() and pid not in first:
                os.kill(pid, 0)
                gained.append(f"{pid} {(entry / 'comm').read_text().strip()}")
    return gained


def cgroups() -> list[str]:
    return [path for path in below("/sys/fs/cgroup") if opens(path)]


# What is seen ------------------------------------------------------------------------------


def seen() -> dict[str, Any]:
    return {
        "uid": os.getuid(),
        "groups": os.getgroups(),
        "uid_map": " ".join(Path("/proc/self/uid_map").read_text().split()),
        "no_new_privileges": status()["NoNewPrivs"],
        "seccomp": status()["Seccomp"],
        "capabilities": capabilities(),
        "writable_mounts": sorted(each for each, words in mounts().items() if "rw" in words),
        "interfaces": [name for _, name in socket.if_nameindex()],
        "gateways": gateways(),
        "families": families(),
        "devices": sorted(each.name for each in Path("/dev").iterdir()),
        "others": sorted(comm(each) for each in Path("/proc").glob("[0-9]*") if is_anothers(each)),
    }


# How ---------------------------------------------------------------------------------------


def status() -> dict[str, str]:
    lines = Path("/proc/self/status").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def mounts() -> dict[str, list[str]]:
    """By where each is: its options. A later one at the same place covers an earlier one."""
    lines = Path("/proc/self/mountinfo").read_text().splitlines()
    return {line.split()[4]: line.split()[5].split(",") for line in lines}


def families() -> list[str]:
    found = []
    for number in range(1, 60):
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET, socket.SOCK_RAW):
            try:
                socket.socket(number, kind).close()
            except OSError as error:
                # Whatever else it says, there was code that looked at what we asked.
                if error.errno in REFUSED | {errno.EINVAL, errno.ESOCKTNOSUPPORT}:
                    continue
                if error.errno == errno.EPROTONOSUPPORT:
                    continue
            with contextlib.suppress(ValueError):
                found.append(socket.AddressFamily(number).name.removeprefix("AF_"))
                break
            found.append(str(number))
            break
    return found


def gateways() -> list[str]:
    """By which everything that has no route of its own goes out."""
    rows = [line.split() for line in Path("/proc/net/route").read_text().splitlines()[1:]]
    return [
        socket.inet_ntoa(struct.pack("<I", int(gateway, 16)))
        for _, destination, gateway, *_ in rows
        if int(destination, 16) == 0 and int(gateway, 16) != 0
    ]


def is_anothers(entry: Path) -> bool:
    with contextlib.suppress(OSError):
        return entry.stat().st_uid != os.getuid()
    return False


def comm(entry: Path) -> str:
    with contextlib.suppress(OSError):
        return (entry / "comm").read_text().strip()
    return ""


def below(top: str) -> list[str]:
    return [str(Path(at, name)) for at, _, names in os.walk(top) for name in names]


def opens(path: str) -> bool:
    try:
        os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return True


def reads(path: str) -> bool:
    try:
        if Path(path).is_dir():
            # A directory of /etc that can be listed is a gain even if this machine has none in it.
            return bool(os.listdir(path)) or path.startswith("/etc/")
        if Path(path).is_socket():
            return True
        with open(path, "rb", buffering=0) as file:
            return bool(os.read(file.fileno(), 1))
    except OSError:
        return False


def touched(path: str) -> str:
    Path(path).touch()
    return path


def mode(path: str | Path) -> int:
    return os.lstat(path).st_mode


def links(descriptor: int, path: str) -> None:
    os.link(f"/proc/self/fd/{descriptor}", path, follow_symlinks=True)


def unshares(flag: int) -> Callable[[], bool]:
    return lambda: libc.unshare(flag) == 0


def clones(number: int, flags: int) -> Callable[[], bool]:
    return lambda: forks(libc.syscall(number, flags, None, None, None, None))


def clones_3(flags: int) -> Callable[[], bool]:
    asked = struct.pack("8Q", flags, 0, 0, 0, 17, 0, 0, 0)
    return lambda: forks(libc.syscall(435, asked, 64))


def forks(pid: int) -> bool:
    if pid == 0:
        os._exit(0)
    return pid > 0


def answers(number: int, words: Sequence[object]) -> Callable[[], bool]:
    """Whether anybody looks at it, however that ends."""

    def asks() -> bool:
        ctypes.set_errno(0)
        return libc.syscall(number, *words) >= 0 or ctypes.get_errno() not in REFUSED

    return asks


def calls_as_i386() -> bool:
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(bytes.fromhex("b814000000cd80c3"))  # mov eax, 20 (getpid); int 0x80; ret
    at = ctypes.addressof(ctypes.c_char.from_buffer(code))
    return bool(ctypes.CFUNCTYPE(ctypes.c_int)(at)() > 0)


def in_child(gains: Callable[[], bool]) -> bool:
    """Whether it gained something; a child that was killed did not."""
    pid = os.fork()
    if pid == 0:
        result = 1
        with contextlib.suppress(BaseException):
            result = 0 if gains() else 1
        os._exit(result)
    return os.waitpid(pid, 0)[1] == 0


def main(mark: str) -> None:
    attacks = [
        *(capabilities, new_privileges, kernel_files_to_write, secrets_to_read, devices, cgroups),
        *(namespaces, system_calls, other_numbers, socket_families, raw_sockets),
        *(keys_of_whoever_started_us, set_id_files, mounts_that_keep_set_id_bits),
        *(other_users_processes,),
    ]
    gained = {each.__name__: each()[:MAX_SHOWN] for each in attacks}
    gained["paths_of_the_host"] = paths_of_the_host(mark)
    sys.stdout.write(json.dumps({"attacks": gained, "seen": seen()}) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
