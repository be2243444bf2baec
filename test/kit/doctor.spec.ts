import 'reflect-metadata';
import {
  Controller,
  Get,
  type INestApplication,
  Injectable,
  Post,
  type Type,
  type CanActivate,
  type ExecutionContext,
  UnauthorizedException,
} from '@nestjs/common';
import { Test } from '@nestjs/testing';
import { McpRegistry, McpStreamableModule, type McpStreamableModuleOptions, Tool } from 'nestjs-mcp-streamable';
import { McpServer } from 'nestjs-mcp-streamable/server';
import {
  createMcpTestClient,
  diagnose,
  expectHealthy,
  expectNothingLeft,
  McpTestAuth,
} from 'nestjs-mcp-streamable/testing';
import { afterEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ONE_ADAPTER, QuickstartApp } from '../quickstart/quickstart-app.js';

const HEALTHY = { title: 'Find', annotations: { readOnlyHint: true }, inputSchema: z.object({ id: z.string() }) };

@Injectable()
class Orders {
  @Tool({ ...HEALTHY, name: 'find_order', description: 'Finds an order by its id' })
  find(): string {
    return 'found';
  }
}

@Injectable()
class Careless {
  @Tool({ name: 'do.it' })
  it(): string {
    return 'done';
  }
}

@Controller('orders')
class Routes {
  @Get('purge')
  @Tool({ description: 'Purges', annotations: { readOnlyHint: false, destructiveHint: true }, title: 'Purge' })
  purge(): string {
    return 'purged';
  }

  @Post()
  @Tool({ description: 'Creates an order', annotations: { destructiveHint: false }, title: 'Create' })
  create(): string {
    return 'created';
  }
}

@Injectable()
class Exports {
  @Tool({ ...HEALTHY, name: 'export', description: 'Exports all', inputSchema: { type: 'object' } })
  all(): string {
    return 'x'.repeat(120_000);
  }

  @Tool({ ...HEALTHY, name: 'limited', description: 'Exports some of it', maxResultBytes: 1_000_000 })
  some(): string {
    return 'x'.repeat(120_000);
  }
}

