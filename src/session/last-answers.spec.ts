import { describe, expect, it, vi } from 'vitest';
import { deferred } from '../common/promises.js';
import type { McpEventStore, OpenRequest } from '../stream/event-store.js';
import { ManualClock } from '../testing/manual-clock.js';
import { LastAnswers } from './last-answers.js';

function setup() {
  const clock = new ManualClock();
  const open = deferred<OpenRequest[]>();
  const store = { scope: 'shared', openRequests: vi.fn(() => open.promise) };
  const told: string[] = [];
  const answers = new LastAnswers(
    { store: store as unknown as McpEventStore, nodeId: 'me', clock },
    { ended: (session) => void told.push(`${session} after ${store.openRequests.mock.calls.length}`) },
  );
  const runs = (...nodes: string[]) => open.resolve(nodes.map((node, id) => ({ session: 's', stream: 'x', id, node })));
  let complete = false;
  const end = () => {
    answers.askFor('s', 'deleted');
    void answers.complete('s').then(() => (complete = true));
  };
  return { clock, open, answers, told, runs, end, over: () => complete };
}

describe('the last answers of a session', () => {
  it('are awaited from each other node that runs calls of it', async () => {
    const { clock, answers, told, runs, end, over } = setup();
    end();
    expect(told).toEqual(['s after 1']);
    answers.given('s', 'early');
    runs('me', 'early', 'late', 'late');
    await clock.advance(0);
    expect(over()).toBe(false);
    answers.given('s', 'late');
    await clock.advance(0);
    expect([over(), clock.pending]).toEqual([true, 0]);
  });

  it('are none when nothing runs elsewhere, or the log does not say', async () => {
    const quiet = setup();
    quiet.end();
    quiet.runs('me');
    const away = setup();
    away.end();
    away.open.reject(new Error('away'));
    await quiet.clock.advance(0);
    expect([quiet.over(), away.over()]).toEqual([true, true]);
  });

  it('are not awaited for ever', async () => {
    const { clock, runs, end, over } = setup();
    end();
    runs('dead');
    await clock.advance(1_499);
    expect(over()).toBe(false);
    await clock.advance(1);
    expect(over()).toBe(true);
  });
});
