import { Readable } from 'node:stream';
import {
  BadRequestException,
  ClassSerializerInterceptor,
  Injectable,
  StreamableFile,
  UseInterceptors,
} from '@nestjs/common';
import { Exclude } from 'class-transformer';
import { IsString } from 'class-validator';
import { type McpHandlerSchema, Prompt, Resource, Tool } from 'nestjs-mcp-streamable';
import { beforeEach, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ONE_ADAPTER } from '../support/app.js';
import { officialClients, testApps } from '../support/test-apps.js';

/** As an ORM makes it. */
class Order {
  readonly id = 1;
  readonly at = new Date(0);
  @Exclude()
  readonly margin = 5;
  get total(): number {
    return 3;
  }
}

class OrderDto {
  @IsString()
  id!: string;
}

const cyclic: Record<string, unknown> = { name: 'secret' };
cyclic['self'] = cyclic;

let file: Readable;
beforeEach(() => {
  file = new Readable({
    read() {
      this.destroy(new Error('secret'));
    },
  });
});

const anyObject = { type: 'object' };
const text = { type: 'text' as const, text: 'Here it is' };

@Injectable()
class Entities {
  @Tool({ name: 'entity' })
  entity(): Order {
    return new Order();
  }
  @Tool({ name: 'checked', outputSchema: anyObject })
  checked(): Order {
    return new Order();
  }
  @Tool({ name: 'whole' })
  whole(): object {
    return { content: [text], structuredContent: new Order() };
  }
  @Tool({ name: 'serialised' })
  @UseInterceptors(ClassSerializerInterceptor)
  serialised(): Order {
    return new Order();
  }
  @Tool({ name: 'empty-page' })
  emptyPage(): object {
    return { content: [], total: 0 };
  }
}

const SENT = { id: 1, at: '1970-01-01T00:00:00.000Z', margin: 5 };
const { margin: _, ...SERIALISED } = SENT;

@Injectable()
class Mistakes {
  @Tool({ name: 'isError' })
  isError(): object {
    return { content: [text], isError: 'yes' };
  }
  @Tool({ name: 'content.0.data' })
  image(): object {
    return { type: 'image', data: 'no base64!', mimeType: 'image/png' };
  }
  @Tool({ name: 'content.1.annotations' })
  annotations(): object[] {
    return [text, { ...text, annotations: { priority: 7 } }];
  }
  @Tool({ name: 'is not an object', outputSchema: OrderDto as McpHandlerSchema })
  dtos(): OrderDto[] {
    return [{ id: 'a' }];
  }
  @Tool({ name: 'StreamableFile' })
  file(): StreamableFile {
    return new StreamableFile(file);
  }
  @Tool({ name: 'generator that is not async' })
  *generator(): Generator {
    yield 'a';
  }
  @Resource({ uri: 'attack://file', name: 'file' })
  resource(): StreamableFile {
    return new StreamableFile(file);
  }
}

/** Values whose parts JSON cannot have, or of which it has nothing. */
const LOST: readonly (readonly [text: string, value: () => unknown])[] = [
  ['a Map at "order.lines"', () => ({ order: { id: 1, lines: new Map([['a', 1]]) } })],
  ['a Set at "0.tags"', () => [{ tags: new Set(['a']) }]],
  ['an Error at "failed.1"', () => ({ failed: [null, new TypeError('secret')] })],
  ['a Map', () => new Map([['a', 1]])],
  ['a Promise at "order.lines"', () => ({ order: { lines: Promise.resolve([1]) } })],
  ['a URLSearchParams at "query"', () => ({ query: new URLSearchParams('a=1') })],
  ['a RegExp at "pattern"', () => ({ pattern: /a/ })],
  ['a bigint at "order.id"', () => ({ order: { id: 1n } })],
  ['a cycle at "order.self"', () => ({ order: cyclic })],
];
let returned: unknown;

@Injectable()
class Lost {
  @Tool({ name: 'lost' })
  tool(): unknown {
    return returned;
  }
  @Tool({ name: 'checked-lost', outputSchema: anyObject })
  checked(): unknown {
    return returned;
  }
  @Resource({ uri: 'attack://lost', name: 'lost' })
  resource(): unknown {
    return returned;
  }
}

