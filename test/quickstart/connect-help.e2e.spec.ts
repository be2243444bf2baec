import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { connectHelp, curlLines } from '../../examples/quickstart/connect-help.js';
import { QuickstartApp } from './quickstart-app.js';
import { loneFetch } from '../support/ways.js';

const run = promisify(execFile);
const hasCurl = await run('sh', ['-c', 'curl --version']).then(
  () => true,
  () => false,
);

describe('what the quickstart prints', () => {
  let app: QuickstartApp;

  beforeEach(async () => {
    app = await QuickstartApp.start('express');
  });
  afterEach(async () => {
    await app.expectNothingLeft();
    await app.close();
  });

  it.runIf(hasCurl)(
    'what the quickstart prints has curl lines that begin a session, call a tool with progress, and end the session',
    async () => {
      const script = curlLines(app.url.href).replace('"query":"session"', '"query":"needle"');
      const { stdout } = await run('sh', ['-euc', script]);
      const messages = stdout
        .split('\n')
        .flatMap((line) => (line.startsWith('data: {') ? [JSON.parse(line.slice(6))] : []));
      expect(messages.map(({ params }) => params?.progress)).toEqual([1, 2, 3, undefined]);
      expect(messages.at(-1)).toMatchObject({
        id: 2,
        result: { content: [{ text: expect.stringContaining('README.md:3') }] },
      });
    },
  );

  it('what the quickstart prints has the address of the live page', async () => {
    const [page] = /http\S+mcp-live/.exec(connectHelp(app.url.href))!;
    const response = await loneFetch(page);
    expect(await response.text()).toContain('<title>MCP live</title>');
  });

  it('what the quickstart prints has JSON that is JSON', () => {
    const blocks = connectHelp('http://127.0.0.1:3000/mcp').match(/^\{$[^]*?^\}$/gm)!;
    expect(blocks.map((block) => Object.keys(JSON.parse(block)))).toEqual([
      ['mcpServers'],
      ['servers'],
      ['mcpServers'],
    ]);
  });
});
