import type { EventSourceMessage } from 'eventsource-parser';
import { describe, expect, it } from 'vitest';
import { ManualClock } from '../testing/index.js';
import { readEvents, readText } from './response-body.js';

const encoder = new TextEncoder();

/** A body that comes in pieces of so many bytes. */
function body(text: string, size: number): Response {
  const bytes = encoder.encode(text);
  let at = 0;
  return new Response(
    new ReadableStream<Uint8Array>({
      pull(controller) {
        if (at >= bytes.length) return controller.close();
        controller.enqueue(bytes.slice(at, (at += size)));
      },
    }),
  );
}

async function events(text: string, size: number): Promise<EventSourceMessage[]> {
  const found: EventSourceMessage[] = [];
  const clock = new ManualClock();
  const sink = {
    event: (event: EventSourceMessage) => void found.push(event),
    retry: () => {},
    silenceMs: () => 1_000,
  };
  const limits = { clock, maxMessageBytes: 10_000, signal: new AbortController().signal };
  await readEvents(body(text, size), sink, limits);
  expect(clock.pending).toBe(0);
  return found;
}

describe('readEvents', () => {
  const wanted = [
    { id: 'a_1', event: undefined, data: '{"é":"€😀"}' },
    { id: undefined, event: 'message', data: 'two\nlines' },
    { id: '', event: undefined, data: '' },
    { id: undefined, event: undefined, data: 'last' },
  ];

  it.each(['\n', '\r', '\r\n'])(
    'C3: readEvents gives the same whatever the pieces, lines ending in %j',
    async (end) => {
      const lines = ['id: a_1', 'data: {"é":"€😀"}', '', ': comment', 'event: message', 'data: two', 'data: lines', ''];
      const text = `\uFEFF${[...lines, 'id', 'data', '', 'retry: 5', 'data: last', '', 'data: lost'].join(end)}`;
      for (let size = 1; size < 24; size++) expect(await events(text, size)).toEqual(wanted);
      expect(await events(text, 10_000)).toEqual(wanted);
    },
  );

  it('C12: a flood of events leaves other work of the process its turns', async () => {
    const controller = new AbortController();
    let before: number | undefined;
    let count = 0;
    setImmediate(() => (before = count));
    const sink = { event: () => void count++, retry: () => {}, silenceMs: () => Infinity };
    const limits = { clock: new ManualClock(), maxMessageBytes: 1_000_000, signal: controller.signal };
    await readEvents(body('data: x\n\n'.repeat(2_000), 16_000), sink, limits);
    expect(count).toBe(2_000);
    expect(before).toBeLessThan(1_000);
  });

  it('C3: an event whose line ends in CR is handed over at once', async () => {
    let push!: (text: string) => void;
    const response = new Response(
      new ReadableStream<Uint8Array>({
        start: (controller) => void (push = (text) => controller.enqueue(encoder.encode(text))),
      }),
    );
    const controller = new AbortController();
    const found: string[] = [];
    const heard = new Promise<void>((resolve) => {
      const sink = {
        event: ({ data }: EventSourceMessage) => {
          found.push(data);
          resolve();
        },
        retry: () => {},
        silenceMs: () => Infinity,
      };
      const limits = { clock: new ManualClock(), maxMessageBytes: 100, signal: controller.signal };
      readEvents(response, sink, limits).catch(() => {});
    });
    push('data: now\r\r');
    await heard;
    controller.abort(new Error('enough'));
    expect(found).toEqual(['now']);
  });
});

describe('readText', () => {
  it('readText decodes characters that are cut in pieces, and stops at the limit', async () => {
    const limits = { clock: new ManualClock(), maxMessageBytes: 10, signal: new AbortController().signal };
    expect(await readText(body('€😀', 1), limits)).toBe('€😀');
    await expect(readText(body('x'.repeat(11), 3), limits)).rejects.toMatchObject({ code: 'MESSAGE_TOO_LARGE' });
    expect(await readText(new Response(null), limits)).toBe('');
  });
});
