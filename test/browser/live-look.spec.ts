import { Injectable } from '@nestjs/common';
import { McpHandlers, McpStreamableModule, Tool } from 'nestjs-mcp-streamable';
import { McpLiveModule } from 'nestjs-mcp-streamable/live';
import type { Page } from 'playwright-core';
import { afterEach, expect, it } from 'vitest';
import { ShopTools } from '../live/shop.js';
import { serverInfo, TestApp } from '../support/app.js';
import { describeChromium } from '../support/chromium.js';
import { ModernClient } from '../support/modern-client.js';
import { WholeShop } from './live-shop.js';

@Injectable()
@McpHandlers({ endpoint: 'second' })
class BackOffice {
  @Tool({ name: 'count_stock', annotations: { readOnlyHint: true } })
  count(): string {
    return '42 in stock';
  }
}

const HOSTILE = '"><img src=x onerror="document.title=\'owned\'">\u202eעברית';
const LONG = 'find_all_orders_of_a_customer_that_were_placed_in_a_warehouse_by_region_and_season';

/** Waits on machines that have other work to do, too. */

describeChromium('looking closer on the live page, in Chromium', (browser) => {
  let app: TestApp;
  let page: Page;
  let complaints: string[];
  afterEach(async () => {
    await page.context().close();
    await app.close();
  });

  async function open(hash = '', look: object = {}, live: object = {}): Promise<void> {
    app = await TestApp.of('fastify', {
      imports: [
        McpStreamableModule.forRoot({ serverInfo }),
        McpLiveModule.forRoot({ unguarded: 'loopback', payloads: true, ...live }),
      ],
      providers: [WholeShop, ShopTools],
    });
    await visit(hash, look);
  }
  async function visit(hash: string, look: object): Promise<void> {
    page = await (await browser().newContext(look)).newPage();
    complaints = [];
    page.on('console', (message) => complaints.push(message.text()));
    page.on('pageerror', (error) => complaints.push(String(error)));
    await page.goto(`${app.base}/mcp-live${hash}`);
  }
  const panel = () => page.getByRole('dialog');
  const shows = async (text: string | RegExp) => {
    await expect.poll(() => panel().textContent()).toMatch(text);
  };
  const callOrder = () => {
    const args = { customer: HOSTILE, lines: [{ sku: HOSTILE, count: 1 }] };
    return new ModernClient(app.client().url).ask('tools/call', { name: 'place_order', arguments: args });
  };

  it('a tool opens with its schema, its guards and the advice of the doctor, by a link that can be shared', async () => {
    await open();
    await page.getByRole('link', { name: 'place_order' }).click();
    await shows(/place_order.*Who gets the invoice.*sku.*at most 99.*StaffOnly.*tokens/s);
    expect(new URL(page.url()).hash).toBe('#tool=place_order');
    await page.reload();
    await shows('Who gets the invoice');
    await page.goto(`${app.base}/mcp-live#tool=fail`);
    await shows(/Advice.*It has no description.*shop:write/s);
    expect(complaints).toEqual([]);
  });

  it('Back closes and opens again, and everything works by keyboard', async () => {
    await open();
    const link = page.getByRole('link', { name: 'place_order' });
    await link.focus();
    await page.keyboard.press('Enter');
    await expect.poll(() => panel().isVisible()).toBe(true);
    expect(await page.evaluate('document.activeElement.id')).toBe('panel-title');
    await page.keyboard.press('Escape');
    await expect.poll(() => panel().isVisible()).toBe(false);
    expect(await page.evaluate('document.activeElement.textContent')).toBe('place_order');
    await page.goBack();
    await expect.poll(() => panel().isVisible()).toBe(true);
    await page.goBack();
    await expect.poll(() => panel().isVisible()).toBe(false);
  });

  it('an event opens its call: stages, progress, arguments and result', async () => {
    await open();
    await page.getByRole('link', { name: 'place_order' }).waitFor();
    const { result } = await new ModernClient(app.client().url).ask(
      'tools/call',
      {
        name: 'place_order',
        arguments: { customer: 'a@b.de', lines: [{ sku: 'x', count: 2 }], token: 'hidden value' },
      },
      { progressToken: 1 },
    );
    expect(result).toMatchObject({ structuredContent: { lines: 1 } });
    await page.locator('#events').getByRole('link', { name: 'place_order' }).click();
    await shows(/answered.*guards and arguments.*handler.*Reserving the articles.*\[redacted\].*A-1042/s);
    expect(await panel().textContent()).not.toContain('hidden value');
  });

  it('a session opens, and says that it has ended when it has', async () => {
    await open();
    const client = app.client();
    await client.initialize('2025-11-25', { elicitation: {}, roots: { listChanged: true } });
    await page.locator('#sessions tbody a').click();
    await shows(/anonymous.*2025-11-25.*Capabilities of the client.*listChanged.*Streams/s);
    await client.delete();
    await shows('This session has ended');
  });

  it('a link leads to the endpoint that it names', async () => {
    app = await TestApp.of('fastify', {
      imports: [
        McpStreamableModule.forRoot({ serverInfo: { name: 'first', version: '1' }, name: 'first', path: 'first' }),
        McpStreamableModule.forRoot({ serverInfo: { name: 'second', version: '1' }, name: 'second', path: 'second' }),
        McpLiveModule.forRoot({ unguarded: 'loopback' }),
      ],
      providers: [BackOffice],
    });
    await visit('#tool=count_stock&endpoint=1&try', {});
    await expect.poll(() => page.locator('#server').textContent()).toBe('second 1');
    await panel().getByRole('button', { name: 'Call' }).click();
    await shows('42 in stock');
    await page.getByRole('button', { name: 'Close' }).click();
    await page.getByRole('table', { name: 'Tools' }).getByRole('link', { name: 'count_stock' }).click();
    expect(new URL(page.url()).hash).toBe('#tool=count_stock&endpoint=1');
  });

  it('what is unknown says so', async () => {
    await open('#tool=nothing');
    await shows('Not found');
    await page.goto(`${app.base}/mcp-live#session=nothing`);
    await shows('This session has ended, or is not known to this node');
  });

  it.each([1280, 400])('hostile texts in what is opened do no harm, %s pixels wide', async (width) => {
    await open('', { viewport: { width, height: 800 } });
    await page.getByRole('link', { name: 'place_order' }).waitFor();
    await callOrder();
    await page.locator('#events').getByRole('link', { name: 'place_order' }).click();
    await shows('<img src=x');
    expect(await page.title()).toBe('test 1.0.0 – MCP live');
    expect(await page.locator('#panel img, #panel script').count()).toBe(0);
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width);
    expect(
      await page.evaluate(
        'document.getElementById("panel-body").scrollWidth <= document.getElementById("panel-body").clientWidth',
      ),
    ).toBe(true);
    expect(complaints).toEqual([]);
  });

  it.each([
    ['light', ''],
    ['dark', ''],
    ['light', '#tool=place_order'],
    ['dark', '#tool=place_order'],
    ['light', '#tool=place_order&try'],
    ['dark', '#tool=place_order&try'],
  ])('each text stands out from its ground, %s%s', async (colorScheme, hash) => {
    await open(hash, { colorScheme, reducedMotion: 'reduce' });
    await page.getByText('place_order').first().waitFor();
    await callOrder();
    await (await app.client().call('nothing')).text();
    await expect.poll(() => page.locator('#events tbody tr').count()).toBeGreaterThan(0);
    if (hash.endsWith('try')) await panel().getByRole('button', { name: 'Call' }).waitFor();
    const faint = await page.evaluate(faintTexts);
    // WCAG 2.2, 1.4.3.
    expect(faint).toEqual([]);
    expect(await page.evaluate('document.getAnimations().length')).toBe(0);
  });

  it('each field and button has a name, and each group a heading', async () => {
    await open('#tool=place_order&try');
    await panel().getByRole('checkbox', { name: 'Give it' }).check();
    const nameless = await page.evaluate(namelessFields);
    expect(nameless).toEqual([]);
  });

  it.each([1280, 400])(
    '1,000 tools and 10,000 sessions are there, and no name is cut, %s pixels wide',
    async (width) => {
      await open();
      await page.context().close();
      page = await (await browser().newContext({ viewport: { width, height: 800 } })).newPage();
      await page.route('**/mcp-live/events*', (route) =>
        route.fulfill({ contentType: 'text/event-stream', body: `data: ${JSON.stringify(crowd())}\n\n` }),
      );
      await page.goto(`${app.base}/mcp-live`);
      await expect.poll(() => page.locator('#tools-count').textContent()).toBe('40 of 1,000');
      expect(await page.locator('#sessions-count').textContent()).toBe('50 of 10,000');
      expect(await page.locator('#methods tbody tr').count()).toBe(1);
      expect(await page.evaluate(cutTexts)).toEqual([]);
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width);
      await page.getByLabel('Filter').fill(`${LONG}_777`);
      await expect.poll(() => page.locator('#tools tbody tr').count()).toBe(1);
      await page.getByLabel('Filter').fill('client 9999');
      await expect.poll(() => page.locator('#sessions tbody tr').count()).toBe(1);
    },
  );
});

