import { button, byId, changed, make, put } from './dom.js';
import { count, plural, size } from './format.js';
import type { Endpoint, Facts } from './state.js';

/* The top of the page: the name of the server, the tiles, the parts, and a tab for each endpoint. */

const sumOf = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

export function drawFacts(facts: Facts): void {
  put(byId('server'), facts.title || facts.server);
  put(byId('server-name'), facts.title ? facts.server : '');
  const title = `${facts.title || facts.server} – MCP live`;
  if (document.title !== title) document.title = title;
  drawRate(facts);
  put(byId('running'), count(facts.calls));
  const tasks = facts.tasks > 0 ? `, ${plural(facts.tasks, 'task')}` : '';
  const questions = facts.questions > 0 ? `${count(facts.questions)} wait for an answer` : undefined;
  put(byId('running-note'), questions ?? `calls in flight${tasks}`);
  put(byId('live'), count(facts.live));
  put(byId('live-note'), facts.shared ? `here, ${count(facts.sessions)} in the store` : 'in this process');
  put(byId('streams'), count(facts.readers + facts.listens));
  put(byId('streams-note'), `${count(facts.readers)} of sessions, ${count(facts.listens)} listens`);
  const { logged = -1, shared } = facts;
  put(byId('logged'), shared && logged <= 0 ? '–' : size(logged));
  put(byId('logged-note'), shared ? 'not counted in a shared log' : 'kept for resumption');
  drawParts(facts);
}

function drawRate({ rate, failures }: Facts): void {
  const last = sumOf(rate.slice(-5)) / 5;
  put(byId('rate'), last === 0 ? '0' : last < 10 ? last.toFixed(1) : count(Math.round(last)));
  const [sum, failed] = [sumOf(rate), sumOf(failures)];
  put(byId('rate-note'), `${count(sum)} in a minute${failed > 0 ? `, ${count(failed)} failed` : ''}`);
  byId('rate-note').classList.toggle('bad', failed > 0);
  const chart = byId('chart');
  if (!changed(chart, rate.join() + failures.join())) return;
  const most = Math.max(5, ...rate);
  chart.querySelector('.all')!.setAttribute('d', barsOf(rate, most));
  chart.querySelector('.failed')!.setAttribute('d', barsOf(failures, most));
}

/** Returns the path of bars, 5 wide and 48 high. */
function barsOf(values: readonly number[], most: number): string {
  const bar = (value: number, at: number) => `M${at * 5} 48v-${Math.max(1, (value / most) * 47).toFixed(1)}h4V48z`;
  return values.map((value, at) => (value === 0 ? '' : bar(value, at))).join('');
}

function drawParts(facts: Facts): void {
  const parts = partsOf(facts);
  if (!changed(byId('parts'), JSON.stringify(parts))) return;
  const items = parts.map(({ name, note, state }) => {
    const wrong = state === 'down' && !facts.draining ? 'down' : state === undefined ? 'asking' : '';
    const text = [wrong, note].filter(Boolean).join(', ');
    return make('li', { 'data-state': state ?? 'wait' }, make('b', {}, name), make('span', {}, text));
  });
  byId('parts').replaceChildren(...items);
}

interface Part {
  readonly name: string;
  readonly note: string;
  readonly state: Facts['messageBus'];
}

function partsOf(facts: Facts): Part[] {
  const { sessionStore, eventStore, messageBus, backend, warnings = [], shared, node, nodes, draining } = facts;
  const others = nodes.filter((id) => id !== node);
  const beside = `this one; beside ${others.slice(0, 6).join(', ')}${others.length > 6 ? '…' : ''}`;
  const scope = shared ? 'shared' : 'in memory';
  const own = draining
    ? 'shuts down: running calls may end, new ones are refused'
    : others.length > 0
      ? beside
      : 'this one';
  return [
    { name: 'Session store', note: scope, state: sessionStore },
    { name: 'Event store', note: scope, state: eventStore },
    { name: 'Message bus', note: shared ? plural(nodes.length, 'node') : scope, state: messageBus },
    ...(backend ? [{ name: 'Backend', note: warnings.join(' ') || 'takes writes', state: backend }] : []),
    { name: `Node ${node}`, note: own, state: draining ? 'down' : 'up' },
  ];
}

export function drawTabs(endpoints: readonly Endpoint[], selected: number, select: (index: number) => void): void {
  const nav = byId('endpoints');
  nav.hidden = endpoints.length < 2;
  const names = endpoints.map(({ facts }) => facts.name);
  if (nav.hidden || !changed(nav, `${names.join('\n')}${selected}`)) return;
  const tabs = names.map((name, index) =>
    button(name, () => select(index), { 'aria-current': String(index === selected) }),
  );
  nav.replaceChildren(...tabs);
}
