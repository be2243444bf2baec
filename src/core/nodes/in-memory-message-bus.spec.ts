import { describe, expect, it } from 'vitest';
import { messageBusContract } from '../../testing/index.js';
import { InMemoryMessageBus, InMemoryMessageHub } from './in-memory-message-bus.js';

messageBusContract(
  'InMemoryMessageBus',
  async () => {
    const hub = new InMemoryMessageHub();
    const bus = () => new InMemoryMessageBus(undefined, hub);
    const nodes = [bus(), bus(), bus()] as const;
    return { nodes, dispose: async () => void (await Promise.all(nodes.map((node) => node.close()))) };
  },
  { describe, it },
);

describe('InMemoryMessageBus', () => {
  it('InMemoryMessageBus has a random id, and a hub of its own', async () => {
    const [one, other] = [new InMemoryMessageBus(), new InMemoryMessageBus()];
    expect(one.nodeId).toMatch(/^[A-Za-z0-9]{10}$/);
    const heard: unknown[] = [];
    other.messages$.subscribe((message) => heard.push(message));
    one.broadcast('hello');
    one.send(other.nodeId, 'hello');
    await Promise.resolve();
    expect(heard).toEqual([]);
  });

  it('InMemoryMessageBus hands its own messages over as they are, and copies those that cross nodes', async () => {
    const hub = new InMemoryMessageHub();
    const [a, b] = [new InMemoryMessageBus('a', hub), new InMemoryMessageBus('b', hub)];
    const heard: unknown[] = [];
    a.messages$.subscribe((message) => heard.push(message));
    b.messages$.subscribe((message) => heard.push(message));
    const message = { list: [1], gone: undefined };
    a.broadcast(message);
    expect(heard).toEqual([]);
    await Promise.resolve();
    expect(heard[0]).toBe(message);
    expect(heard[1]).toStrictEqual({ list: [1] });
  });

  it('InMemoryMessageBus drops what is under way to a node that closes', async () => {
    const hub = new InMemoryMessageHub();
    const [a, b] = [new InMemoryMessageBus('a', hub), new InMemoryMessageBus('b', hub)];
    const heard: unknown[] = [];
    b.messages$.subscribe((message) => heard.push(message));
    a.send('b', 1);
    await b.close();
    await Promise.resolve();
    expect(heard).toEqual([]);
  });

  it('InMemoryMessageBus refuses a second node with the same id; the id is free again after close', async () => {
    const hub = new InMemoryMessageHub();
    const first = new InMemoryMessageBus('a', hub);
    expect(() => new InMemoryMessageBus('a', hub)).toThrow('"a"');
    await first.close();
    expect(new InMemoryMessageBus('a', hub).nodeId).toBe('a');
  });
});
