import { ClassSerializerInterceptor, Controller, Get, Injectable, StreamableFile } from '@nestjs/common';
import { Reflector } from '@nestjs/core';
import {
  file,
  image,
  type McpFile,
  Prompt,
  Resource,
  resourceLink,
  text,
  Tool,
  toolProgress,
} from 'nestjs-mcp-streamable';
import { from, type Observable, of } from 'rxjs';
import { describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ONE_ADAPTER } from '../support/app.js';
import { officialClients, testApps } from '../support/test-apps.js';

const PNG = Buffer.from('89504e470d0a1a0a00', 'hex');
const png = { type: 'image', data: PNG.toString('base64'), mimeType: 'image/png' };

@Injectable()
class FileTools {
  @Tool({ name: 'several', maxResultBytes: 1_000 })
  several(): unknown[] {
    return [text('Two:'), image(PNG), image(new Blob([new Uint8Array(PNG)])), resourceLink('charts://1')];
  }
  @Tool({ name: 'observable' })
  observable(): Observable<unknown> {
    return from([toolProgress(1), image(PNG)]);
  }
  @Tool({ name: 'block' })
  block(): object {
    return { type: 'image', data: PNG, mimeType: 'image/png' };
  }
  @Tool({ name: 'almost' })
  almost(): object {
    return { type: 'image', data: png.data };
  }
  @Tool({ name: 'inside' })
  inside(): object {
    return { name: 'logo', picture: image(PNG) };
  }
  @Tool({ name: 'large', maxResultBytes: 1_000 })
  large(): McpFile {
    return file(Buffer.alloc(2_000), { name: 'large.bin' });
  }
  @Resource({ uri: 'charts://1', name: 'chart' })
  chart(): McpFile {
    return image(PNG);
  }
  @Prompt({ name: 'look', inputSchema: z.object({}) })
  look(): unknown[] {
    return [{ role: 'user', content: image(PNG) }, 'What is it?'];
  }
}

@Controller('charts')
class ChartsController {
  @Get('drawn')
  @Tool({ name: 'drawn' })
  drawn(): McpFile {
    return image(PNG);
  }
  @Get('stored')
  @Tool({ name: 'stored' })
  stored(): Observable<StreamableFile> {
    return of(new StreamableFile(PNG, { type: 'image/png' }));
  }
}

describe.each(ONE_ADAPTER)('the files that handlers return, on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, providers: [FileTools] });
  const connect = officialClients();
  const content = async (name: string) => {
    const client = await connect(await start());
    return (await client.callTool({ name })).content;
  };

  it('the files that handlers return reach the client as content, several in one result', async () => {
    const link = { type: 'resource_link', uri: 'charts://1', name: '1' };
    expect(await content('several')).toEqual([{ type: 'text', text: 'Two:' }, png, png, link]);
  });

  it('the files that handlers return may come from an Observable', async () => {
    expect(await content('observable')).toEqual([png]);
  });

  it('the files that handlers return may be the bytes of a content block', async () => {
    expect(await content('block')).toEqual([png]);
  });

  it('the files that handlers return are the contents of a resource, and content in a prompt', async () => {
    const client = await connect(await start());
    const { contents } = await client.readResource({ uri: 'charts://1' });
    expect(contents).toEqual([{ uri: 'charts://1', mimeType: 'image/png', blob: png.data }]);
    const { messages } = await client.getPrompt({ name: 'look' });
    expect(messages.map((message) => message.content)).toEqual([png, { type: 'text', text: 'What is it?' }]);
  });

  it.each(['drawn', 'stored'])(
    'the files that handlers return are sent by a route as files, and by its tool as content (%s)',
    async (name) => {
      const app = await start({ module: { controllers: [ChartsController] } });
      const response = await fetch(new URL(`/charts/${name}`, app.url));
      expect(response.status).toBe(200);
      expect(response.headers.get('content-type')).toBe(name === 'stored' ? 'image/png' : 'application/octet-stream');
      expect(Buffer.from(await response.arrayBuffer())).toEqual(PNG);
      const client = await connect(app);
      expect((await client.callTool({ name })).content).toEqual([png]);
    },
  );

  it('the files that handlers return are replaced by advice when they are larger than the result may be', async () => {
    expect(await content('large')).toEqual([
      {
        type: 'text',
        text: expect.stringMatching(/^The result of "large" has more than 1999 bytes; the maximum is 1000\./),
      },
    ]);
  });

  it('the files that handlers return survive an interceptor that copies what a handler returns, field by field', async () => {
    const app = await start({
      configure: (nest) => void nest.useGlobalInterceptors(new ClassSerializerInterceptor(nest.get(Reflector))),
    });
    const client = await connect(app);
    expect((await client.callTool({ name: 'several' })).content).toMatchObject([{ type: 'text' }, png, {}, {}]);
    expect((await client.getPrompt({ name: 'look' })).messages).toMatchObject([{ content: png }, {}]);
  });

  it('the files that handlers return are refused in an object of the app, of which a client would get their private fields', async () => {
    expect(await content('inside')).toEqual([
      {
        type: 'text',
        text: expect.stringMatching(
          /^A handler returned image\(…\), audio\(…\) or file\(…\) inside an object\. Return it as content/,
        ),
      },
    ]);
  });

  it('the files that handlers return are refused when they are almost content, with what to return in the log', async () => {
    const app = await start();
    const client = await connect(app);
    expect((await client.callTool({ name: 'almost' })).isError).toBe(true);
    expect(app.log.texts('error').join()).toContain(
      'an incomplete content block of the type "image". Return image(bytes)',
    );
  });
});
