import { Injectable } from '@nestjs/common';
import { McpRegistry, McpStreamableModule } from 'nestjs-mcp-streamable';
import { McpAuditModule } from 'nestjs-mcp-streamable/audit';
import { McpLiveModule } from 'nestjs-mcp-streamable/live';
import { afterEach, describe, expect, it } from 'vitest';
import { type McpCallHooks, type McpEndpointPlugin, McpPlugin } from '../../src/core/plugins/mcp-plugin.js';
import { serverInfo, TestApp, whoami } from '../support/app.js';
import { serverSaying } from '../support/scripted-server.js';

const seen: string[] = [];

@Injectable()
class AroundHandlers extends McpPlugin {
  readonly ring = 'app';
  attach(): McpEndpointPlugin {
    return {
      call: ({ method }): McpCallHooks => ({ answered: () => void seen.push(method) }),
      handler: ({ key }) => void seen.push(`handler ${key}`),
    };
  }
}

@Injectable()
class AroundCalls extends McpPlugin {
  readonly ring = 'app';
  attach(): McpEndpointPlugin {
    return { call: () => undefined };
  }
}

describe('the option server from a factory of options', () => {
  let app: TestApp;
  afterEach(async () => {
    await app.close();
    seen.length = 0;
  });

  const start = async (options: object, modules: Parameters<typeof TestApp.of>[1]): Promise<void> => {
    const useFactory = () => Promise.resolve({ serverInfo, ...options });
    const endpoint = McpStreamableModule.forRootAsync({ useFactory });
    app = await TestApp.of('fastify', { ...modules, imports: [endpoint, ...(modules.imports ?? [])] });
  };
  const server = () => serverSaying(() => 'me');
  const noticed = (): string[] => app.log.texts('warn').filter((text) => text.includes('around handlers'));

  it('a plugin acts on the calls of servers, and the log says once at the start that it does nothing around handlers', async () => {
    await start({ server }, { providers: [AroundHandlers, AroundCalls] });
    expect(await whoami(await app.client().initialize())).toBe('me');
    expect(seen).toEqual(['initialize', 'tools/call']);
    expect(noticed()).toEqual([
      'The endpoint "mcp" is served by the servers of the option "server", whose handlers no plugin sees: there, AroundHandlers does nothing around handlers.',
    ]);
  });

  it('the features of the package do not warn that they do nothing around handlers of servers', async () => {
    const live = McpLiveModule.forRoot({ unguarded: 'loopback', payloads: true });
    await start({ server }, { imports: [McpAuditModule.forRoot({ sink: { write: () => {} } }), live] });
    expect(noticed()).toEqual([]);
  });

  it('a plugin around handlers is not warned about where handlers are served', async () => {
    await start({}, { providers: [AroundHandlers] });
    expect(noticed()).toEqual([]);
  });

  it('handlers are refused where servers are offered, whenever they come', async () => {
    await start({ server }, {});
    const registry = app.app.get(McpRegistry, { strict: false });
    expect(() => registry.registerTool({ name: 'late', handler: () => '' })).toThrow(
      'which serves no handlers of the app',
    );
    await expect(registry.disable('whoami')).rejects.toThrow('whose handlers are those of the SDK');
  });
});
