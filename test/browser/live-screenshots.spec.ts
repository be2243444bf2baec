import { mkdirSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Injectable } from '@nestjs/common';
import { McpStreamableModule, Tool } from 'nestjs-mcp-streamable';
import { McpLiveModule } from 'nestjs-mcp-streamable/live';
import type { Browser, Page } from 'playwright-core';
import { it } from 'vitest';
import { describeChromium } from '../support/chromium.js';
import { ModernClient } from '../support/modern-client.js';
import type { RawClient } from '../support/raw-client.js';
import { held, ShopTools } from '../live/shop.js';
import { WholeShop } from './live-shop.js';
import { TestApp } from '../support/app.js';

const CLIENTS = [
  ['claude-code', '2.1.4', 'anna@example.com'],
  ['cursor-vscode', '1.9.0', 'ben@example.com'],
  ['Visual Studio Code', '1.131.0', 'chris@example.com'],
  ['order-agent', '3.4.1', 'svc-orders'],
  ['order-agent', '3.4.1', 'svc-orders'],
  ['support-bot', '0.8.2', 'svc-support'],
  ['nightly-report', '1.0.0', 'svc-reports'],
] as const;

/** Tools that are called often, beside those that tests have. */
@Injectable()
class Warehouse {
  @Tool({ name: 'stock_level', description: 'Counts an article in all warehouses' })
  stock(): string {
    return '7';
  }

  @Tool({ name: 'track_parcel', description: 'Asks the courier where a parcel is' })
  async track(): Promise<string> {
    await delay(40 + 200 * Math.random() ** 4);
    return 'Hamburg';
  }
}

/** `SCREENSHOTS=65 npx vitest run test/browser/live-screenshots.spec.ts` makes the pictures of docs/live-page.md, after so many seconds. */
describeChromium('pictures of the live page', (browser) => {
  it.runIf(process.env['SCREENSHOTS'])(
    'screenshots of the live page are taken: light, dark, and on a phone',
    async () => {
      held.begin();
      const app = await TestApp.of('express', {
        imports: [
          McpStreamableModule.forRoot({
            serverInfo: { name: 'shop', version: '2.3.0' },
            principal: (request) => (request as { headers: Record<string, string> }).headers['x-user'],
          }),
          McpLiveModule.forRoot({ unguarded: 'loopback', payloads: true }),
        ],
        providers: [ShopTools, WholeShop, Warehouse],
      });
      const clients = await Promise.all(CLIENTS.map((client) => begun(app, client)));
      const modern = new ModernClient(app.client().url, { 'x-user': 'svc-pricing' });
      const streams = await Promise.all(clients.slice(0, 4).map((client) => client.listen()));
      const waiting = [clients[0]!.call('reindex'), clients[3]!.call('reindex')];
      const traffic = new AbortController();
      const busy = busily(clients, modern, app, traffic.signal);
      await delay(Number(process.env['SCREENSHOTS']) * 1_000);
      const folder = fileURLToPath(new URL('../../docs/images/', import.meta.url));
      mkdirSync(folder, { recursive: true });
      for (const [name, scheme, width, height, hash] of [
        ['live-light', 'light', 1440, 780, ''],
        ['live-dark', 'dark', 1440, 780, ''],
        ['live-phone-light', 'light', 400, 860, ''],
        ['live-phone-dark', 'dark', 400, 860, ''],
        ['live-tool-light', 'light', 1280, 800, '#tool=place_order'],
        ['live-tool-dark', 'dark', 1280, 800, '#tool=place_order'],
        ['live-try-light', 'light', 1280, 960, '#tool=place_order&try'],
        ['live-try-dark', 'dark', 1280, 960, '#tool=place_order&try'],
      ] as const) {
        await shoot(browser(), app, `${folder}${name}.png`, { scheme, width, height, hash });
      }
      traffic.abort();
      await busy;
      held.release();
      await Promise.all(waiting);
      await Promise.all(clients.map((client) => client.delete()));
      await Promise.all(streams.map((stream) => stream.end()));
      await app.close();
    },
    180_000,
  );
});

/** Calls until it is over: between calm and busy, as days are. */
async function busily(clients: RawClient[], modern: ModernClient, app: TestApp, over: AbortSignal): Promise<void> {
  for (let turn = 0; !over.aborted; turn++) {
    const much = 3 + 2.5 * Math.sin(turn / 60) + 1.5 * Math.sin(turn / 13);
    const calls = Array.from({ length: Math.max(1, Math.round(much * (0.5 + Math.random()))) }, (_, index) => {
      const client = clients[(turn * 3 + index) % (clients.length - 1)]!;
      const uri = 'shop://catalog';
      const chance = Math.random();
      if (chance < 0.03) return client.call('refund');
      if (chance < 0.1)
        return client.post({ jsonrpc: '2.0', id: client.nextId(), method: 'resources/read', params: { uri } });
      if (chance < 0.25) return modern.ask('tools/call', { name: 'price_quote', arguments: {} });
      return client.call(called(chance), { id: 'A-7' });
    });
    await Promise.all(calls);
    if (turn % 30 === 0) {
      const params = { level: 'info', data: `Prices changed: ${'x'.repeat(turn)}` };
      await app.service.notify(({ clientInfo }) => clientInfo.name.length < 13, {
        method: 'notifications/message',
        params,
      });
    }
    await delay(100);
  }
}

function called(chance: number): string {
  if (chance < 0.5) return 'price_quote';
  if (chance < 0.75) return 'find_order';
  return chance < 0.92 ? 'stock_level' : 'track_parcel';
}

async function begun(app: TestApp, [name, version, user]: readonly [string, string, string]): Promise<RawClient> {
  const client = app.clientAt('mcp', { 'x-user': user });
  const message = client.initializeMessage() as { params: { clientInfo: object } };
  message.params.clientInfo = { name, version };
  const response = await client.post(message);
  client.sessionId = response.header('mcp-session-id');
  client.protocolVersion = '2025-11-25';
  await response.text();
  await client.notify('notifications/initialized');
  return client;
}

interface Shot {
  readonly scheme: 'light' | 'dark';
  readonly width: number;
  readonly height: number;
  /** What is open. */
  readonly hash: string;
}

async function tryIt(page: Page): Promise<void> {
  const form = page.locator('.trial');
  await form.getByLabel('customer').fill('anna@example.com');
  await form.getByLabel('sku').fill('TEA-250');
  await form.getByLabel('count').fill('2');
  await form.getByRole('button', { name: 'Call' }).click();
  await page.getByText('Answered after').waitFor();
  await page.getByText('Whole result').scrollIntoViewIfNeeded();
}

async function shoot(
  browser: Browser,
  app: TestApp,
  path: string,
  { scheme, width, height, hash }: Shot,
): Promise<void> {
  const context = await browser.newContext({
    colorScheme: scheme,
    viewport: { width, height },
    reducedMotion: 'reduce',
  });
  const page = await context.newPage();
  page.on('console', (message) => process.stderr.write(`console: ${message.text()}\n`));
  page.on('pageerror', (error) => process.stderr.write(`error: ${String(error)}\n`));
  await page.goto(`${app.base}/mcp-live${hash}`);
  await page.waitForSelector('#sessions tbody tr');
  await page.waitForSelector('#parts li[data-state="up"]');
  if (hash.endsWith('try')) await tryIt(page);
  await page.waitForTimeout(1_200);
  if (process.env['FULL']) await page.screenshot({ path: path.replace('.png', '-full.png'), fullPage: true });
  await page.screenshot({ path });
  await context.close();
}
