import { Injectable } from '@nestjs/common';
import { AppView, mcpCors, McpStreamableModule, Tool } from 'nestjs-mcp-streamable';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import type { FrameLocator, Page } from 'playwright-core';
import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { SalesTools } from '../../examples/apps/sales.tools.js';
import { ONE_ADAPTER } from '../support/adapters.js';
import { bundleForPage } from '../support/bundle.js';
import { describeChromium } from '../support/chromium.js';
import { TestApp, serverInfo } from '../support/app.js';

/** Says whether it reached two origins, one of which it declares. */
const PROBE = `<!doctype html><p id="reached"></p><script>
  const reach = (url) => fetch(url, { mode: 'no-cors' }).then(() => 'yes', () => 'no');
  const port = new URLSearchParams(location.search).get('port');
  Promise.all(['http://declared.example:', 'http://other.example:'].map((origin) => reach(origin + port))).then((all) => {
    document.getElementById('reached').textContent = all.join(', ');
  });
  parent.postMessage({ jsonrpc: '2.0', id: 1, method: 'ui/initialize', params: {
    protocolVersion: '2026-01-26', appInfo: { name: 'probe', version: '1.0.0' }, appCapabilities: {} } }, '*');
  parent.postMessage({ jsonrpc: '2.0', method: 'ui/notifications/initialized', params: {} }, '*');
</script>`;

@Injectable()
class ProbeTools {
  @AppView({ uri: 'ui://probe', csp: { connectDomains: ['http://declared.example:*'] } })
  view(): string {
    return PROBE;
  }
  @Tool({ name: 'probe', ui: 'ui://probe' })
  probe(): string {
    return 'probed';
  }
}

describeChromium('a view of MCP Apps, in Chromium', (browser) => {
  let host: string;
  beforeAll(async () => void (host = await bundleForPage('test/browser/apps.page.ts')), 60_000);

  describe.each(ONE_ADAPTER)('on %s', (adapter) => {
    let app: TestApp;
    let site: Server;
    let page: Page;
    let port: number;

    beforeEach(async () => {
      site = siteOf(host).listen(0, '127.0.0.1');
      await once(site, 'listening');
      ({ port } = site.address() as AddressInfo);
      const origin = `http://host.example:${port}`;
      const endpoint = McpStreamableModule.forRoot({
        serverInfo,
        allowedHosts: ['mcp.example'],
        allowedOrigins: [origin],
      });
      app = await TestApp.of(adapter, { imports: [endpoint], providers: [SalesTools, ProbeTools] }, (nest) =>
        nest.enableCors({ origin: [origin], ...mcpCors() }),
      );
      page = await (await browser().newContext({ viewport: { width: 460, height: 300 } })).newPage();
      await page.goto(origin);
    });
    afterEach(async () => {
      await page.context().close();
      site.close();
      site.closeAllConnections();
      await app.close();
    });

    /** By a host that stands on the package of the extension. @returns the frame, and what the host was told */
    async function show(name: string, args: object): Promise<{ view: FrameLocator; height: number | undefined }> {
      const endpoint = app.client().url.replace('127.0.0.1', 'mcp.example');
      const height = await page.evaluate(
        async ([endpoint, sandbox, name, args]) => {
          const { show } = globalThis as never as { show: (...args: unknown[]) => Promise<{ size: Promise<number> }> };
          const { size } = await show(endpoint, sandbox, name, args);
          return name === 'probe' ? undefined : size;
        },
        [endpoint, `http://host.example:${port}/view`, name, args] as const,
      );
      return { view: page.frameLocator('iframe'), height };
    }

    it('a view of MCP Apps gets the result of its tool and draws it, and calls the tool through its host', async () => {
      const { view, height } = await show('show_sales', { year: 2026 });
      expect(await view.locator('h1').textContent()).toBe('Sales of 2026');
      expect(height).toBeGreaterThan(180);
      const bars = async () =>
        Promise.all((await view.locator('rect').all()).map(async (bar) => Number(await bar.getAttribute('height'))));
      expect(await bars()).toEqual([30, 34, 28, 45, 52, 61].map((sold) => Math.round((sold / 61) * 140)));
      const picture = await page.screenshot({ path: process.env['SCREENSHOT'] });
      expect(picture.length).toBeGreaterThan(1_000);

      await view.locator('#previous').click();
      await view.getByText('Sales of 2025').waitFor();
      expect(await bars()).toEqual([21, 25, 19, 32, 38, 35].map((sold) => Math.round((sold / 38) * 140)));
      await view.locator('#previous').click();
      await view.getByText('There are no sales of 2024. Ask for 2025 or 2026.').waitFor();
    });

    it('a view of MCP Apps reaches the origins that it declares, and no others', async () => {
      const { view } = await show('probe', {});
      await view.getByText(/yes|no/).waitFor();
      expect(await view.locator('#reached').textContent()).toBe('yes, no');
    });
  });
});

/** The page of a host, and its sandbox: documents at an origin of their own, each behind the policy that follows from its declaration. */
function siteOf(script: string): Server {
  const documents: { html: string; csp: Record<string, string[]> }[] = [];
  return createServer((request, response) => {
    void (async () => {
      const { port } = request.socket.address() as AddressInfo;
      if (request.method === 'PUT') {
        documents.push(JSON.parse(await text(request)));
        return response.end(`http://sandbox.example:${port}/${documents.length - 1}?port=${port}`);
      }
      response.setHeader('content-type', 'text/html; charset=utf-8');
      if (request.headers.host?.startsWith('host.example')) {
        return response.end(
          `<!doctype html><title>Host</title><script>${script.replaceAll('</script', '<\\/script')}</script>`,
        );
      }
      const document = documents[Number.parseInt(request.url!.slice(1), 10)];
      if (!document) return response.end();
      return response.setHeader('content-security-policy', policyOf(document.csp)).end(document.html);
    })();
  });
}

/** @see https://github.com/modelcontextprotocol/ext-apps/blob/main/specification/2026-01-26/apps.mdx */
function policyOf({ connectDomains = [], resourceDomains = [], frameDomains = [], baseUriDomains = [] }): string {
  const or = (sources: string[], otherwise: string): string => (sources.length > 0 ? sources.join(' ') : otherwise);
  const resources = resourceDomains.join(' ');
  return [
    "default-src 'none'",
    `script-src 'self' 'unsafe-inline' ${resources}`,
    `style-src 'self' 'unsafe-inline' ${resources}`,
    `img-src 'self' data: ${resources}`,
    `connect-src ${or(connectDomains, "'none'")}`,
    `frame-src ${or(frameDomains, "'none'")}`,
    `base-uri ${or(baseUriDomains, "'self'")}`,
  ].join('; ');
}
