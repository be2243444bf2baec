import { readFileSync } from 'node:fs';
import { Controller, Get, Header, Injectable } from '@nestjs/common';
import { ProtocolError } from '@modelcontextprotocol/server';
import {
  McpArgs,
  McpCatalogue,
  type McpCatalogueTool,
  type McpCaller,
  type McpContext,
  McpCtx,
  McpStreamableModule,
  Tool,
} from 'nestjs-mcp-streamable';
import { McpPrometheusModule } from 'nestjs-mcp-streamable/prometheus';
import { Registry } from 'prom-client';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { z } from 'zod';
import { ModernClient } from '../support/modern-client.js';
import { LATEST } from '../support/raw-client.js';
import { TestApp, serverInfo, startFailure } from '../support/app.js';
import { as, trustingGuard } from '../support/users.js';
import { loneFetch } from '../support/ways.js';

let registry = new Registry();

@Controller('metrics')
class MetricsController {
  @Get()
  @Header('content-type', 'text/plain; version=0.0.4')
  scrape(): Promise<string> {
    return registry.metrics();
  }
}

@Injectable()
class Tools {
  @Tool({ name: 'add', description: 'Adds', inputSchema: z.object({ a: z.number() }) })
  add(@McpArgs() { a }: { a: number }): string {
    if (a < 0) throw new Error('negative');
    return String(a);
  }
  @Tool({ name: 'fail', inputSchema: z.object({ code: z.number() }) })
  fail(@McpArgs() { code }: { code: number }): never {
    throw new ProtocolError(code, 'no');
  }
  @Tool({ name: 'ask' })
  async ask(@McpCtx() ctx: McpContext): Promise<string> {
    return `${(await ctx.roots('r')).length}`;
  }
}

/** Each caller has a tool of its own. */
@McpCatalogue()
@Injectable()
class Plugins {
  list({ principal }: McpCaller): McpCatalogueTool[] {
    return [{ name: `plugin_of_${principal}` }];
  }
  call(name: string): string {
    if (name.endsWith('_0')) throw new Error('no');
    return name;
  }
}

