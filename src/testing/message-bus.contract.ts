import assert from 'node:assert/strict';
import type { McpMessageBus } from '../bus/message-bus.js';
import { type ContractTestApi, type ContractTests, runContract } from './contract.js';

/** Three nodes that are connected with one another. Each test gets new ones. @publicApi */
export interface MessageBusHarness {
  readonly nodes: readonly [McpMessageBus, McpMessageBus, McpMessageBus];
  /** Cuts the connections and brings them back. Absent: nothing can be lost, and that is not tested. */
  readonly interrupt?: () => Promise<void>;
  dispose(): Promise<void>;
}

/**
 * The contract of `McpMessageBus`, one test for each sentence.
 *
 * @param make three connected nodes, for each test
 * @param api of the test runner; by default its globals
 * @publicApi
 */
export function messageBusContract(name: string, make: () => Promise<MessageBusHarness>, api?: ContractTestApi): void {
  runContract(name, make, { messages: messageTests, 'open and closed': lifeTests }, api);
}

const messageTests: ContractTests<MessageBusHarness> = {
  'each node has an id of its own, of letters and digits': async ({ nodes }) => {
    for (const { nodeId } of nodes) assert.match(nodeId, /^[A-Za-z0-9]+$/);
    assert.equal(new Set(nodes.map(({ nodeId }) => nodeId)).size, 3);
  },

  'send reaches the one node': async ({ nodes: [a, b, c] }) => {
    const [atA, atB, atC] = [a, b, c].map(listen) as [Reader, Reader, Reader];
    a.send(b.nodeId, { for: 'b' });
    a.broadcast('marker');
    await Promise.all([atA, atB, atC].map((reader) => reader.got('marker')));
    assert.deepEqual([atA.messages, atB.messages, atC.messages], [['marker'], [{ for: 'b' }, 'marker'], ['marker']]);
  },

  'a node can send to itself': async ({ nodes: [a] }) => {
    const reader = listen(a);
    a.send(a.nodeId, { for: 'a' });
    await reader.got({ for: 'a' });
  },

  'broadcast reaches all nodes, the sending one too': async ({ nodes }) => {
    const readers = nodes.map(listen);
    nodes[1].broadcast({ to: 'all' });
    await Promise.all(readers.map((reader) => reader.got({ to: 'all' })));
    for (const { messages } of readers) assert.deepEqual(messages, [{ to: 'all' }]);
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

  'a message is not delivered within the call that sends it': async ({ nodes: [a] }) => {
    const reader = listen(a);
    a.send(a.nodeId, 1);
    a.broadcast(2);
    assert.deepEqual(reader.messages, []);
    await reader.got(2);
  },

  'a message arrives as JSON carries it': async ({ nodes: [a, b] }) => {
    const reader = listen(b);
    const message = { text: 'ünï \u2028 😀 \0\n', list: [1.5, null, true, {}], nested: { '': '' } };
    a.send(b.nodeId, message);
    await reader.got(message);
  },

  'what the sender does to a message afterwards does not reach another node': async ({ nodes: [a, b] }) => {
    const reader = listen(b);
    const message = { list: [1] };
    a.send(b.nodeId, message);
    message.list.push(2);
    a.send(b.nodeId, 'marker');
    await reader.got('marker');
    assert.deepEqual(reader.messages[0], { list: [1] });
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

const lifeTests: ContractTests<MessageBusHarness> = {
  'close completes the streams, once, and is idempotent': async ({ nodes: [a] }) => {
    const completed: string[] = [];
    a.messages$.subscribe({ complete: () => completed.push('messages') });
    a.reconnected$.subscribe({ complete: () => completed.push('reconnected') });
    await Promise.all([a.close(), a.close()]);
    await a.close();
    assert.deepEqual(completed.toSorted(), ['messages', 'reconnected']);
  },

  'subscribing to a closed bus completes at once': async ({ nodes: [a] }) => {
    await a.close();
    let completed = false;
    a.messages$.subscribe({ complete: () => (completed = true) });
    assert.equal(completed, true);
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
    const told = new Promise<void>((resolve) => {
      b.reconnected$.subscribe(() => resolve());
    });
    await interrupt();
    await told;
    const reader = listen(b);
    // The sender may still be interrupted, and a message that it cannot send then is lost.
    const sending = setInterval(() => a.send(b.nodeId, 'again'), 20);
    await reader.got('again').finally(() => clearInterval(sending));
  },
};

interface Reader {
  readonly messages: unknown[];
  /** Settles when this message has come. */
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