/** A snapshot of a busy server. */
function crowd(): object {
  const tool = (index: number) => ({
    key: `tool ${LONG}_${index}`,
    name: `${LONG}_${index}`,
    kind: 'tool',
    about: 'Finds all orders of a customer, with their lines and what was paid for each of them',
    calls: index,
    errors: index % 7,
    p50: 1234,
    p95: 98_765,
    spark: [1, 2, 3],
    id: `id${index}`,
    off: index === 999 ? 'The warehouse is closed until the inventory is done' : null,
  });
  const session = (index: number) => ({
    key: `key${index}`,
    id: 'abcdef',
    client: `client ${index}`,
    version: '10.20.30-beta.4',
    principal: `somebody.with.a.long.name.${index}@subsidiary.example.com`,
    revision: '2025-11-25',
    here: true,
    since: index,
    seen: index,
    calls: 100,
    streams: 10,
    readers: 10,
    log: 123_456_789,
  });
  const list = <T>(count: number, make: (index: number) => T): T[] =>
    Array.from({ length: count }, (_, index) => make(index));
  const method = { ...tool(0), key: 'method tools/list', name: 'tools/list', kind: 'method', id: null, off: null };
  const facts = {
    name: 'mcp',
    path: '/mcp',
    server: 'a server with a name that is longer than most 1.0.0',
    node: 'abcdefghij',
    nodes: ['abcdefghij'],
    live: 10_000,
    calls: 0,
    questions: 0,
    streams: 0,
    readers: 0,
    listens: 0,
    tasks: 0,
    sessions: 10_000,
    shared: false,
    logged: 1e9,
    draining: false,
    sessionStore: 'up',
    eventStore: 'up',
    messageBus: 'up',
    rate: list(60, () => 1000),
    failures: list(60, () => 10),
  };
  const refused = 'request refused: tools/call find_all_orders_of_a_customer';
  const events = list(200, (n) => ({
    n,
    at: Date.now(),
    endpoint: 0,
    tone: 'bad',
    what: refused,
    outcome: '403 · FORBIDDEN_ORIGIN · allowedOrigins',
    who: 'abcdef · somebody.with.a.long.name@subsidiary.example.com',
    ms: 123.4,
  }));
  const tables = {
    tools: { set: [...list(1_000, tool), method] },
    sessions: { set: list(10_000, session) },
    calls: { set: [] },
    offers: { set: [] },
  };
  return { type: 'snapshot', at: Date.now(), endpoints: [{ facts, tables }], events };
}

