import {
  ForbiddenException,
  HttpException,
  Inject,
  Injectable,
  Module,
  Scope,
  UnauthorizedException,
  type CanActivate,
  type ExecutionContext,
  type Provider,
  type Type,
} from '@nestjs/common';
import { APP_GUARD, REQUEST } from '@nestjs/core';
import { currentMcpCall, McpStreamableModule, type McpStreamableOptions } from 'nestjs-mcp-streamable';
import { from, of } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { ADAPTERS, TestApp, serverInfo, whoami } from '../support/app.js';
import { expectGenericFailure, expectRefusal } from '../support/refusal.js';
import { serverSaying } from '../support/scripted-server.js';
import { sharedApp } from '../support/test-apps.js';

const CHALLENGE = 'Bearer resource_metadata="https://example.com/.well-known/oauth-protected-resource"';

@Injectable()
class Users {
  byToken(token: string | undefined): { sub: string; roles: string[] } | undefined {
    if (token === 'Bearer ann') return { sub: 'ann', roles: ['admin'] };
    return token === 'Bearer bob' ? { sub: 'bob', roles: [] } : undefined;
  }
}

@Module({ providers: [Users], exports: [Users] })
class AuthModule {}

interface AnyResponse {
  header?: (name: string, value: string) => void;
}

/** As guards are written: it injects, waits, challenges, and leaves the user on the request. */
@Injectable()
class TokenGuard implements CanActivate {
  constructor(@Inject(Users) private readonly users: Users) {}

  async canActivate(context: ExecutionContext): Promise<boolean> {
    const http = context.switchToHttp();
    const request = http.getRequest<{ headers: Record<string, string>; user?: unknown }>();
    const user = await Promise.resolve(this.users.byToken(request.headers['authorization']));
    if (!user) {
      http.getResponse<AnyResponse>().header?.('WWW-Authenticate', CHALLENGE);
      throw new UnauthorizedException('Log in first.');
    }
    request.user = user;
    return true;
  }
}

const userOf = (request: unknown): { sub: string; roles: string[] } =>
  (request as { user: { sub: string; roles: string[] } }).user;

/** An instance, which comes after the class and finds what it left. */
const adminsOnly: CanActivate = {
  canActivate: (context) => userOf(context.switchToHttp().getRequest()).roles.includes('admin'),
};

