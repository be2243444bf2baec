import type { Case } from './case.js';
import * as envelope from './cases.envelope.js';
import * as handlers from './cases.handlers.js';
import * as headers from './cases.headers.js';
import * as messages from './cases.messages.js';
import * as rounds from './cases.rounds.js';

/** The whole table. */
export const CASES: readonly Case[] = [envelope, handlers, headers, messages, rounds].flatMap((groups) =>
  Object.values(groups as Record<string, Case[]>).flat(),
);