/* In the page; types of browsers are not those of this repository. */

function cutTexts(): string[] {
  // oxlint-disable-next-line typescript/no-explicit-any -- see above
  const { document, getComputedStyle } = globalThis as any;
  return [...document.querySelectorAll('td, td *, h1, h2, .note, .parts span, button')]
    .filter((node) => node.clientWidth > 0 && getComputedStyle(node).overflow !== 'visible')
    .filter((node) => !node.closest('svg, .hidden') && node.scrollWidth > node.clientWidth + 1)
    .map((node) => node.textContent);
}

function namelessFields(): string[] {
  // oxlint-disable-next-line typescript/no-explicit-any -- see above
  const { document } = globalThis as any;
  return [...document.querySelectorAll('input, select, textarea, button, a')]
    .filter((node) => node.checkVisibility())
    .filter((node) => {
      const labels = [...(node.labels ?? [])].map((label) => label.textContent).join('');
      return `${labels}${node.textContent}${node.getAttribute('aria-label') ?? ''}`.trim() === '';
    })
    .map((node) => node.outerHTML);
}

/** Returns the texts with a contrast below 4.5 to 1. */
function faintTexts(): string[] {
  // oxlint-disable-next-line typescript/no-explicit-any -- see above
  const { document, getComputedStyle, NodeFilter } = globalThis as any;
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
  const rgba = (color: string): number[] => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = canvas.getImageData(0, 0, 1, 1).data;
    return [red, green, blue, alpha / 255];
  };
  const over = (top: number[], ground: number[]): number[] =>
    [0, 1, 2].map((index) => top[index]! * top[3]! + ground[index]! * (1 - top[3]!));
  const luminance = (color: number[]): number => {
    const [red, green, blue] = color
      .map((value) => value / 255)
      .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red! + 0.7152 * green! + 0.0722 * blue!;
  };
  // oxlint-disable-next-line typescript/no-explicit-any -- see above
  const groundOf = (node: any): number[] => {
    if (!node) return [255, 255, 255, 1];
    const own = rgba(getComputedStyle(node).backgroundColor);
    return own[3] === 1 ? own : [...over(own, groundOf(node.parentElement)), 1];
  };
  const found: string[] = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const { textContent, parentElement: node } = walker.currentNode;
    if (
      textContent.trim() === '' ||
      !node.checkVisibility({ opacityProperty: true }) ||
      node.closest('script, style, .hidden, :disabled')
    )
      continue;
    const ground = groundOf(node);
    const [low, high] = [luminance(ground), luminance(over(rgba(getComputedStyle(node).color), ground))].toSorted(
      (one, other) => one - other,
    );
    if ((high! + 0.05) / (low! + 0.05) < 4.5) found.push(textContent);
  }
  return found;
}
