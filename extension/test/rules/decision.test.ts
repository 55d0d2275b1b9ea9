import { expect, test } from "vitest";
import { decideCommand, type CommandVerdict } from "../../src/rules/decision";

const PLACE = { workspaces: ["/home/ann/project"], cwd: "/home/ann/project" };
const words = (rules: readonly string[]) => rules.map((rule) => rule.split(" "));

interface Case {
  allow?: string[];
  ask?: string[];
  deny?: string[];
  cwd?: string;
}

function decided(text: string, { allow = [], ask = [], deny = [], cwd = PLACE.cwd }: Case = {}) {
  const rules = { allow: words(allow), ask: words(ask), deny: words(deny) };
  return decideCommand(text, rules, { ...PLACE, cwd });
}

function verdicts(name: string, given: Case, expected: Record<string, CommandVerdict>): void {
  test.each(Object.entries(expected))(`${name}: %j is %s`, (text, verdict) => {
    expect(decided(text, given).verdict).toBe(verdict);
  });
}

verdicts(
  "text that bash and a reader could see differently",
  { allow: ["echo", "git log"] },
  {
    "": "allow",
    "# nothing": "allow",
    "git log": "allow",
    "git log\r": "ask",
    "git\u00a0log": "ask",
    "echo \u202e": "ask",
    "echo \ud800": "ask",
    "echo a \\\n b": "allow",
    "echo a\\\n b": "ask",
    "echo a\\\\\ngit log": "allow",
    "echo a \\": "ask",
    "\\\necho a": "ask",
    "echo `echo a\\\\\nb`": "ask",
    "echo 'a": "ask",
    "echo <<E\na": "ask",
    "echo é 🎉": "allow",
  },
);

verdicts(
  "syntax that is not understood",
  { allow: ["echo"], deny: ["rm"] },
  {
    "f() { echo a; }": "ask",
    "f() { rm a; }": "deny",
    "coproc echo a": "ask",
    "select x in a; do echo; done": "ask",
    "for ((i = 0; i < 3; i++)); do echo; done": "ask",
    'echo $"a"': "ask",
    "echo ${x[0]}": "ask",
    "a[0]=1": "ask",
    "a=(1 2)": "ask",
    "echo ${x@P}": "ask",
    "echo ${!x}": "ask",
    "echo ${x:-'a'}": "ask",
    "echo ${x:-$y}": "ask",
    "echo ${x:-a}": "allow",
    "echo ${x%.*} ${#x} ${x:1:2} ${x//a/b}": "allow",
    "echo ${x:a[1]}": "ask",
    "echo $((1 + x))": "allow",
    "echo $((16#ff + 0x1f))": "allow",
    "echo $(($x))": "ask",
    "echo $((a[0]))": "ask",
    "(( i++ ))": "allow",
    "(( PATH = 0 ))": "ask",
    "echo ${PROMPT_COMMAND:=a}": "ask",
    "echo ${x:=a}": "allow",
    "for PATH in a; do echo; done": "ask",
    "echo {PATH}>out": "ask",
    "[[ -f a && $x == b* ]]": "allow",
    "[[ $x =~ a ]]": "ask",
    "[[ $(echo a) == a ]]": "ask",
    "[[ -v 'a[$(rm b)]' ]]": "ask",
    "[[ 'a[$(rm b)]' -eq 0 ]]": "ask",
    "[[ $# -eq 0 && ${#x} -gt 3 ]]": "allow",
    "test -v 'a[$(rm b)]'": "ask",
    "test -v a": "allow",
    "echo ${ echo a; }": "ask",
    "cat <<$A\n$A": "ask",
    "echo a <(echo b)": "allow",
    "echo a<(echo b)": "ask",
    'echo <(echo b)"c"': "ask",
    "for x in a<(echo b); do echo; done": "ask",
    "echo 1>(rm a)": "ask",
    "echo 2<(rm a) b": "ask",
    "for x in 1>(rm a); do echo; done": "ask",
    "echo a{fd}>(rm a)": "deny",
    "echo $[1": "ask",
    ">&-rm echo": "ask",
    "echo <&-a": "ask",
    "echo >&- a": "allow",
    "((echo a); echo b)": "ask",
    "( (echo a); echo b)": "allow",
    "echo $((echo a); (echo b))": "ask",
    "echo `echo 'a \\\nb'`": "ask",
    "echo $'a \\\nb'": "ask",
    "echo a$ $ \\$x ${x#*>}": "allow",
  },
);

