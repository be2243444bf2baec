import type { ExpectedRefusal } from './refusal.js';

/** What a session that does not exist, for the caller at least, is answered with (S6, S7). */
export const NO_SUCH_SESSION: ExpectedRefusal = { status: 404, code: -32001, says: [/session not found/i] };
/** What a request that names no session is answered with (S5). */
export const NO_SESSION_ID: ExpectedRefusal = { status: 400, code: -32000, says: ['Mcp-Session-Id', 'initialize'] };
