import {
  type CanActivate,
  type ExecutionContext,
  ForbiddenException,
  Injectable,
  Scope,
  UseGuards,
} from '@nestjs/common';
import {
  type McpCaller,
  McpCatalogue,
  type McpCatalogueTool,
  type McpContext,
  McpExecutionContext,
  McpRegistry,
  Tool,
} from 'nestjs-mcp-streamable';
import { RequireScopes } from 'nestjs-mcp-streamable/auth';
import { beforeEach, describe, expect, it } from 'vitest';
import {
  asker,
  authorizationServer,
  bearer,
  challengeIn,
  ERAS,
  METADATA_URL,
  protectedApps,
} from './protected-apps.js';

let lists: (caller: McpCaller) => McpCatalogueTool[];
const seenByGuard: unknown[] = [];
const ran: string[] = [];
let made = 0;

/** Sees each call, and refuses the tool `closed`. */
@Injectable()
class Seeing implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    const call = McpExecutionContext.create(context);
    if (call.getName() === 'closed') throw new ForbiddenException('Closed.');
    call.getArgs();
    seenByGuard.push([call.getName(), call.getHandler()]);
    return true;
  }
}

@McpCatalogue()
@Injectable()
class Plugins {
  readonly mark = 'its instance';
  list(caller: McpCaller): McpCatalogueTool[] {
    return lists(caller);
  }
  @UseGuards(Seeing)
  call(name: string, args: object, ctx: McpContext): string {
    ran.push(name);
    return `${name} with ${JSON.stringify(args)} of ${ctx.principal === undefined ? 'nobody' : 'a caller'} by ${this.mark}`;
  }
}

/** Is made for each request. */
@Injectable({ scope: Scope.REQUEST })
class PerRequest implements CanActivate {
  readonly #time = ++made;
  canActivate(): boolean {
    return this.#time > 0;
  }
}

@McpCatalogue()
@Injectable()
@RequireScopes('notes:list')
@UseGuards(PerRequest)
class Guarded {
  list(): McpCatalogueTool[] {
    return [{ name: 'of_class' }, { name: 'of_all', scopes: ['notes:send'] }];
  }
  @RequireScopes('notes:write')
  call(name: string): string {
    return name;
  }
}

@Injectable()
class Decorated {
  @Tool({ name: 'decorated' })
  @RequireScopes('notes:write')
  decorated(): string {
    return 'decorated';
  }
}

const plain: McpCatalogueTool[] = [
  { name: 'closed', scopes: ['notes:write'] },
  { name: 'open' },
  { name: 'secret', scopes: ['notes:write'] },
  { name: 'shown', scopes: { all: ['notes:write'], listed: true } },
];

