import { type CanActivate, type ExecutionContext, Injectable } from '@nestjs/common';
import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { McpLiveModule } from 'nestjs-mcp-streamable/live';
import type { Page } from 'playwright-core';
import { afterEach, describe, expect, it } from 'vitest';
import { ShopTools } from '../live/shop.js';
import { serverInfo, TestApp } from '../support/app.js';
import { describeChromium } from '../support/chromium.js';
import { WholeShop } from './live-shop.js';

const REVISIONS = ['2026-07-28', '2025-11-25'] as const;

/** Admits callers with the token `letmein`. */
@Injectable()
class TokenGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    return context.switchToHttp().getRequest().headers.authorization === 'Bearer letmein';
  }
}

/** Waits on machines that have other work to do, too. */

describeChromium('trying a tool on the live page, in Chromium', (browser) => {
  let app: TestApp;
  let page: Page;
  let complaints: string[];
  afterEach(async () => {
    await page.context().close();
    await app.close();
  });

  async function open(hash: string, endpoint: object = {}, live: object = {}): Promise<void> {
    app = await TestApp.of('fastify', {
      imports: [
        McpStreamableModule.forRoot({ serverInfo, ...endpoint }),
        McpLiveModule.forRoot({ unguarded: 'loopback', ...live }),
      ],
      providers: [WholeShop, ShopTools],
    });
    page = await (await browser().newContext()).newPage();
    complaints = [];
    page.on('console', (message) => complaints.push(message.text()));
    page.on('pageerror', (error) => complaints.push(String(error)));
    await page.goto(`${app.base}/mcp-live#${hash}`);
  }
  const output = () => page.locator('.output');
  const says = async (text: string | RegExp) => {
    await expect.poll(() => output().textContent()).toMatch(text);
  };
  const field = (name: string) => page.locator('.trial').getByLabel(name);
  const press = (name: string) => page.locator('.trial').getByRole('button', { name, exact: true }).click();
  /** Leaves the page, and with it the session of the client in it. */
  async function leave(): Promise<void> {
    await page.getByRole('button', { name: 'Close' }).click();
    await expect.poll(async () => (await app.service.list()).length).toBe(0);
    expect(complaints).toEqual([]);
  }

  describe.each(REVISIONS)('as a client of %s', (revision) => {
    const choose = () => field('Revision').selectOption(revision);

    it('the form calls the tool: progress, logs and the result come as they are sent', async () => {
      await open('tool=place_order&try');
      await choose();
      await field('customer').fill('a@example.com');
      await field('sku').fill('X-1');
      await field('count').fill('3');
      await page.getByRole('checkbox', { name: 'Give it' }).check();
      await field('method').selectOption('express');
      await press('Call');
      await says(/Answered after.*progress.*1 of 2: Reserving the articles.*log.*info.*reserved.*A-1042/s);
      await page.getByText('curl', { exact: true }).click();
      expect(await page.locator('.copies').textContent()).toContain('"method":"express"');
      await leave();
    });

    it('a question of the tool is a form, and its answer goes back', async () => {
      await open('tool=return_order&try');
      await choose();
      await field('id').fill('A-7');
      await press('Call');
      await says('Refund the order A-7?');
      await field('reason').selectOption('late');
      await field('percent').fill('50');
      await press('Accept');
      await says('A-7: 50 % refunded, because it was late');
      await press('Call');
      await press('Decline');
      await says('Nothing refunded: decline');
      await leave();
    });

    it('a question for the model is answered by hand', async () => {
      await open('tool=summarize&try');
      await choose();
      await press('Call');
      await says('Summarize the day');
      await field('Answer of the model').fill('A good day');
      await press('Answer');
      await says('A good day');
      await leave();
    });

    it('a call is cancelled', async () => {
      await open('tool=wait&try');
      await choose();
      await press('Call');
      await expect.poll(() => page.locator('#running').textContent()).toBe('1');
      await press('Cancel');
      await says('Cancelled');
      await expect.poll(() => page.locator('#running').textContent()).toBe('0');
      await leave();
    });

    it.each([
      ['resource=shop://terms', 'All sales are final.'],
      ['template=shop://orders/{id}', 'Order A-7'],
      ['prompt=apology', 'Write to Ann.'],
    ])('%s is read', async (hash, text) => {
      await open(`${hash}&try`);
      await choose();
      if (hash.startsWith('template')) await field('id').fill('A-7');
      if (hash.startsWith('prompt')) await field('customer').fill('Ann');
      await press('Call');
      await says(text);
      await leave();
    });

    it('an error says what is wrong', async () => {
      await open('tool=place_order&try');
      await choose();
      await field('customer').fill('nobody');
      await press('Call');
      await says(/tool error|Failed/);
      await says(/customer/);
      await leave();
    });

    it('guards of the endpoint decide, by the token that the reader gives', async () => {
      await open('tool=find_order&try', { guards: [TokenGuard] });
      await choose();
      await press('Call');
      await says('Failed (HTTP 403, -32000): Forbidden resource');
      expect(await output().textContent()).not.toContain('secret result');
      await field('Bearer token').fill('letmein');
      await press('Call');
      await says('secret result');
      const stored = await page.evaluate(
        'JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie])',
      );
      expect(stored).toBe('[{},{},""]');
      await page.getByText('curl', { exact: true }).click();
      expect(await page.locator('.copies').textContent()).not.toContain('letmein');
      expect(await page.locator('.copies').textContent()).toContain('$TOKEN');
      // Chromium reports the refused request.
      complaints = complaints.filter((text) => !/status of 40[13]/.test(text));
      await leave();
    });
  });

  it('images of a result are shown in their own size, an SVG without its scripts, and what is no image as JSON', async () => {
    await open('tool=draw&try');
    await press('Call');
    await says(/image\/svg\+xml, 40 × 24/);
    await expect.poll(() => output().locator('img').count()).toBe(2);
    const box = await output().locator('img').first().boundingBox();
    // With its border.
    expect(box).toMatchObject({ width: 42, height: 26 });
    await says('bm8gaW1hZ2U=');
    expect(await page.title()).not.toBe('owned');
    await leave();
  });

  it('arguments are edited as JSON, and come back into the form', async () => {
    await open('tool=place_order&try');
    await field('customer').fill('a@example.com');
    await page.getByRole('button', { name: 'Edit as JSON' }).click();
    const text = field('Arguments as JSON');
    expect(JSON.parse(await text.inputValue())).toMatchObject({ customer: 'a@example.com' });
    await text.fill('{"customer": "b@example.com", "lines": [{"sku": "1", "count": 2}, {"sku": "2", "count": 3}]}');
    await page.getByRole('button', { name: 'Edit as JSON' }).click();
    expect(await field('customer').inputValue()).toBe('b@example.com');
    expect(await field('sku').count()).toBe(2);
    await page.getByRole('button', { name: 'Edit as JSON' }).click();
    await text.fill('{"customer": ');
    await press('Call');
    await expect.poll(() => page.locator('.trial').textContent()).toContain('This is not JSON');
    expect(complaints).toEqual([]);
  });

  it('a schema that contains itself makes a form, whatever its names are', async () => {
    await open('tool=graft&try');
    await field('__proto__').fill('one');
    await field('constructor').fill('two');
    await press('Call');
    // The server takes no prototype keys; the page sends what it was told.
    await says('{"constructor":"two"}');
    expect(await page.locator('.copies').textContent()).toContain(
      '"arguments":{"__proto__":"one","constructor":"two"}',
    );
    await leave();
  });

  it('where it is off the page says how to turn it on', async () => {
    await open('tool=find_order&try', {}, { tryIt: false });
    await expect.poll(() => page.locator('.trial').textContent()).toContain('tryIt: true');
    expect(await page.locator('.trial button').count()).toBe(0);
  });
});
