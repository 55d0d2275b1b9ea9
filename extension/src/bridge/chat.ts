/** Requests to the window's language models. Conversations are kept per run, up to a limit. */
import { randomUUID } from "node:crypto";
import * as vscode from "vscode";
import { Failure, codeOf, messageOf } from "../common/failure";
import type { BridgeRequest, RequestHandlers } from "./dispatcher";
import { count, flag, isGiven, text } from "./params";

const MAX_CONVERSATIONS = 50;
const MAX_MESSAGES = 200;

interface ChatMessage {
  role: "system" | "user" | "assistant";
  content: string;
  timestamp: string;
}

interface Conversation {
  run: string;
  messages: ChatMessage[];
}

export class Chat {
  private readonly conversations = new Map<string, Conversation>();

  get handlers(): RequestHandlers {
    return {
      "vscode/chat": (request) => this.chat(request),
      "vscode/chatModels": () => this.models(),
      "vscode/getChatHistory": (request) => Promise.resolve(this.history(request)),
    };
  }

  private async chat(request: BridgeRequest): Promise<unknown> {
    const { params, signal } = request;
    const message = text(params, "message");
    const isStreamed = flag(params, "stream");
    const id = isGiven(params, "conversationId") ? text(params, "conversationId") : randomUUID();
    const before = isGiven(params, "conversationId") ? this.find(request.run, id).messages : [];
    const system = text(params, "system", "");
    const messages: ChatMessage[] = [
      ...before,
      ...(system ? [chatMessage("system", system)] : []),
      chatMessage("user", message),
    ];
    const model = await choose(text(params, "model", ""));
    const response = await ask(model, messages, signal, (piece) => {
      if (isStreamed) request.progress(piece);
    });
    this.keep(id, request.run, [...messages, chatMessage("assistant", response)]);
    return { response, conversationId: id, model: model.id };
  }

  private async models(): Promise<unknown> {
    const models = await vscode.lm.selectChatModels();
    return {
      models: models.map(({ id, name, vendor, family, maxInputTokens }) => ({
        id,
        name,
        vendor,
        family,
        maxInputTokens,
      })),
    };
  }

  private history({ params, run }: BridgeRequest): unknown {
    const { messages: all } = this.find(run, text(params, "conversationId"));
    return { messages: all.slice(-count(params, "limit", 10)) };
  }

  private find(run: string, id: string): Conversation {
    const found = this.conversations.get(id);
    if (found?.run !== run)
      throw new Failure("bridge.invalid_params", `This run has no conversation '${id}'`);
    return found;
  }

  private keep(id: string, run: string, all: ChatMessage[]): void {
    this.conversations.delete(id);
    this.conversations.set(id, { run, messages: all.slice(-MAX_MESSAGES) });
    const oldest = this.conversations.keys().next().value;
    if (this.conversations.size > MAX_CONVERSATIONS && oldest !== undefined)
      this.conversations.delete(oldest);
  }
}

async function choose(wanted: string): Promise<vscode.LanguageModelChat> {
  const models = await vscode.lm.selectChatModels();
  const found = wanted
    ? models.find(({ id, family, name }) => [id, family, name].includes(wanted))
    : models[0];
  if (found) return found;
  const names = models.map(({ id }) => id).join(", ");
  throw new Failure(
    "chat.unavailable",
    names
      ? `This window has no language model '${wanted}'; it has: ${names}`
      : "This window has no language model. Sign in to GitHub Copilot, or install another extension that brings one",
    { models: models.map(({ id }) => id) },
  );
}

async function ask(
  model: vscode.LanguageModelChat,
  messages: readonly ChatMessage[],
  signal: AbortSignal,
  onPiece: (piece: string) => void,
): Promise<string> {
  const source = new vscode.CancellationTokenSource();
  const cancel = (): void => source.cancel();
  signal.addEventListener("abort", cancel, { once: true });
  try {
    const options = { justification: "A script you started asks the model." };
    const reply = await model.sendRequest(messages.map(asMessage), options, source.token);
    let whole = "";
    for await (const piece of reply.text) {
      whole += piece;
      onPiece(piece);
    }
    return whole;
  } catch (error) {
    throw asFailure(error, model.id);
  } finally {
    signal.removeEventListener("abort", cancel);
    source.dispose();
  }
}

function asMessage({ role, content }: ChatMessage): vscode.LanguageModelChatMessage {
  return role === "assistant"
    ? vscode.LanguageModelChatMessage.Assistant(content)
    : vscode.LanguageModelChatMessage.User(content);
}

function asFailure(error: unknown, model: string): Failure {
  const reason = messageOf(error);
  switch (codeOf(error)) {
    case "NotFound":
      return new Failure("chat.unavailable", `The language model '${model}' is gone: ${reason}`);
    case "NoPermissions":
    case "Blocked":
      return new Failure("chat.blocked", `'${model}' may not be used: ${reason}`);
    default:
      return new Failure("bridge.failed", `The language model '${model}' failed: ${reason}`);
  }
}

function chatMessage(role: ChatMessage["role"], content: string): ChatMessage {
  return { role, content, timestamp: new Date().toISOString() };
}
