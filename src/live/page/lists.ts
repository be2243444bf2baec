import { byId, make, put } from './dom.js';
import { age, clock, count, duration, size, span } from './format.js';
import { act } from './server.js';
import { shortReason } from './details.js';
import { hashOf, type Kind } from './route.js';
import type { CallRow, Endpoint, EventRow, Facts, LiveState, OfferRow, SessionRow, ToolRow } from './state.js';
import { action, type Column, figure, plain, type Sorting, spark, Table, texts } from './table.js';

/* The lists below the tiles: tools, resources and prompts, methods, sessions, running calls, events. */

/** What the reader has chosen to see. */
export interface Choice {
  filter: string;
  problemsOnly: boolean;
  sorting: Sorting;
  /** So many rows are shown of each list. */
  readonly shown: Record<'sessions' | 'calls' | 'tools' | 'offers', number>;
}

const empty = (text: string): HTMLElement => make('p', { class: 'empty' }, text);

export class Lists {
  readonly #connectLines = [make('code'), make('code')] as const;
  readonly #calls: Table<CallRow>;
  readonly #sessions: Table<SessionRow>;
  readonly #tools: Table<ToolRow>;
  readonly #methods: Table<ToolRow>;
  readonly #offers: Table<OfferRow>;
  #endpoint = 0;
  readonly #events: Table<EventRow>;

