import { readFileSync } from 'node:fs';
import { describe, expect, it } from 'vitest';
import { McpOptionError } from './core/common/options.js';
import { EXTRA_NAMES } from './core/http/endpoint-extras.js';
import { OPTION_NAMES, resolveEndpointOptions, type McpStreamableOptions } from './mcp-streamable.options.js';

const serverInfo = { name: 'orders', version: '1.0.0' };

const NOT_COUNTS = [0, -1, 1.5, Number.NaN, '5', null, {}, 10n];
const TOO_LONG_FOR_A_TIMER = 2 ** 31;

/** Values that cannot work. Others than null need not be here if core/common/options.spec.ts has them: those of a kind of check. */
const BAD_OPTIONS: Partial<Record<keyof McpStreamableOptions, unknown[]>> = {
  ...Object.fromEntries(OPTION_NAMES.map((name) => [name, [null]])),
  serverInfo: [
    undefined,
    null,
    {},
    { name: 'x' },
    { version: '1' },
    { name: '', version: '1' },
    { name: 1, version: 2 },
    'x',
  ],
  instructions: [null, 1, {}],
  maxResultBytes: NOT_COUNTS,
  textMirror: [null, 'no', 0],
  readOnly: [null, 'no', 0],
  middleware: [null, true, 'run'],
  doctor: [null, 'no', 0],
  // More of them in test/handlers/extensions.spec.ts.
  extensions: [null, 'com.example/x', [], { search: {} }, { 'com.example/search': true }],
  server: [null, 'server', {}],
  instrumentation: [null, 'x', {}, [null], { ended: () => {} }],
  // More of them in src/auth/auth.options.spec.ts.
  auth: [null, 'https://api.example.com/mcp', {}, { resource: 'https://api.example.com/mcp' }],
  // More of them in test/card.
  serverCard: [null, 'yes', [], { link: 'x' }, { url: 1 }, { repository: {} }],
  sessionIdGenerator: [null, 'id', {}],
  principal: [null, 'ann', {}],
  sessions: ['on', true, null, {}],
  responseMode: [null, '', 'SSE', 'constructor', 1],
  maxSubscriptions: NOT_COUNTS,
  maxSubscriptionsPerPrincipal: NOT_COUNTS,
  requestStateKeys: [null, [], 'x'.repeat(32), ['x'.repeat(31)], ['x'.repeat(32), new Uint8Array(31)], [32]],
  requestStateTtlMs: [...NOT_COUNTS, Infinity],
  clockToleranceMs: [...NOT_COUNTS.filter((value) => value !== 0), Infinity],
  maxRequestStateBytes: [...NOT_COUNTS, 1_023, Infinity],
  eras: [null, '', 'Both', 'constructor', 1, ['legacy']],
  sseAfterMs: [-1, 1.5, Number.NaN, Infinity, '5', null, TOO_LONG_FOR_A_TIMER],
  retryMs: [-1, 1.5, Number.NaN, Infinity, '5', null],
  serverRequestTimeoutMs: [...NOT_COUNTS, Infinity, TOO_LONG_FOR_A_TIMER],
  requestTimeoutMs: [...NOT_COUNTS, TOO_LONG_FOR_A_TIMER],
  maxRunningCalls: NOT_COUNTS,
  maxRunningCallsPerPrincipal: NOT_COUNTS,
  maxLagMs: NOT_COUNTS,
  maxHeldBytes: NOT_COUNTS,
  maxHeldBytesPerPrincipal: NOT_COUNTS,
  drainMs: [-1, 1.5, Number.NaN, Infinity, '5', null, TOO_LONG_FOR_A_TIMER],
  shutdownDelayMs: [-1, 1.5, Number.NaN, Infinity, '5', null, TOO_LONG_FOR_A_TIMER],
  idleTimeoutMs: NOT_COUNTS,
  maxSessions: NOT_COUNTS,
  maxSessionsPerPrincipal: NOT_COUNTS,
  maxAnonymousSessions: NOT_COUNTS,
  devSessions: [1, 'no', null],
  maxStatesPerPrincipal: NOT_COUNTS,
  maxAnonymousStates: NOT_COUNTS,
  maxStateBytes: NOT_COUNTS,
  maxBodyBytes: [...NOT_COUNTS, Infinity],
  maxBodyValues: [...NOT_COUNTS, Infinity],
  bodyTimeoutMs: [...NOT_COUNTS, Infinity, TOO_LONG_FOR_A_TIMER],
  minBodyBytesPerSecond: [-1, 1.5, Number.NaN, Infinity, '5', null],
  keepAliveMs: [...NOT_COUNTS, Infinity, TOO_LONG_FOR_A_TIMER],
  maxBufferedBytes: [...NOT_COUNTS, Infinity],
  allowedHosts: [null, 'a.example', [1], ['http://a.example'], ['*'], ['a.example/x']],
  allowedOrigins: [null, 'https://a.example', [1], ['a.example'], ['https://a.example/x'], ['*']],
  pageSize: [...NOT_COUNTS, Infinity],
  guardedByApp: [null, 'no', 0],
  listGuards: [null, 'x', {}, [undefined], ['x'], [{}]],
  errorDetails: [null, 'yes', 0, {}],
  denials: [null, '', 'Http', 'constructor', true, 403],
  listCache: [null, 5, [], {}, { ttlMs: -1 }, { ttlMs: 1.5 }, { ttlMs: 0, scope: 'shared' }],
  eventLog: [
    null,
    5,
    'x',
    [],
    { maxEvents: 99 },
    { maxBytes: '1' },
    { maxTotalBytes: Infinity },
    { finishedStreamMs: -1 },
  ],
  // What an object or a function has to give: test/module/options.spec.ts.
  backend: [null, 'redis', []],
  sessionStore: [null, 'redis', {}, { scope: 'node', get: () => {} }],
  stateStore: [null, 'redis', {}, { get: () => {}, set: () => {} }],
  eventStore: [null, 'redis', {}, { append: () => {} }],
  messageBus: [null, 'redis', {}, { send: () => {} }],
};

