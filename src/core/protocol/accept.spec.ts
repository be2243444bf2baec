import { describe, expect, it } from 'vitest';

import { acceptsMediaTypes } from './accept.js';

const JSON_TYPE = 'application/json';
const SSE = 'text/event-stream';
const both = (header: string | readonly string[] | undefined) => acceptsMediaTypes(header, JSON_TYPE, SSE);

describe('acceptsMediaTypes (E5)', () => {
  it.each<string | readonly string[]>([
    'application/json, text/event-stream',
    'text/event-stream,application/json',
    'Application/JSON, TEXT/Event-Stream',
    '*/*',
    'text/html, */*;q=0.1',
    'application/*, text/*',
    'application/json;q=0.9, text/event-stream;q=0.001',
    'application/json; charset=utf-8, text/event-stream; charset=utf-8; q=1',
    ['application/json', 'text/event-stream'],
    ['text/html, application/json', '', 'text/*'],
    'text/html;a="x, \\" y;q=0", application/json, text/event-stream',
    '*/*;q=0, application/json, text/event-stream',
    'text/*;q=0, */*, text/event-stream;Q=0.5',
    'application/json;q=0, application/json, text/event-stream',
    'application/json, application/json;q=0, text/event-stream',
    'application/json;q=high, text/event-stream;q=',
    ', ,application/json,,text/event-stream,',
  ])('acceptsMediaTypes admits both: %j', (header) => {
    expect(both(header)).toBe(true);
  });

  it.each<string | readonly string[] | undefined>([
    undefined,
    '',
    [],
    'application/json',
    'text/event-stream',
    'application/*',
    '*',
    'text/html',
    'application/json, text/event-stream;q=0',
    'application/json, text/event-stream; Q = 0.000',
    '*/*;q=0',
    '*/*, text/event-stream;q=0',
    'application/jsonp, text/event-stream',
    'application/json text/event-stream',
  ])('acceptsMediaTypes does not admit both: %j', (header) => {
    expect(both(header)).toBe(false);
  });

  it('acceptsMediaTypes asks about one type alone, as for GET', () => {
    expect(acceptsMediaTypes('text/event-stream', SSE)).toBe(true);
    expect(acceptsMediaTypes('application/json', SSE)).toBe(false);
  });
});
