import { type CanActivate, type ExecutionContext, Injectable, UseGuards } from '@nestjs/common';
import {
  McpHandlerDefinitionError,
  type McpListedResource,
  type McpListedResources,
  ListResources,
  type McpListResourcesArgs,
  McpArgs,
  type McpContext,
  McpCtx,
  McpExecutionContext,
  McpRegistry,
  Resource,
  ResourceTemplate,
} from 'nestjs-mcp-streamable';
import { describe, expect, it } from 'vitest';
import { asker, ERAS, type Era } from '../auth/protected-apps.js';
import { ONE_ADAPTER, type TestApp } from '../support/app.js';
import { officialClients, testApps } from '../support/test-apps.js';
import { as } from '../support/users.js';
import { Roles, RolesGuard } from './roles.js';

const TEMPLATE = 'notes://{owner}/{id}';
const note = (owner: string, id: number): McpListedResource => ({ uri: `notes://${owner}/${id}`, name: `note ${id}` });

/** Notes may be read by their owner. */
const owns: CanActivate = {
  canActivate(context: ExecutionContext): boolean {
    const { variables } = McpExecutionContext.create(context).getArgs<{ variables: Record<string, string> }>();
    const { user } = context.switchToHttp().getRequest<{ user?: { sub?: string } }>();
    return variables['owner'] === user?.sub;
  },
};

@Injectable()
class Notes {
  @Resource({ uri: 'notes://terms', name: 'terms' })
  terms(): string {
    return 'Be kind.';
  }
  @UseGuards(owns)
  @ResourceTemplate({ uriTemplate: TEMPLATE, name: 'note', mimeType: 'text/markdown', annotations: { priority: 1 } })
  note(@McpArgs('id') id: string): string {
    return `Note ${id}`;
  }
  /** More than the caller may read: the guard of the template decides about each. */
  @ListResources(TEMPLATE)
  list(_args: McpListResourcesArgs, { principal }: McpContext): McpListedResource[] {
    return [note(principal!, 1), { ...note('nobody', 2), title: 'Secret' }, { uri: `notes://${principal}/3`, size: 7 }];
  }
}

/** Of each request: the arguments that the method got. */
let asked: McpListResourcesArgs[] = [];

@Injectable()
class Archive {
  @ResourceTemplate({ uriTemplate: 'archive://{n}', name: 'archived' })
  read(): string {
    return 'old';
  }
  /** Five, two at a time. */
  @ListResources('archive://{n}')
  async page(@McpArgs() args: McpListResourcesArgs, @McpCtx() _ctx: McpContext): Promise<McpListedResources> {
    asked.push(args);
    const begin = Number(args.cursor ?? 0);
    const resources = [0, 1].map((n) => ({ uri: `archive://${begin + n}` })).slice(0, 5 - begin);
    return Promise.resolve({ resources, nextCursor: begin + 2 < 5 ? String(begin + 2) : undefined });
  }
}

@Injectable()
class Many {
  @ResourceTemplate({ uriTemplate: 'many://{n}', name: 'many' })
  read(): string {
    return 'one';
  }
  @ListResources('many://{n}')
  list(): McpListedResource[] {
    return Array.from({ length: 5 }, (_, n) => ({ uri: `many://${n}` }));
  }
}

interface ListPage {
  resources: { uri: string }[];
  nextCursor?: string;
}

