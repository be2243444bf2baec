/**
 * The script of the live page, as text: it runs in the browser only. It follows the stream of updates, keeps what they say, and
 * draws it with nodes and `textContent`; no text of the server ever becomes markup.
 *
 * Beware: no backticks in it, and no dollar before a brace.
 */
export const SCRIPT = String.raw`
'use strict';
const base = location.pathname.replace(/\/+$/, '');
const $ = (id) => document.getElementById(id);
const TABLES = ['sessions', 'calls', 'tools'];
const KEPT_EVENTS = 200;

/* ---- what the server has said ------------------------------------------------------------------------------------ */

let endpoints = [];
let events = [];
/* Milliseconds by which the clock here is ahead of the server's. */
let skew = 0;
let selected = 0;
let filter = '';
let paused = false;
let shown = { sessions: 50, calls: 50, tools: 40 };
let sorting = { by: 'since', descending: true };

function apply(update) {
  skew = Date.now() - update.at;
  if (update.type === 'snapshot') { endpoints = []; events = []; }
  update.endpoints.forEach((said, position) => {
    const index = said.index === undefined ? position : said.index;
    const endpoint = (endpoints[index] = endpoints[index] || { facts: {}, sessions: new Map(), calls: new Map(), tools: new Map() });
    Object.assign(endpoint.facts, said.facts);
    for (const name of TABLES) {
      const table = (said.tables || {})[name];
      if (!table) continue;
      for (const row of table.set || []) endpoint[name].set(row.key, Object.assign({}, endpoint[name].get(row.key), row));
      for (const key of table.gone || []) endpoint[name].delete(key);
    }
  });
  events = events.concat(update.events).slice(-KEPT_EVENTS);
  if (selected >= endpoints.length) selected = 0;
}

/* ---- the stream -------------------------------------------------------------------------------------------------- */

async function follow() {
  let wait = 500;
  for (;;) {
    try {
      const response = await fetch(base + '/events' + location.search, { cache: 'no-store', headers: { accept: 'text/event-stream' } });
      if (isOf(response, 'text/event-stream')) {
        link('up', 'Live');
        wait = 500;
        await read(response.body);
        link('wait', 'Reconnecting');
      } else {
        const advice = response.status === 401 || response.status === 403 ? ' Sign in again, then reload the page.' : '';
        link('down', (await problemOf(response)) + advice);
        wait = 10000;
      }
    } catch {
      link('down', 'The server cannot be reached');
      wait = Math.min(wait * 2, 10000);
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
  }
}

async function read(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    text += value;
    for (let end = text.indexOf('\n\n'); end >= 0; end = text.indexOf('\n\n')) {
      const data = text.slice(0, end).split('\n').find((line) => line.startsWith('data: '));
      text = text.slice(end + 2);
      if (!data) continue;
      apply(JSON.parse(data.slice(6)));
      drawSoon();
    }
  }
}

/* A guard may send a reader whose login is over to a login page, which is answered 200. */
function isOf(response, type) {
  return response.ok && (response.headers.get('content-type') || '').startsWith(type);
}

async function problemOf(response) {
  if (response.ok) return 'Sign in again, then reload the page.';
  try {
    const { message } = await response.json();
    if (typeof message === 'string') return message;
  } catch { /* No JSON: a proxy may have answered. */ }
  return 'The server answered ' + response.status + '.';
}

function link(state, text) {
  $('link').dataset.state = state;
  put($('link-text'), text);
}

async function act(path, done) {
  let said;
  try {
    const response = await fetch(base + path + location.search, { method: 'POST', headers: { 'mcp-live-action': '1' } });
    said = isOf(response, 'application/json') ? done : await problemOf(response);
  } catch {
    said = 'The server cannot be reached.';
  }
  const toast = $('toast');
  toast.hidden = false;
  put(toast, said);
  clearTimeout(toast.timer);
  toast.timer = setTimeout(() => { toast.hidden = true; }, 6000);
}

/* ---- how values look --------------------------------------------------------------------------------------------- */

const count = (value) => value.toLocaleString('en');

function span(ms) {
  const seconds = Math.max(0, ms) / 1000;
  if (seconds < 10) return seconds.toFixed(1) + ' s';
  if (seconds < 60) return Math.floor(seconds) + ' s';
  if (seconds < 3600) return Math.floor(seconds / 60) + ' min';
  if (seconds < 86400) return Math.floor(seconds / 3600) + ' h';
  return Math.floor(seconds / 86400) + ' d';
}
const age = (at) => { const text = span(Date.now() - skew - at); return text.includes('.') ? Math.floor(parseFloat(text)) + ' s' : text; };

function duration(ms) {
  if (ms >= 10000) return span(ms);
  if (ms >= 1000) return (ms / 1000).toFixed(2) + ' s';
  return (ms >= 10 ? Math.round(ms) : ms.toFixed(ms >= 1 ? 1 : 2)) + ' ms';
}

function size(bytes) {
  if (bytes < 0) return '–';
  if (bytes < 1000) return bytes + ' B';
  for (const unit of ['kB', 'MB', 'GB']) {
    bytes /= 1000;
    if (bytes < 1000 || unit === 'GB') return (bytes < 10 ? bytes.toFixed(1) : Math.round(bytes)) + ' ' + unit;
  }
}

const clock = (at) => new Date(at + skew).toLocaleTimeString('en-GB');

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

function put(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function make(name, attributes, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key === 'class') node.className = value;
    else node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

function makeSvg(name, attributes, ...children) {
  const node = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

/* A table that keeps the node of each row for as long as there is the row, and touches only what has changed. */
class Table {
  constructor(home, label, columns, empty) {
    this.columns = columns;
    this.empty = empty;
    this.rows = new Map();
    this.body = make('tbody', { role: 'rowgroup' });
    this.heads = columns.map(({ id, label: text, kind, sorts }) => {
      const head = make('th', { scope: 'col', role: 'columnheader', class: 'c-' + id + ' ' + (kind || '') });
      if (sorts) {
        const button = make('button', { type: 'button' }, text);
        button.onclick = () => {
          sorting = { by: sorts, descending: sorting.by === sorts ? !sorting.descending : sorts !== 'client' };
          drawSoon();
        };
        head.append(button);
      } else head.append(text ? text : make('span', { class: 'hidden' }, 'Action'));
      return head;
    });
    const top = make('thead', { role: 'rowgroup' }, make('tr', { role: 'row' }, ...this.heads));
    this.table = make('table', { role: 'table', 'aria-label': label }, top, this.body);
    this.more = make('button', { type: 'button' });
    this.rest = make('div', { class: 'more' }, this.more);
    this.nothing = make('p', { class: 'empty' }, 'Nothing here matches.');
    home.append(this.table, empty, this.nothing, this.rest);
  }

  draw(list, left, showMore) {
    this.table.hidden = list.length === 0;
    const narrowed = filter !== '' || (this === tables.events && $('problems').checked);
    this.empty.hidden = list.length > 0 || narrowed;
    this.nothing.hidden = list.length > 0 || !narrowed;
    this.rest.hidden = !(left > 0);
    if (left > 0) {
      put(this.more, 'Show more (' + count(left) + ')');
      this.more.onclick = showMore;
    }
    for (const [index, { sorts }] of this.columns.entries()) {
      if (!sorts) continue;
      if (sorting.by === sorts) this.heads[index].setAttribute('aria-sort', sorting.descending ? 'descending' : 'ascending');
      else this.heads[index].removeAttribute('aria-sort');
    }
    const keys = new Set(list.map(({ key }) => key));
    for (const [key, { node }] of this.rows) {
      if (keys.has(key)) continue;
      node.remove();
      this.rows.delete(key);
    }
    let next = this.body.firstChild;
    for (const row of list) {
      const known = this.rows.get(row.key) || this.add(row);
      if (known.node === next) next = next.nextSibling;
      else this.body.insertBefore(known.node, next);
      this.columns.forEach((column, index) => column.draw(known.cells[index], row));
      if (row.tone && known.node.dataset.tone !== row.tone) known.node.dataset.tone = row.tone;
    }
  }

  add(row) {
    const cells = this.columns.map(({ id, label, kind }) => {
      const cell = make('td', { role: 'cell', class: 'c-' + id + ' ' + (kind || '') });
      if (label) cell.dataset.label = label;
      return cell;
    });
    const node = make('tr', { role: 'row' }, ...cells);
    const known = { node, cells };
    this.rows.set(row.key, known);
    return known;
  }
}

/* Cells. A bdi keeps a text that runs from right to left from turning what stands around it. */
const plain = (read) => (cell, row) => put(cell, read(row));
const figure = (read, write, zero) => (cell, row) => {
  const value = read(row);
  put(cell, write(value, row));
  cell.classList.toggle('zero', value === 0 || value < 0);
  cell.classList.toggle(zero || 'some', value > 0);
};
function texts(read) {
  return (cell, row) => {
    if (!cell.firstChild) cell.append(make('bdi'), make('small'));
    const [first, second] = read(row);
    put(cell.firstChild, first || '');
    put(cell.lastChild, second || '');
    cell.classList.toggle('blank', !first && !second);
    const all = (first || '') + (second ? ' ' + second : '');
    if (cell.title !== all) cell.title = all;
  };
}

/* An action asks once more, in place. */
function action(word, question, run) {
  return (cell, row) => {
    if (cell.firstChild || row.cancellable === false || !word(row)) return;
    const text = word(row);
    const button = make('button', { type: 'button', 'aria-label': text + ' ' + question(row) }, text);
    const disarm = () => { button.classList.remove('armed'); put(button, text); };
    button.onclick = async () => {
      if (!button.classList.contains('armed')) {
        button.classList.add('armed');
        put(button, 'Sure?');
        return;
      }
      disarm();
      button.disabled = true;
      await run(row);
      button.disabled = false;
    };
    button.onblur = disarm;
    button.onkeydown = (event) => { if (event.key === 'Escape') disarm(); };
    cell.append(button);
  };
}

function spark(cell, { spark: values }) {
  if (!cell.firstChild) cell.append(makeSvg('svg', { class: 'spark', viewBox: '0 0 90 20', preserveAspectRatio: 'none', role: 'img' }, makeSvg('path', {})));
  const text = values.join();
  if (cell.drawn === text) return;
  cell.drawn = text;
  const most = Math.max(4, ...values);
  const step = 90 / (values.length - 1);
  const points = values.map((value, index) => (index * step).toFixed(1) + ' ' + (19 - (value / most) * 18).toFixed(1));
  cell.firstChild.firstChild.setAttribute('d', 'M-1 20L' + points.join('L') + 'L91 20');
  const sum = values.reduce((total, value) => total + value, 0);
  cell.firstChild.classList.toggle('still', sum === 0);
  cell.firstChild.setAttribute('aria-label', count(sum) + ' calls in the last minute');
}

/* ---- the tables -------------------------------------------------------------------------------------------------- */

const connectHelp = make('div', { class: 'empty' }, 'No client has a session here. Connect one:');
const connectLines = [make('code'), make('code')];
connectHelp.append(...connectLines);

const tables = {
  calls: new Table($('calls'), 'Running calls', [
    { id: 'what', label: 'Call', draw: texts((row) => [row.name || row.method, row.name ? row.method : '']) },
    { id: 'client', label: 'Client', draw: texts((row) => [row.client, row.version]) },
    { id: 'who', label: 'By', draw: texts((row) => [row.principal || (row.session || !row.revision ? '' : 'no session'), row.session]) },
    { id: 'time', label: 'For', kind: 'number', draw: plain((row) => span(Date.now() - skew - row.since)) },
    { id: 'act', kind: 'act', draw: action(() => 'Cancel', (row) => row.name || row.method, (row) => act('/calls/' + row.key + '/cancel', 'The call of ' + (row.name || row.method) + ' was cancelled.')) },
  ], make('p', { class: 'empty' }, 'Nothing runs at the moment. A call is here while its handler works, a task too, a listen while its client is connected.')),
  sessions: new Table($('sessions'), 'Sessions', [
    { id: 'id', label: 'Session', kind: 'mono', draw: plain((row) => row.id) },
    { id: 'client', label: 'Client', sorts: 'client', draw: texts((row) => [row.client, row.version]) },
    { id: 'principal', label: 'Principal', draw: texts((row) => [row.principal]) },
    { id: 'revision', label: 'Revision', kind: 'dim', draw: plain((row) => row.revision) },
    { id: 'age', label: 'Age', kind: 'number', sorts: 'since', draw: plain((row) => age(row.since)) },
    { id: 'idle', label: 'Idle', kind: 'number', sorts: 'seen', draw: plain((row) => (row.calls > 0 ? 'busy' : age(row.seen))) },
    { id: 'calls', label: 'Calls', kind: 'number', sorts: 'calls', draw: figure((row) => row.calls, (value, row) => (row.here ? count(value) : 'other'), 'busy') },
    { id: 'streams', label: 'Streams', kind: 'number', sorts: 'readers', draw: figure((row) => row.readers, (value, row) => (row.here ? count(value) : 'node')) },
    { id: 'log', label: 'Log', kind: 'number', sorts: 'log', draw: figure((row) => row.log, size) },
    { id: 'act', kind: 'act', draw: action(() => 'End', (row) => 'session ' + row.id, (row) => act('/sessions/' + row.key + '/end', 'Session ' + row.id + ' was ended.')) },
  ], connectHelp),
  tools: new Table($('tools'), 'Tools', [
    { id: 'name', label: 'Tool', draw: texts((row) => [row.name]) },
    { id: 'calls', label: 'Calls', kind: 'number', draw: plain((row) => count(row.calls)) },
    { id: 'errors', label: 'Errors', kind: 'number', draw: figure((row) => row.errors, count, 'bad') },
    { id: 'p50', label: 'p50', kind: 'number', draw: plain((row) => duration(row.p50)) },
    { id: 'p95', label: 'p95', kind: 'number', draw: plain((row) => duration(row.p95)) },
    { id: 'spark', label: 'Last minute', draw: spark },
  ], make('p', { class: 'empty' }, 'No tool was called since this node has started. Percentiles will be those of the latest 256 calls of each.')),
  events: new Table($('events'), 'Events', [
    { id: 'at', label: 'Time', draw: plain((row) => clock(row.at)) },
    { id: 'what', label: 'Event', draw: texts((row) => [row.what, row.outcome === 'ok' ? '' : row.outcome]) },
    { id: 'who', label: 'Who', draw: texts((row) => [row.who]) },
    { id: 'ms', label: 'Took', kind: 'number', draw: plain((row) => (row.ms === undefined ? '' : duration(row.ms))) },
  ], make('p', { class: 'empty' }, 'The latest 200 events come here: ends of calls, sessions, refusals, faults.')),
};

/* ---- drawing ----------------------------------------------------------------------------------------------------- */

let waiting = false;
function drawSoon() {
  if (waiting || paused || document.hidden) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    const begin = performance.now();
    if (endpoints.length > 0) draw(endpoints[selected]);
    document.body.dataset.drawMs = (performance.now() - begin).toFixed(2);
  });
}

const matches = (row, ...fields) => filter === '' || fields.some((name) => String(row[name] || '').toLowerCase().includes(filter));

function draw({ facts, sessions, calls, tools }) {
  drawFacts(facts);
  drawTabs();
  drawTable('calls', [...calls.values()]
    .filter((row) => matches(row, 'name', 'method', 'client', 'principal', 'session'))
    .sort((one, other) => Number(other.cancellable) - Number(one.cancellable) || one.since - other.since), facts.calls + facts.listens + facts.tasks);
  const sign = sorting.descending ? -1 : 1;
  const { by } = sorting;
  /* The youngest first has the greatest "since", the longest idle the smallest "seen". */
  const order = by === 'client' ? (one, other) => sign * one.client.localeCompare(other.client) : by === 'seen' ? (one, other) => sign * (other.seen - one.seen) : (one, other) => sign * (one[by] - other[by]);
  drawTable('sessions', [...sessions.values()].filter((row) => matches(row, 'id', 'client', 'principal', 'revision')).sort(order), facts.sessions);
  drawTable('tools', [...tools.values()]
    .filter((row) => matches(row, 'name'))
    .sort((one, other) => (one.kind === other.kind ? other.calls - one.calls : one.kind === 'tool' ? -1 : 1)));
  const problems = $('problems').checked;
  const list = events.filter((row) => row.endpoint === selected && (!problems || row.tone === 'bad') && matches(row, 'what', 'who', 'outcome'));
  tables.events.draw(list.map((row) => Object.assign({ key: row.n }, row)).reverse());
  put($('events-count'), list.length > 0 ? 'latest ' + count(list.length) : '');
}

function drawTable(name, rows, all) {
  const list = rows.slice(0, shown[name]);
  tables[name].draw(list, rows.length - list.length, () => { shown[name] += 100; drawSoon(); });
  const most = filter === '' && all > rows.length ? all : rows.length;
  put($(name + '-count'), most === 0 ? '' : list.length < most ? count(list.length) + ' of ' + count(most) : count(most));
}

function drawFacts(facts) {
  put($('server'), facts.server);
  const title = facts.server + ' – MCP live';
  if (document.title !== title) document.title = title;
  const last = facts.rate.slice(-5).reduce((sum, value) => sum + value, 0) / 5;
  put($('rate'), last === 0 ? '0' : last < 10 ? last.toFixed(1) : count(Math.round(last)));
  const [sum, failed] = [facts.rate, facts.failures].map((values) => values.reduce((total, value) => total + value, 0));
  put($('rate-note'), count(sum) + ' in a minute' + (failed > 0 ? ', ' + count(failed) + ' failed' : ''));
  $('rate-note').classList.toggle('bad', failed > 0);
  drawChart(facts);
  put($('running'), count(facts.calls));
  const tasks = facts.tasks > 0 ? ', ' + count(facts.tasks) + (facts.tasks === 1 ? ' task' : ' tasks') : '';
  put($('running-note'), facts.questions > 0 ? count(facts.questions) + ' wait for an answer' : 'calls in flight' + tasks);
  put($('live'), count(facts.live));
  put($('live-note'), facts.shared ? 'here, ' + count(facts.sessions) + ' in the store' : 'in this process');
  put($('streams'), count(facts.readers + facts.listens));
  put($('streams-note'), count(facts.readers) + ' of sessions, ' + count(facts.listens) + ' listens');
  put($('logged'), facts.logged === undefined ? '–' : facts.shared && facts.logged <= 0 ? '–' : size(facts.logged));
  put($('logged-note'), facts.shared ? 'not counted in a shared log' : 'kept for resumption');
  const url = location.origin + facts.path;
  put(connectLines[0], 'claude mcp add --transport http ' + (facts.server.split(' ')[0].replace(/[^\w-]/g, '') || 'server') + ' ' + url);
  put(connectLines[1], 'npx @modelcontextprotocol/inspector --cli ' + url + ' --transport http --method tools/list');
  drawParts(facts);
}

function drawParts({ sessionStore, eventStore, messageBus, shared, node, nodes, draining }) {
  const others = nodes.filter((id) => id !== node);
  const scope = shared ? 'shared' : 'in memory';
  const parts = [
    ['Session store', scope, sessionStore],
    ['Event store', scope, eventStore],
    ['Message bus', shared ? count(nodes.length) + (nodes.length === 1 ? ' node' : ' nodes') : scope, messageBus],
    ['Node ' + node, others.length > 0 ? 'this one; beside ' + others.slice(0, 6).join(', ') + (others.length > 6 ? '…' : '') : 'this one', draining ? 'down' : 'up'],
  ];
  if (draining) parts[3][1] = 'shuts down: running calls may end, new ones are refused';
  const text = JSON.stringify(parts);
  if ($('parts').drawn === text) return;
  $('parts').drawn = text;
  $('parts').replaceChildren(...parts.map(([name, note, state]) => {
    const said = [state === 'down' && !draining ? 'down' : '', state === undefined ? 'asking' : '', note].filter(Boolean).join(', ');
    return make('li', { 'data-state': state || 'wait' }, make('b', {}, name), make('span', {}, said));
  }));
}

function drawChart({ rate, failures }) {
  const text = rate.join() + failures.join();
  if ($('chart').drawn === text) return;
  $('chart').drawn = text;
  const most = Math.max(5, ...rate);
  const bars = (values) => values.map((value, index) => (value === 0 ? '' : 'M' + index * 5 + ' 48v-' + Math.max(1, (value / most) * 47).toFixed(1) + 'h4V48z')).join('');
  $('chart').querySelector('.all').setAttribute('d', bars(rate));
  $('chart').querySelector('.failed').setAttribute('d', bars(failures));
}

function drawTabs() {
  const nav = $('endpoints');
  nav.hidden = endpoints.length < 2;
  const text = endpoints.map(({ facts }) => facts.name).join('\n') + selected;
  if (nav.hidden || nav.drawn === text) return;
  nav.drawn = text;
  nav.replaceChildren(...endpoints.map(({ facts }, index) => {
    const button = make('button', { type: 'button', 'aria-current': String(index === selected) }, facts.name);
    button.onclick = () => { selected = index; drawSoon(); };
    return button;
  }));
}

/* ---- the reader -------------------------------------------------------------------------------------------------- */

function pause(on) {
  paused = on;
  $('pause').setAttribute('aria-pressed', String(on));
  put($('pause'), on ? 'Resume' : 'Pause');
  drawSoon();
}
$('pause').onclick = () => pause(!paused);
$('filter').oninput = () => { filter = $('filter').value.trim().toLowerCase(); drawSoon(); };
$('problems').onchange = drawSoon;
document.addEventListener('visibilitychange', drawSoon);
document.addEventListener('keydown', (event) => {
  if (event.target === $('filter')) {
    if (event.key === 'Escape') { $('filter').value = ''; $('filter').oninput(); $('filter').blur(); }
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === '/') { event.preventDefault(); $('filter').focus(); }
  if (event.key === 'p') pause(!paused);
});
/* Ages grow without an update. */
setInterval(drawSoon, 1000);
void follow();
`;
