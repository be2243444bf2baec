import { send } from '../support/http.js';
import { type Case, type Exchange, type Free, post, type Result } from './case.js';

/** What came of a request, as far as it is compared. */
export interface Outcome {
  readonly status: number;
  readonly mediaType: string;
  /** Of a 405. */
  readonly allow: string;
  readonly messages: readonly unknown[];
}

/**
 * Sends the requests of a case, one after the other.
 *
 * @param session headers of the session that they belong to
 * @returns what came of each, normalised
 */
export async function outcomesOf(url: string, row: Case, session: Record<string, string> = {}): Promise<Outcome[]> {
  const { steps, free } = row;
  const outcomes: Outcome[] = [];
  let before: Result | undefined;
  for (const step of steps) {
    const request = step(before);
    const outcome = await exchange(url, { ...request, headers: { ...session, ...request.headers } }, row, session);
    before = (outcome.messages.at(-1) as { result?: Result } | undefined)?.result;
    outcomes.push({ ...outcome, messages: outcome.messages.map((message) => normalised(message, free)) });
  }
  return outcomes;
}

async function exchange(
  url: string,
  request: Exchange,
  { reads = Infinity, answers }: Case,
  session: Record<string, string>,
): Promise<Outcome> {
  const response = await send(url, request);
  const mediaType = (response.header('content-type') ?? '').split(';', 1)[0]!;
  const head = { status: response.status, mediaType, allow: response.header('allow') ?? '' };
  if (mediaType !== 'text/event-stream') {
    const text = await response.text();
    return { ...head, messages: text === '' ? [] : [mediaType === 'application/json' ? JSON.parse(text) : text] };
  }
  const stream = response.sse();
  let answered = 0;
  while (answered < reads) {
    await stream.until(({ events, ended }) => ended !== undefined || events.length > answered);
    const message = stream.messages[answered++];
    if (message === undefined) break;
    if (answers && 'method' in message && 'id' in message) {
      const { id } = message;
      const reply = await send(url, post(JSON.stringify({ jsonrpc: '2.0', id, ...answers(message) }), session));
      await reply.text();
    }
  }
  stream.destroy();
  return { ...head, messages: stream.messages };
}

/**
 * Without what may differ from one implementation to the other: the texts of errors, and what a state consists of. Whether
 * they are there does count.
 */
function normalised(message: unknown, free: readonly Free[]): unknown {
  return JSON.parse(JSON.stringify(message), function (this: Record<string, unknown>, key, value: unknown) {
    // D38: the SDK names the default dialect.
    if (key === '$schema') return undefined;
    if (key === 'requestState' && typeof value === 'string') return '<state>';
    if (OF_QUESTIONS.has(key) && isNumbered(key, this)) return '<id>';
    if (key === 'reason' && 'requestId' in this) return '<text>';
    if (key === 'message' && 'code' in this && typeof value === 'string' && value !== '') return '<text>';
    if (key === 'mismatch' && isObject(value)) return { ...value, body: '<text>' };
    if (key === 'content' && free.includes('text') && this['isError'] === true) return '<content>';
    return value;
  });
}

/** By what each server numbers its own requests. */
const OF_QUESTIONS = new Set(['id', 'elicitationId', 'requestId', 'progressToken']);

function isNumbered(key: string, holder: Record<string, unknown>): boolean {
  if (key === 'id') return 'method' in holder;
  // Of a report, it is the client's.
  return key !== 'progressToken' || !('progress' in holder);
}

/**
 * Where two lists of outcomes differ: what each says in short, or else the places.
 *
 * @returns `undefined` when they are the same
 */
export function differenceOf(
  ours: readonly Outcome[],
  sdks: readonly Outcome[],
): [string, string] | string | undefined {
  const places = [...placesOf(ours.length === 1 ? ours[0] : ours, sdks.length === 1 ? sdks[0] : sdks)];
  if (places.length === 0) return undefined;
  const [short, other] = [ours, sdks].map((outcomes) => outcomes.map(summary).join(', '));
  return short === other ? places.join(', ') : [short!, other!];
}

function summary({ status, mediaType, messages }: Outcome): string {
  const last = messages.at(-1);
  const { error, result } = (isObject(last) ? last : {}) as { error?: { code: number }; result?: Result };
  // A result that does not say what it is is complete, as all of the legacy era are.
  const { isError, resultType = 'complete' } = result ?? {};
  const kind = error ? error.code : result && (isError === true ? 'isError' : resultType);
  const parts = [status, mediaType === 'text/event-stream' && 'SSE', kind];
  return parts.filter((part) => part !== false && part !== undefined).join(' ');
}

function* placesOf(one: unknown, other: unknown, at = ''): Iterable<string> {
  if (isContainer(one) && isContainer(other) && Array.isArray(one) === Array.isArray(other)) {
    for (const key of new Set([...Object.keys(one), ...Object.keys(other)])) {
      const [mine, theirs] = [one, other].map((each) => (Object.hasOwn(each, key) ? each[key] : undefined));
      yield* placesOf(mine, theirs, at === '' ? key : `${at}.${key}`);
    }
  } else if (one !== other) yield at;
}

function isContainer(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return isContainer(value) && !Array.isArray(value);
}
