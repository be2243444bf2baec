import { HttpException } from '@nestjs/common';
import type { McpCallEnd, McpCallOutcome, McpRefusal } from '../core/calls/mcp-instrumentation.js';
import { McpError, RefusedCall } from '../core/protocol/errors.js';
import type { McpSessionEvent } from '../core/sessions/session-events.js';

/** So many events are kept and shown. */
const KEPT = 200;
/** A text that clients choose is cut to this many characters. */
const LONGEST = 80;
/** The reason of a refusal is cut to this many characters. */
const LONGEST_REASON = 400;
/** A longer text is cut before it is kept. */
const LONGEST_KEPT = 1_000;

/** A line in the list of events. It contains no arguments, and no texts of the app's errors. */
export interface LiveEvent {
  /** The number of the event on this node, from 1. */
  readonly n: number;
  /** The time of the event in milliseconds since the epoch. */
  readonly at: number;
  /** The position of the endpoint in the app. */
  readonly endpoint: number;
  readonly tone: 'ok' | 'note' | 'bad';
  readonly what: string;
  readonly outcome: string;
  /** Why a request or call was refused; absent: it was not, or the texts of the event say it. */
  readonly reason?: string | undefined;
  /** Names the session or caller: the beginning of a session id, a principal, or both. */
  readonly who: string;
  readonly ms?: number;
  /** The key of the row of its tool; absent: the event is not the end of a call of a tool. */
  readonly tool?: string;
  /** The key of the record of the call; absent: no page was open when the call began. */
  readonly call?: string;
}

type NewEvent = Omit<LiveEvent, 'n' | 'at' | 'endpoint'>;

/** Words of an event, which are made when a page reads it: most events are never read. */
type Words = () => NewEvent;

/** An event in the ring, with its words if they have been read. */
interface KeptEvent {
  readonly n: number;
  readonly at: number;
  readonly endpoint: number;
  readonly words: Words;
  read?: LiveEvent;
}

/** Keeps the latest events of all endpoints, in a ring. */
export class EventRing {
  readonly #ring: KeptEvent[] = [];
  #last = 0;

  /** The number of the latest event. */
  get last(): number {
    return this.#last;
  }

  add(endpoint: number, at: number, words: Words): void {
    const n = ++this.#last;
    this.#ring[n % KEPT] = { n, at, endpoint, words };
  }

