import { inputRequired } from '@modelcontextprotocol/server';
import { describe, expect, it } from 'vitest';
import { McpHandlerResultError } from '../handlers.errors.js';
import { file } from './files.js';
import { structured, toolResult } from './returned-as.js';
import { type OutputCheck, toolResults } from './tool-result.js';

const toToolResult = (value: unknown, check?: OutputCheck, textMirror?: boolean) =>
  toolResults(check, textMirror)(value);

const text = (value: string) => ({ type: 'text', text: value });
const image = { type: 'image', data: 'AAAA', mimeType: 'image/png' };
const link = { type: 'resource_link', uri: 'orders://1', name: 'Order 1' };

describe('toToolResult', () => {
  it.each([
    ['nothing', undefined, [text('The tool returned nothing.')]],
    ['null', null, [text('The tool returned nothing.')]],
    ['a text', 'hello', [text('hello')]],
    ['an empty text', '', [text('')]],
    ['a number', 42, [text('42')]],
    ['a boolean', false, [text('false')]],
    ['a bigint', 10n, [text('10')]],
    ['a block', image, [image]],
    ['blocks', [text('a'), image, link], [text('a'), image, link]],
    ['an empty array', [], [text('[]')]],
    ['an array of something else', [1, { a: 2 }], [text('[1,{"a":2}]')]],
    ['a date', new Date(0), [text('1970-01-01T00:00:00.000Z')]],
  ])('toToolResult makes content of %s', (_name, value, content) => {
    expect(toToolResult(value)).toEqual({ content });
  });

  it('toToolResult makes structured content of an object, and says it as text too', () => {
    expect(toToolResult({ id: 1 })).toEqual({ content: [text('{"id":1}')], structuredContent: { id: 1 } });
  });

  it('toToolResult sends empty values as JSON has them', () => {
    const value = { object: {}, list: [], boxed: Object(4) as number, bytes: new Uint8Array() };
    expect(toToolResult(value)).toMatchObject({ content: [text('{"object":{},"list":[],"boxed":4,"bytes":{}}')] });
  });

  it('toToolResult takes an object for what it says of itself', () => {
    const entity = { secret: 1, toJSON: () => ({ id: 1 }) };
    expect(toToolResult(entity)).toEqual({ content: [text('{"id":1}')], structuredContent: { id: 1 } });
    const result = { content: [text('a')], secret: 1, toJSON: () => ({ content: [text('b')] }) };
    expect(toToolResult(result)).toEqual({ content: [text('b')] });
  });

  it.each([
    ['a result', { content: [text('a')], _meta: { x: 1 } }],
    ['a failure', { content: [text('a')], isError: true }],
    ['a result without content', { content: [] }],
    ['structured content with content', { content: [], structuredContent: { a: 1 } }],
    ['a request for input', inputRequired({ requestState: 'x' })],
  ])('toToolResult passes %s', (_name, value) => {
    expect(toToolResult(value)).toBe(value);
  });

  it('toToolResult does not take for a result, or a block, what only looks like one', () => {
    for (const value of [
      { content: 'a page' },
      { content: [{ id: 1 }] },
      { content: Object.assign([], { 1: text('a') }) },
      { type: 'text' },
      { type: 'constructor' },
    ]) {
      expect(toToolResult(value)).toHaveProperty('structuredContent', value);
    }
  });

  it.each([
    ['an image without a media type', { type: 'image', data: 'AAAA' }],
    ['an image whose bytes stand in another field', { type: 'image', bytes: Buffer.from('a'), mimeType: 'image/png' }],
    ['a recording whose bytes stand in another field', [{ type: 'audio', blob: new ArrayBuffer(1) }]],
    ['a resource without "resource"', [{ type: 'resource', uri: 'a:b', blob: 'AAAA' }]],
    ['a resource without a URI', { content: [{ type: 'resource', resource: { text: 'a' } }] }],
    ['a text that is bytes', [{ type: 'text', text: Buffer.from('a') }]],
  ])('toToolResult refuses what is almost a block, with what to return: %s', (_name, value) => {
    expect(() => toToolResult(value)).toThrow(/^A handler returned an incomplete content block .* Return \w+\(/);
  });

  it('toToolResult refuses media beside what is no content, of which the model would read the base64', () => {
    for (const value of [['Here:', image], { content: ['Here:', image] }, [{ id: 1 }, link]]) {
      expect(() => toToolResult(value)).toThrow(/beside something that is not content\. .* as text\("…"\)/);
    }
  });

  it('toToolResult refuses a file inside structured content, of which JSON has nothing', () => {
    const picture = file(Buffer.from('a'));
    expect(() => toToolResult({ content: [], structuredContent: { picture } })).toThrow('inside an object');
    expect(() => toToolResult({ picture }, undefined, false)).toThrow('inside an object');
  });

  it('toToolResult refuses what cannot be sent', () => {
    const circle: Record<string, unknown> = {};
    circle['self'] = circle;
    for (const value of [
      circle,
      { big: 1n },
      () => 1,
      Symbol('x'),
      Buffer.from('x'),
      new Uint8Array(1),
      new ArrayBuffer(1),
    ]) {
      expect(() => toToolResult(value)).toThrow(McpHandlerResultError);
    }
  });
});

describe('toToolResult with an output schema', () => {
  const onlyId = (value: unknown): unknown => {
    if (typeof (value as { id?: unknown }).id !== 'number') throw new Error(`not an order: ${JSON.stringify(value)}`);
    return { id: (value as { id: number }).id };
  };

  it('toToolResult with an output schema sends what the check leaves, in the text too', async () => {
    const value = { id: 1, secret: 's' };
    const sent = { content: [text('{"id":1}')], structuredContent: { id: 1 } };
    expect(await toToolResult(value, onlyId)).toEqual(sent);
    expect(await toToolResult(value, (checked) => Promise.resolve(onlyId(checked)))).toEqual(sent);
    expect(await toToolResult(value, () => undefined)).toHaveProperty('structuredContent', value);
  });

  it('toToolResult with an output schema takes a block for structured content', async () => {
    expect(await toToolResult(image, (value) => value)).toHaveProperty('structuredContent', image);
  });

  it('toToolResult with an output schema sends any JSON, and its JSON as text', async () => {
    for (const value of [[1], 'text', 5, null, false]) {
      const sent = { content: [text(JSON.stringify(value))], structuredContent: value };
      expect(await toToolResult(value, (checked) => checked)).toEqual(sent);
    }
  });

  it('toToolResult with an output schema checks the structured content of a whole result, but no failure', async () => {
    const whole = { content: [text('An order')], structuredContent: { id: 1, secret: 's' } };
    expect(await toToolResult(whole, onlyId)).toEqual({ ...whole, structuredContent: { id: 1 } });
    const failure = { content: [text('No')], isError: true };
    expect(await toToolResult(failure, onlyId)).toBe(failure);
    const request = inputRequired({ requestState: 'x' });
    expect(await toToolResult(request, onlyId)).toBe(request);
  });

  it('toToolResult with an output schema refuses what does not fit, and says nothing of it in the message', async () => {
    for (const value of [{ secret: 's' }, 'secret', undefined, { content: [text('secret')] }]) {
      const error: unknown = await Promise.resolve(toToolResult(value, onlyId)).catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(McpHandlerResultError);
      expect((error as Error).message).not.toContain('secret');
    }
  });
});

describe('toToolResult of an object whose content is made of blocks', () => {
  const content = [text('Hello')];
  const note = { id: 1, title: 'A', content };
  class Note {
    id = 1;
    title: string | undefined = 'A';
    content = content;
  }
  const same = (value: unknown): unknown => value;
  const declared = (...names: string[]) => new Set(names);
  const dataOf = async (value: unknown, names: string[] = []) =>
    (await toolResults(names.length > 0 ? same : undefined, true, declared(...names))(value)) as object;

  it('toToolResult of an object whose content is made of blocks passes a plain one with other fields', async () => {
    expect(await dataOf(note)).toBe(note);
    expect(await dataOf(Object.assign(Object.create(null) as object, note))).toHaveProperty('content', content);
  });

  it('toToolResult of an object whose content is made of blocks takes an entity of a class for data', async () => {
    expect(await dataOf(new Note())).toHaveProperty('structuredContent', note);
    const document = Object.assign(
      Object.create({
        toJSON: () => note,
        get content() {
          return content;
        },
      }),
      { _doc: {} },
    );
    expect(await dataOf(document)).toHaveProperty('structuredContent', note);
  });

  it('toToolResult of an object whose content is made of blocks passes one of a class that has no other fields', async () => {
    const result = Object.assign(new Note(), { id: undefined, title: undefined });
    expect(await dataOf(result)).not.toHaveProperty('structuredContent');
    expect(await dataOf(result)).toHaveProperty('content', content);
  });

  it.each<[what: string, names: string[], value: object]>([
    ['another field', ['id', 'title'], note],
    ['one of the other fields', ['title'], note],
    ['the content', ['content'], { content }],
  ])(
    'toToolResult of an object whose content is made of blocks takes it for data if the schema declares %s',
    async (_, names, value) => {
      expect(await dataOf(value, names)).toMatchObject({
        content: [text(JSON.stringify(value))],
        structuredContent: value,
      });
    },
  );

  it.each<[what: string, names: string[], value: object]>([
    ['structured content', ['id'], { ...note, structuredContent: { id: 1 } }],
    ['a failure', ['id', 'content'], { ...note, isError: true }],
  ])(
    'toToolResult of an object whose content is made of blocks takes it for a result if it has %s',
    async (_, names, value) => {
      expect(await dataOf(value, names)).toEqual(value);
    },
  );

  it('toToolResult of an object whose content is made of blocks needs structured content if the schema declares no field of it', async () => {
    await expect(dataOf(note, ['other'])).rejects.toThrow('its result has no structured content');
  });
});

describe('toToolResult of what says what it is', () => {
  const blocks = [{ type: 'text' as const, text: 'Hello' }];

  it.each<[string, unknown]>([
    ['a lookalike of a result', { id: 1, content: blocks }],
    ['a lookalike of content', blocks],
    ['almost content', { content: [{ type: 'image', data: 'AAAA' }] }],
    ['a list', [1]],
    ['null', null],
  ])('toToolResult of what says that it is data makes structured content of %s', async (_, value) => {
    const sent = { content: [text(JSON.stringify(value))], structuredContent: value };
    for (const check of [undefined, (checked: unknown) => checked]) {
      expect(await toolResults(check)(structured(value))).toEqual(sent);
      expect(await toolResults(check)({ ...structured(value) })).toEqual(sent);
    }
    expect(await toolResults(undefined, false)(structured(value))).toEqual({ ...sent, content: [] });
  });

  it('toToolResult of what says that it is data sends what the check leaves, in the text too', async () => {
    const onlyId = (value: unknown) => ({ id: (value as { id: number }).id });
    const sent = { content: [text('{"id":1}')], structuredContent: { id: 1 } };
    expect(await toolResults(onlyId)(structured({ id: 1, content: blocks }))).toEqual(sent);
  });

  it('toToolResult of what says that it is a result has content, though JavaScript may leave it out', async () => {
    const result = toolResult({ structuredContent: { id: 1 } } as never);
    expect(await toolResults()(result)).toEqual({ content: [], structuredContent: { id: 1 } });
  });

  it('toToolResult of what says that it is a result passes it, though it would be data', async () => {
    class Answer {
      content = blocks;
      id = 1;
    }
    for (const value of [{ content: [], total: 0 }, new Answer()])
      expect(toToolResult(toolResult(value))).toEqual(Object.fromEntries(Object.entries(value)));
    const whole = { content: blocks, structuredContent: { id: 1 } };
    const given = toolResult({ ...whole, id: 2 });
    expect(await toolResults((checked) => checked, true, new Set(['id', 'structuredContent']))(given)).toEqual({
      ...whole,
      id: 2,
    });
    expect(() => toToolResult(toolResult({ content: [{ type: 'none' }] } as never))).toThrow(McpHandlerResultError);
  });
});
