import { HttpCode, SetMetadata } from '@nestjs/common';
import {
  McpOptionError,
  McpStreamableModule,
  type McpStreamableExtras,
  type McpStreamableOptions,
} from 'nestjs-mcp-streamable';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { serverInfo, startFailure } from '../support/nest-app.js';
import { RecordedLog } from '../support/recorded-log.js';

/** Instead of `Public()`: what it returns is lost. */
const Public = () => SetMetadata('isPublic', true);

const NOT_COUNTS = [0, -1, 1.5, Number.NaN, '5', null, {}, 10n];
const TOO_LONG_FOR_A_TIMER = 2 ** 31;

/** Values that cannot work, for every option there is: an option that is not here does not compile. */
const BAD_OPTIONS: Record<keyof McpStreamableOptions, unknown[]> = {
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
  // More of them in test/handlers/extensions.spec.ts.
  extensions: [null, 'com.example/x', [], { search: {} }, { 'com.example/search': true }],
  server: [null, 'server', {}],
  instrumentation: [null, 'x', {}, [null], { ended: () => {} }],
  // More of them in test/auth/options.spec.ts.
  auth: [null, 'https://api.example.com/mcp', {}, { resource: 'https://api.example.com/mcp' }],
  sessionIdGenerator: [null, 'id', {}],
  principal: [null, 'ann', {}],
  sessions: ['on', true, null, {}],
  responseMode: [null, '', 'SSE', 'constructor', 1],
  maxSubscriptions: NOT_COUNTS,
  maxSubscriptionsPerPrincipal: NOT_COUNTS,
  requestStateKeys: [null, [], 'x'.repeat(32), ['x'.repeat(31)], ['x'.repeat(32), new Uint8Array(31)], [32]],
  requestStateTtlMs: [...NOT_COUNTS, Infinity],
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
  bodyTimeoutMs: [...NOT_COUNTS, Infinity, TOO_LONG_FOR_A_TIMER],
  keepAliveMs: [...NOT_COUNTS, Infinity, TOO_LONG_FOR_A_TIMER],
  maxBufferedBytes: [...NOT_COUNTS, Infinity],
  allowedHosts: [null, 'a.example', [1], ['http://a.example'], ['*'], ['a.example/x']],
  allowedOrigins: [null, 'https://a.example', [1], ['a.example'], ['https://a.example/x'], ['*']],
  pageSize: [...NOT_COUNTS, Infinity],
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
  backend: [null, 'redis', {}, { sessionStore: 'redis' }, { eventStore: {} }, () => null, () => undefined, () => ({})],
  sessionStore: [null, 'redis', {}, { scope: 'node', get: () => {} }],
  stateStore: [null, 'redis', {}, { get: () => {}, set: () => {} }],
  eventStore: [null, 'redis', {}, { append: () => {} }],
  messageBus: [null, 'redis', {}, { send: () => {} }],
};

/** The same for what must be known before the app starts. */
const BAD_EXTRAS: Record<keyof McpStreamableExtras, unknown[]> = {
  path: ['', null, 1, ['mcp']],
  version: ['', null, 1, [], [null], [['1']], {}],
  decorators: [null, {}, 'x', [undefined], [null], ['x'], () => {}, [HttpCode(200)], [Public]],
  guards: [null, {}, 'x', [undefined], [null], ['x'], [{}]],
  sessionGuard: [null, 'x', {}, class NotASessionGuard {}, () => true],
  imports: [null, 'x', {}],
  isGlobal: [null, 'yes', 0],
  name: [null, '', 1, {}],
};

const cases = (options: Record<string, unknown[]>): [string, string, unknown][] =>
  Object.entries(options).flatMap(([option, values]) =>
    values.map((value): [string, string, unknown] => [option, shown(value), value]),
  );
const shown = (value: unknown): string =>
  typeof value === 'object' ? JSON.stringify(value) : `${typeof value} ${String(value)}`;

/** The one module of an app. */
const endpoint = (options: object) => ({
  imports: [McpStreamableModule.forRoot({ serverInfo, ...options })],
});

