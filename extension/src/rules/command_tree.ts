/**
 * Builds a tree of all commands that a command text would run, from unbash's syntax tree.
 *
 * The tree keeps only what a decision needs. Unsupported syntax becomes a `Trouble`, about which
 * the user is asked. The tree still has the commands beside and inside unsupported syntax, so that
 * deny rules apply to them.
 */
import {
  forEachChild,
  parse,
  type AndOr,
  type Assignment,
  type Command,
  type CommandExpansionPart,
  type CommandNode,
  type CompoundCommand,
  type CompoundList,
  type Function as FunctionDefinition,
  type HereDoc,
  type ParsedScript,
  type Pipeline,
  type PipelineNode,
  type ProcessSubstitutionPart,
  type Redirection,
  type Script,
  type Statement,
  type SyntaxNode,
  type Word,
} from "unbash";
import {
  arithmeticTargets,
  arithmeticText,
  assignedParameter,
  isPlainArithmetic,
  parameterProblem,
  testProblem,
} from "./expansions";
import {
  assignmentWord,
  hasOperator,
  literalText,
  shellWord,
  type ShellWord,
  type TextSpan,
} from "./shell_words";
import { continuationProblem, textProblem } from "./text_filter";

export type Step =
  | SimpleStep
  | { readonly kind: "sequence"; readonly steps: readonly Step[] }
  /** Steps joined by `&&` and `||`, which have equal precedence and are left-associative. */
  | { readonly kind: "andOr"; readonly first: Step; readonly rest: readonly JoinedStep[] }
  | { readonly kind: "not"; readonly step: Step }
  /** Runs in a separate shell: `( )`, `&`. */
  | { readonly kind: "subshell"; readonly step: Step }
  | { readonly kind: "pipeline"; readonly steps: readonly Step[] }
  | { readonly kind: "if"; readonly test: Step; readonly then: Step; readonly otherwise: Step }
  | { readonly kind: "loop"; readonly test: Step; readonly body: Step }
  | { readonly kind: "branches"; readonly steps: readonly Step[] }
  /** A compound command with redirections. `header` holds the redirections. */
  | { readonly kind: "redirected"; readonly header: SimpleStep; readonly step: Step };

export interface JoinedStep {
  readonly operator: "&&" | "||";
  readonly step: Step;
}

/** A simple command, or the words of a compound command: `for`, `case`, `[[ ]]`, `(( ))`. */
export interface SimpleStep extends TextSpan {
  readonly kind: "simple";
  readonly text: string;
  readonly words: readonly ShellWord[];
  readonly variables: readonly VariableChange[];
  readonly redirections: readonly ShellRedirection[];
  readonly substitutions: readonly CommandSubstitution[];
  readonly troubles: readonly Trouble[];
}

export interface VariableChange extends TextSpan {
  readonly text: string;
  readonly name: string;
  /** Whether the variable is set for one command only, as in `LANG=C ls`. */
  readonly beforeCommand: boolean;
  /** The literal text of the value. */
  readonly value: string;
}

export interface ShellRedirection extends TextSpan {
  readonly text: string;
  readonly operator: string;
  readonly descriptor: number | undefined;
  /** Undefined for here-documents. */
  readonly target: ShellWord | undefined;
}

export interface CommandSubstitution {
  readonly step: Step;
  /** Whether the substituted command reads the output of another command, as in `>( )`. */
  readonly isPiped: boolean;
}

/** Unsupported syntax. The user is asked about it. */
export interface Trouble extends TextSpan {
  readonly text: string;
  readonly reason: string;
}

/** The parser reads the syntax of bash. `sh` does not accept all of it. */
export type Dialect = "bash" | "sh";

export const DOES_NOT_PARSE = "It does not parse as a bash command, or is not finished.";

// Bash first reads `((` as arithmetic. If that fails, bash reads its here-documents again.
const DOUBLE_PARENTHESES =
  "It starts like arithmetic but is not; put a space between the parentheses.";
