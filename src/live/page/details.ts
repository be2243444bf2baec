import { make } from './dom.js';
import { age, clock, count, duration, plural, size } from './format.js';
import { bdi, chips, facts, histogram, json, note, type Section, tree } from './parts.js';
import { resultNodes } from './results.js';
import { hashOf } from './route.js';
import { type Schema, type SchemaNode, treeOf } from './schema.js';
import type { CallRow, Endpoint, EventRow, LiveState, SessionRow } from './state.js';

/* What is shown of a tool, a resource or prompt, a session, a call, an event. */

/** What the server answers to `details`; see src/live/live-details.ts. */
export interface HandlerDetails {
  readonly wire?: Wire;
  readonly origin?: string;
  readonly guards?: readonly string[];
  readonly scopes?: readonly string[];
  readonly endpointGuards?: readonly string[];
  readonly tokens?: number;
  /** What lists the tool for each caller, and for whom it was listed lately. */
  readonly listed?: {
    readonly by: string;
    readonly callers: readonly (string | null)[];
    readonly more: boolean;
    readonly varies: boolean;
  };
  readonly task?: string;
  readonly advice?: readonly { readonly severity: string; readonly problem: string; readonly advice: string }[];
  readonly histogram?: { readonly bounds: readonly number[]; readonly counts: readonly number[] };
}

export interface Wire {
  readonly title?: string;
  readonly description?: string;
  readonly inputSchema?: Schema;
  readonly outputSchema?: Schema;
  readonly annotations?: Readonly<Record<string, unknown>>;
  readonly mimeType?: string;
  readonly uri?: string;
  readonly uriTemplate?: string;
  readonly arguments?: readonly { readonly name: string; readonly description?: string; readonly required?: boolean }[];
}

export interface SessionDetails {
  readonly capabilities: object;
  readonly logLevel?: string;
  readonly subscriptions: number;
  readonly uris?: readonly string[];
  readonly streams?: readonly {
    readonly standalone: boolean;
    readonly readers: number;
    readonly delivered: number;
    readonly last: number;
  }[];
}

export interface CallDetails {
  readonly running: boolean;
  readonly outcome?: string | number;
  readonly reason?: string;
  readonly ms?: number;
  readonly stages: { readonly entered?: number; readonly returned?: number; readonly ended?: number };
  readonly traceId?: string;
  readonly steps: readonly {
    readonly at: number;
    readonly what: string;
    readonly text: string;
    readonly data?: unknown;
  }[];
  readonly left: number;
  readonly payloads: boolean;
  readonly arguments?: unknown;
  readonly result?: unknown;
  readonly error?: string;
}

const LATEST = 12;

/** Where links of a panel lead, and whose clock counts. */
export interface Context {
  readonly state: LiveState;
  readonly endpoint: Endpoint;
  readonly index: number;
}

/* ---- handlers ---------------------------------------------------------------------------------------------------- */

export function handlerSections(kind: string, key: string, details: HandlerDetails, context: Context): Section[] {
  const { wire } = details;
  const sections = wire ? offeredSections(kind, wire, details) : [unknownSection()];
  const row = context.endpoint.tools.get(`tool ${key}`);
  if (row && row.calls > 0) {
    const { histogram: spread } = details;
    const text = `${plural(row.calls, 'call')}, ${plural(row.errors, 'error')} · half within ${duration(row.p50)}, 95 % within ${duration(row.p95)}`;
    const draw = () => [make('p', {}, text), ...(spread ? [histogram(spread.bounds, spread.counts)] : [])];
    sections.push({ id: 'times', title: 'Durations of the latest 256 calls', data: [text, spread], make: draw });
  }
  if (kind === 'tool')
    sections.push(eventsSection('calls', 'Latest calls', context, ({ tool }) => tool === `tool ${key}`));
  if (wire) sections.push(aboutSection(wire, details));
  return sections;
}

function unknownSection(): Section {
  const text =
    'What clients read about this tool is not known here: it is gone, or a server of the app has it (option "server").';
  return { id: 'unknown', data: text, make: () => [note(text)] };
}

