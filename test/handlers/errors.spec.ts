import {
  BadRequestException,
  ConflictException,
  createParamDecorator,
  ForbiddenException,
  GoneException,
  HttpException,
  Inject,
  Injectable,
  InternalServerErrorException,
  NotFoundException,
  Scope,
  ServiceUnavailableException,
  UnauthorizedException,
  UnprocessableEntityException,
  UseFilters,
  UseGuards,
  UseInterceptors,
  UsePipes,
  type Type,
} from '@nestjs/common';
import { APP_FILTER, BaseExceptionFilter } from '@nestjs/core';
import { ProtocolError } from '@modelcontextprotocol/server';
import { McpError, Prompt, Resource, ResourceTemplate, Tool } from 'nestjs-mcp-streamable';
import { switchMap, throwError } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { AppExceptionFilter } from '../support/app-wide.js';
import { ONE_ADAPTER, type TestApp } from '../support/app.js';
import { officialClients, testApps } from '../support/test-apps.js';
import { askOfficially, asking, KINDS, messageOf, nameOf, resultText, type Kind } from '../support/kinds.js';
import { fourOf } from './four.js';

const SECRET = 'postgres://root:hunter2@db';
/** What of our insides, or of theirs, must not be in any answer. */
const INSIDES = /postgres|hunter2|node:internal|node_modules|\.[jt]s:\d+|^\s*at |\\n\s*at /m;

const secret = (): Error => new Error(SECRET);

/** What a handler may throw, and what its client is told: of a tool, and of the others. */
interface Thrown {
  what: () => unknown;
  /** The text of a failed tool, or the code of a JSON-RPC error. */
  tool: string | number;
  other: number;
  /** What the message says; nothing: it is generic. */
  says?: string;
  /** A prompt has no URI that could be missing. */
  data?: object;
}

const evil = Object.defineProperties(new Error('evil'), {
  message: {
    get() {
      throw secret();
    },
  },
});

const THROWN: Record<string, Thrown> = {
  'a 400': { what: () => new BadRequestException('No such size'), tool: 'No such size', other: -32602 },
  'a 400 with many messages': {
    what: () => new BadRequestException(['a is missing', 'b is too long']),
    tool: 'a is missing\nb is too long',
    other: -32602,
  },
  'a 422': { what: () => new UnprocessableEntityException('Not so'), tool: 'Not so', other: -32602 },
  'a 404': { what: () => new NotFoundException('No such order'), tool: 'No such order', other: -32602 },
  'a 409': { what: () => new ConflictException('Somebody else has it'), tool: 'Somebody else has it', other: -32603 },
  'a 410': { what: () => new GoneException('Sold'), tool: 'Sold', other: -32603 },
  'a 401 of its own': { what: () => new UnauthorizedException('Not yours'), tool: 'Not yours', other: -32603 },
  'a 403 of its own': { what: () => new ForbiddenException('Not yours'), tool: 'Not yours', other: -32603 },
  'a 418 with a cause': {
    what: () => new HttpException('Teapot', 418, { cause: secret() }),
    tool: 'Teapot',
    other: -32603,
  },
  'a ProtocolError': {
    what: () => new ProtocolError(-32042, 'Go there', { url: 'https://there' }),
    tool: -32042,
    other: -32042,
    says: 'Go there',
    data: { url: 'https://there' },
  },
  'a ProtocolError with a cause': {
    what: () => Object.assign(new ProtocolError(-32602, 'Ask otherwise'), { cause: secret() }),
    tool: -32602,
    other: -32602,
    says: 'Ask otherwise',
  },
  'an McpError': {
    what: () => new McpError('BAD_REQUEST', 'Not now', { data: { retry: true }, cause: secret() }),
    tool: -32000,
    other: -32000,
    says: 'Not now',
    data: { retry: true },
  },
  'a 500': { what: () => new InternalServerErrorException(SECRET), tool: '', other: -32603 },
  'a 503': { what: () => new ServiceUnavailableException({ host: SECRET }), tool: '', other: -32603 },
  'an Error': { what: secret, tool: '', other: -32603 },
  'an Error with a code': {
    what: () => Object.assign(secret(), { code: -32002, data: SECRET }),
    tool: '',
    other: -32603,
  },
  'an AggregateError': { what: () => new AggregateError([secret()], SECRET), tool: '', other: -32603 },
  'an Error that cannot be read': { what: () => evil, tool: '', other: -32603 },
  'a text': { what: () => SECRET, tool: '', other: -32603 },
  'an object': { what: () => ({ code: -32602, message: SECRET }), tool: '', other: -32603 },
  'a number': { what: () => 404, tool: '', other: -32603 },
  nothing: { what: () => undefined, tool: '', other: -32603 },
  null: { what: () => null, tool: '', other: -32603 },
};

