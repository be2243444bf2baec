import { HttpCode, SetMetadata } from '@nestjs/common';
import {
  McpOptionError,
  McpStreamableModule,
  type McpStreamableExtras,
  type McpStreamableModuleOptions,
  type McpStreamableOptions,
} from 'nestjs-mcp-streamable';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { RecordedLog } from '../support/recorded-log.js';
import { serverInfo, startFailure } from '../support/app.js';

/** Instead of `Public()`: what it returns is lost. */
const Public = () => SetMetadata('isPublic', true);

/** Values of extras that cannot work: an extra that is not here does not compile. */
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

const ofFactory = (options: object) => {
  const useFactory = (): McpStreamableOptions => ({ serverInfo, ...options });
  return McpStreamableModule.forRootAsync({ useFactory });
};

/** The error that a function throws. */
function thrownBy(run: () => unknown): McpOptionError {
  try {
    run();
  } catch (error) {
    if (error instanceof McpOptionError) return error;
    throw error;
  }
  throw new Error('Nothing was thrown.');
}

describe('McpStreamableModule', () => {
  it.each(cases(BAD_EXTRAS))('%s cannot be %s, in forRoot() and beside a factory', (extra, _, value) => {
    const given = { serverInfo, [extra]: value } as McpStreamableModuleOptions;
    const useFactory = (): McpStreamableOptions => ({ serverInfo });
    const calls = [
      () => McpStreamableModule.forRoot(given),
      () => McpStreamableModule.forRootAsync({ useFactory, [extra]: value }),
    ];
    // Nest itself reads the imports of forRootAsync().
    for (const call of extra === 'imports' ? calls.slice(0, 1) : calls) {
      expect(thrownBy(call).option).toBe(extra);
      expect(thrownBy(call).message).toContain(`"${extra}"`);
    }
  });

  it('an option beside the factory of forRootAsync is refused, and told where it belongs', () => {
    const beside = (given: object) => () =>
      McpStreamableModule.forRootAsync({ useFactory: () => ({ serverInfo }), ...given });
    expect(thrownBy(beside({ serverInfo })).message).toContain('Return it from the factory');
    expect(thrownBy(beside({ gards: [] })).message).toBe('There is no option "gards". Did you mean "guards"?');
  });

  it.each([undefined, null, 'options'])('forRoot() and forRootAsync() cannot be given %s', (options) => {
    for (const method of ['forRoot', 'forRootAsync'] as const) {
      const { message } = thrownBy(() => McpStreamableModule[method](options as never));
      expect(message).toContain(`McpStreamableModule.${method}() takes an object of options; got ${options}.`);
    }
  });
});

// What may be wrong with them: src/mcp-streamable.options.spec.ts.
describe('an app with wrong options does not start', () => {
  const log = new RecordedLog();
  beforeAll(() => void log.attach());
  afterAll(() => log.release());

  it.each([
    ['forRoot()', () => McpStreamableModule.forRoot({ serverInfo, maxSessions: 0 })],
    ['the factory of forRootAsync()', () => ofFactory({ maxSessions: 0 })],
  ])('an app does not start when %s has them', async (_, module) => {
    const error = await startFailure('express', () => ({ imports: [module()] }));
    expect(error).toBeInstanceOf(McpOptionError);
    expect(error.message).toBe('The option "maxSessions" must be a whole number of at least 1, or Infinity; got 0.');
  });

  it.each<[string, unknown]>([
    ['an object without parts', {}],
    ['one with a part that is none', { sessionStore: 'redis' }],
    ['one with a part that lacks methods', { eventStore: {} }],
    ['a function that returns null', () => null],
    ['a function that returns nothing', () => undefined],
    ['a function that returns an object without parts', () => ({})],
  ])('an app does not start when "backend" is %s', async (_, backend) => {
    const error = await startFailure('express', () => ({ imports: [ofFactory({ backend })] }));
    expect(error).toBeInstanceOf(McpOptionError);
    expect((error as McpOptionError).option.split('.')[0]).toBe('backend');
  });
});
