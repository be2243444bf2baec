import { readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import type { INestApplication, Type } from '@nestjs/common';
import { NestFactory } from '@nestjs/core';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { parseFile } from '../architecture/imports.js';
import { loneFetch } from '../support/ways.js';

const root = new URL('../../', import.meta.url);

/** What Node loads with a file of the sources: files, and the names of packages. */
function loadedWith(path: string, loaded = new Set<string>()): Set<string> {
  if (loaded.has(path)) return loaded;
  loaded.add(path);
  const { references } = parseFile(path, readFileSync(new URL(path, root), 'utf8'));
  for (const { specifier, typeOnly } of references) {
    if (typeOnly) continue;
    if (specifier.startsWith('.')) {
      loadedWith(posix.join(posix.dirname(path), specifier).replace(/js$/, 'ts'), loaded);
    } else loaded.add(specifier);
  }
  return loaded;
}

describe('an app whose module is behind a flag', () => {
  let app: INestApplication;
  afterEach(async () => {
    vi.unstubAllEnvs();
    vi.resetModules();
    await app.close();
  });

  async function start(flag: string): Promise<string> {
    vi.stubEnv('MCP', flag);
    vi.resetModules();
    const { AppModule } = (await import('../../examples/snippets/off-by-default.js')) as { AppModule: Type };
    app = await NestFactory.create(AppModule, { logger: false });
    await app.listen(0, '127.0.0.1');
    return app.getUrl();
  }

  it('an app whose module is behind a flag has its routes and no endpoint while the flag is off', async () => {
    const base = await start('off');
    expect(await (await loneFetch(`${base}/invoices/7`)).json()).toEqual({ id: '7', total: 30 });
    expect((await loneFetch(`${base}/mcp`, { method: 'POST' })).status).toBe(404);
  });

  it('an app whose module is behind a flag has its tools while the flag is on', async () => {
    const client = new Client({ name: 'test', version: '1.0.0' });
    await client.connect(new StreamableHTTPClientTransport(new URL(`${await start('on')}/mcp`), { fetch: loneFetch }));
    const { structuredContent } = await client.callTool({ name: 'invoices_find', arguments: { id: '7' } });
    expect(structuredContent).toEqual({ id: '7', total: 30 });
    await client.close();
  });
});

describe('the entry "decorators"', () => {
  it('the entry "decorators" loads neither the SDK nor the module', () => {
    const loaded = [...loadedWith('src/decorators/index.ts')];
    expect(loaded).toContain('src/core/handlers/decorators/handler.decorators.ts');
    expect(loaded.filter((name) => name.includes('modelcontextprotocol') || name.includes('module.ts'))).toEqual([]);
    expect(loaded.length).toBeLessThan(40);
  });

  it('the entry "decorators" has the same things as the main entry', async () => {
    const main = (await import('nestjs-mcp-streamable')) as Record<string, unknown>;
    const decorators = (await import('nestjs-mcp-streamable/decorators')) as Record<string, unknown>;
    expect(Object.keys(decorators).length).toBeGreaterThan(10);
    const others = Object.entries(decorators).filter(([name, value]) => main[name] !== value);
    expect(others).toEqual([]);
  });
});
