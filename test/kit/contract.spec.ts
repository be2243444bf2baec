import 'reflect-metadata';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { type INestApplication, Injectable, type Type } from '@nestjs/common';
import { Test } from '@nestjs/testing';
import {
  ListResources,
  McpArgs,
  McpStreamableModule,
  type McpStreamableOptions,
  Prompt,
  Resource,
  ResourceTemplate,
  Tool,
} from 'nestjs-mcp-streamable';
import { RequireScopes } from 'nestjs-mcp-streamable/auth';
import { McpServer } from 'nestjs-mcp-streamable/server';
import { expectContract, expectNothingLeft, McpTestAuth, mintTestToken } from 'nestjs-mcp-streamable/testing';
import { afterEach, beforeEach, describe, expect, it, type MockInstance, vi } from 'vitest';
import { z } from 'zod';

@Injectable()
class Shop {
  @Tool({ name: 'find_order', description: 'Finds an order', inputSchema: z.object({ id: z.string() }) })
  find(@McpArgs('id') id: string): string {
    return id;
  }

  @Tool({ name: 'cancel_order', description: 'Cancels an order', annotations: { destructiveHint: true } })
  @RequireScopes('orders:write')
  cancel(): string {
    return 'cancelled';
  }

  @Prompt({ name: 'complain', arguments: [{ name: 'topic' }] })
  complain(): string {
    return 'Complain.';
  }

  @Resource({ uri: 'shop://terms', name: 'terms', mimeType: 'text/plain' })
  terms(): string {
    return 'Pay soon.';
  }

  @ResourceTemplate({ uriTemplate: 'shop://orders/{id}', name: 'order' })
  order(): string {
    return 'an order';
  }

  @ListResources('shop://orders/{id}')
  orders(): { uri: string; name: string }[] {
    return [{ uri: 'shop://orders/7', name: 'order 7' }];
  }
}

/** The same shop, after some work. */
@Injectable()
class NewShop {
  @Tool({
    name: 'find_order',
    description: 'Finds an order of the customer',
    inputSchema: z.object({ id: z.string(), year: z.number() }),
    outputSchema: z.object({ id: z.string() }),
  })
  find(): { id: string } {
    return { id: '7' };
  }

  @Tool({ name: 'refund', description: 'Pays back' })
  refund(): string {
    return 'paid';
  }

  @Prompt({ name: 'complain', arguments: [{ name: 'topic', required: true }] })
  complain(): string {
    return 'Complain.';
  }

  @Resource({ uri: 'shop://terms', name: 'terms', mimeType: 'text/html' })
  @RequireScopes('terms', { listed: true })
  terms(): string {
    return 'Pay soon.';
  }

  @ResourceTemplate({ uriTemplate: 'shop://orders/{id}', name: 'order' })
  order(): string {
    return 'an order';
  }
}

@Injectable()
class Other {}

@Injectable()
class Odd {
  @Tool({
    name: 'constructor',
    description: 'Makes one',
    inputSchema: { type: 'object', properties: { constructor: { type: 'string' } } },
  })
  make(): string {
    return 'made';
  }

  @Tool({ name: '__proto__', description: 'Has one' })
  proto(): string {
    return 'none';
  }
}

const AUTH = {
  resource: 'https://shop.example.com/mcp',
  authorizationServers: ['https://login.example.com'],
  verifier: new McpTestAuth(),
};
const token = (...scopes: string[]): string => mintTestToken({ sub: 'anna', scopes, audience: AUTH.resource });
const AS = { admin: token('orders:write'), guest: token() };

