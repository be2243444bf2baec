import assert from 'node:assert/strict';
import type { McpMessageBus } from '../core/nodes/message-bus.js';
import { type McpContractTestApi, type ContractTests, runContract } from './contract.js';

/** Connects three nodes with one another. Each test gets new ones. @publicApi */
export interface McpMessageBusHarness {
  readonly nodes: readonly [McpMessageBus, McpMessageBus, McpMessageBus];
  /** Cuts the connections and restores them. Absent: nothing can be lost, and that is not tested. */
  readonly interrupt?: () => Promise<void>;
  dispose(): Promise<void>;
}

/**
 * Tests the contract of `McpMessageBus`, one test for each sentence.
 *
 * @param make creates three connected nodes, for each test
 * @param api the functions of the test runner; by default its globals
 * @publicApi
 */
export function messageBusContract(
  name: string,
  make: () => Promise<McpMessageBusHarness>,
  api?: McpContractTestApi,
): void {
  runContract(name, make, { messages: messageTests, 'open and closed': lifeTests }, api);
}

const messageTests: ContractTests<McpMessageBusHarness> = {
  'each node has an id of its own, of letters and digits': async ({ nodes }) => {
    for (const { nodeId } of nodes) assert.match(nodeId, /^[A-Za-z0-9]+$/);
    assert.equal(new Set(nodes.map(({ nodeId }) => nodeId)).size, 3);
  },

  'send reaches the one node, broadcast all of them, the sending one too': async ({ nodes: [a, b, c] }) => {
    const readers = [a, b, c].map(listen);
    a.send(b.nodeId, { for: 'b' });
    a.send(a.nodeId, { for: 'a' });
    a.broadcast('marker');
    assert.deepEqual(readers[0]!.messages, [], 'delivered within the call that sends it');
    await Promise.all(readers.map((reader) => reader.got('marker')));
    const expected = [[{ for: 'a' }, 'marker'], [{ for: 'b' }, 'marker'], ['marker']];
    assert.deepEqual(
      readers.map(({ messages }) => messages),
      expected,
    );
  },

  'messages between two nodes keep their order': async ({ nodes: [a, b] }) => {
    const reader = listen(b);
    const sent = Array.from({ length: 200 }, (_, n) => ({ n }));
    for (const message of sent) {
      if (message.n % 3 === 0) a.broadcast(message);
      else a.send(b.nodeId, message);
    }
    await reader.got({ n: 199 });
    assert.deepEqual(reader.messages, sent);
  },

  'a message arrives as JSON carried it when it was sent': async ({ nodes: [a, b] }) => {
    const reader = listen(b);
    const message = { text: 'ünï \u2028 😀 \0\n', list: [1.5, null, true, {}], nested: { '': '' } };
    const sent = structuredClone(message);
    a.send(b.nodeId, message);
    message.list.push(2);
    a.send(b.nodeId, 'marker');
    await reader.got('marker');
    assert.deepEqual(reader.messages[0], sent);
  },

  'sending to an unknown node is no error, and nothing is stored': async ({ nodes: [a, b] }) => {
    a.send('unknown', 1);
    a.send('constructor', 1);
    a.send('__proto__', 1);
    a.broadcast(1);
    const first = listen(b);
    a.broadcast('marker');
    await first.got('marker');
    const late = listen(b);
    a.broadcast('second marker');
    await late.got('second marker');
    assert.deepEqual(late.messages, ['second marker']);
  },

  'every subscriber of a node gets a message; one that has left gets none': async ({ nodes: [a, b] }) => {
    const [one, other] = [listen(b), listen(b)];
    a.send(b.nodeId, 1);
    await Promise.all([one.got(1), other.got(1)]);
    one.leave();
    a.send(b.nodeId, 2);
    await other.got(2);
    assert.deepEqual(one.messages, [1]);
  },
};

const lifeTests: ContractTests<McpMessageBusHarness> = {
  'close completes the streams, once, and is idempotent': async ({ nodes: [a] }) => {
    const completed: string[] = [];
    a.messages$.subscribe({ complete: () => completed.push('messages') });
    a.reconnected$.subscribe({ complete: () => completed.push('reconnected') });
    await Promise.all([a.close(), a.close()]);
    await a.close();
    a.messages$.subscribe({ complete: () => completed.push('subscribed to late') });
    assert.deepEqual(completed.toSorted(), ['messages', 'reconnected', 'subscribed to late']);
  },

  'a closed node receives and sends nothing; the others go on': async ({ nodes: [a, b, c] }) => {
    const [atA, atC] = [listen(a), listen(c)];
    await a.close();
    a.send(c.nodeId, 'from the closed');
    a.broadcast('from the closed');
    b.send(a.nodeId, 'to the closed');
    b.broadcast('marker');
    await atC.got('marker');
    assert.deepEqual([atA.messages, atC.messages], [[], ['marker']]);
  },

  'after an interruption `reconnected$` emits, and messages arrive again': async ({ nodes: [a, b], interrupt }) => {
    if (!interrupt) return;
    const received = new Promise<void>((resolve) => {
      b.reconnected$.subscribe(() => resolve());
    });
    await interrupt();
    await received;
    const reader = listen(b);
    // The sender may still be interrupted, and a message that it cannot send then is lost.
    const sending = setInterval(() => a.send(b.nodeId, 'again'), 20);
    await reader.got('again').finally(() => clearInterval(sending));
  },
};

interface Reader {
  readonly messages: unknown[];
  /** Resolves when this message has arrived. */
  got(message: unknown): Promise<void>;
  leave(): void;
}

function listen(bus: McpMessageBus): Reader {
  const messages: unknown[] = [];
  const waiting = new Map<string, () => void>();
  const subscription = bus.messages$.subscribe((message) => {
    messages.push(message);
    waiting.get(JSON.stringify(message))?.();
  });
  return {
    messages,
    got: (message) =>
      new Promise((resolve) => {
        const text = JSON.stringify(message);
        if (messages.some((each) => JSON.stringify(each) === text)) resolve();
        else waiting.set(text, resolve);
      }),
    leave: () => subscription.unsubscribe(),
  };
}
