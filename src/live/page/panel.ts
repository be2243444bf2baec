import { byId, make, put } from './dom.js';
import {
  type CallDetails,
  callSections,
  type Context,
  eventSections,
  handlerSections,
  type SessionDetails,
  sessionSections,
} from './details.js';
import { note, type Section } from './parts.js';
import { close, hashOf, type Kind, type Route, routeOf } from './route.js';
import { detailsOf } from './server.js';
import type { LiveState } from './state.js';
import { TrialView } from './trial.js';

/** What is open is asked for anew every so many milliseconds. */
const ASK_MS = 2_000;
const TRIED: readonly Kind[] = ['tool', 'resource', 'template', 'prompt'];

/**
 * # What the reader has opened
 *
 * The fragment of the address says what it is. The server is asked for its details when it is opened, and every two seconds
 * for as long as it is; a section is made anew only when its data has changed, so that the place of the reader stays.
 */
export class Panel {
  readonly #node = byId('panel');
  readonly #body = byId('panel-body');
  readonly #sections = new Map<string, { readonly node: HTMLElement; readonly text: string }>();
  #route: Route | undefined;
  #details: object | undefined;
  /** Why there are no details. */
  #problem = '';
  #opener: HTMLElement | undefined;
  #asking: ReturnType<typeof setInterval> | undefined;
  #trial: TrialView | undefined;

  constructor(
    private readonly state: LiveState,
    private readonly onEndpoint: (index: number) => void,
  ) {
    byId('panel-close').addEventListener('click', close);
    addEventListener('hashchange', () => this.#follow());
    addEventListener('pagehide', () => this.#trial?.close());
    document.addEventListener('keydown', ({ key, defaultPrevented }) => {
      if (key === 'Escape' && this.#route && !defaultPrevented) close();
    });
    this.#follow();
  }

  /** Draws what may have changed. */
  draw(): void {
    const route = this.#route;
    const endpoint = route && this.state.endpoints[route.endpoint];
    if (!endpoint || !route) return;
    const context: Context = { state: this.state, endpoint, index: route.endpoint };
    if (route.trying) {
      this.#trial?.draw(endpoint.facts);
      return;
    }
    this.#drawSections(this.#sectionsOf(route, context));
  }

  #follow(): void {
    const route = routeOf(location.hash);
    const before = this.#route;
    this.#route = route;
    clearInterval(this.#asking);
    this.#node.hidden = !route;
    document.body.classList.toggle('opened', route !== undefined);
    if (!route) return this.#closed();
    if (!before) this.#opener = document.activeElement as HTMLElement;
    if (before?.endpoint !== route.endpoint) this.onEndpoint(route.endpoint);
    this.#begin(route, before);
  }

  #begin(route: Route, before: Route | undefined): void {
    const same = before && before.kind === route.kind && before.key === route.key && before.endpoint === route.endpoint;
    if (!same) {
      this.#details = undefined;
      this.#problem = '';
      this.#trial?.close();
      this.#trial = undefined;
    }
    this.#sections.clear();
    this.#body.replaceChildren();
    this.#body.scrollTop = 0;
    put(byId('panel-kind'), route.kind);
    put(byId('panel-title'), titleOf(route));
    this.#drawTabs(route);
    if (route.trying) {
      this.#trial ??= new TrialView(route);
      this.#body.append(this.#trial.node);
    } else {
      void this.#ask(route);
      this.#asking = setInterval(() => void this.#ask(route), ASK_MS);
    }
    this.draw();
    if (!same) byId('panel-title').focus({ preventScroll: true });
  }

  #closed(): void {
    this.#trial?.close();
    this.#trial = undefined;
    this.#opener?.focus({ preventScroll: true });
  }

  #drawTabs(route: Route): void {
    const tabs = byId('panel-tabs');
    tabs.hidden = !TRIED.includes(route.kind);
    const link = (text: string, trying: boolean) =>
      make('a', { href: hashOf({ ...route, trying }), 'aria-current': String(route.trying === trying) }, text);
    tabs.replaceChildren(link('Details', false), link('Try it', true));
  }

  async #ask(route: Route): Promise<void> {
    if (document.hidden || route.kind === 'event') return;
    const answer = await detailsOf(route);
    if (this.#route !== route) return;
    if ('problem' in answer) this.#problem = answer.problem;
    else this.#details = answer.details;
    this.draw();
  }

  #sectionsOf({ kind, key }: Route, context: Context): Section[] {
    const { endpoint, state } = context;
    const known = this.#details;
    const missing = [{ id: 'missing', data: this.#problem, make: () => [note(this.#problem)] }];
    if (kind === 'event' || kind === 'call') {
      const event = state.events.find(({ n, call }) => (kind === 'event' ? String(n) === key : call === key));
      const record = kind === 'call' ? key : event?.call;
      const row = record === undefined ? undefined : endpoint.calls.get(record);
      if (kind === 'event' && event?.call !== undefined) this.#askOnce(event.call);
      put(byId('panel-title'), row ? (row.name ?? row.method) : (event?.what ?? titleOf({ kind, key })));
      if (!row && !event && !known) return this.#problem === '' ? [] : missing;
      put(byId('panel-kind'), event && event.ms === undefined ? 'event' : 'call');
      if (event && event.ms === undefined) return eventSections(event, context);
      return callSections(row, event, known as CallDetails | undefined, context);
    }
    if (kind === 'session') {
      const row = endpoint.sessions.get(key);
      if (!row)
        return [{ id: 'gone', data: '', make: () => [note('This session has ended, or is not known to this node.')] }];
      put(byId('panel-title'), `${row.id} · ${row.client}`);
      return known ? sessionSections(row, known as SessionDetails, context) : missing;
    }
    if (!known) return this.#problem === '' ? [] : missing;
    return handlerSections(kind, key, known, context);
  }

  /** Asks for the record of the call whose end an event is. */
  #askOnce(call: string): void {
    const route = this.#route!;
    if (this.#details || this.#problem) return;
    this.#problem = 'asked';
    void detailsOf({ ...route, kind: 'call', key: call }).then((answer) => {
      if (this.#route !== route) return;
      if ('details' in answer) this.#details = answer.details;
      this.draw();
    });
  }

  #drawSections(sections: readonly Section[]): void {
    const ids = new Set(sections.map(({ id }) => id));
    for (const [id, { node }] of this.#sections) {
      if (ids.has(id)) continue;
      node.remove();
      this.#sections.delete(id);
    }
    let next = this.#body.firstChild;
    for (const section of sections) {
      const text = JSON.stringify([section.title, section.data]) ?? '';
      let known = this.#sections.get(section.id);
      if (!known || known.text !== text) {
        const node = known?.node ?? make('section', { 'data-section': section.id });
        node.replaceChildren(
          ...(section.title === undefined ? [] : [make('h3', {}, section.title)]),
          ...section.make(),
        );
        this.#sections.set(section.id, (known = { node, text }));
      }
      if (known.node === next) next = next.nextSibling;
      else this.#body.insertBefore(known.node, next);
    }
  }
}

function titleOf({ kind, key }: Pick<Route, 'kind' | 'key'>): string {
  return kind === 'session' || kind === 'call' ? kind : kind === 'event' ? 'event' : key;
}
