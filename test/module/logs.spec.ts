import {
  Injectable,
  UnauthorizedException,
  VersioningType,
  type CanActivate,
  type OnApplicationBootstrap,
} from '@nestjs/common';
import {
  InjectMcp,
  McpHandlers,
  McpRegistry,
  McpStreamableModule,
  type McpStreamableOptions,
  Prompt,
  Resource,
  ResourceTemplate,
  Tool,
} from 'nestjs-mcp-streamable';
import { afterEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, TestApp, serverInfo } from '../support/app.js';
import { send } from '../support/http.js';
import { serverSaying } from '../support/scripted-server.js';

@Injectable()
class Orders {
  @Tool({ name: 'find_order', description: 'Finds an order' })
  find(): string {
    return 'found';
  }
  @Tool({ name: 'cancel_order', description: 'Cancels an order' })
  cancel(): string {
    return 'cancelled';
  }
  @Resource({ name: 'terms', uri: 'shop://terms' })
  terms(): string {
    return 'none';
  }
  @ResourceTemplate({ name: 'order', uriTemplate: 'shop://orders/{id}' })
  order(): string {
    return 'an order';
  }
  @Prompt({ name: 'complain' })
  complain(): string {
    return 'Complain.';
  }
}

describe.each(ONE_ADAPTER)('the log at start on %s', (adapter) => {
  let app: TestApp;
  afterEach(() => app.close());

  const lines = (level: 'log' | 'warn') => app.log.texts(level).filter((text) => text.startsWith('MCP endpoint'));

  it('the log at start reports once which handlers are served, and at which path', async () => {
    app = await TestApp.of(adapter, {
      imports: [McpStreamableModule.forRoot({ serverInfo })],
      providers: [Orders],
    });
    expect(lines('log')).toEqual([
      'MCP endpoint at /mcp: 2 tools (find_order, cancel_order), 1 resource (shop://terms), 1 resource template (shop://orders/{id}), 1 prompt (complain).',
    ]);
    expect(app.log.texts('warn')).toEqual([]);
  });

  it('the log at start names the path that clients use, below prefix and version', async () => {
    const imports = [McpStreamableModule.forRoot({ serverInfo, path: 'tools/mcp', version: ['1', '2'] })];
    app = await TestApp.of(adapter, { imports, providers: [Orders] }, (nest) => {
      nest.setGlobalPrefix('api');
      nest.enableVersioning({ type: VersioningType.URI });
    });
    const [line] = lines('log');
    expect(line).toContain('MCP endpoint at /api/v1/tools/mcp, /api/v2/tools/mcp:');
  });

  it('the log at start is a line for each endpoint, with its name', async () => {
    @Injectable()
    @McpHandlers({ endpoint: 'admin' })
    class Admin {
      @Tool({ name: 'reset', description: 'Resets' })
      reset(): string {
        return 'reset';
      }
    }
    @McpHandlers({ endpoint: 'public' })
    @Injectable()
    class Public extends Orders {}
    app = await TestApp.of(adapter, {
      imports: [
        McpStreamableModule.forRoot({ serverInfo, path: 'admin', name: 'admin' }),
        McpStreamableModule.forRoot({ serverInfo, path: 'public', name: 'public' }),
      ],
      providers: [Admin, Public],
    });
    expect(lines('log').toSorted()).toEqual([
      'MCP endpoint "admin" at /admin: 1 tool (reset), 0 resources, 0 resource templates, 0 prompts.',
      expect.stringMatching(/^MCP endpoint "public" at \/public: 2 tools/),
    ]);
  });

  it('the log at start counts what the app registers while it starts, and is bounded', async () => {
    @Injectable()
    class Many implements OnApplicationBootstrap {
      constructor(@InjectMcp(McpRegistry) private readonly registry: McpRegistry) {}
      onApplicationBootstrap(): void {
        for (let n = 0; n < 300; n++) this.registry.registerTool({ name: `tool_${n}`, handler: () => 'done' });
        this.registry.registerPrompt({ name: 'p'.repeat(500), handler: () => 'done' });
      }
    }
    app = await TestApp.of(adapter, { imports: [McpStreamableModule.forRoot({ serverInfo })], providers: [Many] });
    const [line] = lines('log');
    expect(line).toMatch(/300 tools \(tool_0, tool_1, .*tool_19 and 280 more\)/);
    expect(line).toContain('1 prompt (ppp');
    expect(line!.length).toBeLessThan(500);
    expect(lines('warn')).toEqual([]);
  });

  it('the log at start warns when nothing is served', async () => {
    app = await TestApp.of(adapter, { imports: [McpStreamableModule.forRoot({ serverInfo })] });
    expect(lines('log')).toHaveLength(1);
    expect(lines('warn')).toEqual([expect.stringMatching(/at \/mcp has no handlers.*"providers"/)]);
  });

  it('the log at start reports that the app makes its servers, and does not warn', async () => {
    const server = () => serverSaying(() => 'hello');
    app = await TestApp.of(adapter, { imports: [McpStreamableModule.forRoot({ serverInfo, server })] });
    expect(lines('log')).toEqual([expect.stringMatching(/at \/mcp.*"server"/)]);
    expect(lines('warn')).toEqual([]);
  });

  it('the log at start reports the options of forRootAsync too', async () => {
    const server = () => serverSaying(() => 'hello');
    const useFactory = async (): Promise<McpStreamableOptions> => ({ serverInfo, server });
    app = await TestApp.of(adapter, { imports: [McpStreamableModule.forRootAsync({ useFactory })] });
    expect(lines('log')).toEqual([expect.stringMatching(/at \/mcp.*"server"/)]);
  });
});

