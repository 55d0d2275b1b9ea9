/** The list of rules for commands: what they say, who made them and how often they decided. */
import * as fs from "node:fs";
import * as vscode from "vscode";
import { messageOf } from "../common/failure";
import type { RuleSources } from "../consent/rule_sources";
import { labelText, withoutLinks } from "../consent/visible_text";
import type { FileRule } from "../rules/rule_files";

const ICONS = { allow: "check", ask: "question", deny: "circle-slash" } as const;
const REMOVE: vscode.QuickInputButton = {
  iconPath: new vscode.ThemeIcon("trash"),
  tooltip: "Remove This Rule",
};

interface RuleItem extends vscode.QuickPickItem {
  readonly rule?: FileRule;
}

export class RulesList {
  constructor(private readonly sources: RuleSources) {}

  /** Choosing a rule opens its file. */
  show(): void {
    const list = vscode.window.createQuickPick<RuleItem>();
    list.title = "Rules for commands of agents";
    list.placeholder = "Choose a rule to see it in its file";
    list.matchOnDescription = list.matchOnDetail = true;
    list.items = this.items();
    list.onDidTriggerItemButton(({ item }) => {
      list.hide();
      if (item.rule) void this.remove(item.rule);
    });
    list.onDidAccept(() => {
      const [item] = list.selectedItems;
      list.hide();
      if (item) void this.open(item.rule);
    });
    list.onDidHide(() => list.dispose());
    list.show();
  }

  private items(): RuleItem[] {
    const { rules, problems } = this.sources.current();
    return [
      ...problems.map((text) => ({ label: `$(error) ${labelText(text)}`, alwaysShow: true })),
      ...rules.map((rule) => this.item(rule)),
      { label: "$(edit) Edit your own rules", description: labelText(this.sources.personFile) },
    ];
  }

  private item(rule: FileRule): RuleItem {
    const { kind, words, agent, why, owner, file, line } = rule;
    const count = this.sources.countOf(rule);
    const times = `decided ${count} ${count === 1 ? "command" : "commands"} since this window opened`;
    const origin = owner === "person" ? "your rule" : "rule of the workspace";
    return {
      label: `$(${ICONS[kind]}) ${kind} ${labelText(words.join(" "))}`,
      description: `${agent === undefined ? "all agents" : labelText(agent)} · ${times}`,
      detail: `${origin} · ${labelText(`${file}:${line}`)}${why ? ` · ${labelText(why)}` : ""}`,
      buttons: owner === "person" ? [REMOVE] : [],
      rule,
    };
  }

  /** Asks in a modal dialog, which no command of an agent can answer. */
  private async remove(rule: FileRule): Promise<void> {
    const text = `Remove the rule that says ${rule.kind} ${labelText(rule.words.join(" "))}?`;
    const detail = `From ${labelText(rule.file)}, for ${labelText(rule.agent ?? "all agents")}.`;
    const button = "Remove";
    const answer = await vscode.window.showWarningMessage(text, { modal: true, detail }, button);
    if (answer !== button) return;
    try {
      if (await this.sources.remove(rule)) return this.show();
    } catch (error) {
      void vscode.window.showErrorMessage(`Bascule: ${withoutLinks(messageOf(error))}`);
    }
    await this.open(rule); // only a person can edit the file
  }

  private async open(rule: FileRule | undefined): Promise<void> {
    const file = vscode.Uri.file(rule?.file ?? this.sources.personFile);
    const exists = fs.existsSync(file.fsPath);
    const document = await vscode.workspace.openTextDocument(
      exists ? file : file.with({ scheme: "untitled" }),
    );
    const line = new vscode.Position((rule?.line ?? 1) - 1, 0);
    await vscode.window.showTextDocument(document, { selection: new vscode.Range(line, line) });
  }
}
