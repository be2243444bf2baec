import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { describe, expect, it } from 'vitest';

import { commentFrame, messageFrame, primingFrame } from './sse.js';

/** What a client makes of a text. */
function parse(text: string): { events: EventSourceMessage[]; comments: string[]; retries: number[] } {
  const seen = { events: [] as EventSourceMessage[], comments: [] as string[], retries: [] as number[] };
  const parser = createParser({
    onEvent: (event) => seen.events.push(event),
    onComment: (comment) => seen.comments.push(comment),
    onRetry: (retry) => seen.retries.push(retry),
  });
  parser.feed(text);
  return seen;
}

describe('SSE frames', () => {
  it('carries a message with its id (P11)', () => {
    expect(messageFrame('0_1', '{"a":1}')).toBe('event: message\nid: 0_1\ndata: {"a":1}\n\n');
  });

  it('invents no id (P11)', () => {
    expect(messageFrame(undefined, '{}')).toBe('event: message\ndata: {}\n\n');
  });

  it('carries any JSON unharmed', () => {
    const message = { text: 'a\r\nb\rc\nd\u2028e\u2029f\u0000g \u0085 é 😀' };
    const { events } = parse(messageFrame('0_2', JSON.stringify(message)));
    expect(events).toHaveLength(1);
    expect(events[0]).toMatchObject({ event: 'message', id: '0_2' });
    expect(JSON.parse(events[0]!.data)).toEqual(message);
  });

  it('primes a client with cursor and delay', () => {
    expect(primingFrame('0_0', 3000)).toBe('id: 0_0\nretry: 3000\ndata:\n\n');
    const { events, retries } = parse(primingFrame('0_0', 3000));
    expect(events).toEqual([{ id: '0_0', data: '', event: undefined }]);
    expect(retries).toEqual([3000]);
  });

  it('comments, for proxies', () => {
    expect(parse(commentFrame())).toEqual({ events: [], comments: [''], retries: [] });
  });
});
