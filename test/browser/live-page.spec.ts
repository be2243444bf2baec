import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { McpLiveModule } from 'nestjs-mcp-streamable/live';
import type { Page } from 'playwright-core';
import { afterEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER } from '../support/adapters.js';
import { describeChromium } from '../support/chromium.js';
import { ModernClient } from '../support/modern-client.js';
import type { RawClient } from '../support/raw-client.js';
import { LiveReader } from '../live/live-reader.js';
import { held, ShopTools } from '../live/shop.js';
import { TestApp, serverInfo } from '../support/app.js';

const HOSTILE = [
  '<script>document.title="owned"</script>',
  '"><img src=x onerror="document.title=\'owned\'">',
  '\u202eעברית ועוד\u2066',
  'W'.repeat(3_000),
  '__proto__',
];

describeChromium('the live page, in Chromium', (browser) => {
  let app: TestApp;
  let page: Page;
  /** What the page has complained about: scripts that failed, and what its policy has refused. */
  let complaints: string[];
  let clients: RawClient[] = [];
  let denied = false;
  afterEach(async () => {
    held.release();
    await page.context().close();
    await Promise.all(clients.map((client) => client.delete()));
    clients = [];
    denied = false;
    await app.close();
  });

  async function open(adapter: (typeof ONE_ADAPTER)[number] = 'fastify', look: object = {}): Promise<void> {
    app = await TestApp.of(adapter, {
      imports: [
        McpStreamableModule.forRoot({ serverInfo, maxSessions: 2_000, maxSessionsPerPrincipal: 2_000 }),
        McpLiveModule.forRoot({ guards: [{ canActivate: () => !denied }] }),
      ],
      providers: [ShopTools],
    });
    page = await (await browser().newContext(look)).newPage();
    complaints = [];
    page.on('console', (message) => complaints.push(message.text()));
    page.on('pageerror', (error) => complaints.push(String(error)));
    await page.goto(`${app.base}/mcp-live`);
    await text('#link-text', 'Live');
  }
  async function initialize(name = 'agent'): Promise<RawClient> {
    const client = app.client();
    const message = client.initializeMessage() as { params: { clientInfo: object } };
    message.params.clientInfo = { name, version: '1.0.0' };
    const response = await client.post(message);
    await response.text();
    client.sessionId = response.header('mcp-session-id');
    client.protocolVersion = '2025-11-25';
    clients.push(client);
    return client;
  }
  const text = async (selector: string, expected: string | RegExp): Promise<void> => {
    await expect.poll(() => page.locator(selector).first().textContent()).toMatch(expected);
  };
  const rows = (table: string) => page.locator(`#${table} tbody tr`);
  const count = async (table: string, expected: number): Promise<void> => {
    await expect.poll(() => rows(table).count()).toBe(expected);
  };

  describe.each(ONE_ADAPTER)('on %s', (adapter) => {
    it('sessions appear and go, and a call is seen while it runs', async () => {
      await open(adapter);
      await text('#sessions .empty', 'Connect one');
      const client = await initialize('claude-code');
      await count('sessions', 1);
      await text('#sessions tbody tr', new RegExp(`${client.sessionId!.slice(0, 6)}.*claude-code.*2025-11-25`));
      held.begin();
      const running = client.call('reindex');
      await count('calls', 1);
      await text('#calls tbody tr', /reindex.*claude-code/);
      await text('#running', '1');
      held.release();
      await (await running).text();
      await count('calls', 0);
      await text('#tools tbody tr', /reindex.*1/);
      await text('#events', /reindex/);
      await client.delete();
      await count('sessions', 0);
      expect(complaints).toEqual([]);
    });

    it('the live page ends a session and cancels a call, once the reader has said so twice', async () => {
      await open(adapter);
      const client = await initialize();
      held.begin();
      const running = new ModernClient(client.url).request('tools/call', { name: 'reindex', arguments: {} });
      await count('calls', 1);
      await rows('calls').getByRole('button').click();
      await text('#calls tbody button', 'Sure?');
      await rows('calls').getByRole('button').click();
      await text('#toast', 'The call of reindex was cancelled.');
      expect(await (await running).text()).toContain('operator');

      const end = rows('sessions').getByRole('button');
      await end.click();
      await page.keyboard.press('Escape');
      await text('#sessions tbody button', /^End$/);
      // By keyboard alone.
      await end.focus();
      await page.keyboard.press('Enter');
      await page.keyboard.press('Enter');
      await count('sessions', 0);
      await text('#toast', `Session ${client.sessionId!.slice(0, 6)} was ended.`);
      expect((await client.call('find_order')).status).toBe(404);
      expect(complaints).toEqual([]);
    });
  });

  it('the live page switches a tool off, once the reader has said so twice, and on again', async () => {
    await open();
    const client = await initialize();
    await (await client.call('find_order')).text();
    await count('tools', 4);
    await text('#tools tbody button', 'Disable');
    await rows('tools').getByRole('button', { name: 'Disable find_order' }).click();
    await text('#tools tbody button', 'Sure?');
    await rows('tools').filter({ hasText: 'find_order' }).getByRole('button').click();
    await text('#toast', 'The tool find_order was switched off.');
    await text('#tools tbody tr', /find_order.*off The operator/);
    expect(await (await client.call('find_order')).text()).toContain('is switched off');
    await text('#tools tbody button', 'Enable');
    await rows('tools').getByRole('button', { name: 'Enable find_order' }).dblclick();
    await text('#toast', 'The tool find_order was switched on.');
    expect(await (await client.call('find_order')).text()).toContain('secret result');
    expect(complaints).toEqual([]);
  });

  it('an action that a guard refuses changes nothing, and the page says so', async () => {
    await open();
    await initialize();
    await count('sessions', 1);
    denied = true;
    await rows('sessions').getByRole('button').dblclick();
    await text('#toast', 'Forbidden');
    expect(await app.service.list()).toHaveLength(1);
  });

  it('a guard that sends the reader to a login page makes the page say so', async () => {
    await open();
    await initialize();
    await count('sessions', 1);
    const login = { status: 200, contentType: 'text/html', body: '<p>Sign in</p>' };
    await page.route('**/mcp-live/**', (route) => route.fulfill(login));
    await rows('sessions').getByRole('button').dblclick();
    await text('#toast', 'Sign in again, then reload the page.');
    await page.reload();
    await text('#link-text', 'Sign in again, then reload the page.');
  });

  it('a page of another origin can neither read nor act', async () => {
    await open();
    await initialize();
    await count('sessions', 1);
    const reader = await LiveReader.open(`${app.base}/mcp-live`);
    const { key } = reader.row('sessions');
    reader.close();
    await page.goto(`${app.base.replace('127.0.0.1', 'evil.example')}/nothing`);
    const tried = await page.evaluate(
      async ([base, key]) => {
        const answers = [];
        for (const [path, init] of [
          ['/events', {}],
          [`/sessions/${key}/end`, { method: 'POST', headers: { 'mcp-live-action': '1' } }],
          [`/sessions/${key}/end`, { method: 'POST' }],
        ] as const)
          answers.push(await fetch(`${base}/mcp-live${path}`, init).then(String, String));
        return answers;
      },
      [app.base, key],
    );
    expect(tried).toEqual(Array.from({ length: 3 }, () => 'TypeError: Failed to fetch'));
    // Without CORS the browser sends it, and keeps the answer to itself.
    await page.evaluate(
      ([base, key]) =>
        fetch(`${base}/mcp-live/sessions/${key}/end`, { method: 'POST', mode: 'no-cors' }).catch(() => {}),
      [app.base, key],
    );
    expect(await app.service.list()).toHaveLength(1);
  });

  it.each([1280, 400])('hostile names do no harm, %s pixels wide', async (width) => {
    await open('fastify', { viewport: { width, height: 800 } });
    for (const name of HOSTILE) {
      const client = await initialize(name);
      await (await client.call(name)).text();
    }
    held.begin();
    const running = clients[0]!.call('reindex');
    await count('sessions', HOSTILE.length);
    await count('calls', 1);
    await text('#sessions', '<script>document.title');
    expect(await page.title()).toBe('test 1.0.0 – MCP live');
    expect(await page.locator('#sessions script, #sessions img, #events script, #events img').count()).toBe(0);
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width);
    expect(complaints).toEqual([]);
    held.release();
    await (await running).text();
  });

  it('the live page finds sessions by a filter, sorts them, holds still, and comes back when the server does', async () => {
    await open();
    for (const name of ['alpha', 'beta', 'gamma']) await initialize(name);
    await count('sessions', 3);
    await page.keyboard.press('/');
    await page.keyboard.type('BETA');
    await count('sessions', 1);
    await page.keyboard.press('Escape');
    await count('sessions', 3);
    await page.getByRole('columnheader', { name: 'Client' }).getByRole('button').click();
    await text('#sessions tbody tr', 'alpha');
    await page.keyboard.press('p');
    await text('#pause', 'Resume');
    await initialize('delta');
    // Updates go on to come: only the drawing waits.
    const reader = await LiveReader.open(`${app.base}/mcp-live`);
    await reader.until(({ first }) => first.sessions.size === 4);
    reader.close();
    expect(await rows('sessions').count()).toBe(3);
    await page.keyboard.press('p');
    await count('sessions', 4);

    // The network breaks: it says so, and comes back by itself.
    await page.context().setOffline(true);
    app.app.getHttpServer().closeAllConnections();
    await text('#link-text', 'cannot be reached');
    await page.context().setOffline(false);
    await text('#link-text', 'Live');
    await initialize('epsilon');
    await count('sessions', 5);
  });

  it.each(['light', 'dark'] as const)(
    'the live page has text that stands out from its ground, %s',
    async (colorScheme) => {
      await open('fastify', { colorScheme });
      await initialize();
      await count('sessions', 1);
      const contrasts = await page.evaluate(contrastsOf, ['--text', '--dim', '--accent', '--good', '--note', '--bad']);
      // WCAG 2.2, 1.4.3.
      for (const contrast of contrasts) expect(contrast).toBeGreaterThanOrEqual(4.5);
      expect(contrasts).toHaveLength(6);
    },
  );

  it('1,000 sessions: shows the first 50, and more when asked; draws what has changed', async () => {
    await open();
    for (let group = 0; group < 20; group++) await Promise.all(Array.from({ length: 50 }, () => initialize()));
    await text('#sessions-count', '50 of 1,000');
    await page.getByRole('button', { name: 'Show more (950)' }).click();
    await count('sessions', 150);
    await Promise.all(clients.slice(0, 100).map(async (client) => (await client.call('find_order')).text()));
    await text('#events-count', 'latest 200');
    expect(complaints).toEqual([]);
  });
});

/** In the page: the contrast of some colours with the ground of a card. */
function contrastsOf(names: string[]): number[] {
  // oxlint-disable-next-line typescript/no-explicit-any -- types of browsers are not those of this repository
  const { document, getComputedStyle } = globalThis as any;
  const luminance = (color: string): number => {
    const [red, green, blue] = color
      .match(/[\d.]+/g)!
      .slice(0, 3)
      .map((value) => Number(value) / 255)
      .map((value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4));
    return 0.2126 * red! + 0.7152 * green! + 0.0722 * blue!;
  };
  const probe = document.body.appendChild(document.createElement('i'));
  const ground = luminance(getComputedStyle(document.querySelector('.card')).backgroundColor);
  return names.map((name) => {
    probe.style.color = `var(${name})`;
    const [low, high] = [ground, luminance(getComputedStyle(probe).color)].toSorted((one, other) => one - other);
    return (high! + 0.05) / (low! + 0.05);
  });
}