const NOTHING: Step = { kind: "sequence", steps: [] };
const OPENS_BRACKET = /^(?:[ \t]|\\\n)*\(/;
const PLAIN_DELIMITER = /^(?:\\?[\w.@%+-]+|'[\w.@%+ -]+'|"[\w.@%+ -]+")$/;

/** The tree of a text, or the reason why the text has none. */
export function commandTree(
  text: string,
  { dialect, place }: { dialect: Dialect; place: TextSpan | undefined },
): Step | string {
  const problem = textProblem(text);
  if (problem !== undefined) return problem;
  const script = parse(text);
  if (script.errors?.length) return DOES_NOT_PARSE;
  return new TreeBuilder(text, place, dialect).whole(script);
}

class TreeBuilder {
  /** Single quotes and quoted here-documents, in which no backslash is special. */
  private readonly literal: Positioned[] = [];

  /** If `source` is a text inside the whole command, `place` is its position there. */
  constructor(
    private readonly source: string,
    private readonly place: TextSpan | undefined,
    private readonly dialect: Dialect,
  ) {}

  /** The step of a script that is the whole text. */
  whole(script: Script): Step {
    const tree = this.script(script);
    const isLiteral = (at: number) => this.literal.some(({ pos, end }) => pos <= at && at < end);
    const problem = continuationProblem(this.source, isLiteral);
    if (problem === undefined) return tree;
    return this.withTrouble({ pos: 0, end: this.source.length }, problem, tree);
  }

  script(script: Script): Step {
    return this.statements(script.commands);
  }

  private statements(statements: readonly Statement[]): Step {
    return { kind: "sequence", steps: statements.map((each) => this.statement(each)) };
  }

  private list(list: CompoundList | undefined): Step {
    return list ? this.statements(list.commands) : NOTHING;
  }

  private statement({ command, background }: Statement): Step {
    const step = command.type === "AndOr" ? this.andOr(command) : this.pipelineNode(command);
    return background ? { kind: "subshell", step } : step;
  }

  private andOr({ commands, operators }: AndOr): Step {
    const [first = NOTHING, ...others] = commands.map((each) => this.pipelineNode(each));
    const rest = others.map((step, at) => ({ operator: operators[at] ?? "&&", step }));
    return { kind: "andOr", first, rest };
  }

  private pipelineNode(node: PipelineNode): Step {
    return node.type === "Pipeline" ? this.pipeline(node) : this.command(node);
  }

  private pipeline(node: Pipeline): Step {
    const steps = node.commands.map((each) => this.command(each));
    const [only = NOTHING, ...others] = steps;
    const step: Step = others.length ? { kind: "pipeline", steps } : only;
    const [negated, ...furtherNegations] = node.prefixes.map(({ type }) => type === "Negation");
    const whole: Step = negated ? { kind: "not", step } : step;
    if (negated && !steps.length) return this.withTrouble(node, DOES_NOT_PARSE, whole);
    if (!furtherNegations.includes(true)) return whole;
    // Not every bash parser accepts this syntax, so it is a trouble here.
    return this.withTrouble(node, "`!` follows `!` or `time`.", whole);
  }

  private command(node: CommandNode): Step {
    switch (node.type) {
      case "Command":
        return this.simple(node);
      case "Redirected":
        return this.redirected(node.command, node.redirects, node);
      case "Function":
        return this.functionDefinition(node);
      case "Coproc":
        return this.withTrouble(
          node,
          "A coprocess is not understood.",
          node.body.type === "CompoundList" ? this.list(node.body) : this.command(node.body),
        );
      default:
        return this.compound(node);
    }
  }

  private functionDefinition(node: FunctionDefinition): Step {
    const body = node.body.type === "CompoundList" ? this.list(node.body) : this.command(node.body);
    return this.withTrouble(node, "It defines a function.", body);
  }

  private compound(node: CompoundCommand): Step {
    switch (node.type) {
      case "Subshell": {
        const step: Step = { kind: "subshell", step: this.list(node.body) };
        return this.text(node).startsWith("((")
          ? this.withTrouble(node, DOUBLE_PARENTHESES, step)
          : step;
      }
      case "BraceGroup":
        return this.list(node.body);
      case "If":
        return this.conditional(node);
      case "While": {
        const test = this.list(node.clause);
        return {
          kind: "loop",
          test: node.kind === "until" ? { kind: "not", step: test } : test,
          body: this.list(node.body),
        };
      }
      case "For":
        return this.forLoop(node.name, node.wordlist ?? [], this.list(node.body));
      case "Case":
        return this.caseOf(node);
      case "Select":
        return this.withTrouble(
          node,
          "`select` is not understood.",
          this.forLoop(node.name, node.wordlist ?? [], this.list(node.body)),
        );
      case "ArithmeticFor": {
        const header = [node.initialize, node.test, node.update].filter(
          (each) => each !== undefined,
        );
        const steps = [this.collect(...header).step(node), this.list(node.body)];
        return this.withTrouble(node, "`for (( ))` is not understood.", {
          kind: "sequence",
          steps,
        });
      }
      case "TestCommand":
        return this.test(node);
      case "ArithmeticCommand": {
        const collected = this.collect(node);
        this.checkArithmetic(collected, node, node.body);
        if (this.dialect === "sh") collected.trouble(node, "sh has no `(( ))`.");
        return collected.step(node);
      }
    }
  }

  private conditional(node: CompoundCommand & { type: "If" }): Step {
    const branches = [{ clause: node.clause, then: node.then }, ...node.elif];
    return branches.reduceRight<Step>(
      (otherwise, { clause, then }) => ({
        kind: "if",
        test: this.list(clause),
        then: this.list(then),
        otherwise,
      }),
      this.list(node.else),
    );
  }

  private forLoop(name: Word, words: readonly Word[], body: Step): Step {
    const collected = this.collect(...words);
    this.checkAdjacentWords(collected, words);
    const last = words.at(-1) ?? name;
    for (const word of words.length ? words : [name])
      collected.variable(name, name.text, false, literalText(word));
    const header = collected.step({ pos: name.pos, end: last.end });
    return { kind: "sequence", steps: [header, { kind: "loop", test: NOTHING, body }] };
  }

  private caseOf(node: CompoundCommand & { type: "Case" }): Step {
    const patterns = node.items.flatMap(({ pattern }) => pattern);
    const header = this.collect(node.word, ...patterns).step(node.word);
    const steps = node.items.map(({ body }) => this.list(body));
    // With `;&` execution continues in the next body, so a body may start where another ended.
    const fallsThrough = node.items.some(({ terminator }) => terminator && terminator !== ";;");
    const bodies: Step = { kind: "branches", steps: [...steps, NOTHING] };
    return {
      kind: "sequence",
      steps: [header, fallsThrough ? { kind: "loop", test: NOTHING, body: bodies } : bodies],
    };
  }

  private test(node: CompoundCommand & { type: "TestCommand" }): Step {
    const collected = this.collect(node);
    const problem = testProblem(node.expression);
    if (problem !== undefined) collected.trouble(node, problem);
    if (collected.substitutions.length) collected.trouble(node, "[[ ]] substitutes a command.");
    if (this.dialect === "sh") collected.trouble(node, "sh has no `[[ ]]`.");
    return collected.step(node);
  }

  private redirected(
    command: CompoundCommand,
    redirects: readonly Redirection[],
    node: Positioned,
  ): Step {
    const collected = this.collect();
    for (const redirect of redirects) this.redirection(collected, redirect);
    const start = redirects[0]?.pos ?? node.pos;
    const header = collected.step({ pos: start, end: node.end });
    return { kind: "redirected", header, step: this.compound(command) };
  }

  /** A step for unsupported syntax, followed by the commands inside it. */
  private withTrouble(node: Positioned, reason: string, body: Step): Step {
    const collected = this.collect();
    collected.trouble(node, reason);
    return { kind: "sequence", steps: [collected.step(node), body] };
  }

  private simple(node: Command): Step {
    const collected = this.collect();
    for (const each of node.prefix) {
      if (each.type === "Assignment") this.assignment(collected, each, node.name !== undefined);
      else this.redirection(collected, each);
    }
    if (node.name) this.word(collected, node.name);
    // The parser ignores an opening bracket after the name if no function definition follows.
    if (node.name && OPENS_BRACKET.test(this.source.slice(node.name.end)))
      collected.trouble(node, DOES_NOT_PARSE);
    for (const each of node.suffix) {
      if (each.type === "Word") this.word(collected, each);
      else if (each.type === "Assignment") this.declarationArgument(collected, each);
      else this.redirection(collected, each);
    }
    this.checkAdjacentWords(collected, [
      ...node.prefix,
      ...(node.name ? [node.name] : []),
      ...node.suffix,
    ]);
    return collected.step(node);
  }

  /** For `a<(b)` the parser returns two words, but bash reads one. */
  private checkAdjacentWords(
    collected: Collected,
    nodes: readonly (Positioned & SyntaxNode)[],
  ): void {
    for (const [at, node] of nodes.entries())
      if (node.type === "Word" && nodes[at - 1]?.end === node.pos)
        collected.trouble(node, "A process substitution is part of a longer word.");
  }

  private word(collected: Collected, word: Word): void {
    this.expansions(collected, word);
    collected.words.push(shellWord(word, this.span(word)));
  }

  private assignment(collected: Collected, node: Assignment, beforeCommand: boolean): void {
    this.arrays(collected, node);
    this.expansions(collected, node);
    const value = node.value.type === "Word" ? literalText(node.value) : "";
    collected.variable(node, node.name, beforeCommand, value);
    if (this.dialect === "sh" && node.append) collected.trouble(node, "sh has no `+=`.");
  }

  /** In `export a=b`, rules treat `a=b` as a word, but the parser returns an assignment. */
  private declarationArgument(collected: Collected, node: Assignment): void {
    this.arrays(collected, node);
    this.expansions(collected, node);
    collected.words.push(assignmentWord(node, this.span(node)));
  }

  private arrays(collected: Collected, node: Assignment): void {
    if (node.value.type === "ArrayValue") collected.trouble(node, "It assigns an array.");
    else if (node.index) collected.trouble(node, "It assigns to a subscript.");
  }

  private redirection(collected: Collected, node: Redirection): void {
    const { descriptor, operator } = node;
    if (descriptor?.type === "FileDescriptorVariable") {
      collected.variable(node, descriptor.name, false);
      if (this.dialect === "sh") collected.trouble(node, "sh has no `{name}>`.");
    }
    if (this.dialect === "sh" && operator.startsWith("&"))
      collected.trouble(node, `sh has no \`${operator}\`.`);
    // Bash ends the redirection after the dash: `>&-rm` runs rm.
    if (
      node.type === "Redirect" &&
      /^[<>]&$/.test(operator) &&
      /^-./s.test(node.target?.text ?? "")
    )
      collected.trouble(node, "A word follows `-` without a blank.");
    if (node.type === "HereDoc") this.hereDocument(collected, node);
    else if (!node.target) collected.trouble(node, DOES_NOT_PARSE);
    else this.expansions(collected, node.target);
    const target = node.type === "HereDoc" ? undefined : node.target;
    collected.redirections.push({
      ...this.span(node),
      text: this.text(node),
      operator,
      descriptor: descriptor?.type === "FileDescriptor" ? descriptor.value : undefined,
      target: target && shellWord(target, this.span(target)),
    });
  }

  private hereDocument(collected: Collected, node: HereDoc): void {
    if (!node.closing) collected.trouble(node, "The here-document is not finished.");
    if (!node.delimiter || !PLAIN_DELIMITER.test(node.delimiter.text))
      collected.trouble(node, "The end of the here-document is not a plain word.");
    if (node.delimiter?.quoted) {
      this.literal.push(node.body);
      return;
    }
    for (const part of node.body.parts ?? []) this.expansion(collected, part);
  }

  private collect(...nodes: readonly SyntaxNode[]): Collected {
    const collected = new Collected((node) => ({ ...this.span(node), text: this.text(node) }));
    for (const node of nodes) this.expansions(collected, node);
    return collected;
  }

  private expansions(collected: Collected, node: SyntaxNode): void {
    if (node.type === "Word" && hasOperator(node))
      collected.trouble(node, `${node.text} has an operator inside a word.`);
    forEachChild(node, (child) => this.expansion(collected, child));
  }

  private expansion(collected: Collected, node: SyntaxNode): void {
    switch (node.type) {
      case "Script":
        this.substitution(collected, { script: node, node, isPiped: false });
        return;
      case "CommandExpansion":
        if (node.text.startsWith("${")) collected.trouble(node, `${node.text} is not understood.`);
        if (node.text.startsWith("$((")) collected.trouble(node, DOUBLE_PARENTHESES);
        // Within backticks, bash joins continued lines even inside single quotes.
        if (node.text.startsWith("`") && node.text.includes("\\\n"))
          collected.trouble(node, "It continues a line within backticks.");
        // Bash removes such a backslash before it looks for quotes and braces.
        if (node.text.startsWith("`") && /\\[\\$"]/.test(node.text))
          collected.trouble(node, "Backticks with an escaped backslash, dollar or quote.");
        this.substituted(collected, node, false);
        return;
      case "ProcessSubstitution":
        this.substituted(collected, node, node.operator === ">");
        return;
      case "LocaleString":
        collected.trouble(node, 'It has a translated string, $"…".');
        break;
      case "ExtendedGlob":
        collected.trouble(node, `${node.text} is an extended glob.`);
        break;
      case "SingleQuoted":
        this.literal.push(node);
        break;
      case "AnsiCQuoted":
        if (this.dialect === "sh") collected.trouble(node, "sh has no `$'…'`.");
        if (node.text.includes("\\\n")) collected.trouble(node, "It continues a line within $'…'.");
        break;
      case "ArithmeticExpansion":
        this.checkArithmetic(collected, node, arithmeticText(node));
        break;
      case "ParameterExpansion": {
        const problem = parameterProblem(node);
        if (problem !== undefined) collected.trouble(node, problem);
        const assigned = assignedParameter(node);
        if (assigned !== undefined) collected.variable(node, assigned, false);
        this.operands(collected, node);
        return;
      }
    }
    this.expansions(collected, node);
  }

  /** In the operand of `${x#…}` operators are plain text. */
  private operands(collected: Collected, node: SyntaxNode): void {
    forEachChild(node, (child) => {
      if (child.type === "Word" || "operatorEnd" in child) this.operands(collected, child);
      else this.expansion(collected, child);
    });
  }

  private checkArithmetic(collected: Collected, node: Positioned, text: string): void {
    if (!isPlainArithmetic(text))
      collected.trouble(node, "The arithmetic has more than numbers, names and operators.");
    for (const name of arithmeticTargets(text)) collected.variable(node, name, false);
  }

  private substituted(
    collected: Collected,
    node: CommandExpansionPart | ProcessSubstitutionPart,
    isPiped: boolean,
  ): void {
    if (node.script) this.substitution(collected, { script: node.script, node, isPiped });
    else collected.trouble(node, DOES_NOT_PARSE);
  }

  private substitution(
    collected: Collected,
    { script, node, isPiped }: { script: ParsedScript; node: Positioned; isPiped: boolean },
  ): void {
    if (script.errors?.length) {
      collected.trouble(node, DOES_NOT_PARSE);
      return;
    }
    // Backticks with escapes run another text than the command shows.
    const { source } = script;
    const problem = source && (textProblem(source) ?? continuationProblem(source));
    if (problem) collected.trouble(node, problem);
    const builder =
      script.source === undefined
        ? this
        : new TreeBuilder(script.source, this.span(node), this.dialect);
    collected.substitutions.push({ step: builder.script(script), isPiped });
  }

  private span({ pos, end }: Positioned): TextSpan {
    return this.place ?? { start: pos, end };
  }

  private text({ pos, end }: Positioned): string {
    return this.source.slice(pos, end);
  }
}

interface Positioned {
  readonly pos: number;
  readonly end: number;
}

/** Gathers the contents of one step. */
class Collected {
  readonly words: ShellWord[] = [];
  readonly redirections: ShellRedirection[] = [];
  readonly substitutions: CommandSubstitution[] = [];
  private readonly variables: VariableChange[] = [];
  private readonly troubles: Trouble[] = [];

  constructor(private readonly shown: (node: Positioned) => TextSpan & { text: string }) {}

  trouble(node: Positioned, reason: string): void {
    this.troubles.push({ ...this.shown(node), reason });
  }

  variable(node: Positioned, name: string, beforeCommand: boolean, value = ""): void {
    this.variables.push({ ...this.shown(node), name, beforeCommand, value });
  }

  step(node: Positioned): SimpleStep {
    const { words, redirections, substitutions, variables, troubles } = this;
    return {
      kind: "simple",
      ...this.shown(node),
      words,
      redirections,
      substitutions,
      variables,
      troubles,
    };
  }
}
