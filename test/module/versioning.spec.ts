import { Controller, Get, type Type, VERSION_NEUTRAL, VersioningType, type VersioningOptions } from '@nestjs/common';
import { RouterModule } from '@nestjs/core';
import {
  McpHandlers,
  McpOptionError,
  McpStreamableModule,
  Tool,
  type McpStreamableExtras,
} from 'nestjs-mcp-streamable';
import { afterEach, describe, expect, it } from 'vitest';
import { ADAPTERS, TestApp, serverInfo, startFailure, whoami } from '../support/app.js';
import { send } from '../support/http.js';
import { ModernClient } from '../support/modern-client.js';
import { RecordedLog } from '../support/recorded-log.js';

const URI: VersioningOptions = { type: VersioningType.URI, defaultVersion: '1' };
const HEADER: VersioningOptions = { type: VersioningType.HEADER, header: 'x-api', defaultVersion: '1' };
const MEDIA_TYPE: VersioningOptions = { type: VersioningType.MEDIA_TYPE, key: 'v=', defaultVersion: '1' };
const CUSTOM: VersioningOptions = {
  type: VersioningType.CUSTOM,
  extractor: (request) => (request as { headers: Record<string, string | undefined> }).headers['x-api'] ?? '1',
  defaultVersion: '1',
};
const ALL = { 'the URI': URI, 'a header': HEADER, 'the media type': MEDIA_TYPE, 'its own way': CUSTOM };

/** What asks for version 1, or 2. */
const asking = (versioning: VersioningOptions, version: string): Record<string, string> =>
  versioning.type === VersioningType.MEDIA_TYPE
    ? { accept: `application/json;v=${version}, text/event-stream` }
    : { 'x-api': version };

@Controller('beside')
class BesideController {
  @Get()
  beside(): string {
    return 'of version 1';
  }
}

const endpoint = (extras: McpStreamableExtras = {}) => McpStreamableModule.forRoot({ serverInfo, ...extras });

/** The tool `whoami` of an endpoint, which says the name of that; without a name, of the only endpoint of an app. */
const whoamiOf = (name?: string): Type => {
  class Handlers {
    @Tool({ name: 'whoami' })
    whoami(): string {
      return name ?? 'the only one';
    }
  }
  if (name !== undefined) McpHandlers({ endpoint: name })(Handlers);
  return Handlers;
};

