import { setImmediate as nextTurn } from 'node:timers/promises';
import {
  Catch,
  Injectable,
  type ExceptionFilter,
  UseInterceptors,
  type CallHandler,
  type ExecutionContext,
  type NestInterceptor,
} from '@nestjs/common';
import { defer, EMPTY, finalize, map, NEVER, Observable, of, tap, throwError, timeout, concat } from 'rxjs';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { APP_FILTER } from '@nestjs/core';
import { gate } from '../../../../test/support/app.js';
import { ONE_ADAPTER, EntryProvider, InvokingApp, TestedClient } from '../../../../test/support/invoking-app.js';
import { HandlerCancelled } from '../handlers.errors.js';
import { toolLog, toolProgress } from '../results/tool-event.js';

let ended: string[] = [];
let seen: unknown[] = [];
/** The handler `late` waits for this. */
let lateness = gate();

class Watching implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler) {
    return next.handle().pipe(
      tap((value) => seen.push(value)),
      map((value) => ({ wrapped: value })),
    );
  }
}

class Impatient implements NestInterceptor {
  intercept(_context: ExecutionContext, next: CallHandler) {
    return next.handle().pipe(timeout(20));
  }
}

const steps = () => of(toolProgress(1, 2), toolLog('info', 'half'), toolProgress(2, 2, 'all'), 'result');
const sentOfSteps = [
  { progressToken: 'token', progress: 1, total: 2 },
  { level: 'info', data: 'half' },
  { progressToken: 'token', progress: 2, total: 2, message: 'all' },
];

@EntryProvider()
@Injectable()
class Streams {
  observable() {
    return steps();
  }
  async promised() {
    return steps();
  }
  async *generator() {
    yield toolProgress(1, 2);
    yield toolLog('info', 'half');
    yield toolProgress(2, 2, 'all');
    return 'result';
  }
  @UseInterceptors(Watching)
  watched() {
    return steps();
  }
  empty() {
    return EMPTY;
  }
  several() {
    return of(1, 2).pipe(finalize(() => ended.push('several')));
  }
  failing() {
    return concat(
      of(toolProgress(1)),
      throwError(() => new Error('halfway')),
    );
  }
  endless() {
    return concat(of(toolProgress(1)), NEVER).pipe(finalize(() => ended.push('endless')));
  }
  @UseInterceptors(Impatient)
  impatient() {
    return defer(() => NEVER).pipe(finalize(() => ended.push('impatient')));
  }
  @UseInterceptors(Impatient)
  async late() {
    await lateness.promise;
    return new Observable(() => void ended.push('subscribed'));
  }
}

/** A handler with nothing around it is called without Nest; both ways must be the same. */
@Catch(SyntaxError)
class OtherFilter implements ExceptionFilter {
  catch(): void {}
}

const ways = ONE_ADAPTER.flatMap((adapter) => [
  { adapter, way: 'called directly', around: [] },
  { adapter, way: 'called through Nest', around: [{ provide: APP_FILTER, useClass: OtherFilter }] },
]);

describe.each(ways)('results that come in parts, on $adapter, $way', ({ adapter, around }) => {
  let app: InvokingApp;
  let client: TestedClient;
  const run = (handler: string) => app.run({ handler: `Streams.${handler}` }, {}, client);

  beforeEach(async () => {
    ended = [];
    seen = [];
    lateness = gate();
    client = new TestedClient();
    app = await InvokingApp.start({ adapter, providers: [Streams, ...around] });
  });
  afterEach(() => app.close());

  it.each(['observable', 'promised', 'generator'])(
    'the invoker of a handler sends what has a tag, and returns the rest (%s)',
    async (handler) => {
      expect(await run(handler)).toBe('result');
      expect(client.sent).toEqual(sentOfSteps);
    },
  );

  it('the invoker of a handler shows interceptors the result alone', async () => {
    expect(await run('watched')).toEqual({ wrapped: 'result' });
    expect(seen).toEqual(['result']);
    expect(client.sent).toEqual(sentOfSteps);
  });

  it('the invoker of a handler takes none for nothing, and several for a mistake', async () => {
    expect(await run('empty')).toBeUndefined();
    await expect(run('several')).rejects.toThrow(/Streams\.several emitted more than one value/);
    expect(ended).toEqual(['several']);
  });

  it('the invoker of a handler reports an error after progress', async () => {
    await expect(run('failing')).rejects.toThrow('halfway');
    expect(client.sent).toEqual([{ progressToken: 'token', progress: 1 }]);
  });

  it('the invoker of a handler unsubscribes when the call is cancelled', async () => {
    const running = run('endless');
    await expect.poll(() => client.sent).toHaveLength(1);
    client.aborting.abort(new Error('no longer wanted'));
    await expect(running).rejects.toBeInstanceOf(HandlerCancelled);
    expect(ended).toEqual(['endless']);
  });

  it('the invoker of a handler unsubscribes when an interceptor has given up', async () => {
    await expect(run('impatient')).rejects.toThrow('Timeout');
    expect(ended).toEqual(['impatient']);
    await expect(run('late')).rejects.toThrow('Timeout');
    lateness.open();
    await nextTurn();
    expect(ended).toEqual(['impatient']);
  });
});
