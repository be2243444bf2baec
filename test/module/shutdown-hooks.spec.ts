import { McpStreamableModule } from 'nestjs-mcp-streamable';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { TestApp, serverInfo } from '../support/app.js';

describe('an app without shutdown hooks', () => {
  // Those of the test runner would count.
  const others = process.listeners('SIGTERM');
  beforeEach(() => void process.removeAllListeners('SIGTERM'));
  afterEach(() => others.forEach((listener) => process.on('SIGTERM', listener)));

  const imports = [
    McpStreamableModule.forRoot({ serverInfo }),
    McpStreamableModule.forRoot({ serverInfo, name: 'admin', path: 'admin' }),
  ];
  const linesOf = ({ log }: TestApp) => log.lines.filter(({ text }) => text.includes('enableShutdownHooks'));

  it('an app without shutdown hooks logs one line at the start about what it loses, however many endpoints it has', async () => {
    const app = await TestApp.of('fastify', { imports });
    expect(linesOf(app)).toEqual([
      { level: 'log', text: expect.stringMatching(/SIGTERM.*running calls.*open streams/) },
    ]);
    await app.close();
  });

  it('an app without shutdown hooks logs nothing when it has them', async () => {
    const app = await TestApp.of('fastify', { imports }, (nest) => void nest.enableShutdownHooks());
    expect(linesOf(app)).toEqual([]);
    await app.close();
  });

  it('an app without shutdown hooks logs nothing when it handles the signal itself', async () => {
    process.once('SIGTERM', () => {});
    const app = await TestApp.of('fastify', { imports });
    expect(linesOf(app)).toEqual([]);
    await app.close();
    process.removeAllListeners('SIGTERM');
  });
});