describe('a tool of a catalogue with scopes', () => {
  const idp = authorizationServer();
  const start = protectedApps('fastify', idp, {
    providers: [Plugins, Guarded, Decorated],
    auth: { requiredScopes: ['notes:read'] },
  });
  type Asker = Awaited<ReturnType<typeof asker>>;
  beforeEach(() => {
    lists = () => plain;
    seenByGuard.length = ran.length = 0;
  });
  /** What `list()` has answered before is forgotten. */
  const fresh = async (options?: Parameters<typeof start>[0]) => {
    const app = await start(options);
    app.app.get(McpRegistry, { strict: false }).changed(Plugins);
    return app;
  };
  const call = ({ request }: Asker, name: string) => request('tools/call', { name, arguments: { id: 1 } });
  const listed = async ({ request }: Asker): Promise<string[]> => {
    const { result } = await (await request('tools/list')).json();
    return result.tools.map(({ name }: { name: string }) => name);
  };

  describe.each(ERAS)('in the %s era', (era) => {
    it('A7: a tool of a catalogue with scopes is refused as a decorated one is, with 403 and all scopes of the operation', async () => {
      const few = await asker(await fresh(), era, await bearer(idp(), 'notes:read'));
      const refusals = [];
      for (const name of ['decorated', 'secret', 'shown']) {
        const response = await call(few, name);
        const { error } = await response.json();
        refusals.push({ status: response.status, challenge: challengeIn(response), error });
      }
      expect(refusals[0]).toMatchObject({
        status: 403,
        challenge: {
          error: 'insufficient_scope',
          scope: 'notes:read notes:write',
          resource_metadata: METADATA_URL,
        },
        error: { code: -32000, data: { scopes: ['notes:read', 'notes:write'] } },
      });
      expect(refusals[1]).toEqual(refusals[0]);
      expect(refusals[2]).toEqual(refusals[0]);
      expect(ran).toEqual([]);
    });

    it('A7: a tool of a catalogue with scopes is served when the token has them, by the provider itself, within its other guards', async () => {
      const enough = await asker(await fresh(), era, await bearer(idp(), 'notes:read notes:write'));
      for (const name of ['secret', 'shown']) {
        const { result } = await (await call(enough, name)).json();
        expect(result.content[0].text).toBe(`${name} with {"id":1} of a caller by its instance`);
      }
      expect(seenByGuard).toEqual([
        ['secret', Plugins.prototype.call],
        ['shown', Plugins.prototype.call],
      ]);
    });

    it('A11: a tool of a catalogue with scopes is listed only if the token has them, or if it is declared as listed', async () => {
      const app = await fresh();
      const few = await asker(app, era, await bearer(idp(), 'notes:read'));
      expect(await listed(few)).toEqual(['open', 'shown']);
      const enough = await asker(app, era, await bearer(idp(), 'notes:read notes:write'));
      expect(await listed(enough)).toEqual(['decorated', 'open', 'secret', 'shown']);
    });

    it('A7: the scopes of a tool of a catalogue are added to those of its class and of "call"', async () => {
      const app = await fresh();
      const few = await asker(app, era, await bearer(idp(), 'notes:read'));
      expect(challengeIn(await call(few, 'of_class'))['scope']).toBe('notes:read notes:list notes:write');
      expect(challengeIn(await call(few, 'of_all'))['scope']).toBe('notes:read notes:list notes:write notes:send');
      const more = await asker(app, era, await bearer(idp(), 'notes:read notes:list notes:write'));
      expect((await call(more, 'of_class')).status).toBe(200);
      expect((await call(more, 'of_all')).status).toBe(403);
      expect(await listed(more)).toContain('of_class');
      expect(await listed(more)).not.toContain('of_all');
      const all = await asker(app, era, await bearer(idp(), 'notes:read notes:list notes:write notes:send'));
      const before = made;
      expect((await call(all, 'of_all')).status).toBe(200);
      expect(made).toBe(before + 1);
    });
  });

  it('D31: a tool of a catalogue that another guard hides is not found, whatever its scopes are', async () => {
    const app = await fresh();
    for (const scope of ['notes:read', 'notes:read notes:write']) {
      const caller = await asker(app, 'modern', await bearer(idp(), scope));
      const answers = await Promise.all(
        ['closed', 'nothing'].map(async (name) => JSON.stringify(await (await call(caller, name)).json())),
      );
      const [hidden, unknown] = answers.map((text) => text.replaceAll(/closed|nothing|"id":\d+/g, ''));
      expect(hidden).toBe(unknown);
    }
  });

  it('A8: a broad scope implies those of a tool of a catalogue', async () => {
    const auth = { implies: { 'notes:admin': ['notes:write', 'notes:read'] } };
    const caller = await asker(await fresh({ auth }), 'modern', await bearer(idp(), 'notes:admin'));
    expect((await call(caller, 'secret')).status).toBe(200);
    expect(await listed(caller)).toContain('secret');
  });

  it('D44: two callers whose tools of one name have other scopes need those of their own', async () => {
    lists = ({ scopes = [] }) => [
      { name: 'own', scopes: scopes.includes('notes:list') ? ['notes:send'] : ['notes:read'] },
    ];
    const app = await fresh();
    const [one, other] = await Promise.all(
      ['notes:read', 'notes:read notes:list'].map(async (scope) => asker(app, 'modern', await bearer(idp(), scope))),
    );
    for (let time = 0; time < 2; time++) {
      expect((await call(one!, 'own')).status).toBe(200);
      expect((await call(other!, 'own')).status).toBe(403);
    }
  });

  it('A7: a tool of a catalogue with scopes is refused without a guard that leaves an AuthInfo', async () => {
    const app = await fresh({ auth: undefined });
    const caller = await asker(app, 'modern', {});
    const response = await call(caller, 'secret');
    expect([response.status, response.header('www-authenticate')]).toEqual([401, 'Bearer scope="notes:write"']);
    expect(await listed(caller)).toEqual(['open', 'shown']);
  });
});