describe.each(ADAPTERS)('guards of the endpoint on %s', (adapter) => {
  let app: TestApp;
  let decide: CanActivate['canActivate'];
  /** Does what the test says. */
  const decided: CanActivate = { canActivate: (context) => decide(context) };

  const launch = sharedApp(
    (
      guards: (Type<CanActivate> | CanActivate)[],
      options: Partial<McpStreamableOptions> = {},
      providers: Provider[] = [],
    ) => {
      const server = () => serverSaying(() => userOf(currentMcpCall()?.request)?.sub);
      const imports = [McpStreamableModule.forRoot({ serverInfo, server, guards, imports: [AuthModule], ...options })];
      return TestApp.of(adapter, { imports: [AuthModule, ...imports], providers });
    },
  );
  const start = async (...args: Parameters<typeof launch>): Promise<void> => {
    app = await launch(...args);
  };
  const startDeciding = (canActivate: CanActivate['canActivate']): Promise<void> => {
    decide = canActivate;
    return start([decided]);
  };

  const as = (user: string) => app.clientAt('mcp', { authorization: `Bearer ${user}` });
  const initialize = (user: string) => {
    const client = as(user);
    return client.post(client.initializeMessage());
  };

  it('guards of the endpoint resolve in the module of the endpoint, with what they inject from its imports', async () => {
    await start([TokenGuard]);
    expect(await whoami(await as('ann').initialize())).toBe('ann');
  });

  it('guards of the endpoint answer as they say, with a JSON-RPC body, and keep the headers that they set', async () => {
    await start([TokenGuard]);
    const response = await initialize('nobody');
    expect(response.header('www-authenticate')).toBe(CHALLENGE);
    await expectRefusal(response, { status: 401, code: -32000, says: ['Log in first.'] });
    await expectNothing();
  });

  it.each(['get', 'delete'] as const)('guards of the endpoint hold on %s too', async (method) => {
    await start([TokenGuard]);
    const client = await as('ann').initialize();
    client.headers = {};
    const response = await client[method]();
    expect(response.header('www-authenticate')).toBe(CHALLENGE);
    await expectRefusal(response, { status: 401, code: -32000 });
    expect(await app.service.list()).toHaveLength(1);
  });

  it('guards of the endpoint run in their order, classes and instances; false is 403', async () => {
    await start([TokenGuard, adminsOnly]);
    expect(await whoami(await as('ann').initialize())).toBe('ann');
    await expectRefusal(await initialize('bob'), { status: 403, code: -32000 });
    await expectRefusal(await initialize('nobody'), { status: 401, code: -32000 });
  });

  it.each<[string, CanActivate['canActivate']]>([
    ['a promise', () => Promise.resolve(false)],
    ['an Observable', () => of(false)],
    ['an Observable of a promise', () => from(Promise.resolve(false))],
  ])('guards of the endpoint may take their time: %s of false is 403', async (_, canActivate) => {
    await startDeciding(canActivate);
    await expectRefusal(await initialize('ann'), { status: 403, code: -32000 });
    await expectNothing();
  });

  it('guards of the endpoint may answer with any HttpException', async () => {
    const exceptions = [
      new ForbiddenException('Not on Sundays.'),
      new HttpException('Slow down.', 429),
      new HttpException({ reason: 'a teapot' }, 418),
    ];
    await startDeciding(() => {
      throw exceptions.shift() ?? new Error('one too many');
    });
    await expectRefusal(await initialize('ann'), { status: 403, code: -32000, says: ['Not on Sundays.'] });
    await expectRefusal(await initialize('ann'), { status: 429, code: -32000, says: ['Slow down.'] });
    await expectRefusal(await initialize('ann'), { status: 418, code: -32000 });
  });

  it('guards of the endpoint that throw an Error fail the request: generic to the client, with the reason in the log', async () => {
    await startDeciding(() => {
      throw new Error('the directory is down at ldap://secret');
    });
    const { message } = await expectGenericFailure(await initialize('ann'), null);
    expect(message).not.toContain('secret');
    expect(app.log.texts('error')).toEqual(['the directory is down at ldap://secret']);
    await expectNothing();
  });

  it('guards of the endpoint that refuse with a status of no refusal are an error of ours', async () => {
    for (const status of [200, 0, NaN, 999]) {
      await startDeciding(() => {
        throw new HttpException('Not today.', status);
      });
      await expectGenericFailure(await initialize('ann'), null);
    }
    expect(app.log.texts('error')).toEqual(['Not today.', 'Not today.', 'Not today.', 'Not today.']);
  });

  it('guards of the endpoint that throw what is no error are an error of ours, logged with the name of the guard', async () => {
    @Injectable()
    class PlanGuard implements CanActivate {
      static thrown: unknown;
      canActivate(): never {
        throw PlanGuard.thrown;
      }
    }
    await start([PlanGuard]);
    const says = (shown: string) =>
      `Guard PlanGuard threw ${shown}: throw an Error, or an HttpException for the caller.`;
    for (const thrown of [null, undefined, 'no plan']) {
      PlanGuard.thrown = thrown;
      await expectGenericFailure(await initialize('ann'), null);
    }
    expect(app.log.texts('error')).toEqual([says('null'), says('undefined'), says('"no plan"')]);
  });

  it('guards of the endpoint that may have thrown null are all named', async () => {
    // oxlint-disable-next-line typescript/prefer-promise-reject-errors -- that is the point
    const broken = { canActivate: () => Promise.reject(null) };
    await start([TokenGuard, broken]);
    await expectGenericFailure(await initialize('ann'), null);
    expect(app.log.texts('error')).toEqual([expect.stringMatching(/^One of the guards TokenGuard, Object threw null/)]);
  });

  it('a "principal" that throws null is named in the log', async () => {
    const principal = (): never => {
      // oxlint-disable-next-line typescript/only-throw-error, no-throw-literal -- that is the point
      throw null;
    };
    await start([], { principal });
    expect((await initialize('ann')).status).toBe(500);
    expect(app.log.texts('error')).toEqual([expect.stringContaining('The option "principal", the session guard')]);
  });

  it('guards of the endpoint leave a user that handlers find, each request its own', async () => {
    await start([TokenGuard], { principal: () => 'one owner for all' });
    const client = await as('ann').initialize();
    const said = await Promise.all(
      ['ann', 'bob', 'ann', 'bob'].map(async (user, id) => {
        const call = client.toolCall('whoami', {}, { id: `${user}${id}` });
        const response = await client.post(call, { authorization: `Bearer ${user}` });
        return (await response.json()).result.content[0].text as string;
      }),
    );
    expect(said).toEqual(['ann', 'bob', 'ann', 'bob']);
  });

  it.each([
    ['class', { provide: APP_GUARD, useClass: TokenGuard }],
    ['instance', { provide: APP_GUARD, useValue: { canActivate: () => false } }],
  ])('guards of the whole app (%s) hold for the endpoint', async (_, provider) => {
    await start([], {}, [provider]);
    const response = await initialize('nobody');
    await expectRefusal(response, { status: 'useClass' in provider ? 401 : 403, code: -32000 });
    if ('useClass' in provider) expect(await whoami(await as('ann').initialize())).toBe('ann');
  });

  it('guards of the endpoint may be made for each request', async () => {
    @Injectable({ scope: Scope.REQUEST })
    class RequestGuard extends TokenGuard {
      constructor(
        @Inject(Users) users: Users,
        @Inject(REQUEST) private readonly request: { headers: Record<string, string> },
      ) {
        super(users);
      }
      override canActivate(context: ExecutionContext): Promise<boolean> {
        expect(this.request.headers['authorization']).toBeDefined();
        return super.canActivate(context);
      }
    }
    await start([RequestGuard], {}, [{ provide: APP_GUARD, useClass: RequestGuard }]);
    const client = await as('ann').initialize();
    expect(await whoami(client)).toBe('ann');
    const stream = await client.listen();
    stream.destroy();
    await expectRefusal(await initialize('nobody'), { status: 401, code: -32000 });
  });

  it('guards of the endpoint that cannot be resolved keep the app from starting, with their name', async () => {
    await start([]);
    const endpoint = McpStreamableModule.forRoot({ serverInfo, guards: [TokenGuard] });
    await expect(TestApp.of(adapter, { imports: [AuthModule, endpoint] })).rejects.toThrow(/TokenGuard.*Users/s);
  });

  async function expectNothing(): Promise<void> {
    expect(await app.service.counts()).toMatchObject({ sessions: 0, live: 0, logs: 0, inFlight: 0 });
  }
});
