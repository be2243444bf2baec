import { Injectable } from '@nestjs/common';
import { McpStreamableModule, type McpStreamableOptions, Tool } from 'nestjs-mcp-streamable';
import { McpTestAuth } from 'nestjs-mcp-streamable/testing';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { ONE_ADAPTER, TestApp, serverInfo } from '../support/app.js';
import { serverSaying } from '../support/scripted-server.js';
import { eventually } from '../support/eventually.js';

@Injectable()
class Careless {
  @Tool({ name: 'a.b' })
  a(): string {
    return 'a';
  }
  @Tool({ name: 'c', title: 'C' })
  c(): string {
    return 'c'.repeat(200_000);
  }
}

@Injectable()
class Careful {
  @Tool({ name: 'find', title: 'Find', description: 'Finds something', annotations: { readOnlyHint: true } })
  find(): string {
    return 'found';
  }
}

describe.each(ONE_ADAPTER)('the doctor in the log at start on %s', (adapter) => {
  let app: TestApp;
  afterEach(async () => {
    vi.unstubAllEnvs();
    vi.unstubAllGlobals();
    await app.close();
  });

  async function start(options: Partial<McpStreamableOptions>, provider: typeof Careless | typeof Careful = Careless) {
    const providers = options.server ? [] : [provider];
    app = await TestApp.of(adapter, { imports: [McpStreamableModule.forRoot({ serverInfo, ...options })], providers });
  }
  const warnings = () => app.log.texts('warn').filter((text) => text.includes('doctor'));

  it('the doctor in the log at start is one warning with the three worst findings, where to see all, and how to end it', async () => {
    await start({ doctor: true });
    const [text, ...others] = warnings();
    expect(others).toEqual([]);
    expect(text!.split('\n')).toEqual([
      'MCP endpoint at /mcp: the doctor has 6 findings; some clients refuse what 1 of them names.',
      expect.stringMatching(/^ {2}The tool a\.b has a name with characters.*\[name-characters\]$/),
      expect.stringMatching(/^ {2}The tool a\.b has no description\..* Also: c\. \[no-description\]$/),
      expect.stringMatching(/\[no-hints\]$/),
      '  … and those of 1 more rule.',
      '  See all with diagnose(app) of "nestjs-mcp-streamable/testing"; the option "doctor: false" ends this.',
    ]);
  });

  it('the doctor in the log at start is absent without findings, where an app tests or is in production, and without the option', async () => {
    await start({ doctor: true }, Careful);
    expect(warnings()).toEqual([]);
    for (const [env, options] of [
      ['test', {}],
      ['production', {}],
      ['development', { doctor: false }],
    ] as const) {
      await app.close();
      vi.stubEnv('NODE_ENV', env);
      await start({ ...options, devSessions: false });
      expect(warnings()).toEqual([]);
    }
  });

  it('the doctor in the log at start is there by default while an app is developed', async () => {
    vi.stubEnv('NODE_ENV', 'development');
    await start({ devSessions: false });
    expect(warnings()).toHaveLength(1);
  });

  it('the doctor in the log at start is absent for an endpoint with servers of the SDK', async () => {
    await start({ doctor: true, server: () => serverSaying(() => 'hello') });
    expect(warnings()).toEqual([]);
  });

  it('the doctor in the log at start names authorization servers without metadata, and does not wait for them', async () => {
    const fetched = vi.fn(() => Promise.reject(new Error('getaddrinfo ENOTFOUND')));
    vi.stubGlobal('fetch', fetched);
    const auth = {
      resource: 'https://shop.example.com/mcp',
      authorizationServers: ['https://login.example.com'],
      verifier: new McpTestAuth(),
    };
    await start({ doctor: true, auth }, Careful);
    await eventually(() => expect(warnings()).toHaveLength(1));
    expect(warnings()[0]).toMatch(/authorization server https:\/\/login\.example\.com,.*ENOTFOUND.*\[oauth-metadata\]/);
  });

  it('the doctor in the log at start is followed by one line for each tool whose result is larger than clients accept', async () => {
    await start({ doctor: true });
    app.log.lines.length = 0;
    const client = app.client();
    await client.initialize();
    for (let call = 0; call < 3; call++) expect((await client.call('c')).status).toBe(200);
    expect(app.log.texts('warn')).toEqual([
      expect.stringMatching(/^The tool c returned about 50000 tokens; .*"maxResultBytes".* \[large-result\]$/),
    ]);
  });
});
