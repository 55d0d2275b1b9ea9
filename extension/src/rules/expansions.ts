/**
 * Finds expansions that are too complex to decide on. This part of the strict filter (see
 * `text_filter.ts`) needs a syntax tree.
 */
import {
  parse,
  type ArithmeticExpansionPart,
  type ArithmeticExpression,
  type ParameterExpansionPart,
  type TestExpression,
} from "unbash";

const NUMBER = String.raw`0[xX][0-9a-fA-F]+|\d+#[\w@]+|\d+`;
// The look-ahead allows only one way to match a name. Otherwise long names would cause catastrophic
// backtracking.
const NAME = String.raw`[A-Za-z_]\w*(?!\w)`;
const PARAMETER = /^#?(?:[A-Za-z_]\w*|\d+|[@*#?$!-])/;
const ARITHMETIC = new RegExp(
  String.raw`^(?:\s|(?:${NUMBER})(?!\w)|${NAME}|[-+*/%<>=!&|^~?:,()])*$`,
);
const CHANGED = new RegExp(
  String.raw`(?:\+\+|--)\s*(${NAME})|\b(${NAME})\s*(?:\+\+|--|(?:[-+*/%&^|]|<<|>>)?=(?!=))`,
  "g",
);
const QUOTED_OPERAND = /['"$`{}()]/;
const EXPANSION = String.raw`\$(?:\w+|[#?$!@*-]|\{[^{}]*\}|\(\([^()]*\)\))`;
const OPERAND = new RegExp(String.raw`^[-+]?(?:(?:${NUMBER})(?!\w)|${NAME}|${EXPANSION})$`);
const OPERAND_WORD = new RegExp(String.raw`^(?:(?:${NUMBER})|${NAME})$`);
const ARITHMETIC_TESTS = new Set(["-eq", "-ne", "-lt", "-le", "-gt", "-ge"]);

export const PLAIN_NAME = /^[A-Za-z_]\w*$/;

/** Whether an expression is valid and has only numbers, plain names and operators. */
export function isPlainArithmetic(text: string): boolean {
  if (!ARITHMETIC.test(text)) return false;
  const [statement] = parse(`((${text}))`).commands;
  const command = statement?.command;
  return command?.type === "ArithmeticCommand" && isComplete(command.expression);
}

/** The parser is lenient: it takes what is missing, or an operator alone, for a word. */
function isComplete(expression: ArithmeticExpression | undefined): boolean {
  switch (expression?.type) {
    case "ArithmeticWord":
      return OPERAND_WORD.test(expression.value.trim());
    case "ArithmeticBinary":
      return isComplete(expression.left) && isComplete(expression.right);
    case "ArithmeticUnary":
      return isComplete(expression.operand);
    case "ArithmeticTernary":
      return [expression.test, expression.consequent, expression.alternate].every(isComplete);
    case "ArithmeticGroup":
      return isComplete(expression.expression);
    default:
      return false;
  }
}

/** The variables that an arithmetic expression assigns. */
export function arithmeticTargets(text: string): string[] {
  return [...text.matchAll(CHANGED)].map((match) => match[1] ?? match[2] ?? "");
}

/** The expression of `$((…))` or `$[…]`. */
export function arithmeticText({ text }: ArithmeticExpansionPart): string {
  return text.startsWith("$((") ? text.slice(3, -2) : text.slice(2, -1);
}

/** Why `${…}` is not understood, or undefined. */
export function parameterProblem(part: ParameterExpansionPart): string | undefined {
  const { text, operation, prefix } = part;
  if (prefix === "!") return `${text} reads the variable that another one names.`;
  if (part.index || /^\$\{[#!]?\w+\[/.test(text)) return `${text} has a subscript.`;
  const name = PARAMETER.exec(text.slice(2))?.[0] ?? "";
  const rest = text.slice(2 + name.length, -1);
  if (text.startsWith("${") && (!name || (rest && /^[!#]/.test(name))))
    return `${text} is not understood.`;
  if (!operation) return undefined;
  if (operation.type === "Transform" || operation.type === "Names" || operation.type === "Unknown")
    return `${text} transforms a value.`;
  const operand = text.slice(part.parameterEnd - part.pos, -1);
  if (QUOTED_OPERAND.test(operand)) return `${text} has quotes, brackets or expansions inside.`;
  if (operation.type === "Slice" && !isPlainSlice(operand))
    return `${text} calculates with more than numbers and names.`;
  return undefined;
}

/** `:offset` or `:offset:length`. */
function isPlainSlice(operand: string): boolean {
  const [, ...expressions] = operand.split(":");
  return expressions.length < 3 ? expressions.every(isPlainArithmetic) : ARITHMETIC.test(operand);
}

/** The variable that `${x:=…}` assigns. */
export function assignedParameter({
  parameter,
  operation,
}: ParameterExpansionPart): string | undefined {
  const assigns = operation?.type === "Default" && /^:?=$/.test(operation.operator);
  return assigns ? parameter : undefined;
}

/** Why the expression of `[[ ]]` is not understood, or undefined. */
export function testProblem(expression: TestExpression): string | undefined {
  switch (expression.type) {
    case "TestLogical":
      return expression.operands.map(testProblem).find((problem) => problem !== undefined);
    case "TestNot":
      return testProblem(expression.operand);
    case "TestGroup":
      return testProblem(expression.expression);
    case "TestUnary":
      // `-v 'a[$(cmd)]'` runs cmd, even if it is quoted.
      return /^-[vR]$/.test(expression.operator) && !PLAIN_NAME.test(expression.operand.text)
        ? `[[ ${expression.operator} ]] has more than a plain name.`
        : undefined;
    case "TestBinary": {
      const { operator, left, right } = expression;
      if (operator === "=~") return "[[ =~ ]] is not understood.";
      // The operands are arithmetic, where 'a[$(cmd)]' runs cmd. `$x` counts as a plain name.
      const plain = [left, right].every(({ text }) => OPERAND.test(text.replaceAll('"', "")));
      return ARITHMETIC_TESTS.has(operator) && !plain
        ? `[[ ${operator} ]] calculates with more than numbers and names.`
        : undefined;
    }
  }
}
