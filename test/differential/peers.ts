import { isDeepStrictEqual } from 'node:util';
import { send } from '../support/http.js';
import { type Case, type Era, old, withoutNulls } from './case.js';
import type { Differs } from './differences.js';
import { differenceOf, type Outcome, outcomesOf } from './outcome.js';

type Headers = Record<string, string>;

/** One of the two endpoints that are compared, with the session that rows of the legacy era share. */
export class Peer {
  #shared: Promise<Headers> | undefined;

  constructor(
    readonly url: string,
    private readonly era: Era,
  ) {}

  async outcomes(row: Case): Promise<Outcome[]> {
    if (this.era === 'modern') return outcomesOf(this.url, row);
    const outcomes = await outcomesOf(this.url, row, await this.#session(row));
    // The server chooses how it answers: SSE, always, or JSON when there is nothing but the answer (P3).
    return outcomes.map((outcome) => (outcome.status === 200 ? { ...outcome, mediaType: '' } : outcome));
  }

  #session({ session }: Case): Promise<Headers> | Headers {
    if (session === 'none') return {};
    return session ? this.#begin(session) : (this.#shared ??= this.#begin({}));
  }

  async #begin(capabilities: Record<string, unknown>): Promise<Headers> {
    const clientInfo = { name: 'raw', version: '1.0.0' };
    const begun = await send(this.url, old('initialize', { protocolVersion: '2025-11-25', capabilities, clientInfo }));
    await begun.text();
    const session = { 'mcp-session-id': begun.header('mcp-session-id')!, 'mcp-protocol-version': '2025-11-25' };
    const { headers, ...initialized } = old('notifications/initialized', undefined, { id: undefined });
    await (await send(this.url, { ...initialized, headers: { ...headers, ...session } })).text();
    return session;
  }
}

/** What is not as it is listed, with both answers, since what differs says little without them. */
export interface Surprise {
  readonly title: string;
  readonly difference: Differs | undefined;
  readonly listed: Differs | undefined;
  readonly ours: readonly Outcome[];
  readonly sdks: readonly Outcome[];
}

/** Sends a row to both; the SDK gets it without the optional members that are `null`. @returns `undefined` when they differ as it is listed, or not at all */
export async function compare(
  [our, sdk]: readonly [Peer, Peer],
  row: Case,
  listed: ReadonlyMap<string, Differs>,
): Promise<Surprise | undefined> {
  const [ours, sdks] = await Promise.all([our.outcomes(row), sdk.outcomes(forSdk(row))]);
  const difference = differenceOf(ours, sdks);
  const expected = listed.get(row.title);
  if (isDeepStrictEqual(difference, expected)) return undefined;
  return { title: row.title, difference, listed: expected, ours, sdks };
}

function forSdk(row: Case): Case {
  return { ...row, steps: row.steps.map((step) => (before) => withoutNulls(step(before))) };
}

/** Sends rows to both, some at a time. @returns those that are not as they are listed */
export async function compareAll(
  peers: readonly [Peer, Peer],
  rows: readonly Case[],
  listed: ReadonlyMap<string, Differs>,
): Promise<Surprise[]> {
  const surprises: (Surprise | undefined)[] = [];
  const rest = rows.values();
  const work = async (): Promise<void> => {
    for (const row of rest) surprises.push(await compare(peers, row, listed));
  };
  await Promise.all(Array.from({ length: 8 }, work));
  return surprises.filter((each) => each !== undefined);
}

/** The number of requests that rows consist of. */
export const requestsOf = (rows: readonly Case[]): number => rows.reduce((sum, { steps }) => sum + steps.length, 0);