describe.each(ADAPTERS)('in an app on %s that has versions', (adapter) => {
  let app: TestApp;

  const start = async (
    versioning: VersioningOptions | undefined,
    ...endpoints: McpStreamableExtras[]
  ): Promise<void> => {
    const imports = endpoints.map((extras) => endpoint(extras));
    const providers = endpoints.map(({ name }) => whoamiOf(name));
    const module = { imports, providers, controllers: [BesideController] };
    app = await TestApp.of(adapter, module, (nest) => {
      nest.setGlobalPrefix('api');
      if (versioning) nest.enableVersioning(versioning);
    });
  };
  const initializes = async (path: string, headers?: Record<string, string>): Promise<number> => {
    const client = app.clientAt(path, headers);
    return (await client.post(client.initializeMessage())).status;
  };

  describe('one endpoint', () => {
    afterEach(async () => {
      await app.service.terminateAll();
      await app.close();
    });

    it.each(Object.entries(ALL))(
      'one endpoint is served without a version, and with whichever one a client asks for by %s',
      async (_, versioning) => {
        await start(versioning, {});
        expect(await whoami(await app.clientAt('api/mcp').initialize())).toBe('the only one');
        const modern = await new ModernClient(app.clientAt('api/mcp').url).call('whoami');
        expect(await modern.json()).toHaveProperty('result.content.0.text', 'the only one');
        const stream = await (await app.clientAt('api/mcp').initialize()).listen();
        stream.destroy();
        if (versioning.type === VersioningType.URI) return;
        for (const version of ['1', '2']) {
          expect(await whoami(await app.clientAt('api/mcp', asking(versioning, version)).initialize())).toBe(
            'the only one',
          );
        }
        const beside = await send(`${app.base}/api/beside`, { method: 'GET', headers: asking(versioning, '1') });
        expect(await beside.text()).toBe('of version 1');
      },
    );

    it('one endpoint may have a version in the URI: its checks of Host and its limit of the body apply to that route', async () => {
      await start(URI, { version: '2' });
      const client = await app.clientAt('api/v2/mcp').initialize();
      expect(await whoami(client)).toBe('the only one');
      expect((await client.post(client.initializeMessage(), { host: 'evil.example' })).status).toBe(403);
      const large = client.toolCall('whoami', { text: 'x'.repeat(2 * 1024 ** 2) });
      expect((await client.post(large)).status).toBe(200);
      expect([await initializes('api/mcp'), await initializes('api/v1/mcp')]).toEqual([404, 404]);
    });

    it('one endpoint may have several versions and be served without one too', async () => {
      await start(URI, { version: ['1', '2', VERSION_NEUTRAL] });
      for (const path of ['api/v1/mcp', 'api/v2/mcp', 'api/mcp']) expect(await initializes(path)).toBe(200);
    });

    it.each([
      ['a header', HEADER],
      ['the media type', MEDIA_TYPE],
    ])('one endpoint may have a version by %s: a request for any other version gets 404', async (_, versioning) => {
      await start(versioning, { version: '2' });
      expect(await whoami(await app.clientAt('api/mcp', asking(versioning, '2')).initialize())).toBe('the only one');
      expect(await initializes('api/mcp', asking(versioning, '1'))).toBe(404);
      expect(await initializes('api/mcp')).toBe(404);
    });

    it('one endpoint is served at its plain path when it has a version and the app has none', async () => {
      await start(undefined, { version: '2' });
      expect(await initializes('api/mcp')).toBe(200);
    });
  });

  it.each([
    ['a header', HEADER],
    ['the media type', MEDIA_TYPE],
  ])('two endpoints may share a path when their versions by %s differ', async (_, versioning) => {
    await start(versioning, { name: 'old', version: '1' }, { name: 'new', version: '2' });
    for (const [version, name] of [
      ['1', 'old'],
      ['2', 'new'],
    ] as const) {
      const client = await app.clientAt('api/mcp', asking(versioning, version)).initialize();
      expect(await whoami(client)).toBe(name);
      const accept = `text/event-stream;v=${version}`;
      const listening = await (await client.get(undefined, { accept })).sse().opened();
      expect((await client.delete({ accept })).status).toBe(204);
      expect(await listening.end()).toBe('end');
    }
    await app.close();
  });

  it.each<[string, VersioningOptions | undefined, McpStreamableExtras, McpStreamableExtras]>([
    ['the default path', undefined, {}, {}],
    ['the same path, written otherwise', undefined, { path: 'a/mcp' }, { path: '/A/mcp/' }],
    ['versions that do not exist', undefined, { version: '1' }, { version: '2' }],
    ['the same version of the URI', URI, { version: '1' }, { version: ['1', '2'] }],
    ['the same version of a header', HEADER, { version: ['1', '2'] }, { version: '2' }],
    ['no version beside one of a header', HEADER, {}, { version: '2' }],
  ])('two endpoints with %s keep it from starting', async (_, versioning, one, other) => {
    const log = new RecordedLog().attach();
    const imports = () => [endpoint({ name: 'one', ...one }), endpoint({ name: 'other', ...other })];
    const error = await startFailure(
      adapter,
      () => ({ imports: imports() }),
      (nest) => {
        if (versioning) nest.enableVersioning(versioning);
      },
    );
    log.release();
    expect(error).toBeInstanceOf(McpOptionError);
    expect((error as McpOptionError).option).toBe('path');
    expect(error.message).toMatch(/^Two MCP endpoints of this app \("one" and "other"\) are served at "\/[\w/:]*mcp"/);
  });

  it('two endpoints with the same path below different paths of their modules are two', async () => {
    class InternalMcp extends McpStreamableModule {}
    const internal = InternalMcp.forRoot({ serverInfo, name: 'internal' });
    const router = RouterModule.register([{ path: 'internal', module: InternalMcp }]);
    app = await TestApp.of(adapter, {
      imports: [endpoint({ name: 'public' }), internal, router],
      providers: [whoamiOf('public'), whoamiOf('internal')],
    });
    expect(await whoami(await app.clientAt('mcp').initialize())).toBe('public');
    expect(await whoami(await app.clientAt('internal/mcp').initialize())).toBe('internal');
    await app.close();
  });
});
