import { inputRequired } from '@modelcontextprotocol/server';
import { describe, expect, it } from 'vitest';
import { McpHandlerResultError } from '../handlers.errors.js';
import { toPromptResult } from './read-results.js';

const said = (text: string) => ({ role: 'user', content: { type: 'text', text } });
const answered = { role: 'assistant', content: { type: 'text', text: 'Yes' } };
const image = { type: 'image', data: 'AAAA', mimeType: 'image/png' };

describe('toPromptResult', () => {
  it.each([
    ['nothing', undefined, []],
    ['a text', 'Hello', [said('Hello')]],
    ['a message', answered, [answered]],
    ['messages', [said('Hello'), answered], [said('Hello'), answered]],
    ['a mixture', ['Hello', answered, image], [said('Hello'), answered, { role: 'user', content: image }]],
  ])('toPromptResult makes messages of %s', (_name, value, messages) => {
    expect(toPromptResult(value)).toEqual({ messages });
  });

  it('toPromptResult passes a whole result, and a request for input', () => {
    expect(toPromptResult({ description: 'd', messages: ['Hello'] })).toEqual({
      description: 'd',
      messages: [said('Hello')],
    });
    const request = inputRequired({ requestState: 'x' });
    expect(toPromptResult(request)).toBe(request);
  });

  it('toPromptResult takes an object for what it says of itself', () => {
    const entity = { messages: [], secret: 1, toJSON: () => ({ messages: ['Hello'] }) };
    expect(toPromptResult(entity)).toEqual({ messages: [said('Hello')] });
  });

  it('toPromptResult refuses what is no message', () => {
    for (const value of [
      1,
      {},
      { role: 'system', content: { type: 'text', text: 'x' } },
      [{ role: 'user', content: 'x' }],
      Object.assign([], { 1: 'after a hole' }),
      { messages: ['x'], description: 5 },
      { messages: ['x'], _meta: 'x' },
      { role: 'user', content: { type: 'image', data: 'not base64!', mimeType: 'image/png' } },
    ]) {
      expect(() => toPromptResult(value)).toThrow(McpHandlerResultError);
    }
  });
});
