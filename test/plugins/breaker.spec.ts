import {
  type CanActivate,
  type ExecutionContext,
  ForbiddenException,
  HttpException,
  Injectable,
  UseGuards,
} from '@nestjs/common';
import { McpExecutionContext, Tool } from 'nestjs-mcp-streamable';
import { type McpEndpointHost, type McpEndpointPlugin, McpPlugin } from 'nestjs-mcp-streamable/plugins';
import { createMcpTestClient, ManualClock } from 'nestjs-mcp-streamable/testing';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { TestApp } from '../support/app.js';
import { as, trustingGuard } from '../support/users.js';

const FAILURES = 3;
const PAUSE_MS = 10_000;

/** Refuses calls of a tool that has failed several times in a row, and lets one try again after a pause. */
@Injectable()
class Breaker extends McpPlugin {
  readonly ring = 'limit';

  attach({ clock }: McpEndpointHost): McpEndpointPlugin {
    return {
      handler: (target) => {
        if (target.kind !== 'tool') return undefined;
        let failures = 0;
        let opensAt = 0;
        return {
          run: () => {
            let entered = false;
            return {
              entering: () => {
                if (clock.now() < opensAt) throw new HttpException(`${target.key} has failed too often.`, 429);
                if (failures >= FAILURES) opensAt = clock.now() + PAUSE_MS;
              },
              entered: () => void (entered = true),
              around: async (next) => {
                try {
                  const result = await next();
                  failures = opensAt = 0;
                  return result;
                } catch (error) {
                  if (entered && ++failures >= FAILURES) opensAt = clock.now() + PAUSE_MS;
                  throw error;
                }
              },
            };
          },
        };
      },
    };
  }
}

@Injectable()
class NotMallory implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    if (McpExecutionContext.create(context).getContext().principal === 'mallory') throw new ForbiddenException();
    return true;
  }
}

let broken = true;
let ran = 0;

@Injectable()
class Tools {
  @Tool({ name: 'breaks' })
  @UseGuards(NotMallory)
  breaks(): string {
    ran++;
    if (broken) throw new Error('It is broken.');
    return 'works';
  }
  @Tool({ name: 'other' })
  other(): string {
    return 'other';
  }
}

describe.each(['legacy', 'modern'] as const)('a circuit breaker that is a plugin (%s)', (era) => {
  let app: TestApp;
  let clock: ManualClock;
  const ends: (() => Promise<void>)[] = [];
  const connect = async (user: string) => {
    const mcp = await createMcpTestClient(app.app, { era, headers: as(user) });
    ends.push(() => mcp.close());
    return (name: string): Promise<string> =>
      mcp.callTool(name, {}).then(
        ({ text }) => text,
        (error: Error) => error.message,
      );
  };
  beforeEach(async () => {
    broken = true;
    ran = 0;
    clock = new ManualClock();
    const principal = ({ user }: { user?: { sub: string } }) => user?.sub;
    const providers = [Tools, NotMallory, Breaker];
    app = await TestApp.start({
      adapter: 'fastify',
      server: undefined,
      clock,
      providers,
      guards: [trustingGuard],
      principal,
    });
  });
  afterEach(async () => {
    for (const end of ends.splice(0)) await end();
    await app.close();
    app.log.release();
  });

  it('a tool that has failed several times is not run, until one call after the pause succeeds', async () => {
    const call = await connect('ann');
    for (let time = 0; time < FAILURES; time++) await call('breaks');
    expect(await call('breaks')).toBe('breaks has failed too often.');
    expect(ran).toBe(FAILURES);
    expect(await call('other')).toBe('other');
    await clock.advance(PAUSE_MS);
    broken = false;
    expect(await call('breaks')).toBe('works');
    expect(await call('breaks')).toBe('works');
  });

  it('a tool that fails after the pause is not run for another one', async () => {
    const call = await connect('ann');
    for (let time = 0; time < FAILURES; time++) await call('breaks');
    await clock.advance(PAUSE_MS);
    await call('breaks');
    await call('breaks');
    expect(ran).toBe(FAILURES + 1);
  });

  it('a caller whom guards refuse neither opens the breaker nor learns that it is open', async () => {
    const [ann, mallory] = [await connect('ann'), await connect('mallory')];
    const refusal = await mallory('breaks');
    for (let time = 0; time < FAILURES; time++) await mallory('breaks');
    broken = false;
    expect(await ann('breaks')).toBe('works');
    broken = true;
    for (let time = 0; time < FAILURES; time++) await ann('breaks');
    expect(await mallory('breaks')).toBe(refusal);
  });
});