let thrown: () => unknown;
const Failing = fourOf('failing', {
  run: () => {
    throw thrown();
  },
});
const Rejecting = fourOf('rejecting', { run: () => Promise.reject(thrown()) });

const generic = (kind: Kind, key: string): string => `Internal error in the ${kind} "${key}". See the server log.`;
/** What generic texts call it: for resources what was asked for. */
const calledAs = (kind: Kind, host: string): string => (asking(kind, host).params.uri as string | undefined) ?? host;

describe.each(ONE_ADAPTER)('errors of handlers on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, errorDetails: false });
  const startBoth = testApps(adapter, { errorDetails: false, providers: [Failing, Rejecting], shared: true });
  const connect = officialClients();

  /** Asks, expects that nothing leaks and that there is one answer. */
  const ask = async (app: TestApp, kind: Kind, host: string, args = {}) => {
    const client = await app.client().initialize();
    const message = messageOf(client, kind, host, args);
    const response = await client.post(message);
    expect(response.status).toBe(200);
    const text = await response.text();
    expect(text).not.toMatch(INSIDES);
    const body = JSON.parse(text);
    expect(body).toMatchObject({ jsonrpc: '2.0', id: message.id });
    expect(JSON.stringify(response.headers)).not.toMatch(INSIDES);
    return body as { result?: { isError?: boolean }; error?: { code: number; message: string; data?: unknown } };
  };
  const expectGeneric = (kind: Kind, host: string, { result, error }: Awaited<ReturnType<typeof ask>>): void => {
    const text = generic(kind, calledAs(kind, host));
    if (kind === 'tool') expect(result).toEqual({ content: [{ type: 'text', text }], isError: true });
    else expect(error).toEqual({ code: -32603, message: text });
  };

  const CASES = Object.keys(THROWN).flatMap((what) => KINDS.map((kind) => [what, kind] as const));
  it.each(CASES)('%s, thrown by a %s, is sent as the specification defines', async (what, kind) => {
    const { tool, other, says, data, ...rest } = THROWN[what]!;
    thrown = rest.what;
    const app = await startBoth();
    for (const host of ['failing', 'rejecting']) {
      const body = await ask(app, kind, host);
      if (kind === 'tool' && typeof tool === 'string') {
        const text = tool || generic(kind, host);
        expect(body.result).toEqual({ content: [{ type: 'text', text }], isError: true });
      } else {
        const told = says ?? (tool || generic(kind, calledAs(kind, host)));
        const missing = what === 'a 404' && kind !== 'prompt' ? { uri: calledAs(kind, host) } : data;
        expect(body.error).toEqual({ code: other, message: told, ...(missing && { data: missing }) });
      }
    }
    // The operator is told what the client is not; of what the client is told he need not hear.
    const errors = app.log.texts('error');
    expect(errors).toHaveLength(tool === '' ? 2 : 0);
    for (const [index, host] of (tool === '' ? ['failing', 'rejecting'] : []).entries()) {
      expect(errors[index]).toContain(`${host}Host.${kind}`);
    }
  });

  /** Where else something can go wrong. */
  const places: Record<string, () => Type<object>> = {
    'a guard': () =>
      fourOf('guard', {
        onMethods: [
          UseGuards({
            canActivate: () => {
              throw secret();
            },
          }),
        ],
      }),
    'an interceptor': () =>
      fourOf('interceptor', {
        onClass: [
          UseInterceptors({
            intercept: () => {
              throw secret();
            },
          }),
        ],
      }),
    "an interceptor's way out": () =>
      fourOf('wayout', {
        onClass: [
          UseInterceptors({
            intercept: (_: unknown, next: { handle(): ReturnType<typeof throwError> }) =>
              next.handle().pipe(switchMap(() => throwError(secret))),
          }),
        ],
      }),
    'a pipe': () =>
      fourOf('pipe', {
        onClass: [
          UsePipes({
            transform: () => {
              throw secret();
            },
          }),
        ],
      }),
    'a filter': () =>
      fourOf('filter', {
        onClass: [
          UseFilters({
            catch: () => {
              throw secret();
            },
          }),
        ],
        run: () => {
          throw secret();
        },
      }),
    'a result that cannot be JSON': () => fourOf('cycle', { run: () => ({ secret: SECRET, big: 5n }) }),
    'a result that throws when it is written': () =>
      fourOf('hostile', {
        run: () => ({
          toJSON: () => {
            throw secret();
          },
        }),
      }),
    'a result of functions': () => fourOf('function', { run: () => () => SECRET }),
  };
  const hosts = new Map(Object.entries(places).map(([place, make]) => [place, make()]));
  const startPlaces = testApps(adapter, { errorDetails: false, providers: [...hosts.values()], shared: true });
  it.each(Object.keys(places).flatMap((place) => KINDS.map((kind) => [place, kind] as const)))(
    'an Error of %s of a %s is told to the operator alone',
    async (place, kind) => {
      const host = hosts.get(place)!.name.replace(/Host$/, '');
      const app = await startPlaces();
      expectGeneric(kind, host, await ask(app, kind, host));
      const errors = app.log.texts('error');
      expect(errors).toHaveLength(1);
      expect(errors[0]).toContain(`${host}Host.${kind}`);
    },
  );

  const Broken = createParamDecorator(() => {
    throw secret();
  });
  @Injectable()
  class WithParam {
    @Tool({ name: 'param' })
    tool(@Broken() _broken: unknown): void {}
    @Resource({ uri: nameOf('resource', 'param'), name: 'param' })
    resource(@Broken() _broken: unknown): void {}
    @ResourceTemplate({ uriTemplate: nameOf('template', 'param'), name: 'param' })
    template(@Broken() _broken: unknown): void {}
    @Prompt({ name: 'param' })
    prompt(@Broken() _broken: unknown): void {}
  }
  it.each(KINDS)('an Error of a param decorator of a %s is reported to the operator alone', async (kind) => {
    const app = await start({ providers: [WithParam] });
    expectGeneric(kind, 'param', await ask(app, kind, 'param'));
    expect(app.log.texts('error').join()).toContain(SECRET);
  });

  it.each(KINDS)(
    'an Error of the constructor of a request-scoped %s is reported to the operator alone',
    async (kind) => {
      @Injectable({ scope: Scope.REQUEST })
      class Dependency {
        constructor() {
          throw secret();
        }
      }
      const Four = fourOf('scoped');
      @Injectable({ scope: Scope.REQUEST })
      class ScopedHost extends Four {
        constructor(@Inject(Dependency) readonly dependency: Dependency) {
          super();
        }
      }
      const app = await start({ providers: [Dependency, ScopedHost] });
      expectGeneric(kind, 'scoped', await ask(app, kind, 'scoped'));
      expect(app.log.texts('error').join()).toContain(SECRET);
    },
  );

  it.each([
    ['a BaseExceptionFilter', { provide: APP_FILTER, useClass: BaseExceptionFilter }],
    ['a filter that answers everything', { provide: APP_FILTER, useClass: AppExceptionFilter }],
  ])(
    'errors of handlers are no matter for %s of the app: the POST is answered once, in JSON-RPC',
    async (_name, filter) => {
      const app = await start({ providers: [Failing, filter] });
      for (const kind of KINDS) {
        thrown = secret;
        expectGeneric(kind, 'failing', await ask(app, kind, 'failing'));
        thrown = () => new NotFoundException('No such order');
        const { result, error } = await ask(app, kind, 'failing');
        expect(result ? resultText(result) : error!.message).toBe('No such order');
      }
      await app.settled({ inFlight: 0, openResponses: 0 });
    },
  );

  it('errors of handlers reach an official client with their code and message', async () => {
    const app = await start({ providers: [Failing] });
    const client = await connect(app);
    for (const kind of KINDS) {
      thrown = () => new NotFoundException('No such order');
      const outcome = askOfficially(client, kind, 'failing');
      if (kind === 'tool') expect(await outcome).toBe('No such order');
      else await expect(outcome).rejects.toMatchObject({ code: -32602, message: expect.stringContaining('No such') });
      thrown = () => new ProtocolError(-32042, 'Go there', { elicitations: [] });
      await expect(askOfficially(client, kind, 'failing')).rejects.toMatchObject({ code: -32042 });
    }
  });
});
