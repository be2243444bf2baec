import { NestFactory } from '@nestjs/core';
import { Test } from '@nestjs/testing';
import {
  mcpServerJson,
  type McpServerJsonOptions,
  McpStreamableModule,
  type McpStreamableModuleOptions,
} from 'nestjs-mcp-streamable';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { CardModule } from '../../examples/snippets/card-app.js';

const serverInfo = {
  name: 'com.example/orders',
  version: '1.2.0',
  description: 'Finds orders',
  icons: [
    { src: 'https://example.com/orders.png', mimeType: 'image/png' },
    { src: 'data:image/png;base64,AA==', mimeType: 'image/png' },
    { src: 'https://example.com/orders.gif', mimeType: 'image/gif' },
  ],
};
const url = 'https://api.example.com/mcp';

/** What the registry demands of a document, as its schema 2025-12-11 and its documentation have it. */
const Remote = z.object({ type: z.enum(['streamable-http', 'sse']), url: z.url() });
const ServerJson = z.strictObject({
  $schema: z.literal('https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json'),
  name: z
    .string()
    .min(3)
    .max(200)
    .regex(/^[a-zA-Z0-9.-]+\/[a-zA-Z0-9._-]+$/),
  description: z.string().min(1).max(100),
  version: z.string().max(255),
  title: z.string().min(1).max(100).optional(),
  websiteUrl: z.url().optional(),
  repository: z
    .strictObject({ url: z.url(), source: z.string(), subfolder: z.string().optional(), id: z.string().optional() })
    .optional(),
  icons: z
    .array(
      z.strictObject({
        src: z.url({ protocol: /^https$/ }).max(255),
        mimeType: z.enum(['image/png', 'image/jpeg', 'image/jpg', 'image/svg+xml', 'image/webp']).optional(),
        sizes: z.array(z.string().regex(/^(\d+x\d+|any)$/)).optional(),
        theme: z.enum(['light', 'dark']).optional(),
      }),
    )
    .optional(),
  packages: z
    .array(
      z.looseObject({
        registryType: z.string(),
        identifier: z.string(),
        version: z.string().min(1).optional(),
        transport: z.union([z.strictObject({ type: z.literal('stdio') }), Remote]),
      }),
    )
    .optional(),
  remotes: z.array(Remote).optional(),
});

/** Makes the document of an app that was never started, and checks it. */
async function documentOf(
  endpoints: readonly Partial<McpStreamableModuleOptions>[],
  options?: McpServerJsonOptions,
): Promise<Record<string, unknown>> {
  const imports = endpoints.map((given) => McpStreamableModule.forRoot({ serverInfo, ...given }));
  const testing = await Test.createTestingModule({ imports }).compile();
  try {
    const document = mcpServerJson(testing, options);
    ServerJson.parse(document);
    return document;
  } finally {
    await testing.close();
  }
}

describe('mcpServerJson()', () => {
  it('N3: mcpServerJson() makes the document of a remote server from the options of its card', async () => {
    const repository = { url: 'https://github.com/example/orders', source: 'github' };
    expect(await documentOf([{ serverCard: { url, repository } }])).toEqual({
      $schema: 'https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json',
      name: 'com.example/orders',
      version: '1.2.0',
      description: 'Finds orders',
      repository,
      // The registry takes no others.
      icons: [serverInfo.icons[0]],
      remotes: [{ type: 'streamable-http', url }],
    });
  });

  it('N3: mcpServerJson() takes the URL of "auth", and needs no card', async () => {
    const auth = { resource: url, authorizationServers: ['https://idp.example.com'] };
    const document = await documentOf([{ auth }]);
    expect(document['remotes']).toEqual([{ type: 'streamable-http', url }]);
    expect(JSON.stringify(document)).not.toContain('idp');
  });

  it('N3: a package is run over stdio, in the version of the server, unless it says otherwise', async () => {
    const options = {
      name: 'io.github.me/orders',
      packages: [
        {
          registryType: 'npm',
          identifier: '@example/orders',
          environmentVariables: [{ name: 'TOKEN', isSecret: true }],
        },
        { registryType: 'oci', identifier: 'ghcr.io/example/orders:1.2.0' },
        {
          registryType: 'pypi',
          identifier: 'orders',
          version: '2.0.0',
          transport: { type: 'sse' as const, url: 'http://localhost:8000' },
        },
      ],
    };
    const { name, packages, remotes } = await documentOf(
      [{ serverCard: { url: 'http://localhost:3000/mcp' } }],
      options,
    );
    expect(name).toBe('io.github.me/orders');
    expect(packages).toEqual([
      { version: '1.2.0', ...options.packages[0], transport: { type: 'stdio' } },
      { ...options.packages[1], transport: { type: 'stdio' } },
      options.packages[2],
    ]);
    // Nobody else reaches this machine.
    expect(remotes).toBeUndefined();
  });

  it('N3: the script of docs/extensions.md makes it of an app without HTTP', async () => {
    const app = await NestFactory.createApplicationContext(CardModule, { logger: false });
    const document = mcpServerJson(app, { packages: [{ registryType: 'npm', identifier: '@example/orders' }] });
    await app.close();
    expect(ServerJson.parse(document)).toMatchObject({
      name: 'com.example/orders',
      remotes: [{ url }],
      packages: [{}],
    });
  });

  it('N3: mcpServerJson() is of the endpoint that is named', async () => {
    const endpoints = ['a', 'b'].map((name) => ({
      name,
      path: name,
      serverInfo: { ...serverInfo, name: `com.example/${name}` },
      serverCard: { url: `https://api.example.com/${name}` },
    }));
    expect((await documentOf(endpoints, { endpoint: 'b' }))['name']).toBe('com.example/b');
    await expect(documentOf(endpoints)).rejects.toThrow(
      /several endpoints, all with names\. Give "endpoint", one of: "a", "b"/,
    );
    await expect(documentOf(endpoints, { endpoint: 'c' })).rejects.toThrow(/no endpoint "c"/);
    await expect(documentOf([])).rejects.toThrow(/no McpStreamableModule/);
  });

  it.each<[string, unknown, RegExp]>([
    ['neither URL nor package', {}, /needs "url".*or "packages"/],
    ['a plain name', { url, name: 'orders' }, /"serverCard\.name" is needed/],
    ['a range', { url, packages: [{ registryType: 'npm', identifier: 'x', version: '^1.0.0' }] }, /"packages" must be/],
    ['the newest', { packages: [{ registryType: 'npm', identifier: 'x', version: 'latest' }] }, /"packages" must be/],
    ['a package without a name', { packages: [{ registryType: 'npm' }] }, /"packages" must be/],
    [
      'an unknown transport',
      { packages: [{ registryType: 'npm', identifier: 'x', transport: { type: 'ws' } }] },
      /"packages" must be/,
    ],
    ['an unknown option', { url, package: [] }, /no option "package".*"packages"/],
  ])('N3: mcpServerJson() is refused with %s', async (_, options, message) => {
    await expect(documentOf([{}], options as McpServerJsonOptions)).rejects.toThrow(message);
  });
});