/** Shows what lists have of a handler. */
function offeredSections(kind: string, wire: Wire, { task, advice = [] }: HandlerDetails): Section[] {
  const sections: Section[] = [];
  const title = titleOf(wire);
  if (title !== '')
    sections.push({ id: 'title', data: title, make: () => [make('p', { class: 'title' }, bdi(title))] });
  const hints = [...hintsOf(wire.annotations), ...(task === undefined ? [] : [`task: ${task}`])];
  if (hints.length > 0) sections.push({ id: 'hints', data: hints, make: () => [chips(hints)] });
  const about = wire.description ?? (kind === 'tool' ? 'It has no description: models choose tools by it.' : '');
  if (about !== '')
    sections.push({ id: 'about', data: about, make: () => [make('p', { class: 'prose' }, bdi(about))] });
  if (advice.length > 0)
    sections.push({ id: 'advice', title: 'Advice', data: advice, make: () => [adviceList(advice)] });
  if (wire.inputSchema)
    sections.push(schemaSection('input', 'Arguments', wire.inputSchema, () => 'It takes no arguments.'));
  if (wire.outputSchema) sections.push(schemaSection('output', 'Result', wire.outputSchema, anyOf));
  if (wire.arguments) sections.push(argumentsSection(wire.arguments));
  return sections;
}

/** Returns the title of a handler, which tools may also have among their annotations. */
function titleOf({ title, annotations = {} }: Wire): string {
  const { title: annotated } = annotations;
  return title ?? (typeof annotated === 'string' ? annotated : '');
}

/** Says who may call a handler, what it weighs, and where it is from. */
function aboutSection(wire: Wire, details: HandlerDetails): Section {
  const { guards = [], scopes = [], endpointGuards = [], origin, tokens, listed } = details;
  const access = [...endpointGuards.map((name) => `${name} (endpoint)`), ...guards];
  const everyone = listed ? 'each caller whose list contains it' : 'everyone whom the endpoint admits';
  const pairs = {
    'Who may call it': access.length > 0 ? access.join(', ') : everyone,
    Scopes: scopes.join(' '),
    ...(listed && { 'Listed by': `${listed.by}, for each caller`, 'Listed for': callersText(listed) }),
    'Weight in a list': tokens === undefined ? undefined : `about ${count(tokens)} tokens of a model's context`,
    URI: wire.uri ?? wire.uriTemplate,
    'Media type': wire.mimeType,
    Method: origin,
  };
  return { id: 'facts', title: 'About', data: pairs, make: () => [facts(pairs)] };
}

export function callersText({ callers, more, varies }: NonNullable<HandlerDetails['listed']>): string {
  if (callers.length === 0) return 'no list that this node keeps: it is shown as its latest call found it';
  const names = callers.map((caller) => caller ?? 'anonymous callers').join(', ') + (more ? ' and others' : '');
  return varies ? `${names}; some of them have another tool of this name, with other texts or arguments` : names;
}

function adviceList(findings: NonNullable<HandlerDetails['advice']>): HTMLElement {
  const items = findings.map(({ severity, problem, advice }) =>
    make('li', { 'data-severity': severity }, make('b', {}, `It ${problem}.`), ' ', advice),
  );
  return make('ul', { class: 'advice' }, ...items);
}

function schemaSection(id: string, title: string, schema: Schema, none: (root: SchemaNode) => string): Section {
  const draw = () => {
    const root = treeOf(schema);
    const raw = make('details', {}, make('summary', {}, 'JSON Schema'), json(schema));
    return [root.children.length > 0 ? tree(root.children) : note(none(root)), raw];
  };
  return { id, title, data: schema, make: draw };
}

/** What a result is whose schema names no property. */
export function anyOf({ type }: SchemaNode): string {
  return type === 'object' ? 'Any object.' : `Any value of this type: ${type}.`;
}

function argumentsSection(list: NonNullable<Wire['arguments']>): Section {
  const nodes = list.map(({ name, description = '', required = false }) => ({
    name,
    description,
    required,
    schema: {},
    type: 'string',
    notes: [],
    children: [],
  }));
  return { id: 'input', title: 'Arguments', data: list, make: () => [tree(nodes)] };
}

const HINTS: Readonly<Record<string, readonly [string, string]>> = {
  readOnlyHint: ['only reads', 'changes something'],
  destructiveHint: ['may destroy', 'destroys nothing'],
  idempotentHint: ['can be repeated', 'not to be repeated'],
  openWorldHint: ['reaches outside', 'stays inside'],
};

function hintsOf(annotations: Wire['annotations'] = {}): string[] {
  return Object.entries(HINTS).flatMap(([name, [yes, no]]) => {
    const hint = annotations[name];
    return typeof hint === 'boolean' ? [hint ? yes : no] : [];
  });
}

/* ---- sessions ---------------------------------------------------------------------------------------------------- */