  constructor(
    private readonly state: LiveState,
    private readonly choice: Choice,
    private readonly redraw: () => void,
  ) {
    const keyOf = ({ key }: { readonly key: string }) => key;
    this.#calls = new Table(byId('calls'), {
      label: 'Running calls',
      columns: this.#callColumns(),
      keyOf,
      empty: empty(
        'Nothing runs at the moment. A call is here while its handler works, a task too, a listen while its client is connected.',
      ),
    });
    this.#sessions = new Table(byId('sessions'), {
      label: 'Sessions',
      columns: this.#sessionColumns(),
      keyOf,
      empty: make('div', { class: 'empty' }, 'No client has a session here. Connect one:', ...this.#connectLines),
      onSort: (field) => this.#sortBy(field),
    });
    this.#tools = new Table(byId('tools'), {
      label: 'Tools',
      columns: this.#toolColumns(),
      keyOf,
      empty: empty(
        'This endpoint has no tools yet. A method with @Tool() in a provider is one; save it, and it is here.',
      ),
    });
    const offered = texts<OfferRow>(
      ({ name, about }) => [name, about],
      (row) => this.#link(row.kind, row.name),
    );
    this.#offers = new Table<OfferRow>(byId('offers'), {
      label: 'Resources and prompts',
      columns: [
        {
          id: 'name',
          label: 'Name',
          draw: (cell, row) => {
            offered(cell, row);
            putBeside(cell, 'title', row.title);
          },
        },
        { id: 'kind', label: 'Kind', kind: 'dim', draw: plain(({ kind }) => kind) },
      ],
      keyOf,
      empty: empty(''),
    });
    this.#methods = new Table<ToolRow>(byId('methods'), {
      label: 'Methods',
      columns: [{ id: 'name', label: 'Method', draw: texts(({ name }) => [name]) }, ...FIGURES],
      keyOf,
      empty: empty(''),
    });
    this.#events = new Table(byId('events'), {
      label: 'Events',
      columns: this.#eventColumns(),
      keyOf: ({ n }) => String(n),
      toneOf: ({ tone }) => tone,
      empty: empty('The latest 200 events come here: ends of calls, sessions, refusals, faults.'),
    });
  }

  draw({ facts, sessions, calls, tools, offers }: Endpoint, selected: number): void {
    this.#endpoint = selected;
    const { sorting, problemsOnly } = this.choice;
    const running = [...calls.values()].filter((row) => this.#has(row, CALL_FIELDS)).toSorted(byBegin);
    this.#drawList('calls', this.#calls, running, facts.calls + facts.listens + facts.tasks);
    const found = [...sessions.values()].filter((row) => this.#has(row, SESSION_FIELDS)).toSorted(orderOf(sorting));
    this.#drawList('sessions', this.#sessions, found, facts.sessions, sorting);
    const called = [...tools.values()]
      .filter((row) => this.#has(row, ['name', 'title', 'about', 'of']))
      .toSorted(byCalls);
    const of = (kind: ToolRow['kind']) => called.filter((row) => row.kind === kind);
    this.#drawList('tools', this.#tools, of('tool'));
    const methods = of('method');
    this.#methods.draw({ rows: methods, narrowed: this.#narrowed });
    byId('methods-card').hidden = methods.length === 0;
    const offered = [...offers.values()].filter((row) => this.#has(row, ['name', 'title', 'about', 'kind']));
    this.#drawList('offers', this.#offers, offered);
    byId('offers-card').hidden = offers.size === 0;
    const events = this.state.events
      .filter(({ endpoint, tone }) => endpoint === selected && (!problemsOnly || tone === 'bad'))
      .filter((row) => this.#has(row, ['what', 'who', 'outcome', 'reason']))
      .toReversed();
    this.#events.draw({ rows: events, narrowed: this.#narrowed || problemsOnly });
    put(byId('events-count'), events.length > 0 ? `latest ${count(events.length)}` : '');
    this.#drawHelp(facts);
  }

  /** Returns where a row leads: to its details. */
  #link(kind: Kind, key: string, endpoint = this.#endpoint): string {
    return hashOf({ kind, key, endpoint, trying: false });
  }

  get #narrowed(): boolean {
    return this.choice.filter !== '';
  }

  #has<R extends object>(row: R, fields: readonly (keyof R)[]): boolean {
    const { filter } = this.choice;
    return (
      filter === '' ||
      fields.some((name) =>
        String(row[name] ?? '')
          .toLowerCase()
          .includes(filter),
      )
    );
  }

  /** @param all so many rows there are on the server */
  #drawList<R>(
    name: keyof Choice['shown'],
    table: Table<R>,
    found: readonly R[],
    all = found.length,
    sorting?: Sorting,
  ): void {
    const { shown } = this.choice;
    const rows = found.slice(0, shown[name]);
    const onMore = () => {
      shown[name] += 100;
      this.redraw();
    };
    table.draw({
      rows,
      left: found.length - rows.length,
      onMore,
      narrowed: this.#narrowed,
      ...(sorting && { sorting }),
    });
    const most = this.#narrowed ? found.length : Math.max(all, found.length);
    const of = rows.length < most ? `${count(rows.length)} of ${count(most)}` : count(most);
    put(byId(`${name}-count`), most === 0 ? '' : of);
  }

  #drawHelp({ server, path }: Facts): void {
    const url = location.origin + path;
    const name = server.split(' ')[0]!.replace(/[^\w-]/g, '') || 'server';
    put(this.#connectLines[0], `claude mcp add --transport http ${name} ${url}`);
    const inspector = 'npx @modelcontextprotocol/inspector --cli';
    put(this.#connectLines[1], `${inspector} ${url} --transport http --method tools/list`);
  }

  #sortBy(field: string): void {
    const { by, descending } = this.choice.sorting;
    this.choice.sorting = { by: field, descending: by === field ? !descending : field !== 'client' };
    this.redraw();
  }

  #toolColumns(): Column<ToolRow>[] {
    const text = texts<ToolRow>(
      ({ name, about }) => [name, about],
      ({ name }) => this.#link('tool', name),
    );
    const name = (cell: HTMLElement, row: ToolRow) => {
      text(cell, row);
      putBeside(cell, 'title', row.title);
      putBeside(cell, 'of', row.of === '' ? '' : `per caller, by ${row.of}`);
      putBeside(cell, 'off', row.off === null ? '' : `off ${row.off}`.trim());
    };
    return [
      { id: 'name', label: 'Tool', draw: name },
      ...FIGURES,
      { id: 'spark', label: 'Last minute', draw: spark },
      switchColumn(),
    ];
  }

  #callColumns(): Column<CallRow>[] {
    const named = ({ name, method }: CallRow) => name ?? method;
    const cancel = (row: CallRow) => act(`/calls/${row.key}/cancel`, `The call of ${named(row)} was cancelled.`);
    const offered = ({ cancellable }: CallRow) => cancellable;
    return [
      {
        id: 'what',
        label: 'Call',
        draw: texts(
          (row) => [named(row), row.name === null ? '' : row.method],
          ({ key }) => this.#link('call', key),
        ),
      },
      { id: 'client', label: 'Client', draw: texts(({ client, version }) => [client, version]) },
      { id: 'who', label: 'By', draw: texts((row) => [callerOf(row), row.session]) },
      { id: 'time', label: 'For', kind: 'number', draw: plain(({ since }) => span(this.state.since(since))) },
      { id: 'act', kind: 'act', draw: action({ word: () => 'Cancel', object: named, offered, run: cancel }) },
    ];
  }

  #sessionColumns(): Column<SessionRow>[] {
    const end = ({ key, id }: SessionRow) => act(`/sessions/${key}/end`, `Session ${id} was ended.`);
    const ago = (at: number) => age(this.state.since(at));
    const idle = ({ calls, seen }: SessionRow) => (calls > 0 ? 'busy' : ago(seen));
    const counted = (elsewhere: string) => (value: number, row: SessionRow) => (row.here ? count(value) : elsewhere);
    const streams = figure(({ readers }: SessionRow) => readers, counted('node'));
    return [
      {
        id: 'id',
        label: 'Session',
        kind: 'mono',
        draw: texts(
          ({ id }) => [id],
          ({ key }) => this.#link('session', key),
        ),
      },
      { id: 'client', label: 'Client', sorts: 'client', draw: texts(({ client, version }) => [client, version]) },
      { id: 'principal', label: 'Principal', draw: texts(({ principal }) => [principal]) },
      { id: 'revision', label: 'Revision', kind: 'dim', draw: plain(({ revision }) => revision) },
      { id: 'age', label: 'Age', kind: 'number', sorts: 'since', draw: plain(({ since }) => ago(since)) },
      { id: 'idle', label: 'Idle', kind: 'number', sorts: 'seen', draw: plain(idle) },
      {
        id: 'calls',
        label: 'Calls',
        kind: 'number',
        sorts: 'calls',
        draw: figure((row) => row.calls, counted('other'), 'busy'),
      },
      { id: 'streams', label: 'Streams', kind: 'number', sorts: 'readers', draw: streams },
      { id: 'log', label: 'Log', kind: 'number', sorts: 'log', draw: figure(({ log }) => log, size) },
      { id: 'act', kind: 'act', draw: action({ word: () => 'End', object: ({ id }) => `session ${id}`, run: end }) },
    ];
  }

  #eventColumns(): Column<EventRow>[] {
    return [
      { id: 'at', label: 'Time', draw: plain(({ at }) => clock(this.state.here(at))) },
      {
        id: 'what',
        label: 'Event',
        draw: texts(
          (row) => [row.what, shortReason(row)],
          ({ n }) => this.#link('event', String(n)),
        ),
      },
      { id: 'who', label: 'Who', draw: texts(({ who }) => [who]) },
      { id: 'ms', label: 'Took', kind: 'number', draw: plain(({ ms }) => (ms === undefined ? '' : duration(ms))) },
    ];
  }
}

