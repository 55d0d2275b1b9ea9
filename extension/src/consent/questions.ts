/**
 * The open questions of this window. A question closes with its first answer, at its timeout (the
 * answer is then `deny`), or when it is withdrawn.
 */
import { randomUUID } from "node:crypto";
import { Emitter } from "../common/emitter";
import { Failure } from "../common/failure";
import { fullText, summaryOf, type ConsentRequest } from "./request";

/** Milliseconds to wait for an answer. After that, the answer is `deny`. */
const ANSWER_MS = 120_000;

/** The label of a button and its answer. Every question can be answered `deny`. */
export type Choice = readonly [label: string, answer: string];

export interface Question {
  id: string;
  number: number;
  request: ConsentRequest;
  summary: string;
  /** The whole request, for people to read. */
  text: string;
  choices: readonly Choice[];
  expires: Date;
}

export interface QuestionAnswer {
  answer: string;
  /** `window`, `time`, or the name of the person who answered on the hub's page. */
  by: string;
}

interface OpenQuestion {
  question: Question;
  settle: (answered: QuestionAnswer) => void;
}

export class Questions {
  /** Fires when a question is added or closed. */
  readonly onChanged: Emitter<undefined>;
  private readonly open = new Map<string, OpenQuestion>();
  private count = 0;

  constructor(
    onError: (error: unknown) => void,
    private readonly timeoutMs = ANSWER_MS,
  ) {
    this.onChanged = new Emitter(onError);
  }

  /** Oldest first. */
  list(): Question[] {
    return [...this.open.values()].map(({ question }) => question);
  }

  find(id: string): Question | undefined {
    return this.open.get(id)?.question;
  }

  /**
   * Asks the user and waits for the answer. When `signal` aborts, closes the question and fails
   * with `action.cancelled`. Calls `began` before anybody can answer.
   */
  async ask(
    request: ConsentRequest,
    choices: readonly Choice[],
    signal: AbortSignal,
    began?: (question: Question) => void,
  ): Promise<QuestionAnswer> {
    if (signal.aborted) throw cancelled();
    const question = this.make(request, choices);
    let timer: NodeJS.Timeout | undefined;
    const withdraw = (): void => reject(cancelled());
    let reject!: (error: Error) => void;
    const answered = new Promise<QuestionAnswer>((resolve, fail) => {
      reject = fail;
      this.open.set(question.id, { question, settle: resolve });
      timer = setTimeout(() => resolve({ answer: "deny", by: "time" }), this.timeoutMs);
      signal.addEventListener("abort", withdraw, { once: true });
    });
    began?.(question);
    this.onChanged.fire(undefined);
    try {
      return await answered;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", withdraw);
      this.open.delete(question.id);
      this.onChanged.fire(undefined);
    }
  }

  /** Returns false if the question is no longer open or has no such answer. */
  answer(id: string, answer: string, by: string): boolean {
    const open = this.open.get(id);
    if (!open?.question.choices.some(([, each]) => each === answer)) return false;
    this.open.delete(id); // now, so that a second answer is refused
    open.settle({ answer, by });
    return true;
  }

  private make(request: ConsentRequest, choices: readonly Choice[]): Question {
    this.count += 1;
    return {
      id: randomUUID(),
      number: this.count,
      request,
      summary: summaryOf(request),
      text: fullText(request),
      choices,
      expires: new Date(Date.now() + this.timeoutMs),
    };
  }
}

function cancelled(): Failure {
  return new Failure("action.cancelled", "The action was cancelled while the user was asked");
}
