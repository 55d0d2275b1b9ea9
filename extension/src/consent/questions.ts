/** The questions that are open in this window: each ends by its first answer, in time, or unasked. */
import { randomUUID } from "node:crypto";
import { Emitter } from "../common/emitter";
import { Failure } from "../common/failure";
import { fullText, summaryOf, type Request } from "./request";

/** Milliseconds without an answer after which it is a no. */
const PATIENCE = 120_000;

/** An answer and what its button says. Every question can be answered `deny`. */
export type Choice = readonly [label: string, answer: string];

export interface Question {
  id: string;
  number: number;
  request: Request;
  summary: string;
  /** The whole request, for people to read. */
  text: string;
  choices: readonly Choice[];
  expires: Date;
}

export interface Answered {
  answer: string;
  /** `window`, `time`, or the name of whoever answered on the hub's page. */
  by: string;
}

interface Open {
  question: Question;
  settle: (answered: Answered) => void;
}

export class Questions {
  /** A question came or went. */
  readonly onChanged: Emitter<undefined>;
  private readonly open = new Map<string, Open>();
  private count = 0;

  constructor(
    onError: (error: unknown) => void,
    private readonly patienceMs = PATIENCE,
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
   * Fails with `action.cancelled` when nobody wants the answer any more; the question goes then.
   * `began` gets it before anybody can have answered.
   */
  async ask(
    request: Request,
    choices: readonly Choice[],
    signal: AbortSignal,
    began?: (question: Question) => void,
  ): Promise<Answered> {
    if (signal.aborted) throw cancelled();
    const question = this.make(request, choices);
    let timer: NodeJS.Timeout | undefined;
    const withdraw = (): void => reject(cancelled());
    let reject!: (error: Error) => void;
    const answered = new Promise<Answered>((resolve, fail) => {
      reject = fail;
      this.open.set(question.id, { question, settle: resolve });
      timer = setTimeout(() => resolve({ answer: "deny", by: "time" }), this.patienceMs);
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

  /** False: it is not open any more, or that is no answer to it. */
  answer(id: string, answer: string, by: string): boolean {
    const open = this.open.get(id);
    if (!open?.question.choices.some(([, each]) => each === answer)) return false;
    this.open.delete(id); // the next answer is too late, though nobody has read this one yet
    open.settle({ answer, by });
    return true;
  }

  private make(request: Request, choices: readonly Choice[]): Question {
    this.count += 1;
    return {
      id: randomUUID(),
      number: this.count,
      request,
      summary: summaryOf(request),
      text: fullText(request),
      choices,
      expires: new Date(Date.now() + this.patienceMs),
    };
  }
}

function cancelled(): Failure {
  return new Failure("action.cancelled", "The action was cancelled while the user was asked");
}
