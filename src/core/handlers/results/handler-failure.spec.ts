import { ProtocolError, UrlElicitationRequiredError } from '@modelcontextprotocol/server';
import {
  BadRequestException,
  ConflictException,
  ForbiddenException,
  HttpException,
  InternalServerErrorException,
  NotFoundException,
  UnprocessableEntityException,
} from '@nestjs/common';
import { describe, expect, it, vi } from 'vitest';
import { McpServerRequestError } from '../../calls/server-request.error.js';
import { McpStateError, McpUnknownStateError } from '../../calls/mcp-state.js';
import { McpError } from '../../protocol/errors.js';
import { HandlerCancelled } from '../../calls/handler-signals.js';
import { HandlerDeniedError, McpHandlerResultError } from '../handlers.errors.js';
import { type FailedHandler, toReadFailure, toToolFailure } from './handler-failure.js';

const failed = (kind: FailedHandler['kind'], report: FailedHandler['report'] = vi.fn(), name = 'find') => {
  const failures: FailedHandler['failures'] = { errorDetails: false, denials: 'result' };
  return { kind, name, report, failures, request: undefined };
};
const detailed = (kind: FailedHandler['kind'], report: FailedHandler['report'] = vi.fn()): FailedHandler => ({
  ...failed(kind, report),
  failures: { errorDetails: true, denials: 'result' },
});

const hidden = [
  new TypeError('secret'),
  new McpHandlerResultError('secret'),
  new InternalServerErrorException('secret'),
  Object.assign(new Error('secret'), { code: 'ENOENT' }),
  'secret',
  undefined,
];

const passed = [
  new ProtocolError(-32001, 'custom'),
  new UrlElicitationRequiredError([]),
  new HandlerDeniedError(401, 'Who?', {}),
  new HandlerDeniedError(403, 'More', { 'www-authenticate': 'Bearer' }),
  new HandlerCancelled(undefined),
];

describe('the failure of a tool', () => {
  const failure = (error: unknown, report = vi.fn()) => {
    const { content, isError } = toToolFailure(error, failed('tool', report));
    expect(isError).toBe(true);
    return [(content[0] as { text: string }).text, report.mock.calls.length];
  };

  it.each([
    ['a message', new NotFoundException('No order 7'), 'No order 7'],
    ['messages, as a ValidationPipe has', new BadRequestException(['a is bad', 'b is bad']), 'a is bad\nb is bad'],
    ['no message', new ConflictException(), 'Conflict'],
    ['a text alone', new HttpException('No', 418), 'No'],
    ['an answer of its own', new HttpException({ reason: 'x' }, 422), '{"reason":"x"}'],
    ['messages in groups', new BadRequestException({ message: { a: ['bad'] } }), '{"a":["bad"]}'],
    ['an empty text', new HttpException('', 404), ''],
    ['a denial by the handler', new ForbiddenException('Not yours'), 'Not yours'],
    [
      'why a client could not be asked',
      new McpServerRequestError('CLIENT_LACKS_CAPABILITY', 'It cannot elicit'),
      'It cannot elicit',
    ],
    ['why there is no state', new McpUnknownStateError('h4ndle'), expect.stringMatching(/"h4ndle".+without a handle/)],
    ['why it cannot be kept', new McpStateError('STATE_TOO_LARGE', 'Keep less'), 'Keep less'],
  ])('a client reads the text of %s', (_name, error, text) => {
    expect(failure(error)).toEqual([text, 0]);
  });

  it.each(hidden)('a client reads nothing of %s, which is reported', (error) => {
    expect(failure(error)).toEqual(['Internal error in the tool "find". See the server log.', 1]);
  });

  it.each(passed)('the failure of a tool leaves %s', (error) => {
    const report = vi.fn();
    expect(() => toToolFailure(error, failed('tool', report))).toThrow(error);
    expect(report).not.toHaveBeenCalled();
  });

  it('the failure of a tool makes a protocol error of our own', () => {
    const error = new McpError('INVALID_PARAMS', 'Bad', { data: { a: 1 } });
    const thrown = new ProtocolError(-32602, 'Bad', { a: 1 });
    expect(() => toToolFailure(error, failed('tool'))).toThrow(thrown);
    expect(toReadFailure(error, failed('prompt'))).toMatchObject({ code: -32602, data: { a: 1 } });
  });
});