describe.each(ONE_ADAPTER)('refusals in the log on %s', (adapter) => {
  let app: TestApp;
  afterEach(() => app.close());

  const SECRET = 'a-token-that-is-nobodys-business';
  const guard: CanActivate = {
    canActivate: (context) => {
      const { authorization } = context.switchToHttp().getRequest().headers as { authorization?: string };
      if (authorization) throw new UnauthorizedException(`Not a token of ours: ${authorization}`);
      return true;
    },
  };
  async function start(options: Partial<McpStreamableOptions> = {}, guards = [guard]): Promise<void> {
    const server = () => serverSaying(() => 'hello');
    app = await TestApp.of(adapter, {
      imports: [McpStreamableModule.forRoot({ serverInfo, server, guards, ...options })],
    });
    app.log.lines.length = 0;
  }
  const refusals = (level: 'debug' | 'warn') =>
    app.log.texts(level).filter((text) => text.includes('was answered with'));

  it('refusals in the log are lines at debug, with the status and the reason, without tokens and session ids', async () => {
    await start({ maxBodyBytes: 1_000, principal: () => 'ann' });
    const client = app.client();
    await client.initialize();
    const { sessionId } = client;
    const answers = [
      await app
        .clientAt('mcp?access_token=' + SECRET, { authorization: `Bearer ${SECRET}` })
        .post(client.initializeMessage()),
      await app.clientAt('mcp', { 'mcp-session-id': `${sessionId}x` }).get(),
      await send(client.url, { method: 'PUT', headers: { 'mcp-session-id': sessionId! } }),
      await client.call('whoami', { text: SECRET.repeat(100) }),
    ];
    expect(answers.map(({ status }) => status)).toEqual([401, 404, 405, 413]);
    for (const answer of answers) await answer.text();
    const lines = refusals('debug');
    expect(lines).toEqual([
      expect.stringMatching(/^POST .*"mcp".* 401: UnauthorizedException/),
      expect.stringMatching(/^GET .* 404: Session not found/),
      expect.stringMatching(/^PUT .* 405: /),
      expect.stringMatching(/^POST .* 413: .*"maxBodyBytes"/),
    ]);
    for (const { text } of app.log.lines) {
      expect(text).not.toContain(SECRET);
      expect(text).not.toContain(sessionId);
    }
    expect(refusals('warn')).toEqual([]);
  });

  it('refusals in the log of a guard that says no are 403 at debug', async () => {
    await start({}, [{ canActivate: () => false }]);
    const client = app.client();
    await (await client.post(client.initializeMessage())).text();
    expect(refusals('debug')).toEqual([expect.stringMatching(/403: ForbiddenException/)]);
    expect(refusals('warn')).toEqual([]);
  });

  it.each([
    ['Host', 'allowedHosts', { host: 'Abc.ngrok-free.app:443' }, 'abc.ngrok-free.app'],
    ['Origin', 'allowedOrigins', { origin: 'https://inspector.example' }, 'https://inspector.example'],
  ])(
    'refusals for the %s are a warning once, which says what to put into "%s", and that helps',
    async (_, option, headers, entry) => {
      await start();
      for (let n = 0; n < 3; n++) {
        const client = app.clientAt('mcp', headers);
        const answer = await client.post(client.initializeMessage());
        expect(answer.status).toBe(403);
        const { error } = (await answer.json()) as { error: { message: string } };
        expect(error.message).toContain(`"${entry}"`);
        expect(error.message).toContain(`"${option}"`);
      }
      expect(refusals('warn')).toEqual([expect.stringContaining(`"${option}"`)]);
      expect(refusals('debug')).toHaveLength(2);
      await app.close();
      await start({ [option]: [entry] });
      await app.clientAt('mcp', headers).initialize();
      expect(app.log.texts('warn').filter((text) => text.includes('403'))).toEqual([]);
    },
  );

  it.each<Record<string, string>>([{ host: '***' }, { origin: 'nonsense' }])(
    'refusals for what could not be listed are no warning (%#)',
    async (headers) => {
      await start();
      const client = app.clientAt('mcp', headers);
      await (await client.post(client.initializeMessage())).text();
      expect(refusals('warn')).toEqual([]);
      expect(refusals('debug')).toEqual([expect.stringMatching(/403: /)]);
    },
  );
});

describe.each(ONE_ADAPTER)('texts of clients in the log on %s', (adapter) => {
  const HOSTILE = 'a\u001b[2J\u0085\u009b2J\u2028\u202e\u2066z';
  const ESCAPED = String.raw`a\u001b[2J\u0085\u009b2J\u2028\u202e\u2066z`;

  it('texts of clients in the log have no raw control characters, also in the errors of an app', async () => {
    const quotes = ({ said }: { said: string }) => {
      throw new Error(`No ${said}`);
    };
    const app = await TestApp.start({ adapter, tools: { quotes } });
    const client = await app.client().initialize();
    await (await client.call('quotes', { said: HOSTILE })).text();
    await (await client.post(client.toolCall('quotes'), { 'mcp-protocol-version': 'é\u0085' })).text();
    expect(app.log.texts('error')).toEqual([expect.stringContaining(`No ${ESCAPED}`)]);
    expect(app.log.texts().filter((text) => /[^\P{Cc}\n\t]|[\u2028-\u202e\u2060-\u2069]/u.test(text))).toEqual([]);
    await app.close();
  });
});
