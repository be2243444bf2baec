import { beforeEach, describe, expect, it } from 'vitest';
import { ONE_ADAPTER, type TestApp } from '../support/app.js';
import { officialClients, testApps } from '../support/test-apps.js';
import { askOfficially, asking, KINDS, messageOf, nameOf, type Kind } from '../support/kinds.js';
import { expectRefusal } from '../support/refusal.js';
import { as } from '../support/users.js';
import { ENHANCERS, globals, hostOf, PLACES, takeSights, type EnhancerName, type Place } from './surrounded.js';

/** Which parameters of the caller's are in what a handler was given, by kind. */
const ARGS: Readonly<Record<Kind, object>> = {
  tool: { q: 'x' },
  resource: { uri: 'subject://fixed' },
  template: { id: '7', uri: 'subject://7/of' },
  prompt: { q: 'x' },
};

const isGlobal = (place: Place): boolean => place === 'APP_*' || place === 'useGlobal*';

/** Each two values meet once, as in a Latin square: a defect of three that meet is not known, and all of them would be 80 apps. */
const CELLS = ENHANCERS.flatMap((enhancer, row) =>
  PLACES.map((place, column) => [enhancer, place, KINDS[(row + column) % KINDS.length]!] as const),
);

/** What the caller is told by a handler that has the enhancer around it. */
function told(enhancer: EnhancerName, place: Place, kind: Kind): string {
  const args = ARGS[kind];
  switch (enhancer) {
    case 'guard':
      return JSON.stringify({ args });
    case 'interceptor':
      return `${JSON.stringify({ args })} intercepted`;
    case 'pipe':
      return JSON.stringify({ args: { ...args, piped: true } });
    case 'filter':
      return 'secret mapped';
    case 'param':
      // A param decorator stands at a parameter; the place is that of the pipe which its value goes through.
      return JSON.stringify({
        args: { ...args, ...(place !== 'method' && { piped: true }) },
        injected: `injected of anna${place === 'method' ? '' : ' piped'}`,
      });
  }
}

/** What the enhancer saw of it. */
function sightOf(enhancer: EnhancerName, place: Place, kind: Kind): object {
  const { method: rpc } = asking(kind, 'subject');
  const user = { sub: 'anna', token: 'fresh' };
  if (enhancer === 'pipe') {
    return { what: 'pipe', place, around: 'mcp', rpc, user, type: 'body', value: ARGS[kind], known: true };
  }
  const context = {
    around: 'mcp',
    type: 'http',
    user,
    caller: 'anna',
    kind,
    name: nameOf(kind, 'subject'),
    class: 'subjectHost',
    method: kind,
    isContext: true,
    principal: 'anna',
    rpc,
    sameRequest: true,
  };
  if (enhancer === 'filter') return { what: enhancer, place, ...context };
  return {
    what: enhancer,
    place: enhancer === 'param' ? 'method' : place,
    ...context,
    mark: 'subject',
    sameClass: true,
  };
}

describe.each(ONE_ADAPTER)('the enhancers of Nest around handlers, on %s', (adapter) => {
  const start = testApps(adapter, { denials: 'http' });
  const connect = officialClients();
  beforeEach(() => void takeSights());

  /** An app with one enhancer in one place: around one host, and another beside it. */
  const startWith = (enhancer: EnhancerName, place: Place): Promise<TestApp> => {
    const isParam = enhancer === 'param';
    const name = isParam ? 'pipe' : enhancer;
    const standing = isParam && place === 'method' ? {} : { [place]: [name] };
    const subject = hostOf('subject', standing, { injected: isParam });
    const { providers, configure } = globals(standing);
    return start({ providers: [subject, hostOf('bystander', {}), ...providers], configure });
  };
  /** Those of the cell's enhancer around handlers; the route of the endpoint has global ones around it, too. */
  const sightsOf = (enhancer: EnhancerName) =>
    takeSights().filter(({ what, around }) => what === enhancer && around === 'mcp');

  it.each(CELLS)('%s at %s runs around a %s', async (enhancer, place, kind) => {
    const app = await startWith(enhancer, place);
    const failing = enhancer === 'filter';
    const headers = { ...as('anna', 'fresh'), 'x-caller': 'anna', ...(failing && { 'x-fail': 'yes' }) };
    const client = await connect(app, headers);
    const ask = (host: string): Promise<string> => askOfficially(client, kind, host, { q: 'x', id: '7' });
    takeSights();

    expect(await ask('subject')).toBe(told(enhancer, place, kind));
    expect(sightsOf(enhancer)).toMatchObject([sightOf(enhancer, place, kind)]);

    // Once per call, also when they come at the same time.
    await Promise.all([ask('subject'), ask('subject'), ask('subject')]);
    expect(sightsOf(enhancer)).toMatchObject(Array(3).fill(sightOf(enhancer, place, kind)));

    // Around this handler, and no other that it does not stand at.
    const [other] = await Promise.allSettled([ask('bystander')]);
    expect(sightsOf(enhancer)).toHaveLength(isGlobal(place) && enhancer !== 'param' ? 1 : 0);
    if (failing && !isGlobal(place)) {
      expect(JSON.stringify(other)).not.toContain('mapped');
    }

    if (enhancer === 'guard') await expectDenial(app, place, kind, headers);
  });

  /** The one thing that only a guard can do. */
  const expectDenial = async (app: TestApp, place: Place, kind: Kind, headers: Record<string, string>) => {
    const client = await app.client(headers).initialize();
    takeSights();
    const message = messageOf(client, kind, 'subject', { q: 'bad' });
    const denied = await client.post(message, { 'x-deny': place });
    await expectRefusal(denied, { status: 403, code: -32000, id: message.id, says: [`Denied by ${place}`] });
    const sights = takeSights().filter(({ around }) => around === 'mcp');
    expect(sights.map(({ what }) => what)).toEqual(['guard']);
  };
});
