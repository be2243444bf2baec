import { button, make, put } from './dom.js';
import { duration } from './format.js';
import type { HandlerDetails, Wire } from './details.js';
import { FieldError, formOf, type Field, parsed } from './form.js';
import { json, note } from './parts.js';
import { resultNodes } from './results.js';
import type { Route } from './route.js';
import type { Schema } from './schema.js';
import { detailsOf, toast, trialOf } from './server.js';
import { codeOf, curlOf } from './snippets.js';
import type { Facts } from './state.js';
import { mirrored, MODERN, type Revision, TrialClient, TrialError, type TrialRequest } from './trial-client.js';
import { expand, variablesOf } from './uri.js';
import { questionForm } from './questions.js';

/** Kept for as long as the page is open, and nowhere else. */
const chosen: { token: string; revision: Revision } = { token: '', revision: MODERN };

/**
 * # Trying a tool, a resource or a prompt
 *
 * The browser is a client of the endpoint, by its own rules: the page only makes the form, and shows what comes back.
 */
export class TrialView {
  readonly node = make('div', { class: 'trial' });
  readonly #output = make('div', { class: 'output', 'aria-live': 'polite' });
  readonly #copies = make('div', { class: 'copies' });
  readonly #call = button('Call', () => void this.#run(), { class: 'primary' });
  readonly #cancel = button('Cancel', () => this.#abort?.abort());
  #client: { readonly of: string; readonly client: TrialClient } | undefined;
  #abort: AbortController | undefined;
  #wire: Wire = {};
  #input: ArgumentsInput | undefined;
  readonly #pathInput = make('input', { id: 'trial-path', autocomplete: 'off', spellcheck: 'false' });
  readonly #paths = make('label', { for: 'trial-path' }, 'Path', this.#pathInput);
  #path = '';

  constructor(private readonly route: Route) {
    this.#cancel.hidden = true;
    void this.#open();
  }