describe('the options are checked at start', () => {
  const log = new RecordedLog();
  beforeAll(() => void log.attach());
  afterAll(() => log.release());

  async function expectNamed(option: string, module: Parameters<typeof startFailure>[1]): Promise<void> {
    const error = await startFailure('express', module);
    expect(error).toBeInstanceOf(McpOptionError);
    expect((error as McpOptionError).code).toBe('OPTION');
    expect((error as McpOptionError).option.split('.')[0]).toBe(option);
    expect(error.message).toContain(`"${option}`);
  }

  it.each(cases({ ...BAD_OPTIONS, ...BAD_EXTRAS }))('%s cannot be %s', async (option, _, value) => {
    await expectNamed(option, () => endpoint({ [option]: value }));
  });

  it.each(cases(BAD_OPTIONS))('%s cannot be %s in forRootAsync either', async (option, _, value) => {
    const useFactory = (): McpStreamableOptions => ({ serverInfo, [option]: value });
    await expectNamed(option, () => ({ imports: [McpStreamableModule.forRootAsync({ useFactory })] }));
  });

  // But for `imports`, which Nest itself reads there.
  it.each(cases({ ...BAD_EXTRAS, imports: [] }))(
    '%s cannot be %s beside the factory of forRootAsync',
    async (option, _, value) => {
      const options = { useFactory: (): McpStreamableOptions => ({ serverInfo }), [option]: value };
      await expectNamed(option, () => ({ imports: [McpStreamableModule.forRootAsync(options)] }));
    },
  );

  it.each(Object.keys(BAD_EXTRAS))('%s cannot come from the factory of forRootAsync', async (option) => {
    const useFactory = (): McpStreamableOptions => ({ serverInfo, [option]: [] });
    await expectNamed(option, () => ({ imports: [McpStreamableModule.forRootAsync({ useFactory })] }));
  });

  it.each([
    ['serverinfo', 'serverInfo'],
    ['sesionStore', 'sessionStore'],
    ['maxBodySize', 'maxBodyBytes'],
    ['guard', 'guards'],
    ['eventLog.maxEvent', 'maxEvents'],
    ['listCache.ttl', 'ttlMs'],
  ])('%s is no option; the text names it and what it may have meant', async (unknown, nearest) => {
    const [group, name] = unknown.split('.') as [string, string?];
    const given = { [group]: name === undefined ? true : { [name]: 1, ...(group === 'listCache' && { ttlMs: 1 }) } };
    const useFactory = (): McpStreamableOptions => ({ serverInfo, ...given });
    for (const module of [
      () => endpoint(given),
      () => ({ imports: [McpStreamableModule.forRootAsync({ useFactory })] }),
    ]) {
      await expectNamed(group, module);
      const { message } = await startFailure('express', module);
      expect(message).toBe(`There is no option "${unknown}". Did you mean "${nearest}"?`);
    }
  });

  it('an option that resembles none is refused with the names of all', async () => {
    const { message } = await startFailure('express', () => endpoint({ transport: 'stdio' }));
    expect(message).toContain('There is no option "transport". The options are: serverInfo, ');
    expect(message).toContain(', guards, ');
  });

  it('an option beside the factory of forRootAsync is refused, and told where it belongs', async () => {
    const beside = (given: object) => () => ({
      imports: [McpStreamableModule.forRootAsync({ useFactory: () => ({ serverInfo }), ...given })],
    });
    const misplaced = await startFailure('express', beside({ serverInfo }));
    expect(misplaced.message).toContain('Return it from the factory');
    const unknown = await startFailure('express', beside({ gards: [] }));
    expect(unknown.message).toBe('There is no option "gards". Did you mean "guards"?');
  });

  it.each([undefined, null, 'options'])('forRoot() and forRootAsync() cannot be given %s', (options) => {
    for (const method of ['forRoot', 'forRootAsync'] as const) {
      const call = () => McpStreamableModule[method](options as never);
      expect(call).toThrow(McpOptionError);
      expect(call).toThrow(`McpStreamableModule.${method}() takes an object of options; got ${options}.`);
    }
  });

  it.each([undefined, null, 'options'])('the factory of forRootAsync cannot return %s', async (options) => {
    const useFactory = (): McpStreamableOptions => options as unknown as McpStreamableOptions;
    const error = await startFailure('express', () => ({
      imports: [McpStreamableModule.forRootAsync({ useFactory })],
    }));
    expect(error).toBeInstanceOf(McpOptionError);
    expect(error.message).toContain('"serverInfo"');
  });
});