const cases = (options: Record<string, unknown[]>): [string, string, unknown][] =>
  Object.entries(options).flatMap(([option, values]) =>
    values.map((value): [string, string, unknown] => [option, shown(value), value]),
  );
const shown = (value: unknown): string =>
  typeof value === 'object' ? JSON.stringify(value) : `${typeof value} ${String(value)}`;

const resolve = (options: unknown, guarded = false) => resolveEndpointOptions(options, { guarded });

/** The error of options that cannot work. */
function refusal(options: unknown): McpOptionError {
  try {
    resolve(options);
  } catch (error) {
    if (error instanceof McpOptionError) return error;
    throw error;
  }
  throw new Error('The options were accepted.');
}

describe('the options of an endpoint', () => {
  it.each(cases(BAD_OPTIONS))('%s cannot be %s', (option, _, value) => {
    const error = refusal({ serverInfo, [option]: value });
    expect(error.code).toBe('OPTION');
    expect(error.option.split('.')[0]).toBe(option);
    expect(error.message).toContain(`"${option}`);
  });

  it.each([
    ['serverinfo', 'serverInfo'],
    ['sesionStore', 'sessionStore'],
    ['maxBodySize', 'maxBodyBytes'],
    ['guard', 'guards'],
    ['eventLog.maxEvent', 'maxEvents'],
    ['listCache.ttl', 'ttlMs'],
  ])('%s is no option; the text names it and what it may have meant', (unknown, nearest) => {
    const [group, name] = unknown.split('.') as [string, string?];
    const given = { [group]: name === undefined ? true : { [name]: 1, ...(group === 'listCache' && { ttlMs: 1 }) } };
    const { option, message } = refusal({ serverInfo, ...given });
    expect(option).toBe(unknown);
    expect(message).toBe(`There is no option "${unknown}". Did you mean "${nearest}"?`);
  });

  it('an option that stands in a group is refused with the place where it belongs', () => {
    const message = (given: object) => refusal({ serverInfo, ...given }).message;
    expect(message({ requiredScopes: ['a'] })).toContain('Did you mean "auth.requiredScopes"?');
    expect(message({ maxBytes: 1 })).toContain('Did you mean "eventLog.maxBytes"?');
  });

  it('an option that resembles none is refused with the names of all', () => {
    const { message } = refusal({ serverInfo, transport: 'stdio' });
    expect(message).toContain('There is no option "transport". The options are: serverInfo, ');
    expect(message).toContain(', guards, ');
  });

  it.each([undefined, null, 'options'])('cannot be %s', (options) => {
    expect(refusal(options).message).toContain('"serverInfo"');
  });

  it.each(EXTRA_NAMES)('the extra %s cannot be among them, because Nest needs it earlier', (extra) => {
    expect(refusal({ serverInfo, [extra]: [] }).message).toContain('Pass it to forRootAsync() itself');
  });

  it('anonymous callers have half of the sessions where others sign in, and all where nobody does', () => {
    const auth = { resource: 'https://mcp.test/mcp', authorizationServers: ['https://idp.test'] };
    expect(resolve({ serverInfo, maxSessions: 7 }).maxAnonymousSessions).toBe(Infinity);
    expect(resolve({ serverInfo, maxSessions: 7 }, true).maxAnonymousSessions).toBe(4);
    expect(resolve({ serverInfo, maxSessions: 7, auth }).maxAnonymousSessions).toBe(4);
    expect(resolve({ serverInfo, maxSessions: 7, maxAnonymousSessions: 5 }, true).maxAnonymousSessions).toBe(5);
  });

  it('a body has fewer values by default where a server of the SDK reads it', () => {
    const server = (): never => undefined as never;
    expect(resolve({ serverInfo }).maxBodyValues).toBe(100_000);
    expect(resolve({ serverInfo, server }).maxBodyValues).toBe(10_000);
    expect(resolve({ serverInfo, server, maxBodyValues: 7 }).maxBodyValues).toBe(7);
  });

  it('the maximum of a result may be Infinity, as it is by default', () => {
    for (const given of [{}, { maxResultBytes: Infinity }])
      expect(resolve({ serverInfo, ...given }).maxResultBytes).toBe(Infinity);
  });

  it('instructions of an empty string, as from an environment variable, are none', () => {
    expect(resolve({ serverInfo, instructions: '' }).instructions).toBeUndefined();
  });
});

describe('docs/options.md', () => {
  it('names every option', () => {
    const page = readFileSync(new URL('../docs/options.md', import.meta.url), 'utf8');
    const documented = new Set([...page.matchAll(/^### `(\w+)`$/gm)].map(([, name]) => name!));
    const missing = [...OPTION_NAMES, ...EXTRA_NAMES].filter((name) => !documented.has(name));
    const advice =
      '`npm run x -- docs:options` writes the page, from the interfaces in SECTIONS of scripts/options-page.mjs';
    expect(missing.map((name) => `${name}: ${advice}`)).toEqual([]);
  });
});