describe.each(ONE_ADAPTER)('the resources of a template, on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, providers: [Notes] });
  const connect = officialClients();

  async function pages(app: TestApp, era: Era, headers = as('ann')): Promise<string[][]> {
    const { request } = await asker(app, era, headers);
    const found: string[][] = [];
    for (let cursor: string | undefined; ;) {
      const { result } = await (await request('resources/list', cursor === undefined ? {} : { cursor })).json();
      const { resources, nextCursor } = result as ListPage;
      found.push(resources.map(({ uri }) => uri));
      if (nextCursor === undefined || found.length > 20) return found;
      cursor = nextCursor;
    }
  }

  it.each(ERAS)(
    'D33: the resources of a template are in the list of a caller who may read them, behind those with a fixed URI (%s)',
    async (era) => {
      const app = await start();
      expect(await pages(app, era, as('ann'))).toEqual([['notes://terms', 'notes://ann/1', 'notes://ann/3']]);
      expect(await pages(app, era, as('bob'))).toEqual([['notes://terms', 'notes://bob/1', 'notes://bob/3']]);
    },
  );

  it('D33: the resources of a template have the fields of the template, unless they have their own', async () => {
    const app = await start();
    const client = await connect(app, as('ann'));
    const { resources } = await client.listResources();
    expect(resources.slice(1)).toEqual([
      { uri: 'notes://ann/1', name: 'note 1', mimeType: 'text/markdown', annotations: { priority: 1 } },
      { uri: 'notes://ann/3', name: 'notes://ann/3', mimeType: 'text/markdown', annotations: { priority: 1 }, size: 7 },
    ]);
    expect((await client.readResource({ uri: resources[1]!.uri })).contents).toMatchObject([{ text: 'Note 1' }]);
  });

  it.each(ERAS)(
    'D33: the resources of a template come in pages, with the cursors of the method and by the size of a page (%s)',
    async (era) => {
      asked = [];
      const app = await start({ providers: [Notes, Archive, Many], pageSize: 3 });
      const all = await pages(app, era);
      expect(all).toEqual([
        ['notes://terms', 'notes://ann/1'],
        ['notes://ann/3', 'archive://0', 'archive://1'],
        ['archive://2', 'archive://3'],
        ['archive://4', 'many://0', 'many://1'],
        ['many://2', 'many://3', 'many://4'],
      ]);
      expect(asked).toEqual([{ limit: 3 }, { limit: 3, cursor: '2' }, { limit: 3, cursor: '4' }]);
    },
  );

  it('D33: a cursor that was not given out is refused', async () => {
    const app = await start({ providers: [Notes, Archive] });
    const { request } = await asker(app, 'modern', as('ann'));
    for (const cursor of ['', 'x', '2:0:0', Buffer.from('2:x:0').toString('base64url'), 'é'.repeat(10)]) {
      const { error } = await (await request('resources/list', { cursor })).json();
      expect(error).toMatchObject({ code: -32602, message: expect.stringContaining('is not valid') });
    }
  });

  it('D33: a caller whom the guards of the list refuse sees the other resources', async () => {
    let ran = 0;
    @Injectable()
    class ForStaff {
      @ResourceTemplate({ uriTemplate: 'staff://{n}', name: 'staff' })
      read(): string {
        return 'staff';
      }
      @UseGuards(RolesGuard)
      @Roles(['staff'])
      @ListResources('staff://{n}')
      list(): McpListedResource[] {
        ran++;
        return [{ uri: 'staff://1' }];
      }
    }
    const app = await start({ providers: [Notes, ForStaff] });
    expect((await pages(app, 'modern', as('ann', 'guest'))).flat()).not.toContain('staff://1');
    expect(ran).toBe(0);
    expect((await pages(app, 'modern', as('ann', 'staff'))).flat()).toContain('staff://1');
  });

  it('D33: such a list is cached for one caller alone', async () => {
    const app = await start({ providers: [Archive], guards: [], listCache: { ttlMs: 1_000, scope: 'public' } });
    const { request } = await asker(app, 'modern', {});
    const { result } = await (await request('resources/list')).json();
    expect(result).toMatchObject({ ttlMs: 1_000, cacheScope: 'private' });
  });

  it.each<[string, unknown, RegExp]>([
    ['is a text', 'nothing', /must return an array of resources, or \{ resources, nextCursor \}/],
    ['has a cursor that is no text', { resources: [], nextCursor: 2 }, /must return an array of resources/],
    [
      'has a URI of another template',
      [{ uri: 'other://1' }],
      /listed the URI "other:\/\/1", which does not match its template "wrong:\/\/\{n\}"/,
    ],
    [
      'has a field of another type',
      [{ uri: 'wrong://1', size: 'big' }],
      /listed "wrong:\/\/1", which does not match the specification of a Resource: size/,
    ],
    ['has null for a resource', [null], /listed the URI nothing, which/],
  ])('D33: a list that %s fails, and the log says why', async (_, value, reason) => {
    @Injectable()
    class Wrong {
      @ResourceTemplate({ uriTemplate: 'wrong://{n}', name: 'wrong' })
      read(): string {
        return 'wrong';
      }
      @ListResources('wrong://{n}')
      list(): unknown {
        return value;
      }
    }
    const app = await start({ providers: [Wrong] });
    const { request } = await asker(app, 'modern', as('ann'));
    const { error } = await (await request('resources/list')).json();
    expect(error.code).toBe(-32603);
    expect(app.log.texts('error').join('\n')).toMatch(reason);
  });

  it('D33: templates that are registered at run time may list their resources', async () => {
    const app = await start({ providers: [] });
    const registry = app.nodes[0]!.app.get(McpRegistry, { strict: false });
    registry.registerResourceTemplate({
      uriTemplate: 'late://{n}',
      name: 'late',
      handler: () => 'late',
      list: (_args, { principal }) => [{ uri: `late://${principal}` }],
    });
    expect((await pages(app, 'modern', as('ann'))).flat()).toContain('late://ann');
  });

  it('D33: a list without a template, and a second one, stop the start', async () => {
    @Injectable()
    class Lost {
      @ListResources('lost://{n}')
      list(): McpListedResource[] {
        return [];
      }
    }
    @Injectable()
    class Second {
      @ListResources(TEMPLATE)
      again(): McpListedResource[] {
        return [];
      }
    }
    @Injectable()
    class Argument {
      @ListResources(TEMPLATE)
      list(@McpArgs('page') _page: number): McpListedResource[] {
        return [];
      }
    }
    await expect(start({ providers: [Lost] })).rejects.toThrow('there is no resource template "lost://{n}"');
    await expect(start({ providers: [Notes, Second] })).rejects.toThrow('are already listed by Notes.list');
    await expect(start({ providers: [Argument] })).rejects.toThrow(McpHandlerDefinitionError);
  });
});
