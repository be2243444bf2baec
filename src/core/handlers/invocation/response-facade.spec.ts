import { BadRequestException, ForbiddenException, type HttpException, NotFoundException } from '@nestjs/common';
import { ProtocolError } from '@modelcontextprotocol/server';
import { describe, expect, it } from 'vitest';
import { type OtherNames, ResponseFacade } from './response-facade.js';

type FullResponseFacade = ResponseFacade & {
  readonly [Name in keyof OtherNames as OtherNames[Name][number]]: ResponseFacade[Name] extends (
    ...args: infer Args
  ) => ResponseFacade
    ? (...args: Args) => FullResponseFacade
    : ResponseFacade[Name];
};

/** Creates the response as an enhancer sees it. */
const facade = (req: unknown): FullResponseFacade => new ResponseFacade(req) as FullResponseFacade;

describe('the response that enhancers see', () => {
  it('notes headers as Express and Fastify set them', () => {
    const response = facade({});
    response
      .setHeader('A', 1)
      .header('B', 'b')
      .set({ C: 'c' })
      .headers({ D: ['d', 'e'] });
    response.append('A', 2).appendHeader('New', 'n').code(401).type().cookie();
    expect(response.getHeaders()).toEqual({
      a: '1, 2',
      b: 'b',
      c: 'c',
      d: 'd, e',
      new: 'n',
    });
    expect([response.get('C'), response.getHeader('x'), response.hasHeader('a'), response.statusCode]).toEqual([
      'c',
      undefined,
      true,
      401,
    ]);
  });

  it('the response that enhancers see looks sent once it was answered, by whatever means', () => {
    for (const answer of ['send', 'json', 'end', 'redirect'] as const) {
      const response = facade({});
      expect([response.headersSent, response.sent, response.finished]).toEqual([false, false, false]);
      response.code(404)[answer]({ message: 'No' });
      expect([response.headersSent, response.sent, response.writableEnded]).toEqual([true, true, true]);
    }
    expect(facade({}).sendStatus(403).sent).toBe(true);
  });

  it('the response that enhancers see gives what middleware left for guards on Express', () => {
    const locals = { user: 'anna' };
    expect(facade({ res: { locals } }).locals).toBe(locals);
    expect(facade({}).locals).toEqual({});
    expect(facade(undefined).locals).toEqual({});
  });

  it.each([
    ['404 to an unknown error', new Error('secret'), 404, { message: 'No' }, [404, 'No']],
    ['404 to a 403', new ForbiddenException(), 404, 'Nothing', [404, 'Nothing']],
    ['500 to a 404', new NotFoundException('x'), 500, undefined, [500, 'Internal Server Error']],
    ['409 without a word', new Error('secret'), 409, undefined, [409, 'Conflict']],
    ['404 in other words to a 404', new NotFoundException('x'), 404, { message: 'y' }, [404, 'y']],
  ])('the response that enhancers see takes an answer of %s for the error', (_name, error, status, body, expected) => {
    const refused = facade({}).status(status).send(body).errorFor(error) as HttpException;
    expect([refused.getStatus(), refused.message]).toEqual(expected);
    expect(refused.cause).toBe(error);
  });

  it.each([
    ['nothing was answered', new Error('x'), (response: FullResponseFacade) => response.status(404)],
    ['an answer says that all is well', new Error('x'), (response: FullResponseFacade) => response.json({ ok: false })],
    ['an unknown error is answered 500', new Error('x'), (response: FullResponseFacade) => response.sendStatus(500)],
    [
      'an answer of its status has no message',
      new NotFoundException('x'),
      (response: FullResponseFacade) => response.status(404).send({ path: '/mcp' }),
    ],
    [
      'an answer of its status repeats its message',
      new BadRequestException(['x is a text', 'y is a text']),
      (response: FullResponseFacade) => response.status(400).send({ message: 'Bad Request Exception' }),
    ],
    [
      'it is one of the protocol',
      new ProtocolError(1, 'x'),
      (response: FullResponseFacade) => response.sendStatus(404),
    ],
  ])('the response that enhancers see leaves the error when %s', (_name, error, answer) => {
    const response = facade({});
    answer(response);
    expect(response.errorFor(error)).toBe(error);
  });
});
