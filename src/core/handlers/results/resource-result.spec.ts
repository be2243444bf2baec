import { inputRequired, ResourceNotFoundError } from '@modelcontextprotocol/server';
import { describe, expect, it } from 'vitest';
import { McpHandlerResultError } from '../handlers.errors.js';
import { toResourceResult } from './read-results.js';
import { structured } from './returned-as.js';

const uri = 'orders://1';
const read = (value: unknown, mimeType?: string) => toResourceResult({ uri, mimeType }, value);

describe('toResourceResult', () => {
  it('toResourceResult makes contents of a text, bytes, and an object', () => {
    expect(read('hello')).toEqual({ contents: [{ uri, mimeType: 'text/plain', text: 'hello' }] });
    expect(read('# hello', 'text/markdown')).toEqual({
      contents: [{ uri, mimeType: 'text/markdown', text: '# hello' }],
    });
    const bytes = Buffer.from('xxhello').subarray(2);
    expect(read(bytes, 'image/png')).toEqual({ contents: [{ uri, mimeType: 'image/png', blob: 'aGVsbG8=' }] });
    expect(read(new Uint8Array([1]))).toEqual({
      contents: [{ uri, mimeType: 'application/octet-stream', blob: 'AQ==' }],
    });
    expect(read(new Uint8Array([1]).buffer, 'image/png')).toEqual({
      contents: [{ uri, mimeType: 'image/png', blob: 'AQ==' }],
    });
    expect(read({ id: 1 })).toEqual({ contents: [{ uri, mimeType: 'application/json', text: '{"id":1}' }] });
    expect(read([{ id: 1 }])).toEqual({ contents: [{ uri, mimeType: 'application/json', text: '[{"id":1}]' }] });
    expect(read([])).toEqual({ contents: [{ uri, mimeType: 'application/json', text: '[]' }] });
  });

  it('toResourceResult completes contents, one or several, alone or in a whole result', () => {
    const part = { uri: 'orders://1/a', text: 'a', _meta: { x: 1 } };
    const whole = { contents: [part, { blob: 'AQ==', mimeType: 'image/png' }], _meta: { y: 1 } };
    const contents = [
      { ...part, mimeType: 'text/csv' },
      { uri, blob: 'AQ==', mimeType: 'image/png' },
    ];
    expect(read(part, 'text/csv')).toEqual({ contents: [contents[0]] });
    expect(read(whole.contents, 'text/csv')).toEqual({ contents });
    expect(read(whole, 'text/csv')).toEqual({ contents, _meta: { y: 1 } });
    expect(read({ blob: 'AQ==' })).toEqual({ contents: [{ uri, mimeType: 'application/octet-stream', blob: 'AQ==' }] });
    expect(read({ contents: [] })).toEqual({ contents: [] });
  });

  it('toResourceResult refuses a content block, whole or almost one, with what to return', () => {
    const block = { type: 'image', data: 'AQ==', mimeType: 'image/png' };
    expect(() => read(block)).toThrow('as tools and prompts have. Return image(bytes)');
    expect(() => read({ type: 'image', data: 'AQ==' })).toThrow('an incomplete content block of the type "image"');
  });

  it('toResourceResult takes nothing for "not found"', () => {
    for (const value of [undefined, null]) expect(() => read(value)).toThrow(ResourceNotFoundError);
  });

  it('toResourceResult takes an object for what it says of itself', () => {
    const entity = { contents: [], secret: 1, toJSON: () => ({ contents: [{ text: 'x' }] }) };
    expect(read(entity)).toEqual({ contents: [{ uri, mimeType: 'text/plain', text: 'x' }] });
  });

  it.each([
    { contents: [{ uri: 5, text: 'x' }] },
    { contents: [{ text: 'x', _meta: 5 }] },
    { contents: [{ text: 'x' }], _meta: [] },
    { contents: Object.assign([], { 1: { text: 'after a hole' } }) },
    { blob: 'not base64!' },
  ])('toResourceResult refuses what the specification does not have: %j', (value) => {
    expect(() => read(value)).toThrow(McpHandlerResultError);
  });

  it('toResourceResult passes a request for input, and refuses what cannot be sent', () => {
    const request = inputRequired({ requestState: 'x' });
    expect(read(request)).toBe(request);
    for (const value of [1, true, () => 1, { big: 1n }]) expect(() => read(value)).toThrow(McpHandlerResultError);
  });
});

describe('toResourceResult of an entity with a column of contents', () => {
  const jsonOf = (value: unknown) => ({
    contents: [{ uri, mimeType: 'application/json', text: JSON.stringify(value) }],
  });

  it.each([{ id: 1, text: 'Hello' }, { id: 1, blob: 'AQ==' }, [{ id: 1, text: 'Hello' }]])(
    'toResourceResult of an entity with a column of contents is its JSON, with all columns: row %#',
    (entity) => {
      expect(read(entity)).toEqual(jsonOf(entity));
    },
  );

  it('toResourceResult of an entity with a column of contents is its JSON if a class made it, and a result otherwise', () => {
    class Book {
      id = 1;
      contents = ['One'];
    }
    expect(read(new Book())).toEqual(jsonOf({ id: 1, contents: ['One'] }));
    expect(read({ id: 1, contents: ['One'] })).toMatchObject({ contents: [{ text: 'One' }] });
  });

  it('toResourceResult of what says that it is data is its JSON', () => {
    for (const value of [{ text: 'Hello' }, { contents: [] }, 'Hello', [1], null]) {
      expect(read(structured(value))).toEqual(jsonOf(value));
    }
  });

  it('toResourceResult of what stands in "contents" has its text, with other fields too', () => {
    expect(read({ contents: [{ id: 1, text: 'Hello' }] })).toMatchObject({ contents: [{ text: 'Hello' }] });
  });
});