describe('the failure of a resource or prompt', () => {
  it.each([
    ['resource', new BadRequestException('Bad'), { code: -32602, message: 'Bad' }],
    ['prompt', new UnprocessableEntityException(['a', 'b']), { code: -32602, message: 'a\nb' }],
    ['template', new NotFoundException('Gone'), { message: 'Gone', data: { uri: 'orders://7' }, code: -32602 }],
    ['prompt', new NotFoundException('Gone'), { code: -32602, message: 'Gone' }],
    ['resource', new ConflictException('Busy'), { code: -32603, message: 'Busy' }],
    [
      'resource',
      new McpServerRequestError('CLIENT_LACKS_CAPABILITY', 'No stream'),
      { code: -32603, message: 'No stream' },
    ],
    [
      'prompt',
      new McpUnknownStateError('h4ndle'),
      { code: -32602, message: expect.stringContaining('"h4ndle"') as string },
    ],
    ['prompt', new McpStateError('NO_PRINCIPAL', 'Who?'), { code: -32603, message: 'Who?' }],
  ] as const)('of a %s tells %s', (kind, error, expected) => {
    const report = vi.fn();
    const failure = toReadFailure(error, failed(kind, report, 'orders://7'));
    expect(failure).toBeInstanceOf(ProtocolError);
    expect(failure).toMatchObject(expected);
    expect(report).not.toHaveBeenCalled();
  });

  it.each(hidden)('a client reads nothing of %s, which is reported', (error) => {
    const report = vi.fn();
    const failure = toReadFailure(error, failed('resource', report, 'orders://7'));
    expect(failure).toMatchObject({ code: -32603, message: expect.not.stringContaining('secret') });
    expect(report).toHaveBeenCalledExactlyOnceWith(error);
  });

  it.each(passed)('the failure of a resource or prompt leaves %s', (error) => {
    expect(toReadFailure(error, failed('prompt'))).toBe(error);
  });
});

describe('with "errorDetails"', () => {
  const toolText = (error: unknown): unknown => toToolFailure(error, detailed('tool')).content[0];
  const readFailure = (error: unknown): Error => toReadFailure(error, detailed('resource'));

  it.each([
    ['an Error', new TypeError('No route to db'), 'No route to db'],
    ['a mistake in a result', new McpHandlerResultError('It has a cycle'), 'It has a cycle'],
    ['a text', 'Out of stock', 'Out of stock'],
    ['an Error with a cause', new Error('Not saved', { cause: new Error('secret') }), 'Not saved'],
    ['errors in one', new AggregateError([new Error('secret')], 'All failed'), 'All failed'],
    ['a message with a stack', new Error(`Failed: ${new Error('deep').stack}`), 'Failed: Error: deep'],
    ['a message of white space and more', new Error(`${'\n \t'.repeat(600)}at${'\n '.repeat(1_000_000)}`), 'at…'],
    ['a long message', new Error('x'.repeat(2_001)), `${'x'.repeat(2_000)}…`],
  ])('a client reads the message of %s, which is reported all the same', (_what, error, text) => {
    const report = vi.fn();
    expect(toToolFailure(error, detailed('tool', report))).toEqual({
      content: [{ type: 'text', text }],
      isError: true,
    });
    expect(readFailure(error)).toMatchObject({ code: -32603, message: text, data: undefined });
    expect(report).toHaveBeenCalledExactlyOnceWith(error);
  });

  it.each([
    new InternalServerErrorException('secret'),
    new HttpException('secret', 503),
    { message: 'secret' },
    404,
    undefined,
    new Error(''),
    new Error(' \n'),
  ])('a client reads nothing of %s', (error) => {
    const generic = (kind: string): string => `Internal error in the ${kind} "find". See the server log.`;
    expect(toolText(error)).toEqual({ type: 'text', text: generic('tool') });
    expect(readFailure(error)).toMatchObject({ code: -32603, message: generic('resource') });
  });
});

describe('a denial of a tool', () => {
  const denied = (status: number, headers = {}): Error => new HandlerDeniedError(status, 'Not you', headers);
  const answered = (error: Error, denials: 'result' | 'http'): unknown => {
    try {
      return toToolFailure(error, { ...failed('tool'), failures: { errorDetails: false, denials } });
    } catch (thrown) {
      return thrown;
    }
  };
  const result = { content: [{ type: 'text', text: 'Not you' }], isError: true };

  it('a denial of a tool is a result, unless the client is to authorize', () => {
    expect(answered(denied(403), 'result')).toEqual(result);
    expect(answered(denied(403, { 'x-other': 'yes' }), 'result')).toEqual(result);
    for (const challenge of [denied(401), denied(403, { 'www-authenticate': 'Bearer scope="orders"' })]) {
      expect(answered(challenge, 'result')).toBe(challenge);
    }
  });

  it('a denial of a tool is for HTTP to say with "denials": "http"', () => {
    const denial = denied(403);
    expect(answered(denial, 'http')).toBe(denial);
  });
});