  /** Returns the events after a number, the oldest first. @param n number of the last event that is known */
  after(n: number): LiveEvent[] {
    const first = Math.max(n, this.#last - KEPT) + 1;
    return Array.from({ length: Math.max(0, this.#last - first + 1) }, (_, index) =>
      readOf(this.#ring[(first + index) % KEPT]!),
    );
  }
}

function readOf(event: KeptEvent): LiveEvent {
  const { n, at, endpoint, words } = event;
  return (event.read ??= { n, at, endpoint, ...words() });
}

/**
 * Returns the words for the end of a call. They hold copies of some fields: neither the call nor its messages.
 *
 * @param record the key of the record of the call
 */
export function callEvent(
  { call, outcome, durationMs, handled, error }: McpCallEnd,
  record: string | undefined,
): Words {
  const { sessionId, principal } = call;
  const method = bounded(call.method);
  const name = call.name === undefined ? undefined : bounded(call.name);
  const reason = outcome === 'ok' ? undefined : refusalText(error);
  return () => {
    // The name is enough for a tool, but not for a prompt.
    const what = name === undefined ? cut(method) : method === 'tools/call' ? cut(name) : `${cut(method)} ${cut(name)}`;
    const who = [sessionId === undefined ? '' : shortId(sessionId), principal === undefined ? '' : cut(principal)];
    const tone = outcome === 'ok' ? 'ok' : isFailure(outcome) ? 'bad' : 'note';
    const ms = Number(durationMs.toPrecision(3));
    const tool = handled && method === 'tools/call' ? `tool ${name}` : undefined;
    const text = OUTCOMES[outcome] ?? String(outcome);
    return { tone, what, outcome: text, reason, who: who.filter(Boolean).join(' · '), ms, tool, call: record };
  };
}

/**
 * Returns the HTTP status of an error, and what it is called: the code of an error of this package, or the class of one that the app
 * threw. Its text may have data of callers.
 *
 * @returns `undefined` for an error without a status
 */
export function refusalText(error: unknown): string | undefined {
  if (error instanceof McpError) return `${error.status} ${error.code}`;
  const thrown = error instanceof RefusedCall ? error.cause : error;
  if (thrown instanceof HttpException) return `${thrown.getStatus()} ${cut(thrown.name)}`;
  return error instanceof RefusedCall ? String(error.status) : undefined;
}

/** Returns a text that can wait in the ring: clients choose it, and its length. */
function bounded(text: string): string {
  return text.length > LONGEST_KEPT ? cut(text) : text;
}

/** Tells whether an outcome counts as an error; cancellation by a client does not. */
export function isFailure(outcome: McpCallOutcome): boolean {
  return outcome !== 'ok' && outcome !== 'cancelled';
}

export function refusalEvent({ status, option, code, reason, principal, method, name }: McpRefusal): NewEvent {
  const outcome = [status, code ?? STATUS_TEXTS[status], option].filter(Boolean).join(' · ');
  const asked = [method, name].flatMap((text) => (text === undefined ? [] : [cut(text)])).join(' ');
  const what = asked === '' ? 'request refused' : `request refused: ${asked}`;
  const why = reason === undefined ? undefined : cut(reason, LONGEST_REASON);
  return { tone: 'bad', what, outcome, reason: why, who: principal === undefined ? '' : cut(principal) };
}

/** @returns `undefined` for frequent, unimportant events, which are not shown */
export function sessionEvent(event: McpSessionEvent): NewEvent | undefined {
  const who = shortId(event.sessionId);
  switch (event.type) {
    case 'created':
    case 'rebuilt': {
      const { clientInfo, principal } = event.session;
      const whom = principal === undefined ? who : `${who} · ${cut(principal)}`;
      return { tone: 'note', what: `session ${event.type}`, outcome: cut(clientInfo.name), who: whom };
    }
    case 'closed':
      return { tone: 'note', what: 'session ended', outcome: event.reason, who };
    case 'store-fault':
      return { tone: 'bad', what: 'store fault', outcome: event.fatal ? 'stream lost' : 'see the log', who };
    case 'protocol-error':
      return { tone: 'bad', what: 'protocol error', outcome: 'see the log', who };
    case 'events-evicted':
      return { tone: 'bad', what: 'events evicted', outcome: `${event.oldest - event.after - 1} missed`, who };
    case 'late-message':
      return { tone: 'note', what: 'late message', outcome: event.disposition, who };
    case 'unknown-response':
      return { tone: 'note', what: 'unknown response', outcome: '', who };
    case 'roots-changed':
      return { tone: 'note', what: 'roots changed', outcome: '', who };
    case 'stream-attached':
    case 'stream-detached':
    case 'reader-replaced':
      return undefined;
  }
}

/** Guards of the app throw errors without a code. */
const STATUS_TEXTS: Readonly<Record<number, string>> = {
  401: 'not logged in',
  403: 'forbidden',
  429: 'too many requests',
};

const OUTCOMES: Readonly<Record<string, string>> = { tool_error: 'tool error' };

/**
 * Returns the beginning of a session id, to distinguish sessions; callers that know the whole id could use the session.
 */
export function shortId(sessionId: string): string {
  return sessionId.slice(0, 6);
}

/** Returns a text that a client chose, bounded and on one line. */
export function cut(text: string, longest = LONGEST): string {
  const short = text.length > longest ? `${text.slice(0, longest)}…` : text;
  return short.replace(UNPRINTABLE, '\u{fffd}');
}

/** Matches control characters, and characters that reverse or hide text. */
const UNPRINTABLE = /[\p{Cc}\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/gu;
