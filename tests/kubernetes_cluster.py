"""A Kubernetes cluster of the tests' own, with one node, and the image of its sessions.

`python -m tests.kubernetes_cluster COMMAND...` runs the command with a cluster, in process, network
and mount namespaces of their own: everything ends with the first process, also when the tests are
killed, and the command reaches pods by their addresses. Without the program that
`scripts/kubernetes` builds it says so, and runs the command without a cluster.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.kubernetes_image import PAUSE, PYTHON, is_possible, write_images

PROJECT = Path(__file__).parent.parent
SHARED = "BASCULE_TESTS_CLUSTER"
"""The variable that names the cluster of a run of tests: its directory."""
NAMESPACE = "bascule-sessions"
ADDRESS = "10.250.0.1"
"""Of the node, on the bridge of its pods."""
PORT = 6443
BRIDGE = "pods0"
CGROUPS = Path("/sys/fs/cgroup")
HUB = "hub-token"
ADMIN = "admin-token"

NEEDED = ("etcd", "containerd", "ctr", "runc", "unshare", "ip", "nft", "openssl")

FIRST = """
import os, signal, sys
pid = os.fork()
if pid == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
signal.signal(signal.SIGTERM, lambda *_: os.kill(pid, signal.SIGTERM))
while True:
    ended, status = os.wait()
    if ended == pid:
        sys.exit(os.waitstatus_to_exitcode(status) & 255)
"""
"""The first process of the namespaces: it runs a command and reaps orphans."""


class CannotRun(Exception):
    """Why there is no cluster here."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """A cluster that runs, from `running`."""

    place: Path

    @property
    def server(self) -> str:
        return f"https://{ADDRESS}:{PORT}"

    @property
    def authority(self) -> Path:
        return self.place / "apiserver" / "apiserver.crt"

    def kubeconfig(self, name: str, token: str) -> Path:
        path = self.place / f"{name}.json"
        cluster = {"server": self.server, "certificate-authority": str(self.authority)}
        context = {"cluster": "c", "user": "u", "namespace": NAMESPACE}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "contexts": [{"name": "c", "context": context}],
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": token}}],
        }
        path.write_text(json.dumps(config))
        return path

    def call(self, method: str, path: str, body: Any = None, *, token: str = ADMIN) -> Any:
        """A call as an administrator. Raises `urllib.error.HTTPError`."""
        request = urllib.request.Request(
            f"{self.server}/{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        )
        tls = ssl.create_default_context(cafile=str(self.authority))
        with urllib.request.urlopen(request, context=tls, timeout=30) as answer:
            return json.loads(answer.read() or b"{}")

    def apply(self, *objects: Mapping[str, Any]) -> None:
        """Create objects, unless they exist."""
        for each in objects:
            try:
                self.call("POST", _path_of(each), each)
            except urllib.error.HTTPError as error:
                if error.code != 409:
                    raise

    @contextmanager
    def isolated(self) -> Iterator[None]:
        """Meanwhile pods can open no connection, as a network plug-in would enforce it that knows
        our policies. The cluster's own plug-in enforces none."""
        _run("nft", "-f", "-", text=POLICY)
        try:
            yield
        finally:
            _run("nft", "delete", "table", "inet", "isolation")


POLICY = f"""
table inet isolation {{
    chain from_pods_to_node {{
        type filter hook input priority 0;
        iifname "{BRIDGE}" ct state established,related accept
        iifname "{BRIDGE}" drop
    }}
    chain from_pods {{
        type filter hook forward priority 0;
        iifname "{BRIDGE}" ct state established,related accept
        iifname "{BRIDGE}" drop
    }}
}}
"""


def running() -> Cluster:
    """The cluster of this run of tests."""
    if SHARED not in os.environ:
        raise CannotRun("no cluster was started; run scripts/test-kubernetes")
    return Cluster(Path(os.environ[SHARED]))


# Starting ---------------------------------------------------------------------------------


@contextmanager
def started(place: Path) -> Iterator[Cluster]:
    """A new cluster, in the namespaces of this process."""
    node = _Node(place, str(_program()))
    try:
        node.start()
        yield Cluster(place)
    except CannotRun:
        for log in sorted(place.glob("*.log")):
            _say(f"---- {log.name}\n{log.read_text(errors='replace')[-2500:]}")
        raise
    finally:
        node.stop()


def ensure_possible() -> None:
    _program()
    if sys.platform != "linux" or os.geteuid() != 0:
        raise CannotRun("a cluster of the tests' own needs Linux and root")
    if not is_possible():
        raise CannotRun(f"the image of sessions needs {PYTHON}, and a .venv of the same version")
    if missing := [each for each in NEEDED if shutil.which(each) is None]:
        raise CannotRun(f"missing: {', '.join(missing)} (scripts/kubernetes installs them)")


def _program() -> Path:
    found = subprocess.run(
        ["scripts/kubernetes", "--where"], cwd=PROJECT, capture_output=True, text=True
    )
    if found.returncode != 0:
        raise CannotRun("Kubernetes is not built; scripts/kubernetes builds it, in some minutes")
    return Path(found.stdout.strip())