/** Shows a text between the two texts of a cell. */
function putBeside(cell: HTMLElement, name: string, text: string): void {
  let node = cell.querySelector(`.${name}`);
  if (!node) {
    node = cell.insertBefore(make('bdi', { class: name }), cell.lastChild);
    // The line may break there.
    cell.insertBefore(new Text(' '), cell.lastChild);
  }
  put(node, text);
}

const timed = (read: (row: ToolRow) => number) => plain<ToolRow>((row) => (row.calls === 0 ? '' : duration(read(row))));

const FIGURES: readonly Column<ToolRow>[] = [
  { id: 'calls', label: 'Calls', kind: 'number', draw: figure(({ calls }) => calls, count) },
  { id: 'errors', label: 'Errors', kind: 'number', draw: figure(({ errors }) => errors, count, 'bad') },
  { id: 'p50', label: 'p50', kind: 'number', draw: timed(({ p50 }) => p50) },
  { id: 'p95', label: 'p95', kind: 'number', draw: timed(({ p95 }) => p95) },
];

function switchColumn(): Column<ToolRow> {
  const on = ({ off }: ToolRow) => off === null;
  const run = (row: ToolRow) =>
    act(
      `/tools/${row.id}/${on(row) ? 'disable' : 'enable'}`,
      `The tool ${row.name} was switched ${on(row) ? 'off' : 'on'}.`,
    );
  const word = (row: ToolRow) => (on(row) ? 'Disable' : 'Enable');
  const draw = action<ToolRow>({ word, object: ({ name }) => name, offered: ({ id }) => id !== null, run });
  return { id: 'act', kind: 'act', draw };
}

const CALL_FIELDS = ['name', 'method', 'client', 'principal', 'session'] as const;
const SESSION_FIELDS = ['id', 'client', 'principal', 'revision'] as const;

function callerOf({ principal, session, revision }: CallRow): string {
  // A task has no revision.
  return principal ?? (session !== null || revision === '' ? '' : 'no session');
}

/** Orders calls by their begin, behind them what cannot be cancelled. */
function byBegin(one: CallRow, other: CallRow): number {
  return Number(other.cancellable) - Number(one.cancellable) || one.since - other.since;
}

function byCalls(one: ToolRow, other: ToolRow): number {
  return other.calls - one.calls;
}

function orderOf({ by, descending }: Sorting): (one: SessionRow, other: SessionRow) => number {
  const sign = descending ? -1 : 1;
  if (by === 'client') return (one, other) => sign * one.client.localeCompare(other.client);
  // The longest idle has the smallest "seen".
  if (by === 'seen') return (one, other) => sign * (other.seen - one.seen);
  const field = by as 'since' | 'calls' | 'readers' | 'log';
  return (one, other) => sign * (one[field] - other[field]);
}
