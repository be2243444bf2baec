import { Inject, Injectable, Module, type ModuleMetadata, type OnModuleInit } from '@nestjs/common';
import {
  McpDuplicateHandlerError,
  getMcpToken,
  McpHandlerDefinitionError,
  InjectMcp,
  McpArgs,
  McpHandlers,
  McpRegistry,
  type McpStreamableExtras,
  McpStreamableModule,
  Prompt,
  Resource,
  Tool,
} from 'nestjs-mcp-streamable';
import { afterEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ONE_ADAPTER, TestApp, serverInfo, startFailure } from '../support/app.js';
import type { RawClient } from '../support/raw-client.js';
import { serverSaying } from '../support/scripted-server.js';

@Injectable()
class PublicTools {
  @Tool({ name: 'who' })
  who(): string {
    return 'public';
  }
}

@Injectable()
@McpHandlers({ endpoint: 'admin' })
class AdminTools {
  @Tool({ name: 'who' })
  who(): string {
    return 'admin';
  }
}

@Injectable()
class Salt {
  readonly value = 'salted';
}

@Injectable()
class FeatureTools {
  constructor(@Inject(Salt) private readonly salt: Salt) {}
  @Tool({ name: 'feature' })
  feature(): string {
    return this.salt.value;
  }
}

@Module({
  imports: [McpStreamableModule.forFeature([FeatureTools], 'admin')],
  providers: [FeatureTools, Salt],
})
class FeatureModule {}

/** Registers before anybody is there. */
@Injectable()
class Registrar implements OnModuleInit {
  constructor(
    @InjectMcp(McpRegistry) private readonly registry: McpRegistry,
    @InjectMcp(McpRegistry, 'admin') private readonly admin: McpRegistry,
  ) {}
  onModuleInit(): void {
    this.registry.registerTool({ name: 'registered', handler: () => 'here' });
    this.admin.registerTool({ name: 'registered', handler: () => 'there' });
  }
}

const endpoint = (extras: McpStreamableExtras = {}) => McpStreamableModule.forRoot({ serverInfo, ...extras });
const admin = () => endpoint({ name: 'admin', path: 'admin' });

const toolsOf = async (client: RawClient): Promise<string[]> => {
  const response = await client.post({ jsonrpc: '2.0', id: client.nextId(), method: 'tools/list' });
  return ((await response.json()).result.tools as { name: string }[]).map(({ name }) => name);
};
const call = async (client: RawClient, name: string): Promise<string> =>
  (await (await client.call(name)).json()).result.content[0].text as string;

describe.each(ONE_ADAPTER)('two endpoints with decorated handlers on %s', (adapter) => {
  let app: TestApp;
  afterEach(() => app.close());

  it('offer each its own handlers', async () => {
    app = await TestApp.of(adapter, {
      imports: [endpoint(), admin(), FeatureModule],
      providers: [PublicTools, AdminTools, Registrar],
    });
    const one = await app.client().initialize();
    const two = await app.clientAt('admin').initialize();
    expect(await toolsOf(one)).toEqual(['who', 'registered']);
    expect(await toolsOf(two)).toEqual(['who', 'feature', 'registered']);
    expect(await Promise.all([call(one, 'who'), call(two, 'who')])).toEqual(['public', 'admin']);
    expect(await call(two, 'feature')).toBe('salted');
    expect(await Promise.all([call(one, 'registered'), call(two, 'registered')])).toEqual(['here', 'there']);
  });

  it('two endpoints with decorated handlers have registries of their own', async () => {
    app = await TestApp.of(adapter, { imports: [endpoint(), admin()], providers: [PublicTools, AdminTools] });
    const registry = app.app.get<McpRegistry>(getMcpToken(McpRegistry), { strict: false });
    const other = app.app.get<McpRegistry>(getMcpToken(McpRegistry, 'admin'), { strict: false });
    expect(registry.list('tool').map(({ origin }) => origin)).toEqual(['PublicTools.who (RootTestModule)']);
    expect(other.list('tool').map(({ origin }) => origin)).toEqual(['AdminTools.who (RootTestModule)']);
  });

  it('two endpoints with decorated handlers may differ in whether the app makes their servers', async () => {
    const own = McpStreamableModule.forRoot({
      serverInfo,
      name: 'admin',
      path: 'admin',
      server: () => serverSaying(() => 'own'),
    });
    app = await TestApp.of(adapter, { imports: [endpoint(), own], providers: [PublicTools] });
    expect(await toolsOf(await app.client().initialize())).toEqual(['who']);
    expect(await toolsOf(await app.clientAt('admin').initialize())).toEqual(['whoami']);
  });
});