  draw({ path }: Facts): void {
    if (this.#path !== '') return;
    this.#path = path;
    // The reader gives the parameters of the path.
    this.#paths.hidden = !path.includes(':');
    this.#pathInput.value = path;
  }

  close(): void {
    this.#abort?.abort();
    this.#client?.client.close();
    this.#client = undefined;
  }

  async #open(): Promise<void> {
    const [allowed, found] = await Promise.all([trialOf(this.route.endpoint), detailsOf(this.route)]);
    const problem = 'problem' in allowed ? allowed.problem : allowed.details.refusal;
    if (problem !== undefined) {
      this.node.append(note(`This page cannot be a client of the endpoint. ${problem}`));
      return;
    }
    if ('problem' in found) {
      this.node.append(note(found.problem));
      return;
    }
    this.#wire = (found.details as HandlerDetails).wire ?? {};
    this.#input = new ArgumentsInput(schemaOf(this.route.kind, this.#wire));
    const buttons = make('div', { class: 'buttons' }, this.#call, this.#cancel);
    const form = make('form', {}, this.#input.node, buttons);
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      void this.#run();
    });
    form.prepend(this.#credentials());
    this.node.append(form, this.#output, this.#copies);
  }

  #credentials(): HTMLElement {
    const revision = make('select', { id: 'trial-revision' });
    for (const each of [MODERN, '2025-11-25']) revision.append(make('option', { value: each }, each));
    revision.value = chosen.revision;
    revision.addEventListener('change', () => {
      chosen.revision = revision.value as Revision;
    });
    const look = { class: 'secret', id: 'trial-token', autocomplete: 'off', placeholder: 'none', spellcheck: 'false' };
    const token = make('input', look);
    token.value = chosen.token;
    token.addEventListener('input', () => {
      chosen.token = token.value.trim().replace(/^Bearer\s+/i, '');
    });
    this.#pathInput.addEventListener('input', () => {
      this.#path = this.#pathInput.value;
    });
    return make(
      'div',
      { class: 'credentials' },
      this.#paths,
      make('label', { for: 'trial-revision' }, 'Revision', revision),
      make('label', { for: 'trial-token' }, 'Bearer token', token),
    );
  }

  async #run(): Promise<void> {
    if (this.#abort) return;
    let request: TrialRequest;
    try {
      request = this.#request(this.#input!.value());
    } catch (error) {
      if (error instanceof FieldError) return;
      throw error;
    }
    const abort = (this.#abort = new AbortController());
    this.#call.disabled = true;
    this.#cancel.hidden = false;
    const log = make('ol', { class: 'steps' });
    const state = make('p', { class: 'dim', role: 'status' }, 'Running');
    this.#output.replaceChildren(state, log);
    const begin = performance.now();
    try {
      const result = await this.#clientNow().call(request, this.#events(log, begin, abort.signal), abort.signal);
      put(
        state,
        `Answered after ${duration(performance.now() - begin)}${result['isError'] === true ? ', with a tool error' : ''}`,
      );
      state.className = result['isError'] === true ? 'bad' : 'good';
      this.#output.append(...resultNodes(result));
    } catch (error) {
      state.className = 'bad';
      if (abort.signal.aborted) put(state, 'Cancelled');
      else {
        put(state, failureText(error as Error));
        if (error instanceof TrialError && error.data !== undefined) this.#output.append(json(error.data));
      }
    } finally {
      abort.abort();
      this.#abort = undefined;
      this.#call.disabled = false;
      this.#cancel.hidden = true;
    }
    this.#showCopies(request);
    this.#output.scrollIntoView({ block: 'nearest' });
  }

  /** Returns the client; with other credentials or another revision it is another one. */
  #clientNow(): TrialClient {
    const url = location.origin + this.#path;
    const of = [url, chosen.revision, chosen.token].join('\n');
    if (this.#client?.of !== of) {
      this.#client?.client.close();
      this.#client = { of, client: new TrialClient(url, chosen.revision, chosen.token) };
    }
    return this.#client.client;
  }

  #events(log: HTMLElement, begin: number, signal: AbortSignal) {
    const step = (what: string, text: string, ...more: Node[]) => {
      const head = make('p', {}, make('b', {}, what), ' ', make('bdi', {}, text));
      head.append(make('time', {}, `after ${duration(performance.now() - begin)}`));
      const item = make('li', {}, head, ...more);
      log.append(item);
      return item;
    };
    return {
      notified: (method: string, params: Readonly<Record<string, unknown>>) => {
        if (method === 'notifications/progress') progressStep(step, params);
        else if (method === 'notifications/message') step('log', String(params['level']), json(params['data']));
        else step('notification', method);
      },
      asked: (method: string, params: Readonly<Record<string, unknown>>) => {
        const form = questionForm(method, params, signal);
        step('question', method, form.node);
        return form.answer;
      },
    };
  }

  #request(args: Readonly<Record<string, unknown>>): TrialRequest {
    const { kind, key } = this.route;
    if (kind === 'resource') return { method: 'resources/read', params: { uri: key } };
    if (kind === 'template') return { method: 'resources/read', params: { uri: expand(key, args) } };
    if (kind === 'prompt') return { method: 'prompts/get', params: { name: key, arguments: args } };
    const headers = mirrored(this.#wire.inputSchema, args);
    return { method: 'tools/call', params: { name: key, arguments: args }, headers };
  }

  #showCopies(request: TrialRequest): void {
    const url = location.origin + this.#path;
    const tried = { url, revision: chosen.revision, withToken: chosen.token !== '', request };
    this.#copies.replaceChildren(copyable('curl', curlOf(tried)), copyable('Client code', codeOf(tried)));
  }
}

/** Says why a call failed: what the status and the code are, what the endpoint says, and how long to wait. */
export function failureText(error: Error): string {
  const { status, code, retryAfter } = error instanceof TrialError ? error : ({} as Partial<TrialError>);
  const which = [status !== undefined && `HTTP ${status}`, code].filter((each) => each !== undefined && each !== false);
  const about = which.length > 0 ? ` (${which.join(', ')})` : '';
  const wait = retryAfter === undefined ? '' : ` The endpoint says when to try again: Retry-After is ${retryAfter}.`;
  return `Failed${about}: ${error.message}${wait}`;
}

