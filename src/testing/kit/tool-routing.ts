import type { INestApplication } from '@nestjs/common';
import type * as Sdk from '@modelcontextprotocol/client';
import { createMcpTestClient, type McpTestClient, type McpTestClientOptions } from './mcp-test-client.js';

/** What a user asks, and the tool by which it is to be answered. @publicApi */
export interface McpRoutingCase {
  /** What the user asks. */
  ask: string;
  /** The name of the tool that the model is to choose; `undefined`: none. */
  expect: string | undefined;
  /** Tools that it must not choose, however many misses are allowed. @default [] */
  never?: readonly string[];
}

/**
 * Chooses a tool as the model of an agent does: ask your model with these tools, and return the name of the tool that it calls.
 *
 * @returns the name of the tool; `undefined`: it calls none
 * @publicApi
 */
export type McpRoutingModel = (turn: {
  readonly ask: string;
  /** The tools, as the caller sees them in `tools/list`. */
  readonly tools: readonly Sdk.Tool[];
}) => string | undefined | Promise<string | undefined>;

/** @publicApi */
export interface McpRoutingOptions {
  /** The caller whose tools the model gets: a token, or the options of a test client. @default an anonymous caller */
  as?: string | McpTestClientOptions;
  /** The path of the endpoint. @default that of the app's only one */
  endpoint?: string;
  /** The share of cases that must be hits, from 0 to 1: models do not choose alike each time. @default 1 */
  atLeast?: number;
}

/** Says which tool the model chose for each case. @publicApi */
export interface McpRoutingReport {
  /** Whether no model was given, so that nothing was asked. */
  readonly skipped: boolean;
  readonly hits: number;
  readonly cases: readonly {
    readonly ask: string;
    readonly expected: string | undefined;
    readonly chosen: string | undefined;
    readonly hit: boolean;
    /** Whether it chose a tool of `never`. */
    readonly forbidden: boolean;
  }[];
  /** The cases as a table, and below it which tools were chosen instead of which. */
  readonly table: string;
}

/**
 * Asks a model which tool it would call, one case after the other, and compares its choices with those that are expected.
 * Without a model nothing is asked: the report and a line on the console say that it was skipped.
 *
 * ```ts
 * const cases = [{ ask: 'cancel my order', expect: 'cancel_order', never: ['refund'] }];
 * const { table } = await toolRouting(app, cases, process.env.MODEL_KEY ? askModel : undefined);
 * ```
 *
 * @throws Error (rejects) with the table, when fewer than `atLeast` are hits, or a tool of `never` was chosen; for a case that
 *   names a tool which the caller does not see; when the model fails, or returns no name; without a case
 * @publicApi
 */
export async function toolRouting(
  app: INestApplication,
  cases: readonly McpRoutingCase[],
  model: McpRoutingModel | undefined,
  { as, endpoint, atLeast = 1 }: McpRoutingOptions = {},
): Promise<McpRoutingReport> {
  if (cases.length === 0)
    throw new TypeError('There is no routing case, so nothing would be tested. Give at least one.');
  if (!(atLeast >= 0 && atLeast <= 1)) {
    throw new TypeError(`The option "atLeast" is a share of the cases, from 0 to 1, such as 0.9; got ${atLeast}.`);
  }
  const client = typeof as === 'object' ? as : { token: as };
  const mcp = await createMcpTestClient(app, { endpoint, ...client });
  const tools = await listedBy(mcp);
  for (const each of cases) assertListed(each, tools);
  if (!model) {
    const table = `Skipped: no model was given for ${cases.length} routing cases.`;
    // In modules of @nestjs/testing the logger of Nest writes errors alone.
    console.warn(table);
    return { skipped: true, hits: 0, cases: [], table };
  }
  const asked: Asked[] = [];
  for (const { ask, expect, never = [] } of cases) {
    const chosen = await choiceOf(model, ask, tools);
    asked.push({ ask, expected: expect, chosen, hit: chosen === expect, forbidden: never.includes(chosen!) });
  }
  const hits = asked.filter(({ hit }) => hit).length;
  const report = { skipped: false, hits, cases: asked, table: tableOf(asked, hits) };
  const failed = hits < atLeast * asked.length || asked.some(({ forbidden }) => forbidden);
  if (failed) throw new Error(report.table);
  return report;
}

async function listedBy(mcp: McpTestClient): Promise<Sdk.Tool[]> {
  try {
    return await mcp.list.tools();
  } finally {
    await mcp.close();
  }
}

type Asked = McpRoutingReport['cases'][number];

/** @throws Error for a name that is misspelt, or hidden from the caller */
function assertListed({ ask, expect, never = [] }: McpRoutingCase, tools: readonly Sdk.Tool[]): void {
  const names = tools.map(({ name }) => name);
  const unknown = [...(expect === undefined ? [] : [expect]), ...never].find((name) => !names.includes(name));
  if (unknown === undefined) return;
  const text = `The case "${ask}" names the tool "${unknown}", which this caller does not see. It sees: ${names.join(', ') || 'none'}.`;
  throw new Error(text);
}

async function choiceOf(model: McpRoutingModel, ask: string, tools: readonly Sdk.Tool[]): Promise<string | undefined> {
  let chosen: unknown;
  try {
    // A model must not change what the next case gets.
    chosen = (await model({ ask, tools: structuredClone(tools) })) ?? undefined;
  } catch (cause) {
    throw new Error(`The model failed at "${ask}": ${(cause as Error).message}`, { cause });
  }
  if (chosen === undefined || typeof chosen === 'string') return chosen;
  const text = `The model must return the name of the tool that it calls, or undefined; at "${ask}" it returned ${JSON.stringify(chosen)}.`;
  throw new TypeError(text);
}

const named = (tool: string | undefined): string => tool ?? '(none)';

function tableOf(asked: readonly Asked[], hits: number): string {
  const rows = asked.map(({ ask, expected, chosen, hit, forbidden }) => [
    forbidden ? 'NEVER' : hit ? 'hit' : 'MISS',
    ask,
    named(expected),
    named(chosen),
  ]);
  const all = [['', 'ask', 'expected', 'chosen'], ...rows];
  const widths = [0, 1, 2].map((column) => Math.max(...all.map((row) => row[column]!.length)));
  const lines = all.map(
    (row) =>
      `  ${row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd()}`,
  );
  const confusions = new Map<string, number>();
  for (const { expected, chosen, hit } of asked) {
    const pair = `${named(expected)} → ${named(chosen)}`;
    if (!hit) confusions.set(pair, (confusions.get(pair) ?? 0) + 1);
  }
  const pairs = [...confusions].toSorted(([, a], [, b]) => b - a).map(([pair, count]) => `  ${count} × ${pair}`);
  const below = pairs.length > 0 ? ['', 'Chosen instead of what was expected:', ...pairs] : [];
  return [`${hits} of ${asked.length} routing cases are hits.`, ...lines, ...below].join('\n');
}