describe('the doctor', () => {
  const apps: INestApplication[] = [];

  afterEach(async () => {
    for (const app of apps.splice(0)) {
      await expectNothingLeft(app);
      await app.close();
    }
  });

  async function appOf(hosts: Type[], options: Partial<McpStreamableModuleOptions> = {}): Promise<INestApplication> {
    const imports = [McpStreamableModule.forRoot({ serverInfo: { name: 'shop', version: '1.0.0' }, ...options })];
    const [controllers, providers] = [hosts.filter((host) => host === Routes), hosts.filter((host) => host !== Routes)];
    const testing = Test.createTestingModule({ imports, controllers, providers });
    const app = (await testing.compile()).createNestApplication();
    apps.push(app);
    return app;
  }

  const rules = async (app: INestApplication): Promise<unknown[]> =>
    (await diagnose(app)).findings.map(({ rule, tool }) => [rule, tool]);

  it('the doctor has no findings for tools with all that clients ask for', async () => {
    const app = await appOf([Orders]);
    const { findings, tokens, weights } = await diagnose(app);
    expect(findings).toEqual([]);
    expect(weights).toEqual([{ tool: 'find_order', tokens }]);
    expect(tokens).toBeGreaterThan(30);
    await expectHealthy(app);
  });

  it('the doctor fails a test with what it found, what to do, and how to go on without', async () => {
    const app = await appOf([Careless]);
    const failure = await expectHealthy(app).catch((error: Error) => error);
    expect((failure as Error).message.split('\n')).toEqual([
      'The doctor has 4 findings:',
      expect.stringMatching(/^ {2}- The tool do\.it has a name with characters.* \[name-characters\]$/),
      expect.stringMatching(/^ {2}- The tool do\.it has no description\. Say in "description".* \[no-description\]$/),
      expect.stringMatching(/\[no-hints\]$/),
      expect.stringMatching(/\[no-title\]$/),
      '',
      expect.stringContaining('except'),
    ]);
    await expectHealthy(app, { except: ['name-characters', 'no-description', 'no-hints', 'no-title'] });
  });

  it('the doctor knows the verb of a route', async () => {
    expect(await rules(await appOf([Routes]))).toEqual([['hints-contradict', 'routes_purge']]);
  });

  it('the doctor examines what was registered at run time, and the tools of an SDK server', async () => {
    const app = await appOf([Orders]);
    await app.init();
    const registry = app.get(McpRegistry);
    registry.registerTool({
      name: 'late',
      description: 'Is late',
      inputSchema: { type: 'object', anyOf: [{}] },
      handler: () => 'x',
    });
    expect((await rules(app))[0]).toEqual(['schema-root-union', 'late']);
    const server = (): McpServer => {
      const made = new McpServer({ name: 'own', version: '1.0.0' });
      made.registerTool('ping', { description: 'Pings', inputSchema: z.object({}) }, () => ({ content: [] }));
      return made;
    };
    expect(await rules(await appOf([], { server }))).toEqual([
      ['schema-dialect', 'ping'],
      ['no-hints', 'ping'],
      ['no-title', 'ping'],
    ]);
  });

  it('the doctor remembers results that are larger than clients accept, where the option "doctor" is on', async () => {
    for (const doctor of [true, false]) {
      const app = await appOf([Exports], { doctor });
      const mcp = await createMcpTestClient(app);
      // It arrives as it is: only limits of the app replace a result.
      expect((await mcp.callTool('export', {})).text).toHaveLength(120_000);
      await mcp.callTool('limited', { id: '1' });
      await mcp.close();
      const { findings } = await diagnose(app);
      const found = [
        expect.objectContaining({ rule: 'large-result', tool: 'export', problem: expect.stringContaining('30000') }),
      ];
      expect(findings).toEqual(doctor ? found : []);
    }
  });

  it('the doctor asks the authorization servers that the endpoint names, if it may', async () => {
    const auth = {
      resource: 'https://shop.example.com/mcp',
      authorizationServers: ['https://login.example.com/shop', 'https://other.example.com'],
      verifier: new McpTestAuth(),
    };
    const app = await appOf([Orders], { auth });
    expect((await diagnose(app)).findings).toEqual([]);
    const asked: string[] = [];
    const fetch = (async (url: string) => {
      asked.push(url);
      if (url === 'https://login.example.com/shop/.well-known/openid-configuration')
        return Response.json({ issuer: 'https://login.example.com/shop' });
      return url.includes('login')
        ? new Response('', { status: 404 })
        : Response.json({ issuer: 'https://else.example.com' });
    }) as typeof globalThis.fetch;
    const { findings } = await diagnose(app, { fetch });
    expect(findings).toMatchObject([
      {
        rule: 'oauth-metadata',
        severity: 'error',
        tool: undefined,
        problem: expect.stringContaining(
          'https://other.example.com/.well-known/openid-configuration has another "issuer"',
        ),
      },
    ]);
    expect(asked).toContain('https://login.example.com/.well-known/oauth-authorization-server/shop');
  });

  it('the doctor follows the challenge of a guard of the app to its metadata', async () => {
    const guard: CanActivate = {
      canActivate(context: ExecutionContext): never {
        const metadata = 'https://shop.example.com/.well-known/oauth-protected-resource';
        const response = context.switchToHttp().getResponse<{ header(name: string, value: string): void }>();
        response.header('www-authenticate', `Bearer resource_metadata="${metadata}"`);
        throw new UnauthorizedException();
      },
    };
    const { findings } = await diagnose(await appOf([Orders], { guards: [guard] }));
    expect(findings).toMatchObject([{ rule: 'oauth-metadata', problem: expect.stringContaining('answers 404') }]);
  });

  it('the doctor has no findings for the quickstart', async () => {
    const quickstart = await QuickstartApp.start(ONE_ADAPTER[0]!);
    await expectHealthy(quickstart.app);
    await quickstart.close();
  });

  it('the doctor names the endpoints of an app that has none at the path', async () => {
    await expect(diagnose(await appOf([Orders]), { endpoint: '/other' })).rejects.toThrow(
      'This app serves no MCP at /other, but at /mcp.',
    );
  });
});