verdicts(
  "words that are not known",
  { allow: ["npm", "cat"], deny: ["npm publish now"], ask: ["cat /etc/passwd"] },
  {
    "npm test": "allow",
    'npm "$x"': "allow",
    'npm "$x" now': "ask",
    'npm "$x" later': "allow",
    "npm $x": "ask",
    "npm $x later": "ask",
    "npm {publish,now}": "ask",
    "cat *": "ask",
    "cat a~ HEAD@{1} {} a": "allow",
    "ca$x a": "ask",
  },
);

verdicts(
  "wrappers",
  { allow: ["git log", "cat", "env", "/usr/bin/env"], deny: ["git push"] },
  {
    "env LANG=C git log": "allow",
    "env FOO=1 git log": "ask",
    "env FOO=1 git push": "deny",
    "env -i -u FOO git log": "allow",
    "env -S 'git log'": "ask",
    "env -S 'git push'": "deny",
    "env --chdir=/ git push": "deny",
    env: "allow",
    "env make": "ask",
    "/usr/bin/env git log": "allow",
    "/usr/bin/nice git log": "ask",
    "timeout -k 5 10 git log": "allow",
    'timeout "$x" git log': "ask",
    'timeout "$x" git push': "deny",
    "nice -n 5 nohup stdbuf -oL setsid -w ionice -c 3 git log": "allow",
    "time -p git log": "allow",
    "command -v rm": "allow",
    'command -v "$x"': "allow",
    command: "ask",
    "command -p git log": "allow",
    "xargs -0n1 cat": "allow",
    "xargs git log": "ask",
    "xargs -I{} cat {}": "allow",
    "xargs -I{} {} a": "ask",
    xargs: "ask",
    "sudo git log": "ask",
    "sudo -u bob git push": "deny",
    "exec git push": "deny",
    "exec > out": "ask",
  },
);

verdicts(
  "find",
  { allow: ["find", "cat"], deny: ["rm"] },
  {
    "find . -name '*.py'": "allow",
    "find . -name *.py": "ask",
    "find . -exec cat {} +": "allow",
    "find . -exec cat {} \\; -exec rm {} \\;": "deny",
    "find . -exec cat {}": "ask",
    "find . -delete": "ask",
    "find . -exec sh -c 'cat \"$1\"' _ {} \\;": "allow",
    "find . -exec sh -c 'cat {}' \\;": "ask",
  },
);

verdicts(
  "shells",
  { allow: ["git log", "bash", "cat"], deny: ["git push"] },
  {
    "bash -lc 'git log'": "allow",
    "bash -c 'git push'": "deny",
    "bash -c make": "ask",
    'bash -c "$x"': "ask",
    "bash -O extglob -c 'git log'": "ask",
    "bash -o pipefail -c 'git log'": "allow",
    "bash script": "allow",
    "bash $x": "ask",
    "cat a | bash": "ask",
    "cat a | bash script": "allow",
    "cat a | { bash; }": "ask",
    "cat a | bash -c bash": "ask",
    "cat a | timeout 5 bash": "ask",
    "bash < a": "ask",
    "bash 3< a": "allow",
    "cat a > >(bash)": "ask",
    "bash -s": "ask",
    "cat a | bash -s b": "ask",
    "bash /dev/stdin": "ask",
    "sh -c '((cat))'": "ask",
    "sh -c '[[ a > b ]]'": "ask",
    'sh -c "git log"': "allow",
    "eval git 'log; git push'": "deny",
    "zsh -c 'git log'": "ask",
  },
);

verdicts(
  "directories",
  { allow: ["echo"] },
  {
    "cd src": "allow",
    "cd ..": "ask",
    cd: "ask",
    "cd -": "ask",
    "cd src && echo > ../a": "allow",
    "cd src; echo > ../a": "ask",
    "cd src && cd ..": "allow",
    "(cd src && echo) > a; echo > ../b": "ask",
    "cd src || echo > a": "allow",
    "if cd src; then echo > ../a; fi": "allow",
    "while true; do cd src && cd ../..; done": "ask",
    "for i in 1 2; do cd src; echo > a; done": "allow",
    "for i in 1 2; do cd src; echo > ../a; done": "ask",
    "for i in 1 2; do cd src; done; echo > ../a": "ask",
    "for i in 1 2; do echo > config; cd .git; done": "ask",
    "for i in 1 2; do for j in 1 2; do cd src; done; cd ..; done": "ask",
    "! cd src || echo > ../a": "allow",
    "cd .git && echo > config": "ask",
    "command cd src && echo > ../a": "allow",
    "env cd src && echo > ../a": "ask",
    "bash -c 'cd src' && echo > ../a": "ask",
    "eval 'cd src' && echo > ../a": "allow",
  },
);