export function sessionSections(row: SessionRow, details: SessionDetails, context: Context): Section[] {
  const { state, endpoint } = context;
  const { capabilities, logLevel, subscriptions, uris = [], streams } = details;
  const pairs = {
    Client: `${row.client} ${row.version}`,
    Principal: row.principal ?? 'anonymous',
    Revision: row.revision,
    Begun: `${age(state.since(row.since))} ago`,
    'Last message': `${age(state.since(row.seen))} ago`,
    Node: row.here ? endpoint.facts.node : 'another one',
    'Event log': row.log < 0 ? undefined : size(row.log),
    'Log level': logLevel,
    Subscriptions: subscriptions === 0 ? 'none' : uris.length > 0 ? uris.join('\n') : count(subscriptions),
  };
  const sections: Section[] = [
    { id: 'facts', data: pairs, make: () => [facts(pairs)] },
    {
      id: 'capabilities',
      title: 'Capabilities of the client',
      data: capabilities,
      make: () => [Object.keys(capabilities).length > 0 ? json(capabilities) : note('It declares none.')],
    },
  ];
  if (streams) {
    const lines = streams.map(({ standalone, readers, delivered, last }) => {
      const read = readers > 0 ? 'open' : 'not read';
      const position = last === delivered ? `all of ${count(last)}` : `${count(delivered)} of ${count(last)}`;
      return `${standalone ? 'GET' : 'POST'}, ${read}: ${position} events delivered`;
    });
    const draw = () =>
      lines.length > 0
        ? [make('ul', {}, ...lines.map((line) => make('li', {}, line)))]
        : [note('No stream is written or read here.')];
    sections.push({ id: 'streams', title: 'Streams', data: lines, make: draw });
  }
  sections.push(runningSection(context, ({ session }) => session === row.id));
  sections.push(eventsSection('events', 'Latest events', context, ({ who }) => who.split(' · ')[0] === row.id));
  return sections;
}

function runningSection({ endpoint, index }: Context, isOf: (row: CallRow) => boolean): Section {
  const rows = [...endpoint.calls.values()].filter(isOf);
  const items = () =>
    rows.map(({ key, name, method }) => {
      const href = hashOf({ kind: 'call', key, endpoint: index, trying: false });
      return make('li', {}, make('a', { href }, bdi(name ?? method)));
    });
  const draw = () => (rows.length > 0 ? [make('ul', {}, ...items())] : [note('None of its calls runs.')]);
  return { id: 'running', title: 'Running', data: rows.map(({ key }) => key), make: draw };
}

/* ---- calls and events -------------------------------------------------------------------------------------------- */

/** @param event its end, if it has ended and the page knows it */
export function callSections(
  row: CallRow | undefined,
  event: EventRow | undefined,
  details: CallDetails | undefined,
  context: Context,
): Section[] {
  const { state } = context;
  const outcome = details?.outcome ?? event?.outcome;
  const pairs = {
    State: row || details?.running ? 'runs' : outcomeText(outcome),
    Reason: details?.reason ?? event?.reason,
    Method: row?.method,
    Client: row && `${row.client} ${row.version}`,
    By: row ? (row.principal ?? row.session ?? 'no session') : event?.who,
    Began: row && clock(state.here(row.since)),
    Ended: event && clock(state.here(event.at)),
    Took: durationText(details?.ms ?? event?.ms),
    'Trace id': details?.traceId,
    Error: details?.error,
  };
  const sections: Section[] = [{ id: 'facts', data: pairs, make: () => [facts(pairs)] }];
  if (!details) {
    const text = 'No page was open when it began, so that no more of it is known.';
    return [...sections, { id: 'none', data: text, make: () => [note(text)] }];
  }
  const stages = stagesOf(details);
  if (stages.length > 0) sections.push({ id: 'stages', title: 'Stages', data: stages, make: () => [stageBar(stages)] });
  sections.push(stepsSection(details));
  if (details.payloads) {
    for (const [id, title] of [
      ['arguments', 'Arguments'],
      ['result', 'Result'],
    ] as const) {
      const value = details[id];
      const draw = () => (id === 'result' && isObject(value) ? resultNodes(value) : [json(value)]);
      if (value !== undefined) sections.push({ id, title, data: value, make: draw });
    }
  } else {
    const text =
      'Arguments, results and texts are not recorded here. On a development machine: McpLiveModule.forRoot({ payloads: true }).';
    sections.push({ id: 'hidden', data: text, make: () => [note(text)] });
  }
  return sections;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null;
}

interface Stage {
  readonly name: string;
  readonly ms: number;
}

function stagesOf({ stages: { entered, returned, ended } }: CallDetails): Stage[] {
  if (entered === undefined) return [];
  const stages = [{ name: 'guards and arguments', ms: entered }];
  if (returned !== undefined) stages.push({ name: 'handler', ms: returned - entered });
  if (returned !== undefined && ended !== undefined) stages.push({ name: 'result', ms: ended - returned });
  return stages;
}

