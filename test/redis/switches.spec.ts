import { Injectable } from '@nestjs/common';
import { McpRegistry, Tool } from 'nestjs-mcp-streamable';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { gate, TestApp } from '../support/app.js';
import { ModernClient } from '../support/modern-client.js';
import { describeRedis } from '../support/redis.js';
import { RedisRoom } from '../support/redis-room.js';

const YEAR_MS = 365 * 24 * 60 * 60 * 1_000;

@Injectable()
class Tools {
  @Tool({ name: 'refund' })
  refund(): string {
    return 'refunded';
  }
  @Tool({ name: 'search' })
  search(): string {
    return 'found';
  }
  @Tool({ name: 'export' })
  export(): string {
    return 'exported';
  }
}

type Backend = ReturnType<RedisRoom['node']>;

describeRedis('a tool that is switched off, in Redis', () => {
  let room: RedisRoom;
  const apps: TestApp[] = [];

  beforeEach(async () => {
    room = await RedisRoom.open();
  });
  afterEach(async () => {
    await Promise.all(apps.splice(0).map((app) => app.shutDown()));
    await room.close();
  });

  const start = async (change: (backend: Backend) => Backend = (backend) => backend): Promise<TestApp> => {
    const app = await TestApp.start({ adapter: 'fastify', backend: change(room.node()), providers: [Tools] });
    apps.push(app);
    return app;
  };
  const textOf = async (app: TestApp): Promise<string> =>
    (await new ModernClient(app.url).ask('tools/call', { name: 'refund', arguments: {} })).result.content[0].text;

  it('a tool that is switched off is off on the other nodes, and a year later on a node that starts when all others have stopped', async () => {
    const [one, other] = [await start(), await start()];
    await one.app.get(McpRegistry).disable('refund', { reason: 'Not now.' });
    await expect.poll(() => textOf(other)).toBe('The tool "refund" is switched off: Not now.');
    await Promise.all(apps.splice(0).map((app) => app.shutDown()));
    await room.advance(YEAR_MS);
    const late = await start();
    expect(await textOf(late)).toBe('The tool "refund" is switched off: Not now.');
    await late.app.get(McpRegistry).enable('refund');
    expect(await textOf(await start())).toBe('refunded');
  });

  it('tools that three nodes switch off at the same moment are all off on a node that starts after the others have died', async () => {
    const names = ['refund', 'search', 'export'];
    const all = gate();
    let readers = 0;
    /** Each node has read the store before another one writes, and no signal reaches another node. */
    const racing = (backend: Backend): Backend => {
      const { stateStore, messageBus } = backend;
      messageBus.broadcast = () => {};
      const get = stateStore.get.bind(stateStore);
      stateStore.get = async (key) => {
        const value = await get(key);
        if (armed && ++readers === names.length) all.open();
        if (armed) await all.promise;
        return value;
      };
      return backend;
    };
    let armed = false;
    const nodes = await Promise.all(names.map(() => start(racing)));
    armed = true;
    await Promise.all(nodes.map(({ app }, at) => app.get(McpRegistry).disable(names[at]!)));
    // They die: none of them repairs what another one has undone.
    await Promise.all(apps.splice(0).map((app) => app.shutDown()));
    const late = await start();
    const off = late.app
      .get(McpRegistry)
      .list('tool')
      .filter(({ disabled }) => disabled);
    expect(off.map(({ key }) => key).toSorted()).toEqual(names.toSorted());
  });
});