verdicts(
  "redirections",
  { allow: ["echo"] },
  {
    "echo > a 2>&1": "allow",
    "echo > ~/a": "ask",
    "echo > /home/ann/project2/a": "ask",
    "echo > /home/ann/project/../a": "ask",
    "echo > sub/.git/config": "ask",
    "echo > .gitignore": "allow",
    "echo >& a": "allow",
    "echo >& /tmp/a": "ask",
    "echo >&$x": "ask",
    "echo 2>/dev/null <> /dev/tty": "allow",
    "echo < /dev/tcp/a/80": "ask",
    'echo < "/dev/tcp/$x/80"': "ask",
    "echo < $x": "allow",
    "> a.code-workspace": "ask",
    "{ echo; } > /a": "ask",
  },
);

verdicts(
  "options that run or write",
  { allow: ["git", "sort", "sort -o", "sed", "rg", "uniq", "printf", "tee", "curl"] },
  {
    "git log --oneline": "allow",
    "git -C .. log": "ask",
    "git log --outp=a": "ask",
    "git log -m --output=a": "ask",
    'git commit -m "$x"': "allow",
    'git commit -am "$x"': "allow",
    "git commit -m $x": "ask",
    'git log -m "$x"': "ask",
    "git grep -nO a": "ask",
    "git fetch ext::a": "ask",
    "sort -o a b": "allow",
    "sort -no a b": "ask",
    'sort "--out$x"': "ask",
    "sort {-o,a} b": "ask",
    "sort -k2,2 -t, a": "allow",
    "sort -- -o": "allow",
    "rg -e -- --pre=a": "ask",
    "rg -- --pre": "allow",
    "rg -iz a": "ask",
    "sed -n 1,5p a": "allow",
    "sed s,a,b,g a": "allow",
    "sed 's/a/b/e' a": "ask",
    "sed -n 'p;w b' a": "ask",
    "sed -ne 1p a": "allow",
    "sed -ni 1p a": "ask",
    "sed 1p a --in-pl": "ask",
    "sed --expr='1e ls' a": "ask",
    "uniq a": "allow",
    "uniq -f 1 a b": "ask",
    "printf -v a b": "ask",
    'printf "$x" a': "ask",
    "printf '%s' \"$x\"": "allow",
    "tee a": "ask",
    "curl -XPOST a": "allow",
    "curl -sSLo a b": "ask",
  },
);

test("a text may have 10,000 characters", () => {
  const given = { allow: ["echo"] };
  expect(decided(`echo ${"a".repeat(9_995)}`, given).verdict).toBe("allow");
  expect(decided(`echo ${"🎉".repeat(9_995)}`, given).verdict).toBe("allow");
  expect(decided(`echo ${"a".repeat(9_996)}`, given).verdict).toBe("ask");
});

test("a relative path is one of the shell's directory", () => {
  const given = { allow: ["echo"], cwd: "/home/ann/project/src" };
  expect(decided("echo > ../a", given).verdict).toBe("allow");
  expect(decided("echo > ../../a", given).verdict).toBe("ask");
});

test("a part has its place in the text, a reason and the rule that decided", () => {
  const { verdict, parts } = decided("cd src && git push # now", { deny: ["git push"] });

  expect(verdict).toBe("deny");
  expect(parts.map(({ text, start, end, rule }) => ({ text, start, end, rule }))).toEqual([
    { text: "cd src", start: 0, end: 6, rule: null },
    { text: "git push", start: 10, end: 18, rule: ["git", "push"] },
  ]);
  expect(parts[1]?.reason).toBe("A deny rule matches.");
});

test("a part of a text inside the text is shown where that text stands", () => {
  const text = "bash -c 'git log; make'";
  const { parts } = decided(text, { allow: ["git log"] });

  const asking = parts.filter(({ verdict }) => verdict === "ask");
  expect(asking.map((part) => part.text)).toEqual(["make"]);
  expect(text.slice(asking[0]?.start, asking[0]?.end)).toBe("'git log; make'");
});

test.each([
  ["loops that change the directory", "while true; do cd a; ", 60, "done; "],
  ["changes of the directory", "cd a; ", 1_600, ""],
  ["operators", ":&&", 3_300, ":"],
  ["wrappers", "env ", 2_400, "ls"],
  ["texts in texts", "eval ", 1_900, "ls"],
  ["long arithmetic", "echo $((", 1, `${"a".repeat(9_900)}$))`],
  ["braces", "echo {a,", 1, "{a,".repeat(3_000)],
])("%s do not take long", (_, start, count, end) => {
  const text = start.repeat(count) + (end.length > 9 ? end : end.repeat(count));
  const cpu = process.cpuUsage();
  expect(decided(text.slice(0, 10_000)).verdict).not.toBe("deny");
  expect(process.cpuUsage(cpu).user / 1_000).toBeLessThan(3_000);
});