@Injectable()
class Exceptions {
  @Tool({ name: 'cycle' })
  cycle(): never {
    throw new BadRequestException({ order: cyclic });
  }
  @Tool({ name: 'bigint' })
  bigint(): never {
    throw new BadRequestException({ message: { id: 1n } });
  }
  @Prompt({ name: 'cycle', inputSchema: z.object({}) })
  prompt(): never {
    throw new BadRequestException({ order: cyclic }, { description: 'ignored' });
  }
}

describe.each(ONE_ADAPTER)('unusual results on %s', (adapter) => {
  const start = testApps(adapter, {
    shared: true,
    providers: [Entities, Lost, Mistakes, Exceptions],
    errorDetails: false,
  });
  const connect = officialClients();

  it.each<[string, object]>([
    ['entity', SENT],
    ['checked', SENT],
    ['serialised', SERIALISED],
    ['empty-page', { content: [], total: 0 }],
  ])('unusual results that are instances of a class are sent as their JSON (%s)', async (name, sent) => {
    const client = await connect(await start());
    const { content, structuredContent } = await client.callTool({ name, arguments: {} });
    expect(structuredContent).toEqual(sent);
    expect(content).toEqual([{ type: 'text', text: JSON.stringify(sent) }]);
  });

  it('unusual results may have an instance of a class as structured content', async () => {
    const client = await connect(await start());
    const { content, structuredContent } = await client.callTool({ name: 'whole', arguments: {} });
    expect([content, structuredContent]).toEqual([[text], SENT]);
  });

  const mistakes = ['isError', 'content.0.data', 'content.1.annotations', 'is not an object'];
  it.each([...mistakes, 'generator that is not async'])(
    'unusual results that are none are the mistake of the server, not of the client (%s)',
    async (name) => {
      const app = await start();
      const client = await app.client().initialize();
      const { result } = await (await client.call(name)).json();
      const generic = `Internal error in the tool "${name}". See the server log.`;
      expect(result).toEqual({ content: [{ type: 'text', text: generic }], isError: true });
      expect(app.log.texts('error').join()).toContain(name);
    },
  );

  it.each(['tools/call', 'resources/read'])(
    'unusual results leave no file open that cannot be read, and say nothing of it (%s)',
    async (method) => {
      const app = await start();
      const client = await app.client().initialize();
      const params = { name: 'StreamableFile', uri: 'attack://file' };
      const response = await client.post({ jsonrpc: '2.0', id: client.nextId(), method, params });
      expect(await response.text()).toMatch(/Internal error in the (?!.*secret)/);
      expect(file.destroyed).toBe(true);
    },
  );

  it.each(LOST)(
    'unusual results of which a part would be lost are refused, and the log names the part (%s)',
    async (part, make) => {
      const app = await start();
      const client = await connect(app);
      returned = make();
      const { content, isError } = await client.callTool({ name: 'lost', arguments: {} });
      const text = 'Internal error in the tool "lost". See the server log.';
      expect([content, isError]).toEqual([[{ type: 'text', text }], true]);
      await expect(client.readResource({ uri: 'attack://lost' })).rejects.toMatchObject({ code: -32603 });
      expect(app.log.texts('error').filter((line) => line.includes(part))).toHaveLength(2);
      expect(app.log.texts('error').join()).not.toContain('secret');
    },
  );

  it('unusual results with an empty object, and what JSON has of a class, are sent', async () => {
    const client = await connect(await start());
    returned = {
      filters: {},
      at: new Date(0),
      failed: Object.assign(new Error('x'), { code: 'E' }),
      total: { toJSON: () => 1 },
    };
    const sent = { filters: {}, at: '1970-01-01T00:00:00.000Z', failed: { code: 'E' }, total: 1 };
    for (const name of ['lost', 'checked-lost']) {
      const { content } = await client.callTool({ name, arguments: {} });
      expect(content).toEqual([{ type: 'text', text: JSON.stringify(sent) }]);
    }
  });

  it.each(['cycle', 'bigint'])(
    'unusual results send no details of an exception that cannot be JSON (%s)',
    async (name) => {
      const app = await start();
      const client = await app.client().initialize();
      const { result } = await (await client.call(name)).json();
      expect(result).toEqual({ content: [{ type: 'text', text: 'Bad Request Exception' }], isError: true });
      const prompt = await client.post({ jsonrpc: '2.0', id: 9, method: 'prompts/get', params: { name: 'cycle' } });
      expect((await prompt.json()).error).toEqual({ code: -32602, message: 'Bad Request Exception' });
    },
  );
});