describe.each(ONE_ADAPTER)('an app does not start on %s', (adapter) => {
  const failure = (metadata: ModuleMetadata) => startFailure(adapter, () => metadata);
  const imports = () => [endpoint()];

  it('an app does not start with two handlers of one name', async () => {
    class Twin {
      @Tool({ name: 'who' })
      again(): void {}
    }
    const error = await failure({ imports: imports(), providers: [PublicTools, Twin] });
    expect(error).toBeInstanceOf(McpDuplicateHandlerError);
    expect(error.message).toContain('PublicTools.who (RootTestModule) and Twin.again (RootTestModule)');
  });

  it('an app does not start with a provider that two modules make', async () => {
    @Module({ providers: [PublicTools] })
    class OtherModule {}
    const error = await failure({ imports: [endpoint(), OtherModule], providers: [PublicTools] });
    expect(error.message).toContain('PublicTools.who (RootTestModule) and PublicTools.who (OtherModule)');
  });

  it.each<[string, object, string]>([
    ['a schema that JSON Schema cannot say', { inputSchema: z.object({ at: z.date() }) }, 'Date cannot be represented'],
    ['a schema of a text', { inputSchema: z.string() }, 'its root must be an object, not "string"'],
    ['a broken JSON Schema', { inputSchema: { type: 'object', required: 'a' } }, 'required value must be'],
    ['a shape', { inputSchema: { id: z.string() } }, 'z.object({ … })'],
    ['a result that JSON Schema cannot say', { outputSchema: z.object({ n: z.bigint() }) }, 'BigInt cannot be'],
  ])('an app does not start with %s', async (_what, schemas, reason) => {
    class Bad {
      @Tool({ name: 'bad', ...schemas })
      run(): void {}
    }
    const error = await failure({ imports: imports(), providers: [Bad] });
    expect(error).toBeInstanceOf(McpHandlerDefinitionError);
    expect(error.message).toContain('The MCP handler Bad.run (RootTestModule) cannot be served:');
    expect(error.message).toContain(reason);
  });

  it('an app does not start with a resource or prompt that cannot be served', async () => {
    class BadResource {
      @Resource({ uri: 'terms', name: 'terms' })
      run(): void {}
    }
    class BadPrompt {
      @Prompt({ name: 'ask', inputSchema: z.array(z.string()) })
      run(@McpArgs() _args: unknown): void {}
    }
    const resource = await failure({ imports: imports(), providers: [BadResource] });
    expect(resource.message).toContain('BadResource.run (RootTestModule) cannot be served: its "uri" is "terms"');
    const prompt = await failure({ imports: imports(), providers: [BadPrompt] });
    expect(prompt.message).toContain('BadPrompt.run (RootTestModule) cannot be served: its "inputSchema"');
  });

  it('an app does not start with handlers for an unknown endpoint', async () => {
    const error = await failure({ imports: imports(), providers: [AdminTools] });
    expect(error.message).toContain('it belongs to the endpoint "admin", which the app does not have.');
    expect(error.message).toMatch(/"\(without a name\)"\. Leave the name of the endpoint out\.$/);
  });

  it('an app does not start with handlers for an endpoint that makes its servers itself', async () => {
    const own = McpStreamableModule.forRoot({ serverInfo, server: () => serverSaying(() => 'own') });
    const error = await failure({ imports: [own], providers: [PublicTools] });
    expect(error).toBeInstanceOf(McpHandlerDefinitionError);
    expect(error.message).toContain('its endpoint has the option "server"');
  });

  it('an app does not start with forFeature() of a class that no module provides', async () => {
    const feature = McpStreamableModule.forFeature([PublicTools]);
    const error = await failure({ imports: [endpoint(), feature] });
    expect(error.message).toContain('forFeature() names it, but no module provides it');
  });

  it('an app does not start with forFeature() of a class without handlers for an endpoint that it does not have', async () => {
    const feature = McpStreamableModule.forFeature([Salt], 'admni');
    const error = await failure({ imports: [endpoint(), admin(), feature], providers: [Salt] });
    expect(error.message).toContain('it belongs to the endpoint "admni", which the app does not have');
  });
});

it('forFeature() takes classes', () => {
  expect(() => McpStreamableModule.forFeature([undefined as never])).toThrow(McpHandlerDefinitionError);
  expect(() => McpStreamableModule.forFeature('x' as never)).toThrow('it takes an array of provider classes');
});
