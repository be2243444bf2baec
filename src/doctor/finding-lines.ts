import type { McpFinding } from './diagnosis.js';

/** A line names so many further tools with the same finding. */
const NAMED = 5;
const CHARACTERS = 60;

/**
 * Writes findings as lines, one for each rule: what was found at the first tool, what to do, and the other tools.
 *
 * @param findings the worst first
 */
export function findingLines(findings: readonly McpFinding[]): string[] {
  const byRule = new Map<string, McpFinding[]>();
  for (const finding of findings) {
    const known = byRule.get(finding.rule);
    if (known) known.push(finding);
    else byRule.set(finding.rule, [finding]);
  }
  return Array.from(byRule, ([rule, [first, ...others]]) => {
    const { tool, problem, advice } = first!;
    const subject = tool === undefined ? 'The endpoint' : `The tool ${shortened(tool)}`;
    return `${subject} ${problem}. ${advice}${alsoOf(others)} [${rule}]`;
  });
}

function alsoOf(others: readonly McpFinding[]): string {
  if (others.length === 0) return '';
  const names = others.slice(0, NAMED).map(({ tool = 'the endpoint' }) => shortened(tool));
  const rest = others.length - NAMED;
  return ` Also: ${names.join(', ')}${rest > 0 ? ` and ${rest} more` : ''}.`;
}

function shortened(name: string): string {
  return name.length > CHARACTERS ? `${name.slice(0, CHARACTERS)}…` : name;
}
