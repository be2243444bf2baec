import { createParser, type EventSourceMessage } from 'eventsource-parser';
import { describe, expect, it } from 'vitest';
import { frameOf } from './responder.js';

/** Parses a text as a client does. */
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

describe('an event as SSE text', () => {
  it('P11: an event as SSE text names its type, then the id, then the message on one line', () => {
    expect(frameOf({ id: '0_1', data: '{"a":1}' })).toBe('event: message\nid: 0_1\ndata: {"a":1}\n\n');
  });

  it('P11: an event as SSE text has no id that the event does not have', () => {
    expect(frameOf({ data: '{}' })).toBe('event: message\ndata: {}\n\n');
  });

  it('an event as SSE text carries any JSON unchanged', () => {
    const message = { text: 'a\r\nb\rc\nd\u2028e\u2029f\u0000g \u0085 é 😀' };
    const { events } = parse(frameOf({ id: '0_2', data: JSON.stringify(message) }));
    expect(events).toHaveLength(1);
    expect(events[0]).toMatchObject({ event: 'message', id: '0_2' });
    expect(JSON.parse(events[0]!.data)).toEqual(message);
  });

  it('G9: an event as SSE text with empty data has cursor and delay, and is no message', () => {
    const priming = frameOf({ id: '0_0', data: '', retry: 3000 });
    expect(priming).toBe('id: 0_0\nretry: 3000\ndata:\n\n');
    const { events, retries } = parse(priming);
    expect(events).toEqual([{ id: '0_0', data: '', event: undefined }]);
    expect(retries).toEqual([3000]);
  });

  it('an event as SSE text without data is a comment', () => {
    expect(parse(frameOf({}))).toEqual({ events: [], comments: [''], retries: [] });
  });
});