describe('the contract of an endpoint', () => {
  let folder: string;
  let file: string;
  let said: MockInstance<typeof console.warn>;
  const apps: INestApplication[] = [];

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'contract-'));
    file = join(folder, 'mcp.contract.json');
    vi.stubEnv('CI', '');
    vi.stubEnv('UPDATE_CONTRACT', '');
    said = vi.spyOn(console, 'warn').mockReturnValue();
  });

  afterEach(async () => {
    vi.unstubAllEnvs();
    said.mockRestore();
    rmSync(folder, { recursive: true });
    for (const app of apps.splice(0)) {
      await expectNothingLeft(app);
      await app.close();
    }
  });

  async function appOf(shop: Type, options: Partial<McpStreamableOptions> = { auth: AUTH }): Promise<INestApplication> {
    const imports = [McpStreamableModule.forRoot({ serverInfo: { name: 'shop', version: '1.0.0' }, ...options })];
    const app = (await Test.createTestingModule({ imports, providers: [shop] }).compile()).createNestApplication();
    apps.push(app);
    return app;
  }

  const written = () => JSON.parse(readFileSync(file, 'utf8'));

  it('the contract of an endpoint is written if there is none, with what each role sees, and is then the same for the same app', async () => {
    expect(await expectContract(await appOf(Shop), file, { as: AS })).toBe('written');
    expect(written()).toMatchObject({
      contract: 1,
      roles: {
        admin: {
          tools: ['cancel_order', 'find_order'],
          resources: ['shop://terms'],
          templates: ['shop://orders/{id}'],
        },
        guest: { tools: ['find_order'], prompts: ['complain'] },
      },
      tools: {
        cancel_order: { annotations: { destructiveHint: true }, scopes: ['orders:write'] },
        find_order: { description: 'Finds an order', inputSchema: { required: ['id'] } },
      },
    });
    const text = readFileSync(file, 'utf8');
    expect(await expectContract(await appOf(Shop), pathToFileURL(file), { as: AS })).toBe('unchanged');
    expect(readFileSync(file, 'utf8')).toBe(text);
    expect(text.endsWith('}\n')).toBe(true);
  });

  it('the contract of an endpoint has the schema of a result that is no object as it was declared, also where clients of 2025 read it', async () => {
    @Injectable()
    class Lists {
      @Tool({ name: 'ids', description: 'Lists ids', outputSchema: z.array(z.string()) })
      ids(): string[] {
        return [];
      }
    }
    const as = { modern: { era: 'modern' }, legacy: { era: 'legacy' } } as const;
    await expectContract(await appOf(Lists, {}), file, { as });
    expect(written().tools.ids.outputSchema).toEqual({ type: 'array', items: { type: 'string' } });
  });

  it('the contract of an endpoint has no resources that a template lists: they are data', async () => {
    await expectContract(await appOf(Shop), file, { as: AS });
    expect(Object.keys(written().resources)).toEqual(['shop://terms']);
  });

  it('the contract of an endpoint fails with a page that says of each change whether it breaks clients', async () => {
    await expectContract(await appOf(Shop), file, { as: AS });
    const failure = await expectContract(await appOf(NewShop), file, { as: AS }).catch((error: Error) => error);
    expect(failure).toBeInstanceOf(Error);
    const [headline, ...page] = (failure as Error).message.split('\n');
    expect(headline).toBe(
      `The endpoint is not what ${relative(process.cwd(), file)} says: 5 breaking, 1 to look at, 2 additive.`,
    );
    expect(page).toEqual([
      '',
      'Breaking: clients that know the old contract can fail',
      '  tool cancel_order',
      '    - is gone; seen by admin before',
      '  tool find_order',
      '    - input.year: is new, and required',
      '  prompt complain',
      '    - the argument topic is required now',
      '  resource shop://terms',
      '    - mimeType was "text/plain", and is "text/html"',
      '    - needs the scope terms now',
      '',
      'Changed, look at it',
      '  tool find_order',
      '    - description was "Finds an order", and is "Finds an order of the customer"',
      '',
      'Additive',
      '  tool find_order',
      '    - the result has a schema now',
      '  tool refund',
      '    - is new; seen by admin, guest',
      '',
      `If this is meant, run the test with UPDATE_CONTRACT=1, and commit ${relative(process.cwd(), file)} with the change.`,
    ]);
  });

  it('the contract of an endpoint is written anew with UPDATE_CONTRACT=1, also over a file that is no contract', async () => {
    vi.stubEnv('UPDATE_CONTRACT', '1');
    const app = await appOf(Shop, {});
    expect(await expectContract(app, file)).toBe('written');
    expect(await expectContract(app, file)).toBe('unchanged');
    writeFileSync(file, '<<<<<<< HEAD');
    expect(await expectContract(app, file)).toBe('written');
    expect(written().roles.anyone.tools).toEqual(['find_order']);
  });

  it('a contract that was written says so on the console, with its place and what is in it; an unchanged one says nothing', async () => {
    const app = await appOf(Shop, {});
    await expectContract(app, file);
    const place = `${relative(process.cwd(), file)} (1 tool, 1 prompt, 1 resource, 1 resource template, 1 role). Commit it.`;
    expect(said.mock.calls).toEqual([
      [`There was no contract, so this one was written, which later runs compare with: ${place}`],
    ]);
    await expectContract(app, file);
    expect(said).toHaveBeenCalledTimes(1);
    vi.stubEnv('UPDATE_CONTRACT', '1');
    await expectContract(app, file, { as: {} });
    expect(said).toHaveBeenLastCalledWith(
      expect.stringMatching(/^The contract was written anew, with UPDATE_CONTRACT=1: /),
    );
  });

  it('the contract of an endpoint that is missing fails in CI, and is not written', async () => {
    vi.stubEnv('CI', 'true');
    await expect(expectContract(await appOf(Shop, {}), file)).rejects.toThrow('CI writes none');
    expect(existsSync(file)).toBe(false);
  });

  it('the contract of an endpoint that is not JSON, or of another version, fails with what to do', async () => {
    const app = await appOf(Shop, {});
    writeFileSync(file, '<<<<<<< HEAD');
    await expect(expectContract(app, file)).rejects.toThrow(/is not JSON, as after a merge.*UPDATE_CONTRACT=1/);
    for (const other of [
      '{"contract":2}',
      'null',
      '{"contract":1,"roles":{},"tools":[]}',
      '{"contract":1,"roles":{"a":null}}',
      '{"contract":1,"roles":{"a":{"tools":1}}}',
      '{"contract":1,"roles":{},"tools":{"a":null}}',
    ]) {
      writeFileSync(file, other);
      await expect(expectContract(app, file)).rejects.toThrow('is not a contract of this version');
    }
  });

  it('the contract of an endpoint that was edited by hand fails as one that differs, whatever is in its entries', async () => {
    const app = await appOf(Shop, {});
    const complain = { arguments: [null, 5, { name: 'topic', required: 'x' }], inputSchema: 5, scopes: {} };
    const edited = { contract: 1, roles: { anyone: { prompts: ['complain'] } }, prompts: { complain } };
    writeFileSync(file, JSON.stringify(edited));
    await expect(expectContract(app, file)).rejects.toThrow(
      /The endpoint is not what .*prompt complain.*arguments is written/s,
    );
  });

  it('a contract that was merged badly fails with what is odd in it', async () => {
    const app = await appOf(Shop, {});
    await expectContract(app, file);
    const merged = JSON.parse(readFileSync(file, 'utf8')) as { roles: { anyone: { tools: string[] } } };
    const { tools } = merged.roles.anyone;
    merged.roles.anyone.tools = [...tools, 'ghost'];
    writeFileSync(file, JSON.stringify(merged));
    await expect(expectContract(app, file)).rejects.toThrow('"anyone" sees the tool ghost in the file, which does not');
    merged.roles.anyone.tools = [...tools, ...tools];
    writeFileSync(file, JSON.stringify(merged));
    await expect(expectContract(app, file)).rejects.toThrow(/1 to look at.*is written differently, as after a merge/s);
  });

  it('the contract of an endpoint says which role sees something now, or does not any more', async () => {
    const app = await appOf(Shop);
    await expectContract(app, file, { as: AS });
    const swapped = expectContract(app, file, { as: { admin: AS.guest, guest: AS.admin } });
    await expect(swapped).rejects.toThrow(
      /Breaking.*\n {2}tool cancel_order\n.*"admin" does not see it any more\n(?:.*\n)*Additive\n {2}tool cancel_order\n.*"guest" sees it now/,
    );
    const others = expectContract(app, file, { as: { admin: AS.admin, staff: AS.guest } });
    await expect(others).rejects.toThrow(
      /Changed, look at it\n {2}roles\n.*"guest" is in the file, and not compared.*\n.*"staff" is compared now/,
    );
  });

  it('the contract of an endpoint has nothing for anonymous callers whom the endpoint refuses, and fails for a token that is refused', async () => {
    const app = await appOf(Shop);
    await expectContract(app, file, { as: { admin: AS.admin, guest: undefined } });
    expect(written().roles.guest).toEqual({});
    const refused = expectContract(app, file, { as: { admin: 'expired' } });
    await expect(refused).rejects.toThrow('The lists of the role "admin" could not be read');
  });

  it('the contract of an endpoint says what "as" takes, and which endpoints the app has', async () => {
    const app = await appOf(Shop, {});
    for (const as of [AS.admin, { admin: null }, null]) {
      const failing = expectContract(app, file, { as: as as never });
      await expect(failing).rejects.toThrow('The option "as" has a name for each caller');
    }
    const elsewhere = expectContract(app, file, { endpoint: '/admin' });
    await expect(elsewhere).rejects.toThrow('This app serves no MCP at /admin, but at /mcp.');
    expect(existsSync(file)).toBe(false);
  });

  it('the contract of an endpoint may be named by the text of a URL, as import.meta.resolve() returns it', async () => {
    expect(await expectContract(await appOf(Shop, {}), pathToFileURL(file).href)).toBe('written');
    expect(existsSync(file)).toBe(true);
  });

  it('the contract of an endpoint with an SDK server is what that lists', async () => {
    const server = (): McpServer => {
      const made = new McpServer({ name: 'own', version: '1.0.0' });
      made.registerTool('ping', { description: 'Pings', inputSchema: z.object({}) }, () => ({ content: [] }));
      return made;
    };
    await expectContract(await appOf(Other, { server }), file);
    expect(written()).toMatchObject({
      roles: { anyone: { tools: ['ping'] } },
      tools: { ping: { description: 'Pings' } },
    });
  });

  it('the contract of an endpoint keeps names of Object.prototype, for tools and their arguments', async () => {
    await expectContract(await appOf(Odd, {}), file);
    expect(Object.keys(written().tools)).toEqual(['__proto__', 'constructor']);
    expect(Object.keys(written().tools.constructor.inputSchema.properties)).toContain('constructor');
    await expect(expectContract(await appOf(Odd, {}), file)).resolves.toBe('unchanged');
    await expect(expectContract(await appOf(Other, {}), file)).rejects.toThrow(
      /tool __proto__\n.*is gone; seen by anyone before\n.*tool constructor\n.*is gone/,
    );
  });
});
