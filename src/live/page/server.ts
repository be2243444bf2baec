import { EventSourceParserStream } from 'eventsource-parser/stream';
import { byId, put } from './dom.js';
import type { Route } from './route.js';
import type { Update } from './state.js';

/* What the page asks its server: the stream of updates, and actions. */

const base = location.pathname.replace(/\/+$/, '');
/** Guards may read the query. */
function at(path: string, fields: Readonly<Record<string, string>> = {}): string {
  const query = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(fields)) query.set(name, value);
  const text = query.toString();
  return base + path + (text === '' ? '' : `?${text}`);
}
const UNREACHABLE = 'The server cannot be reached';

/** Follows the stream, and reconnects for as long as the page is open. */
export async function follow(onUpdate: (update: Update) => void): Promise<never> {
  let wait = 500;
  for (;;) {
    try {
      const response = await fetch(at('/events'), { cache: 'no-store', headers: { accept: 'text/event-stream' } });
      if (isOf(response, 'text/event-stream')) {
        link('up', 'Live');
        wait = 500;
        await read(response.body!, onUpdate);
        link('wait', 'Reconnecting');
      } else {
        const advice =
          response.status === 401 || response.status === 403 ? ' Sign in again, then reload the page.' : '';
        link('down', (await problemOf(response)) + advice);
        wait = 10_000;
      }
    } catch {
      link('down', UNREACHABLE);
      wait = Math.min(wait * 2, 10_000);
    }
    await delay(wait);
  }
}

function delay(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms);
  });
}

async function read(body: ReadableStream<Uint8Array>, onUpdate: (update: Update) => void): Promise<void> {
  const events = body
    .pipeThrough(new TextDecoderStream() as ReadableWritablePair<string, Uint8Array>)
    .pipeThrough(new EventSourceParserStream());
  for await (const { data } of events) onUpdate(JSON.parse(data) as Update);
}

function link(state: 'up' | 'down' | 'wait', text: string): void {
  byId('link').dataset['state'] = state;
  put(byId('link-text'), text);
}

/** Returns whether a response is of that type: a guard may send a reader to a login page, which is answered 200. */
function isOf(response: Response, type: string): boolean {
  return response.ok && (response.headers.get('content-type') ?? '').startsWith(type);
}

async function problemOf(response: Response): Promise<string> {
  if (response.ok) return 'Sign in again, then reload the page.';
  try {
    const { message } = (await response.json()) as { message?: unknown };
    if (typeof message === 'string') return message;
  } catch {
    // No JSON: a proxy may have answered.
  }
  return `The server answered ${response.status}.`;
}

/** Asks for the details of a call, a session or a handler. */
export function detailsOf({ endpoint, kind, key }: Route): Promise<Answer<object>> {
  return asked('/details', { endpoint: String(endpoint), kind, key });
}

/** Asks whether the page may be a client of an endpoint. */
export function trialOf(endpoint: number): Promise<Answer<{ readonly allowed: boolean; readonly refusal?: string }>> {
  return asked('/trial', { endpoint: String(endpoint) });
}

type Answer<T> = { readonly details: T } | { readonly problem: string };

async function asked<T>(path: string, fields: Readonly<Record<string, string>>): Promise<Answer<T>> {
  try {
    const response = await fetch(at(path, fields), { cache: 'no-store' });
    if (!isOf(response, 'application/json')) return { problem: await problemOf(response) };
    return { details: (await response.json()) as T };
  } catch {
    return { problem: `${UNREACHABLE}.` };
  }
}

/** Sends an action, and shows what became of it. @param done shown when it has succeeded */
export async function act(path: string, done: string): Promise<void> {
  toast(await outcomeOf(path, done));
}

async function outcomeOf(path: string, done: string): Promise<string> {
  try {
    const response = await fetch(at(path), { method: 'POST', headers: { 'mcp-live-action': '1' } });
    return isOf(response, 'application/json') ? done : await problemOf(response);
  } catch {
    return `${UNREACHABLE}.`;
  }
}

let hiding: ReturnType<typeof setTimeout> | undefined;

/** Shows a line for some seconds. */
export function toast(text: string): void {
  const node = byId('toast');
  node.hidden = false;
  put(node, text);
  clearTimeout(hiding);
  hiding = setTimeout(() => {
    node.hidden = true;
  }, 6_000);
}