function stageBar(stages: readonly Stage[]): HTMLElement {
  const list = make('ul', { class: 'stages' });
  const all = stages.reduce((sum, { ms }) => sum + ms, 0) || 1;
  for (const { name, ms } of stages) {
    const meter = make('meter', { min: '0', max: '1', value: String(ms / all), 'aria-hidden': 'true' });
    list.append(make('li', {}, make('span', {}, name), meter, make('b', {}, duration(ms))));
  }
  return list;
}

function stepsSection({ steps, left, running }: CallDetails): Section {
  const draw = () => {
    if (steps.length === 0) return [note(running ? 'It has sent nothing yet.' : 'It sent nothing before its answer.')];
    const items = steps.map(({ at, what, text, data }) => {
      const head = make('p', {}, make('b', {}, what), ' ', bdi(text), make('time', {}, `after ${duration(at)}`));
      return make('li', {}, head, ...stepData(what, data));
    });
    const rest = left > 0 ? [note(`and ${count(left)} more`)] : [];
    return [make('ol', { class: 'steps' }, ...items), ...rest];
  };
  return { id: 'steps', title: 'Progress, logs, questions', data: [steps, left, running], make: draw };
}

/** Shows what a step carries: the message of a report of progress, what was logged, a question or an answer. */
function stepData(what: string, data: unknown): Node[] {
  if (typeof data !== 'object' || data === null) return data === undefined ? [] : [json(data)];
  const { message, data: logged } = data as { message?: unknown; data?: unknown };
  if (what === 'progress') return typeof message === 'string' ? [make('p', {}, bdi(message))] : [];
  return [json(what === 'log' ? logged : data)];
}

function durationText(ms: number | undefined): string | undefined {
  return ms === undefined ? undefined : duration(ms);
}

/** Says what an outcome means, in a list. */
export function reasonOf(outcome: string): string {
  const meaning = own(CODES, outcome);
  return outcome === 'ok' ? '' : meaning === undefined ? outcome : `${meaning} (${outcome})`;
}

/** Says in a list why something did not succeed: of a call that a guard refused also its status. */
export function shortReason({ outcome, reason, ms }: Pick<EventRow, 'outcome' | 'reason' | 'ms'>): string {
  return ms === undefined || reason === undefined ? reasonOf(outcome) : `${reasonOf(outcome)} · ${reason}`;
}

/** Errors of JSON-RPC, of MCP and of this library. */
const CODES: Readonly<Record<string, string>> = {
  '-32700': 'no JSON',
  '-32600': 'no valid request',
  '-32601': 'no such method',
  '-32602': 'invalid parameters, or no such handler',
  '-32603': 'failed inside, see the log',
  '-32000': 'ended by the server',
  '-32001': 'not answered in time',
  '-32002': 'no such resource',
  '-32020': 'headers differ from the body',
  '-32021': 'the client lacks a capability',
};

const MEANINGS: Readonly<Record<string, string>> = {
  ok: 'answered',
  tool_error: 'answered with a tool error',
  'tool error': 'answered with a tool error',
  denied: 'refused by a guard',
  cancelled: 'cancelled',
};

export function outcomeText(outcome: string | number | undefined): string {
  return outcome === undefined ? 'has ended' : (own(MEANINGS, String(outcome)) ?? reasonOf(String(outcome)));
}

/** The outcome of an event may be the name of a client, such as `constructor`. */
function own(texts: Readonly<Record<string, string>>, name: string): string | undefined {
  return Object.hasOwn(texts, name) ? texts[name] : undefined;
}

export function eventSections(event: EventRow, { state }: Context): Section[] {
  const pairs = {
    Time: clock(state.here(event.at)),
    Event: event.what,
    Outcome: outcomeText(event.outcome),
    Reason: event.reason,
    Who: event.who,
    Took: durationText(event.ms),
  };
  return [{ id: 'facts', data: pairs, make: () => [facts(pairs)] }];
}

function eventsSection(
  id: string,
  title: string,
  { state, index }: Context,
  isOf: (row: EventRow) => boolean,
): Section {
  const rows = state.events.filter((row) => row.endpoint === index && isOf(row)).slice(-LATEST);
  const items = () =>
    rows.toReversed().map((row) => {
      const { n, at, what, who, ms, tone } = row;
      const href = hashOf({ kind: 'event', key: String(n), endpoint: index, trying: false });
      const text = [clock(state.here(at)), who, shortReason(row), durationText(ms)].filter(Boolean).join(' · ');
      return make(
        'li',
        { 'data-tone': tone },
        make('a', { href }, bdi(what)),
        ' ',
        make('span', { class: 'dim' }, text),
      );
    });
  const draw = () =>
    rows.length > 0 ? [make('ul', { class: 'latest' }, ...items())] : [note('None among the latest 200 events.')];
  return { id, title, data: rows.map(({ n }) => n), make: draw };
}
