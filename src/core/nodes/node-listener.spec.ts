import { Subject } from 'rxjs';
import { describe, expect, it } from 'vitest';
import type { McpMessageBus } from './message-bus.js';
import { NodeListener } from './node-listener.js';
import type { LiveSessions } from '../sessions/running/live-sessions.js';

function setup() {
  const done: unknown[] = [];
  const note =
    (what: string) =>
    (...of: unknown[]): void => {
      done.push([what, ...of]);
    };
  const streams = { look: note('look at stream'), replaced: note('replaced') };
  const follow = (patch: unknown): void => {
    if (patch === 'nonsense') throw new TypeError('not understood');
    done.push(['follow', patch]);
  };
  const session = { streams, inbox: { look: note('look') }, follow };
  const sessions = {
    refreshAll: note('refresh'),
    endedElsewhere: note('ended'),
    peek: (id: string) => (id === 's' ? { session } : undefined),
  };
  const [messages$, reconnected$] = [new Subject<unknown>(), new Subject<void>()];
  const bus = { nodeId: 'me', messages$, reconnected$, send: note('sent') } as unknown as McpMessageBus;
  const listener = new NodeListener(bus, sessions as unknown as LiveSessions, { event: note('event') });
  return { done, messages$, reconnected$, listener };
}

describe('a node that listens to the bus', () => {
  it.each([
    [{ type: 'session-ended', session: 'any', node: 'other', reason: 'deleted' }, [['ended', 'any', 'deleted']]],
    [{ type: 'appended', session: 's', stream: '0' }, [['look at stream', '0']]],
    [{ type: 'replaced', session: 's', stream: '0', reader: 'r' }, [['replaced', '0', 'r', undefined]]],
    [{ type: 'replaced', session: 's', stream: '0', reader: 'r', upTo: 7 }, [['replaced', '0', 'r', 7]]],
    [{ type: 'inbox', session: 's', node: 'other' }, [['look']]],
    [
      { type: 'patched', session: 's', node: 'other', patch: { logLevel: 'error' } },
      [['follow', { logLevel: 'error' }]],
    ],
    // Its own words, what is not live here, and what it does not understand.
    [{ type: 'patched', session: 's', node: 'me', patch: {} }, []],
    [{ type: 'appended', session: 'unknown', stream: '0' }, []],
    [{ type: 'of the future', session: 's' }, []],
    [{ type: 'appended' }, []],
    [null, []],
    ['text', []],
  ])('a node that listens to the bus acts on its known messages about live sessions only: %j', (message, expected) => {
    const { done, messages$ } = setup();
    messages$.next(message);
    expect(done).toEqual(expected);
  });

  it('a node that listens to the bus goes on when a message cannot be handled, and reports that', () => {
    const { done, messages$ } = setup();
    messages$.next({ type: 'patched', session: 's', node: 'other', patch: 'nonsense' });
    expect(done).toEqual([
      ['event', { type: 'protocol-error', sessionId: 's', error: expect.any(TypeError) as unknown }],
    ]);
    messages$.next({ type: 'appended', session: 's', stream: '0' });
    expect(done).toHaveLength(2);
  });

  it('a node that listens to the bus checks all sessions once the bus is back', () => {
    const { done, reconnected$ } = setup();
    reconnected$.next();
    expect(done).toEqual([['refresh']]);
  });
});
