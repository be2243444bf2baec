import { expect } from 'vitest';
import type { RawResponse } from './http.js';

/** What a refusal is expected to be. */
export interface ExpectedRefusal {
  status: number;
  code: number;
  /** Echoed when it could be read. @default null */
  id?: string | number | null;
  /** What the message must name: the offending value, the option, what to do. */
  says?: (string | RegExp)[];
}

interface Refusal {
  id: string | number | null;
  code: number;
  message: string;
  data?: unknown;
}

/** Reads a refusal and expects that it is one JSON-RPC error object, with nothing of our insides in it. */
export async function expectRefusal(response: RawResponse, expected: ExpectedRefusal): Promise<Refusal> {
  const text = await response.text();
  expect(`${response.status} ${text}`).toMatch(new RegExp(`^${expected.status} \\{`));
  expect(response.header('content-type')).toMatch(/^application\/json\b/);
  expect(response.header('mcp-session-id')).toBeUndefined();
  const body = JSON.parse(text) as { jsonrpc: string; id: Refusal['id']; error: Omit<Refusal, 'id'> };
  expect(body).toMatchObject({ jsonrpc: '2.0', id: expected.id ?? null, error: { code: expected.code } });
  expect(Object.keys(body).toSorted()).toEqual(['error', 'id', 'jsonrpc']);
  const { message } = body.error;
  expect(message.length).toBeGreaterThan(0);
  expect(message).not.toMatch(/\n|node:internal|\.[jt]s:\d+/);
  for (const part of expected.says ?? []) expect(message).toMatch(part);
  return { id: body.id, ...body.error };
}

/** Expects the answer of an operator's mistake: generic to the client, whatever the log says. */
export async function expectGenericFailure(response: RawResponse, id: string | number | null): Promise<Refusal> {
  const refusal = await expectRefusal(response, { status: 500, code: -32603, id });
  expect(refusal.data).toBeUndefined();
  return refusal;
}

/** Expects the answer of a node whose stores are away: the client may come back. */
export async function expectAway(response: RawResponse, id: string | number | null = 1): Promise<Refusal> {
  const refusal = await expectRefusal(response, {
    status: 503,
    code: -32000,
    id,
    says: [/storage.*unavailable.*again/],
  });
  expect(Number(response.header('retry-after'))).toBeGreaterThan(0);
  return refusal;
}

/** What a session that does not exist, for the caller at least, is answered with (S6, S7). */
export const NO_SUCH_SESSION: ExpectedRefusal = { status: 404, code: -32001, says: [/session not found/i] };
/** What a request that names no session is answered with (S5). */
export const NO_SESSION_ID: ExpectedRefusal = { status: 400, code: -32000, says: ['Mcp-Session-Id', 'initialize'] };
