/** Output channels that scripts write to. They stay after the run ended. */
import * as vscode from "vscode";
import type { Disposable } from "../common/disposables";
import { Failure } from "../common/failure";
import type { BridgeRequest, RequestHandlers } from "./dispatcher";
import { flag, text } from "./params";

const MAX_CHANNELS = 32;

export class OutputChannels implements Disposable {
  private readonly channels = new Map<string, vscode.OutputChannel>();

  readonly handlers: RequestHandlers = {
    "vscode/output": (request) => Promise.resolve(this.write(request)),
  };

  dispose(): void {
    for (const channel of this.channels.values()) channel.dispose();
  }

  private write({ params }: BridgeRequest): unknown {
    const channel = this.channel(text(params, "channel"));
    if (flag(params, "clear")) channel.clear();
    const written = text(params, "text", "");
    if (written) channel.append(written);
    if (flag(params, "show")) channel.show(true);
    return {};
  }

  private channel(name: string): vscode.OutputChannel {
    const known = this.channels.get(name);
    if (known) return known;
    if (this.channels.size >= MAX_CHANNELS)
      throw new Failure(
        "bridge.busy",
        `Scripts already have ${MAX_CHANNELS} output channels, which is the limit`,
      );
    const channel = vscode.window.createOutputChannel(name);
    this.channels.set(name, channel);
    return channel;
  }
}