function progressStep(
  step: (what: string, text: string, ...more: Node[]) => void,
  { progress, total, message }: Readonly<Record<string, unknown>>,
): void {
  const [now, all] = [Number(progress), Number(total)];
  const bar = make('progress', Number.isFinite(all) ? { value: String(now), max: String(all) } : {});
  const text = [Number.isFinite(all) ? `${now} of ${all}` : String(now), message].filter(Boolean).join(': ');
  step('progress', text, bar);
}

/** The arguments: as a form, or as JSON. */
class ArgumentsInput {
  readonly node = make('div');
  readonly #form: Field;
  readonly #text = make('textarea', {
    class: 'code',
    rows: '8',
    spellcheck: 'false',
    'aria-label': 'Arguments as JSON',
  });
  readonly #error = make('p', { class: 'field-error', role: 'alert' });
  readonly #toggle: HTMLButtonElement;
  #raw = false;

  constructor(private readonly schema: Schema | undefined) {
    this.#form = formOf(schema ?? { type: 'object', properties: {} });
    this.#toggle = button('Edit as JSON', () => this.#switch(), { class: 'small', 'aria-pressed': 'false' });
    const isEmpty = Object.keys(schema?.['properties'] ?? {}).length === 0;
    const head = make('h3', {}, 'Arguments');
    if (schema) head.append(this.#toggle);
    this.node.append(head);
    if (isEmpty) this.node.append(note('It takes none.'));
    this.node.append(this.#form.node, this.#text, this.#error);
    this.#text.hidden = true;
  }

  /** @throws FieldError, which is shown */
  value(): Readonly<Record<string, unknown>> {
    put(this.#error, '');
    if (!this.#raw) return (this.schema ? this.#form.value() : {}) as Record<string, unknown>;
    try {
      const value = parsed(this.#text.value.trim() || '{}');
      if (typeof value !== 'object' || value === null || Array.isArray(value))
        throw new Error('Arguments are a JSON object.');
      return value as Record<string, unknown>;
    } catch (error) {
      put(this.#error, (error as Error).message);
      throw new FieldError((error as Error).message);
    }
  }

  #switch(): void {
    try {
      const value = this.value();
      if (this.#raw) this.#form.fill(value);
      else this.#text.value = JSON.stringify(value, null, 2);
    } catch {
      // An unfinished form becomes JSON all the same; unfinished JSON stays.
      if (this.#raw) return;
      if (this.#text.value === '') this.#text.value = '{}';
    }
    this.#raw = !this.#raw;
    this.#text.hidden = !this.#raw;
    this.#form.node.hidden = this.#raw;
    this.#toggle.setAttribute('aria-pressed', String(this.#raw));
  }
}

function schemaOf(
  kind: Route['kind'],
  { inputSchema, arguments: list = [], uriTemplate = '' }: Wire,
): Schema | undefined {
  if (kind === 'tool') return inputSchema ?? { type: 'object', properties: {} };
  if (kind === 'resource') return undefined;
  const given = kind === 'prompt' ? list : variablesOf(uriTemplate).map((name) => ({ name, required: false }));
  const fields = given.map(({ name, ...rest }) => {
    const { description } = rest as { description?: string };
    return [name, { type: 'string', ...(description !== undefined && { description }) }] as const;
  });
  const required = given.filter((each) => each.required === true).map(({ name }) => name);
  return { type: 'object', properties: Object.fromEntries(fields), required };
}

function copyable(title: string, text: string): HTMLElement {
  const copy = () => {
    void navigator.clipboard?.writeText(text).then(
      () => toast('Copied.'),
      () => toast('The browser did not allow to copy. Select the text instead.'),
    );
  };
  const head = make('summary', {}, title);
  return make('details', {}, head, button('Copy', copy, { class: 'small' }), json(text));
}