describe('Prometheus', () => {
  let app: TestApp;

  async function start(options = {}): Promise<void> {
    registry = new Registry();
    app = await TestApp.of('fastify', {
      imports: [McpStreamableModule.forRoot({ serverInfo, ...options }), McpPrometheusModule.forRoot({ registry })],
      controllers: [MetricsController],
      providers: [Tools, Plugins],
    });
  }
  afterEach(() => app.close());

  /** The series of a scrape, without buckets. */
  async function scrape(): Promise<Map<string, number>> {
    const response = await loneFetch(`${app.base}/metrics`);
    const lines = (await response.text()).split('\n').filter((line) => line !== '' && !line.startsWith('#'));
    return new Map(
      lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ') + 1))]),
    );
  }

  it('a scrape of a running app has durations by method, tool, error and revision', async () => {
    await start();
    const client = await app.client().initialize();
    await (await client.call('add', { a: 1 })).text();
    await (await client.call('add', { a: -1 })).text();
    await (await client.call('invented 4711')).text();
    await (await client.post({ jsonrpc: '2.0', id: 'odd', method: 'no/such/method' })).text();
    await new ModernClient(app.client().url).ask('tools/call', { name: 'add', arguments: { a: 1 } });
    await client.delete();
    const series = await scrape();
    const counts = [...series].filter(([name]) => name.startsWith('mcp_server_operation_duration_seconds_count'));
    const labels = (text: string): string => `mcp_server_operation_duration_seconds_count{${text}}`;
    const legacy = 'mcp_protocol_version="2025-11-25"';
    expect(Object.fromEntries(counts)).toEqual({
      [labels(`mcp_method_name="initialize",${legacy}`)]: 1,
      [labels(`mcp_method_name="tools/call",${legacy},gen_ai_tool_name="add"`)]: 1,
      [labels(`mcp_method_name="tools/call",${legacy},gen_ai_tool_name="add",error_type="tool_error"`)]: 1,
      [labels(`mcp_method_name="tools/call",${legacy}`)]: 1,
      [labels(`mcp_method_name="_OTHER",${legacy}`)]: 1,
      [labels('mcp_method_name="tools/call",mcp_protocol_version="2026-07-28",gen_ai_tool_name="add"')]: 1,
    });
    expect(series.get(`mcp_server_session_duration_seconds_count{${legacy}}`)).toBe(1);
    expect([...series.keys()].filter((name) => name.includes('4711') || name.includes(client.sessionId!))).toEqual([]);
  });

  it('each error code of JSON-RPC and MCP is an error type of its own; all other codes share one', async () => {
    await start();
    const client = await app.client().initialize(LATEST, { roots: {} });
    for (const code of [-32603, -32042, 12345, 12346]) await (await client.call('fail', { code })).text();
    for (const code of [12347, 12348]) {
      const stream = await (await client.call('ask')).sse().count(1);
      const [{ id }] = stream.messages;
      await (await client.post({ jsonrpc: '2.0', id, error: { code, message: 'no' } })).text();
      await stream.end();
    }
    const types = [...(await scrape()).keys()].flatMap((name) => /count\{.*error_type="([^"]+)"/.exec(name)?.[1] ?? []);
    expect(types.toSorted()).toEqual(['-32042', '-32603', '_OTHER', 'tool_error']);
  });

  it('all tools of a catalogue are one label, however many callers have tools of their own', async () => {
    await start({ guards: [trustingGuard] });
    for (let n = 0; n < 20; n++) {
      const client = new ModernClient(app.url, as(`user_${n}`));
      await client.ask('tools/call', { name: `plugin_of_user_${n}` });
      await client.ask('tools/call', { name: `plugin_of_user_${n + 1}` });
    }
    const counts = [...(await scrape())].filter(([name]) =>
      name.startsWith('mcp_server_operation_duration_seconds_count'),
    );
    const labels = (text: string): string =>
      `mcp_server_operation_duration_seconds_count{mcp_method_name="tools/call",mcp_protocol_version="2026-07-28"${text}}`;
    expect(Object.fromEntries(counts)).toEqual({
      [labels(',gen_ai_tool_name="Plugins.*"')]: 19,
      [labels(',gen_ai_tool_name="Plugins.*",error_type="tool_error"')]: 1,
      [labels('')]: 20,
    });
  });

  it('a scrape has gauges of sessions, readers and calls, and counters of refusals', async () => {
    await start({ maxSessions: 1 });
    const client = await app.client().initialize();
    const standalone = await client.listen();
    await standalone.opened();
    await expect(app.client().initialize()).rejects.toThrow('503');
    const series = await scrape();
    expect(series.get('mcp_server_sessions{endpoint="mcp"}')).toBe(1);
    expect(series.get('mcp_server_live_sessions{endpoint="mcp"}')).toBe(1);
    expect(series.get('mcp_server_readers{endpoint="mcp"}')).toBe(1);
    expect(series.get('mcp_server_calls_in_flight{endpoint="mcp"}')).toBe(0);
    const refusals = [...series].filter(([name]) => name.startsWith('mcp_server_refusals_total'));
    expect(refusals).toEqual([
      [expect.stringMatching(/endpoint="mcp",http_response_status_code="\d+",option="maxSessions"/), 1],
    ]);
    standalone.destroy();
  });

  it('a scrape while the session store is unavailable lacks the gauges of the store, and has those of the node', async () => {
    await start();
    expect((await scrape()).get('mcp_server_sessions{endpoint="mcp"}')).toBe(0);
    const { service } = app;
    const { counts } = service;
    service.counts = () => Promise.reject(new Error('away'));
    const series = await scrape();
    expect(series.has('mcp_server_sessions{endpoint="mcp"}')).toBe(false);
    expect(series.get('mcp_server_live_sessions{endpoint="mcp"}')).toBe(0);
    service.counts = counts;
    expect((await scrape()).get('mcp_server_sessions{endpoint="mcp"}')).toBe(0);
  });

  it('a scrape is answered within its time limit when a store never answers', async () => {
    await start();
    app.service.counts = () => new Promise(() => {});
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    try {
      const scraped = registry.metrics();
      await vi.advanceTimersByTimeAsync(1_000);
      const text = await scraped;
      expect(text).toContain('mcp_server_live_sessions{endpoint="mcp"} 0');
      expect(text).not.toContain('mcp_server_sessions{');
    } finally {
      vi.useRealTimers();
      delete (app.service as { counts?: unknown }).counts;
    }
  });

  it('a second app at the same registry does not start, and leaves the metrics of the first one alone', async () => {
    await start();
    const names = registry.getMetricsAsArray().map(({ name }) => name);
    const imports = [McpStreamableModule.forRoot({ serverInfo }), McpPrometheusModule.forRoot({ registry })];
    const failure = await startFailure('fastify', () => ({ imports }));
    expect(failure.message).toContain('McpPrometheusModule.forRoot({ registry: new Registry() })');
    expect(registry.getMetricsAsArray().map(({ name }) => name)).toEqual(names);
  });

  it('the dashboard and its documentation name exactly the metrics and labels that are there', async () => {
    await start();
    const names = registry.getMetricsAsArray().map(({ name }) => name);
    const read = (file: string) => readFileSync(new URL(`../../docs/${file}`, import.meta.url), 'utf8');
    const dashboard = JSON.parse(read('grafana-dashboard.json')) as { panels: { targets: { expr: string }[] }[] };
    const queries = dashboard.panels.flatMap(({ targets }) => targets.map(({ expr }) => expr)).join(' ');
    const used = [...queries.matchAll(/\bmcp_server_\w+/g)].map(([name]) => name.replace(/_(?:bucket|count)$/, ''));
    expect(new Set(used)).toEqual(new Set(names));
    const documented = [...read('traces-and-metrics.md').matchAll(/^\| `(mcp_server_\w+)`/gm)].map(([, name]) => name!);
    expect(documented.toSorted()).toEqual(names.toSorted());
    const known = registry
      .getMetricsAsArray()
      .flatMap((metric) => (metric as unknown as { labelNames: string[] }).labelNames);
    const grouped = [...queries.matchAll(/by \(([^)]+)\)|[{,](\w+)(?:=~|!=)/g)].flatMap(
      ([, by, one]) => by?.split(', ') ?? one!,
    );
    expect(grouped.filter((label) => ![...known, 'le', 'job'].includes(label))).toEqual([]);
  });

  it('the registry holds no metric of an app that has closed', async () => {
    await start();
    expect(registry.getMetricsAsArray().length).toBeGreaterThan(10);
    await app.close();
    expect(registry.getMetricsAsArray()).toEqual([]);
    await start();
  });
});
