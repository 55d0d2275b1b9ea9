/**
 * Finds expansions that are too complex to decide on. This part of the strict filter (see
 * `text_filter.ts`) needs a syntax tree.
 */
import type { ArithmeticExpansionPart, ParameterExpansionPart, TestExpression } from "unbash";

const NUMBER = String.raw`0[xX][0-9a-fA-F]+|\d+#[\w@]+|\d+`;
// The look-ahead allows only one way to match a name. Otherwise long names would cause catastrophic
// backtracking.
const NAME = String.raw`[A-Za-z_]\w*(?!\w)`;
const ARITHMETIC = new RegExp(
  String.raw`^(?:\s|(?:${NUMBER})(?!\w)|${NAME}|[-+*/%<>=!&|^~?:,()])*$`,
);
const CHANGED = new RegExp(
  String.raw`(?:\+\+|--)\s*(${NAME})|\b(${NAME})\s*(?:\+\+|--|(?:[-+*/%&^|]|<<|>>)?=(?!=))`,
  "g",
);
const QUOTED_OPERAND = /['"$`{}()]/;
const EXPANSION = /\$(?:\w+|[#?$!@*-]|\{[^{}]*\}|\(\([^()]*\)\))/g;
const ARITHMETIC_TESTS = new Set(["-eq", "-ne", "-lt", "-le", "-gt", "-ge"]);

export const PLAIN_NAME = /^[A-Za-z_]\w*$/;

export function isPlainArithmetic(text: string): boolean {
  return ARITHMETIC.test(text);
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
  if (!operation) return undefined;
  if (prefix === "#") return `${text} is not understood.`;
  if (operation.type === "Transform" || operation.type === "Names" || operation.type === "Unknown")
    return `${text} transforms a value.`;
  const operand = text.slice(part.parameterEnd - part.pos, -1);
  if (QUOTED_OPERAND.test(operand)) return `${text} has quotes, brackets or expansions inside.`;
  if (operation.type === "Slice" && !isPlainArithmetic(operand))
    return `${text} calculates with more than numbers and names.`;
  return undefined;
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
      const plain = [left, right].every(({ text }) =>
        isPlainArithmetic(text.replace(EXPANSION, "x").replaceAll('"', "")),
      );
      return ARITHMETIC_TESTS.has(operator) && !plain
        ? `[[ ${operator} ]] calculates with more than numbers and names.`
        : undefined;
    }
  }
}