class _Node:
    """The parts of the cluster, as children of this process."""

    def __init__(self, place: Path, program: str) -> None:
        self.place = place
        self.program = program
        self.cluster = Cluster(place)
        self.parts: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        self._network()
        self._keys()
        self._launch(
            "etcd",
            *("etcd", f"--data-dir={self.place}/etcd", "--unsafe-no-fsync"),
            *("--listen-peer-urls=http://127.0.0.1:2380",),
        )
        self._api_server()
        admin = self.cluster.kubeconfig("admin", ADMIN)
        self._containerd()
        quiet = ("--leader-elect=false", "--port=0", "--secure-port=0")
        self._launch(
            "controller-manager",
            *(self.program, "controller-manager", f"--kubeconfig={admin}", *quiet),
            f"--service-account-private-key-file={self.place}/service-accounts.key",
            "--node-monitor-grace-period=20s",
        )
        self._launch("scheduler", self.program, "scheduler", f"--kubeconfig={admin}", *quiet)
        self._images()
        self._kubelet()
        self._wait("its node", self._node_is_ready)
        self._namespace()

    def _network(self) -> None:
        for command in (
            "ip link set lo up",
            f"ip link add {BRIDGE} type bridge",
            f"ip addr add {ADDRESS}/16 dev {BRIDGE}",
            f"ip link set {BRIDGE} up",
            f"ip route add default via {ADDRESS} dev {BRIDGE}",
        ):
            _run(*command.split())

    def _keys(self) -> None:
        key = self.place / "service-accounts.key"
        subprocess.run(
            ["openssl", "genrsa", "-out", str(key), "2048"], check=True, capture_output=True
        )
        (self.place / "tokens.csv").write_text(
            f'{ADMIN},admin,1,"system:masters"\n'
            'node-token,system:node:node1,2,"system:nodes"\n'
            f"{HUB},hub,3\n"
        )

    def _api_server(self) -> None:
        key = f"{self.place}/service-accounts.key"
        self._launch(
            "apiserver",
            *(self.program, "apiserver", "--etcd-servers=http://127.0.0.1:2379"),
            *(f"--token-auth-file={self.place}/tokens.csv", "--authorization-mode=Node,RBAC"),
            *("--insecure-port=0", f"--secure-port={PORT}", f"--advertise-address={ADDRESS}"),
            *(f"--cert-dir={self.place}/apiserver", "--service-cluster-ip-range=10.251.0.0/16"),
            *(f"--service-account-key-file={key}", f"--service-account-signing-key-file={key}"),
            *(
                "--service-account-issuer=https://tests",
                "--kubelet-preferred-address-types=InternalIP",
            ),
            "--allow-privileged=true",
        )
        self._wait("its API server", self._api_answers)

    def _containerd(self) -> None:
        (self.place / "net.d").mkdir()
        plugin = {
            "cniVersion": "0.4.0",
            "name": "pods",
            "plugins": [
                {
                    "type": "bridge",
                    "bridge": BRIDGE,
                    "isGateway": True,
                    "ipam": {
                        "type": "host-local",
                        "dataDir": f"{self.place}/ipam",
                        "ranges": [
                            [
                                {
                                    "subnet": "10.250.0.0/16",
                                    "rangeStart": "10.250.1.1",
                                    "gateway": ADDRESS,
                                }
                            ]
                        ],
                        "routes": [{"dst": "0.0.0.0/0"}],
                    },
                }
            ],
        }
        (self.place / "net.d" / "10-pods.conflist").write_text(json.dumps(plugin))
        cri = '[plugins."io.containerd.grpc.v1.cri"'
        (self.place / "containerd.toml").write_text(
            f'version = 2\nroot = "{self.place}/containerd"\nstate = "{self.place}/state"\n'
            f'[grpc]\naddress = "{self.place}/containerd.sock"\n'
            f'{cri}]\nsandbox_image = "{PAUSE}"\nrestrict_oom_score_adj = true\n'
            "disable_apparmor = true\n"
            f'{cri}.cni]\nbin_dir = "/usr/lib/cni"\nconf_dir = "{self.place}/net.d"\n'
        )
        self._launch("containerd", "containerd", "--config", f"{self.place}/containerd.toml")
        self._wait("containerd", lambda: self._ctr("version") == 0)

    def _images(self) -> None:
        archive = self.place / "images.tar"
        write_images(archive)
        if self._ctr("image", "import", str(archive)) != 0:
            raise CannotRun("the images could not be imported")
        archive.unlink()

    def _kubelet(self) -> None:
        config = self.cluster.kubeconfig("kubelet", "node-token")
        self._launch(
            "kubelet",
            *(self.program, "kubelet", f"--kubeconfig={config}", "--container-runtime=remote"),
            f"--container-runtime-endpoint=unix://{self.place}/containerd.sock",
            *(f"--root-dir={self.place}/kubelet", f"--cert-dir={self.place}/kubelet-certificates"),
            *("--hostname-override=node1", f"--node-ip={ADDRESS}", "--cgroup-driver=cgroupfs"),
            *("--cgroups-per-qos=false", "--enforce-node-allocatable=", "--oom-score-adj=0"),
            *("--make-iptables-util-chains=false", "--resolv-conf=", "--fail-swap-on=false"),
            *("--eviction-hard=memory.available<100Mi", "--serialize-image-pulls=false"),
            *("--registry-qps=0", "--event-qps=0", "--sync-frequency=10s"),
        )

    def _namespace(self) -> None:
        self.cluster.apply(
            {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
        )
        account = f"api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"
        self._wait("its service account", lambda: self._is_there(account))

    def stop(self) -> None:
        """End the parts, and pods by ending their processes: all others of the namespace."""
        for part in reversed(self.parts):
            part.kill()
            part.wait()
        own = {1, os.getpid(), os.getppid()}
        for each in Path("/proc").iterdir():
            if each.name.isdigit() and int(each.name) not in own:
                with suppress(ProcessLookupError):
                    os.kill(int(each.name), signal.SIGKILL)
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for mount in reversed(mounts):
            if mount.startswith(f"{self.place}/"):
                subprocess.run(["umount", "--lazy", mount], stderr=subprocess.DEVNULL)

    # Processes ----------------------------------------------------------------------------

    def _ctr(self, *arguments: str) -> int:
        command = ["ctr", "--address", f"{self.place}/containerd.sock", "-n", "k8s.io", *arguments]
        with (self.place / "ctr.log").open("wb") as log:
            return subprocess.run(command, stdout=log, stderr=log).returncode

    def _launch(self, name: str, *command: str) -> None:
        with (self.place / f"{name}.log").open("wb") as log:
            self.parts.append(
                subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            )

    def _wait(self, what: str, is_so: Callable[[], bool], within: float = 300.0) -> None:
        deadline = time.monotonic() + within
        while not is_so():
            if time.monotonic() > deadline:
                raise CannotRun(f"{what} is not ready after {within:g} seconds")
            for part in self.parts:
                if part.poll() is not None:
                    raise CannotRun(f"a part of the cluster ended: {part.args!r}"[:300])
            time.sleep(0.2)  # these programs report nothing
        _say(f"{what} is ready")

    def _api_answers(self) -> bool:
        return self.cluster.authority.exists() and self._is_there("api/v1/namespaces/default")

    def _node_is_ready(self) -> bool:
        if not self._is_there("api/v1/nodes/node1"):
            return False
        conditions = self.cluster.call("GET", "api/v1/nodes/node1")["status"]["conditions"]
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    def _is_there(self, path: str) -> bool:
        try:
            self.cluster.call("GET", path)
        except OSError:  # also `HTTPError`
            return False
        return True


def _path_of(body: Mapping[str, Any]) -> str:
    plural = f"{body['kind'].lower()}s".replace("policys", "policies")
    group = "api/v1" if body["apiVersion"] == "v1" else f"apis/{body['apiVersion']}"
    namespace = body["metadata"].get("namespace")
    return f"{group}/namespaces/{namespace}/{plural}" if namespace else f"{group}/{plural}"


def _run(*command: str, text: str | None = None) -> None:
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    if done.returncode != 0:
        raise CannotRun(f"{' '.join(command)}: {done.stderr.strip()}")


# As a program -----------------------------------------------------------------------------


def _say(line: str) -> None:
    sys.stderr.write(f"cluster: {line}\n")
    sys.stderr.flush()


def _cgroups() -> set[Path]:
    return {*CGROUPS.glob("*/k8s.io/*"), *CGROUPS.glob("k8s.io/*"), *CGROUPS.glob("*/k8s.io")}


def _remove_cgroups(before: Collection[Path]) -> None:
    for top in sorted(_cgroups() - set(before), key=lambda path: -len(path.parts)):
        for directory, _, _ in os.walk(top, topdown=False):
            with suppress(OSError):
                os.rmdir(directory)


def main(command: Sequence[str]) -> int:
    """The command's exit status."""
    if command[:1] == ["--inside"]:
        return _inside(Path(command[1]), command[2:])
    try:
        ensure_possible()
    except CannotRun as error:
        _say(f"NO CLUSTER: {error}")
        return subprocess.run(command).returncode
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the cleanup below runs
    before = _cgroups()
    unshare = ["unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "--mount-proc"]
    with tempfile.TemporaryDirectory(prefix="bsc-cluster-") as directory:
        Path(directory).chmod(0o755)
        module = [sys.executable, "-m", "tests.kubernetes_cluster", "--inside", directory, *command]
        first = [*unshare, sys.executable, "-c", FIRST, *module]
        process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *first], cwd=PROJECT)
        try:
            return process.wait()
        finally:
            _end(process)
            _remove_cgroups(before)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the first process of the namespaces, and with it all others."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    with suppress(FileNotFoundError, IndexError, ProcessLookupError):
        os.kill(int(children.read_text().split()[0]), signal.SIGKILL)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _inside(place: Path, command: Sequence[str]) -> int:
    try:
        with started(place) as cluster:
            shared = {**os.environ, SHARED: str(cluster.place)}
            return subprocess.run(command, env=shared).returncode
    except CannotRun as error:
        _say(f"NO CLUSTER: {error}")
    return subprocess.run(command).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
