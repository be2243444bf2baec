import {
  BadRequestException,
  ConflictException,
  ForbiddenException,
  HttpException,
  InternalServerErrorException,
  NotFoundException,
  UnprocessableEntityException,
} from '@nestjs/common';
import { ProtocolError, UrlElicitationRequiredError } from '@modelcontextprotocol/server';
import { describe, expect, it, vi } from 'vitest';
import { McpStateError, UnknownStateError } from '../../context/mcp-state.errors.js';
import { McpError } from '../../wire/errors.js';
import { HandlerDeniedError } from './handler-denied.error.js';
import { toReadFailure, toToolFailure } from './handler-failure.js';
import { HandlerResultError } from './handler-result.error.js';
import { HandlerCancelled } from './handler-signal.js';

class ServerRequestError extends Error {
  override readonly name = 'ServerRequestError';
  readonly code = 'CLIENT_LACKS_CAPABILITY';
}

const untold = [
  new TypeError('secret'),
  new HandlerResultError('secret'),
  new InternalServerErrorException('secret'),
  Object.assign(new Error('secret'), { code: 'ENOENT' }),
  'secret',
  undefined,
];

const passed = [
  new ProtocolError(-32001, 'custom'),
  new UrlElicitationRequiredError([]),
  new HandlerDeniedError(401, 'Who?', {}),
  new HandlerCancelled(undefined),
];

describe('the failure of a tool', () => {
  const failure = (error: unknown, report = vi.fn()) => {
    const { content, isError } = toToolFailure(error, 'find', report);
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
    ['why a client could not be asked', new ServerRequestError('It cannot elicit'), 'It cannot elicit'],
    ['why there is no state', new UnknownStateError('h4ndle'), expect.stringMatching(/"h4ndle".+without a handle/)],
    ['why it cannot be kept', new McpStateError('STATE_TOO_LARGE', 'Keep less'), 'Keep less'],
  ])('tells %s', (_name, error, text) => {
    expect(failure(error)).toEqual([text, 0]);
  });

  it.each(untold)('tells nothing of %s, and reports it', (error) => {
    expect(failure(error)).toEqual(['Internal error in the tool "find". The log of the server says why.', 1]);
  });

  it.each(passed)('leaves %s', (error) => {
    const report = vi.fn();
    expect(() => toToolFailure(error, 'find', report)).toThrow(error);
    expect(report).not.toHaveBeenCalled();
  });

  it('makes a protocol error of our own', () => {
    const error = new McpError('INVALID_PARAMS', 'Bad', { data: { a: 1 } });
    const thrown = new ProtocolError(-32602, 'Bad', { a: 1 });
    expect(() => toToolFailure(error, 'find', vi.fn())).toThrow(thrown);
    expect(toReadFailure(error, 'prompt', 'find', vi.fn())).toMatchObject({ code: -32602, data: { a: 1 } });
  });
});

describe('the failure of a resource or prompt', () => {
  it.each([
    ['resource', new BadRequestException('Bad'), { code: -32602, message: 'Bad' }],
    ['prompt', new UnprocessableEntityException(['a', 'b']), { code: -32602, message: 'a\nb' }],
    ['template', new NotFoundException('Gone'), { message: 'Gone', data: { uri: 'orders://7' }, code: -32602 }],
    ['prompt', new NotFoundException('Gone'), { code: -32602, message: 'Gone' }],
    ['resource', new ConflictException('Busy'), { code: -32603, message: 'Busy' }],
    ['resource', new ServerRequestError('No stream'), { code: -32603, message: 'No stream' }],
    [
      'prompt',
      new UnknownStateError('h4ndle'),
      { code: -32602, message: expect.stringContaining('"h4ndle"') as string },
    ],
    ['prompt', new McpStateError('NO_PRINCIPAL', 'Who?'), { code: -32603, message: 'Who?' }],
  ] as const)('of a %s tells %s', (kind, error, expected) => {
    const report = vi.fn();
    const told = toReadFailure(error, kind, 'orders://7', report);
    expect(told).toBeInstanceOf(ProtocolError);
    expect(told).toMatchObject(expected);
    expect(report).not.toHaveBeenCalled();
  });

  it.each(untold)('tells nothing of %s, and reports it', (error) => {
    const report = vi.fn();
    const told = toReadFailure(error, 'resource', 'orders://7', report);
    expect(told).toMatchObject({ code: -32603, message: expect.not.stringContaining('secret') });
    expect(report).toHaveBeenCalledExactlyOnceWith(error);
  });

  it.each(passed)('leaves %s', (error) => {
    expect(toReadFailure(error, 'prompt', 'find', vi.fn())).toBe(error);
  });
});
