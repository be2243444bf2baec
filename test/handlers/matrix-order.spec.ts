import { beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, type TestApp } from '../support/app.js';
import { testApps } from '../support/test-apps.js';
import { send } from '../support/http.js';
import { KINDS, messageOf, resultText, type Kind } from '../support/kinds.js';
import type { RawClient } from '../support/raw-client.js';
import { expectRefusal } from '../support/refusal.js';
import { as } from '../support/users.js';
import { controlOf, globals, hostOf, PLACES, takeSights, type Standing } from './surrounded.js';

/** Every enhancer in every place. */
const EVERYWHERE: Standing = Object.fromEntries(
  PLACES.map((place) => [place, ['guard', 'interceptor', 'pipe', 'filter'] as const]),
);
const WITHOUT_PARAM_PIPES = ['tool', 'prompt'] as const;

interface Order {
  steps: string[];
  /** Nest makes all parameters at the same time: the pipes of one run beside those of the other. */
  pipesOfInjected: string[];
}

/** What ran around handlers or around the route, in order. */
function order(around: string): Order {
  const ran = takeSights().filter(
    (sight) => sight.around === around || (around !== 'mcp' && sight.around === 'a route'),
  );
  const named = (sights: typeof ran): string[] => sights.map(({ what, place }) => `${what} at ${place}`);
  return {
    steps: named(ran.filter(({ what, type }) => what !== 'pipe' || type === 'body')),
    pipesOfInjected: named(ran.filter(({ what, type }) => what === 'pipe' && type === 'custom')),
  };
}

/** Checking the arguments is ours; a route leaves it to its pipes. */
const withoutValidation = ({ steps, ...rest }: Order): Order => ({
  ...rest,
  steps: steps.filter((step) => step !== 'validation at schema'),
});

describe.each(ONE_ADAPTER)('the order of what runs around handlers, on %s', (adapter) => {
  const start = testApps(adapter, { shared: true, denials: 'http' });
  beforeEach(() => void takeSights());

  const { providers, configure } = globals(EVERYWHERE);
  const everything = {
    module: { controllers: [controlOf(EVERYWHERE)] },
    providers: [hostOf('subject', EVERYWHERE, { injected: true, pipes: true }), ...providers],
    configure,
  };
  const startEverything = async (): Promise<{ app: TestApp; client: RawClient }> => {
    const app = await start(everything);
    const client = await app.client({ ...as('anna', 'fresh'), 'x-caller': 'anna' }).initialize();
    takeSights();
    return { app, client };
  };

  /** What Nest does around a route of the same app. */
  const ofRoute = async (app: TestApp, body: object, headers = {}): Promise<{ status: number; expected: Order }> => {
    const url = new URL('/control', app.url).href;
    const sent = { 'content-type': 'application/json', 'x-caller': 'anna', ...headers };
    const response = await send(url, { headers: sent, body });
    await response.text();
    return { status: response.status, expected: order('Control') };
  };
  const ofHandler = async (client: RawClient, kind: Kind, headers = {}) => {
    const response = await client.post(messageOf(client, kind, 'subject', { q: 'x' }), headers);
    return { response, ran: order('mcp') };
  };

  it.each(KINDS)('the order of what runs around handlers is that of a route, around a %s', async (kind) => {
    const { app, client } = await startEverything();
    const { expected } = await ofRoute(app, { q: 'x' });
    expect(expected.steps.filter((step) => step.startsWith('guard'))).toEqual([
      'guard at APP_*',
      'guard at useGlobal*',
      'guard at class',
      'guard at method',
    ]);
    expect(expected.steps.indexOf('handler at method')).toBeGreaterThan(expected.steps.indexOf('pipe at method'));
    expect(expected.pipesOfInjected).toHaveLength(4);
    const { response, ran } = await ofHandler(client, kind);
    expect(withoutValidation(ran)).toEqual(expected);
    const { result } = await response.json();
    expect(resultText(result)).toBe(
      `${JSON.stringify({
        args: {
          tool: { q: 'x', piped: true },
          resource: { uri: 'subject://fixed', piped: true },
          template: { id: '7', uri: 'subject://7/of', piped: true },
          prompt: { q: 'x', piped: true },
        }[kind],
        injected: 'injected of anna piped piped piped piped',
      })} intercepted intercepted intercepted intercepted`,
    );
  });

  it.each(KINDS)(
    'the order of what runs around handlers is that of a route when a %s throws: the nearest filter, once',
    async (kind) => {
      const { app, client } = await startEverything();
      const { status, expected } = await ofRoute(app, { fail: true });
      expect(status).toBe(418);
      expect(expected.steps.filter((step) => step.startsWith('filter'))).toEqual(['filter at method']);
      const { response, ran } = await ofHandler(client, kind, { 'x-fail': 'yes' });
      expect(withoutValidation(ran)).toEqual(expected);
      expect(resultText((await response.json()).result)).toBe('secret mapped');
    },
  );

  it.each(KINDS)(
    'the order of what runs around handlers ends at the guard that denies a %s; nothing is validated before',
    async (kind) => {
      const { app, client } = await startEverything();
      for (const place of PLACES) {
        const { status, expected } = await ofRoute(app, {}, { 'x-deny': place });
        expect(status).toBe(403);
        expect(expected.steps.at(-1)).toBe(`guard at ${place}`);
        const message = messageOf(client, kind, 'subject', { q: 'bad' });
        const response = await client.post(message, { 'x-deny': place });
        await expectRefusal(response, { status: 403, code: -32000, id: message.id, says: [`Denied by ${place}`] });
        expect(order('mcp')).toEqual(expected);
      }
    },
  );

  it.each(WITHOUT_PARAM_PIPES)(
    'the order of what runs around handlers has the schema of a %s between guards and pipes, and checks once',
    async (kind) => {
      const { client } = await startEverything();
      const { response, ran } = await ofHandler(client, kind);
      const { steps } = ran;
      await response.text();
      const at = (step: string): number => steps.indexOf(step);
      expect(steps.filter((step) => step === 'validation at schema')).toHaveLength(1);
      for (const place of PLACES) {
        expect(at('validation at schema')).toBeGreaterThan(at(`guard at ${place}`));
        expect(at('validation at schema')).toBeGreaterThan(at(`interceptor at ${place}`));
        expect(at('validation at schema')).toBeLessThan(at(`pipe at ${place}`));
      }
    },
  );

  it.each(WITHOUT_PARAM_PIPES)(
    'the order of what runs around handlers ends at the schema when the arguments of a %s are wrong',
    async (kind) => {
      const { client } = await startEverything();
      const response = await client.post(messageOf(client, kind, 'subject', { q: 'bad' }));
      const { result, error } = await response.json();
      if (kind === 'tool') expect(result).toMatchObject({ isError: true });
      else expect(error).toMatchObject({ code: -32602 });
      const { steps } = order('mcp');
      expect(steps.at(-1)).toBe('validation at schema');
      expect(steps.filter((step) => /^(?:guard|interceptor) at/.test(step))).toHaveLength(8);
    },
  );
});
