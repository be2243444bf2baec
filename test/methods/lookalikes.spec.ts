import { ClassSerializerInterceptor, Controller, Get, Injectable, Module, UseInterceptors } from '@nestjs/common';
import { McpStreamableModule, Resource, structured, Tool, toolResult } from 'nestjs-mcp-streamable';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { z } from 'zod';
import { ADAPTERS, serverInfo, TestApp } from '../support/app.js';
import { send } from '../support/http.js';
import { Caller, ERAS } from './callers.js';

const content = [{ type: 'text' as const, text: 'Hello' }];
const NOTE = { id: 1, title: 'A note', content };
const PAGE = { id: 1, text: 'Hello' };
const Note = z.object({
  id: z.int(),
  title: z.string(),
  content: z.array(z.object({ type: z.string(), text: z.string() })),
});

class NoteEntity {
  id = 1;
  title = 'A note';
  content = content;
}

@Controller('notes')
class Notes {
  @Tool({ name: 'declared', outputSchema: Note })
  declared(): z.infer<typeof Note> {
    return NOTE;
  }
  @Tool({ name: 'entity' })
  entity(): NoteEntity {
    return new NoteEntity();
  }
  @Get('said')
  @Tool({ name: 'said' })
  said(): object {
    return structured(NOTE);
  }
  @Tool({ name: 'serialized' })
  @UseInterceptors(ClassSerializerInterceptor)
  serialized(): object {
    return structured(new NoteEntity());
  }
  @Tool({ name: 'plain' })
  plain(): object {
    return NOTE;
  }
  @Tool({ name: 'result' })
  result(): object {
    return toolResult({ content: [], total: 0 });
  }
  @Tool({ name: 'serialized_result' })
  @UseInterceptors(ClassSerializerInterceptor)
  serializedResult(): object {
    return toolResult({ content: [], total: 0 });
  }
}

@Injectable()
class Pages {
  @Resource({ uri: 'pages://entity', name: 'entity' })
  entity(): object {
    return PAGE;
  }
  @Resource({ uri: 'pages://said', name: 'said' })
  said(): object {
    return structured({ text: 'Hello' });
  }
  @Resource({ uri: 'pages://contents', name: 'contents' })
  contents(): object {
    return { contents: [PAGE] };
  }
}

@Module({
  imports: [McpStreamableModule.forRoot({ serverInfo })],
  controllers: [Notes],
  providers: [Pages],
})
class App {}

describe.each(ADAPTERS)('%s: D17: what looks like a result', (adapter) => {
  let app: TestApp;
  beforeAll(async () => {
    app = await TestApp.of(adapter, { imports: [App] });
  });
  afterAll(() => app.stop());

  const json = JSON.stringify(NOTE);

  it.each(ERAS)(
    'what looks like a result is data where the schema, a class or structured() says so, in the %s era',
    async (era) => {
      const caller = await Caller.of(app, era);
      for (const name of ['declared', 'entity', 'said', 'serialized']) {
        const { result } = await caller.call(name);
        expect([name, result]).toMatchObject([name, { content: [{ text: json }], structuredContent: NOTE }]);
      }
    },
  );

  it.each(ERAS)(
    'what looks like a result is one where it is plain, or toolResult() says so, in the %s era',
    async (era) => {
      const caller = await Caller.of(app, era);
      expect((await caller.call('plain')).result).toMatchObject(NOTE);
      for (const name of ['result', 'serialized_result'])
        expect((await caller.call(name)).result).toMatchObject({ content: [], total: 0 });
      for (const name of ['plain', 'result', 'serialized_result'])
        expect((await caller.call(name)).result).not.toHaveProperty('structuredContent');
    },
  );

  it.each(ERAS)('what looks like contents of a resource keeps its other fields as JSON, in the %s era', async (era) => {
    const caller = await Caller.of(app, era);
    const read = async (uri: string) => (await caller.ask('resources/read', { uri })).result.contents;
    const asJson = (value: object) => ({ mimeType: 'application/json', text: JSON.stringify(value) });
    expect(await read('pages://entity')).toMatchObject([asJson(PAGE)]);
    expect(await read('pages://said')).toMatchObject([asJson({ text: 'Hello' })]);
    expect(await read('pages://contents')).toMatchObject([{ mimeType: 'text/plain', text: 'Hello' }]);
  });

  it('what looks like a result is sent by its route as it is', async () => {
    const response = await send(`${app.base}/notes/said`, { method: 'GET' });
    expect(await response.json()).toEqual(NOTE);
  });
});
