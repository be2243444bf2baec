import { Subject } from 'rxjs';
import { describe, expect, it, vi } from 'vitest';
import type { McpMessageBus } from '../bus/message-bus.js';
import { ClusterListener } from './cluster-listener.js';
import { concernsPeers } from './cluster-messages.js';
import type { LiveSessions } from './live-sessions.js';

function setup() {
  const done: unknown[] = [];
  const note =
    (what: string) =>
    (...of: unknown[]): void => {
      done.push([what, ...of]);
    };
  const streams = { poke: note('poke'), turn: note('turn') };
  const receiveFromPeer = (message: unknown): void => {
    if (message === 'nonsense') throw new TypeError('not understood');
    done.push(['received', message]);
  };
  const session = { streams, receiveFromPeer, follow: note('follow') };
  const sessions = {
    ...{ watch: note('watch'), relax: note('relax'), refreshAll: note('refresh') },
    endedElsewhere: async (id: string) => note('ended')(id),
    peek: (id: string) => (id === 's' ? { session } : undefined),
  };
  const [messages$, reconnected$] = [new Subject<unknown>(), new Subject<void>()];
  const bus = { nodeId: 'me', messages$, reconnected$, send: note('sent') } as unknown as McpMessageBus;
  const listener = new ClusterListener(bus, sessions as unknown as LiveSessions, note('report'));
  return { done, messages$, reconnected$, listener };
}

describe('the listener', () => {
  it.each([
    [{ type: 'session-began', session: 'new', node: 'other' }, [['watch']]],
    [{ type: 'session-began', session: '', node: 'other' }, [['watch'], ['relax']]],
    [{ type: 'session-ended', session: 'any', node: 'other' }, [['ended', 'any']]],
    [{ type: 'appended', session: 's', stream: '0' }, [['poke', '0']]],
    [
      { type: 'turned', session: 's', stream: '0', reader: 'r', turn: { is: 'muted' } },
      [['turn', '0', 'r', { is: 'muted' }]],
    ],
    [{ type: 'from-client', session: 's', node: 'other', message: { id: 1 } }, [['received', { id: 1 }]]],
    [
      { type: 'patched', session: 's', node: 'other', patch: { logLevel: 'error' } },
      [['follow', { logLevel: 'error' }]],
    ],
    // Its own words, what is not live here, and what it does not understand.
    [{ type: 'session-began', session: 's', node: 'me' }, []],
    [{ type: 'patched', session: 's', node: 'me', patch: {} }, []],
    [{ type: 'appended', session: 'unknown', stream: '0' }, []],
    [{ type: 'of the future', session: 's' }, []],
    [{ type: 'appended' }, []],
    [null, []],
    ['text', []],
  ])('hears %j', (message, expected) => {
    const { done, messages$ } = setup();
    messages$.next(message);
    expect(done).toEqual(expected);
  });

  it('tells who ended a session that what ran of it here is answered', async () => {
    const { done, messages$ } = setup();
    messages$.next({ type: 'session-ended', session: 'any', node: 'other' });
    await vi.waitFor(() => expect(done).toHaveLength(2));
    expect(done[1]).toEqual(['sent', 'other', { type: 'calls-answered', session: 'any', node: 'me' }]);
  });

  it('survives what it cannot do, and says so', () => {
    const { done, messages$ } = setup();
    messages$.next({ type: 'from-client', session: 's', node: 'other', message: 'nonsense' });
    expect(done).toEqual([['report', 's', expect.any(TypeError)]]);
    messages$.next({ type: 'appended', session: 's', stream: '0' });
    expect(done).toHaveLength(2);
  });

  it('looks after everything once the bus is back, until it is closed', () => {
    const { done, messages$, reconnected$, listener } = setup();
    reconnected$.next();
    expect(done).toEqual([['refresh']]);
    listener.close();
    reconnected$.next();
    messages$.next({ type: 'session-began', session: 's', node: 'other' });
    expect(done).toHaveLength(1);
  });
});

describe('a message of the client', () => {
  const calls = { has: (id: unknown) => id === 'mine' };
  const notification = (method: string, params: object = {}) => ({ jsonrpc: '2.0', method, params }) as const;
  it.each([
    [true, { jsonrpc: '2.0', id: 'other-x-1', result: {} } as const],
    [false, { jsonrpc: '2.0', id: 'me-x-1', result: {} } as const],
    [false, { jsonrpc: '2.0', id: 7, result: {} } as const],
    [true, notification('notifications/progress', { progressToken: 'other-x-1' })],
    [false, notification('notifications/progress', { progressToken: 'me-x-1' })],
    [true, notification('notifications/cancelled', { requestId: 'theirs' })],
    [false, notification('notifications/cancelled', { requestId: 'mine' })],
    [true, notification('notifications/roots/list_changed')],
    [false, notification('notifications/initialized')],
    [false, { jsonrpc: '2.0', id: 1, method: 'ping' } as const],
  ])('concerns other nodes: %s: %j', (expected, message) => {
    expect(concernsPeers(message as Parameters<typeof concernsPeers>[0], 'me', calls)).toBe(expected);
  });
});
