"""Examples for each command, shown at the end of its help and in docs/cli.md.

A `  # ` begins a remark. A test passes every line to the parser, but runs none of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

EXAMPLES: Mapping[str, Sequence[str]] = {
    "up": (
        "bascule up  # ./workspace, and VS Code in the browser",
        "bascule up --working-dir ~/project",
        "bascule up <commands.sh  # a sandbox without VS Code; exits like the last command",
    ),
    "demo": (
        "bascule demo  # in the connected window; waits for one",
        "bascule demo --window ~/project --fast",
    ),
    "doctor": (
        "bascule doctor",
        "bascule doctor --cloud https://hub.example  # with BASCULE_TOKEN",
    ),
    "session create": (
        "bascule session create --name mine",
        "bascule session create --git https://git.example/project.git --ref main",
        "bascule session create --memory 4G --cpus 2 --domain pypi.org",
        "bascule session create --env LEVEL=debug --secret API_KEY --runtime vscode",
    ),
    "session list": ("bascule session list --json",),
    "session show": ("bascule session show mine",),
    "session exec": (
        "bascule session exec mine 'make test | tail'",
        "bascule session exec mine git log --oneline -5",
        "bascule session exec --timeout 60 mine 'npm run build'",
    ),
    "session attach": ("bascule session attach mine",),
    "session logs": ("bascule session logs --lines 20 mine",),
    "session export": ("bascule session export mine -o mine.jsonl",),
    "session url": (
        "bascule session url mine",
        "bascule session url --sign-in mine  # for a browser that is not signed in",
    ),
    "session pause": ("bascule session pause mine",),
    "session resume": ("bascule session resume mine",),
    "session stop": ("bascule session stop mine",),
    "session rm": ("bascule session rm mine other", "bascule session rm --all"),
    "session fork": (
        "bascule session fork ~/project --count 2",
        "bascule session fork mine --name trial --secrets",
    ),
    "session forks": ("bascule session forks mine",),
    "session merge": (
        "bascule session merge mine-fork-1 --dry-run",
        "bascule session merge mine-fork-1 --take src/main.py",
        "bascule session merge mine-fork-1 --branch trial",
    ),
    "acp": (
        "bascule acp --session mine --env GEMINI_API_KEY -- gemini --acp",
        "bascule acp --new --folder ~/project -- claude-agent-acp",
        "bascule acp --window ~/project --env OPENAI_API_KEY -- qwen --acp",
    ),
    "replay": (
        "bascule replay mine.jsonl  # in a new session, removed afterwards",
        "bascule replay mine.jsonl --session mine",
        "bascule replay mine.jsonl --local --exact",
    ),
    "exec": (
        "bascule exec 'make test | tail'",
        "bascule exec --timeout 60 -- npm run build",
        "bascule exec --url http://127.0.0.1:8123 pwd  # with SESSION_API_KEY",
    ),
    "shell": ("bascule shell", "bascule shell --working-dir ~/project"),
    "attach": ("bascule attach", "bascule attach --working-dir ~/project main"),
    "rules check": (
        "bascule rules check --rules mine.toml 'git log | head'",
        "bascule rules check --workspace ~/project --cwd ~/project/src 'make > ../log'",
        "bascule rules check --batch cases.jsonl --engine window",
    ),
    "rules list": ("bascule rules list", "bascule rules list my-session"),
    "rules test": ("bascule rules test mine.toml",),
    "pair": ("bascule pair", "bascule pair --hub https://hub.example  # with BASCULE_TOKEN"),
    "approvals": ("bascule approvals", "bascule approvals --json"),
    "approvals show": ("bascule approvals show 3f2a",),
    "approvals answer": (
        "bascule approvals answer 3f2a once",
        "bascule approvals answer 3f2a always",
    ),
    "windows": ("bascule windows", "bascule windows --json"),
    "windows export": ("bascule windows export ~/project -o project.jsonl",),
    "token": (
        "bascule token  # the admin token",
        'bascule token --create "my agent" --days 30',
        "bascule token --create ann --owner ann  # for another user",
        "bascule token --list",
        'bascule token --revoke "my agent"',
    ),
    "mcp": (
        "bascule mcp --working-dir ~/project",
        "bascule mcp --window ~/project  # in your VS Code window",
        "bascule mcp --session mine",
    ),
    "run": (
        "bascule run order.evolve.yaml",
        "bascule run order.evolve.yaml --seed 7 --trace order.jsonl",
        "bascule run order.evolve.yaml --replay order.jsonl",
    ),
    "checkpoint list": (
        "bascule checkpoint list --session work",
        "bascule checkpoint list --window ~/project",
    ),
    "checkpoint show": ("bascule checkpoint show 12 --session work",),
    "checkpoint diff": (
        "bascule checkpoint diff 12 --session work",
        "bascule checkpoint diff 12 src/main.py --session work",
    ),
    "checkpoint restore": (
        "bascule checkpoint restore 12 --session work",
        "bascule checkpoint restore 12 src/main.py --session work",
        "bascule checkpoint restore 12 --store checkpoints/project --since --dry-run",
    ),
    "net check": ("bascule net check *.evolve.yaml",),
    "net show": (
        "bascule net show order.evolve.yaml -o order.svg",
        "bascule net show order.pnml --format mermaid",
    ),
    "net simulate": ("bascule net simulate order.pnml --steps 1000 --seed 7",),
    "net explore": ("bascule net explore order.pnml --max-states 5000",),
    "net schema": ("bascule net schema >evolve.schema.json",),
    "serve": (
        "bascule serve  # http://127.0.0.1:8300",
        "bascule serve --config /etc/bascule/bascule.toml",
        "bascule serve --port 0 --public-url https://hub.example",
    ),
    "nginx": (
        "bascule nginx --certificate fullchain.pem --key privkey.pem \\",
        "    --public-url https://hub.example",
        "bascule nginx --certificate fullchain.pem --key privkey.pem --print",
    ),
    "backup": (
        "bascule backup bascule.tar",
        "bascule backup --config /etc/bascule/bascule.toml /srv/bascule.tar  # as root",
    ),
    "warden": ("bascule warden --config /etc/bascule/bascule.toml",),
    "image": (
        "bascule image",
        "bascule image --target sandbox --base registry.example/debian:12",
    ),
    "install": ("bascule install vscode",),
    "editor": (
        "bascule editor where",
        'code --install-extension "$(bascule editor extension)"',
    ),
    "sandbox": ("SESSION_API_KEY=… bascule sandbox 8123 --working-dir /srv/work",),
    "schema": ("bascule schema >events.schema.json",),
    "completion": (
        'eval "$(bascule completion bash)"  # in ~/.bashrc',
        'eval "$(bascule completion zsh)"  # in ~/.zshrc, after compinit',
        "bascule completion fish >~/.config/fish/completions/bascule.fish",
    ),
}


def example_lines(command: str) -> Sequence[str]:
    """The examples of a command, with their remarks aligned."""
    parts = [line.partition("  # ") for line in EXAMPLES.get(command, ())]
    width = max((len(line) for line, _, remark in parts if remark), default=0)
    return [f"{line:{width}}  # {remark}" if remark else line for line, _, remark in parts]
