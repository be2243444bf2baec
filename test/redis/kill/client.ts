import { request, type ClientRequest, type IncomingMessage } from 'node:http';
import { createParser } from 'eventsource-parser';
import { KEEP_ALIVE_MS, RETRY_MS, type Work } from './node.js';
import type { Wait, Waits } from './waits.js';

/** A response of which nothing is heard for so long is given up, as our own transport does. */
const SILENCE_MS = 3 * KEEP_ALIVE_MS;
const VERSION = '2025-11-25';

/** How a call has ended, and what was wrong with it. */
export interface Ended {
  readonly kind: 'answer' | 'error' | 'refused' | 'broken';
  readonly text: string;
}

/** What a client asks of its world. */
export interface Surroundings {
  readonly waits: Waits;
  /** Another process of Redis goes on: indices may be skipped (G12). */
  readonly skips: boolean;
  /** Events in such a gap may be lost. */
  readonly loses: boolean;
  /** Where the next request goes. */
  url(): string;
  random(below: number): number;
  /** An invariant is broken. */
  wrong(what: string): void;
  note(what: string): void;
}

/**
 * A client that keeps the books: each stream is read by its event ids, which have to be dense but for restarts of Redis, over all responses that it takes. It comes
 * back `retryMs` after a response has ended, to any node, with its cursor; and repeats what was refused or broken, but for calls.
 */
export class WorldClient {
  sessionId: string | undefined;
  /** What was announced to it. */
  readonly announced: unknown[] = [];
  /** It was told that some of it may be lost. */
  missed = false;
  readonly #open = new Set<ClientRequest>();
  readonly #readings = new Set<Reading>();
  #lastId = 0;
  #left = false;

  constructor(
    readonly name: string,
    private readonly world: Surroundings,
  ) {}

  async begin(): Promise<void> {
    const clientInfo = { name: this.name, version: '1.0.0' };
    const params = { protocolVersion: VERSION, capabilities: { elicitation: { form: {} } }, clientInfo };
    while (this.sessionId === undefined) {
      const response = await this.#send('POST', this.world.url(), {}, this.#message('initialize', params));
      await textOf(response);
      this.sessionId = response.headers['mcp-session-id'] as string | undefined;
    }
    await this.#deliver({ jsonrpc: '2.0', method: 'notifications/initialized' });
  }

  /** Listens on the standalone stream until it leaves. @returns settles when it listens for the first time */
  listen(): Promise<void> {
    return new Promise((opened) => {
      const reading = new Reading(opened);
      const take = ({ params }: Message, gap: boolean): void => {
        this.missed ||= gap;
        this.announced.push((params as { data: unknown }).data);
      };
      void this.#read(reading, undefined, take, () => this.#left);
    });
  }

  async call(work: Work): Promise<Ended> {
    const message = this.#message('tools/call', { name: 'work', arguments: work, _meta: { progressToken: work.key } });
    const wait = this.world.waits.begin(work.key, work.everyMs);
    try {
      return await this.#called(work, message, wait);
    } finally {
      wait.end();
    }
  }

  /** Breaks a response that is open, or merely stops reading it: its node will not know at once. */
  drop(): void {
    const readings = [...this.#readings].filter(({ response }) => response);
    const reading = readings[this.world.random(readings.length)];
    if (!reading) return;
    if (this.world.random(2) === 0) reading.abandon();
    else reading.response!.destroy();
  }

  /** Ends the session. */
  async end(): Promise<number> {
    this.#left = true;
    for (const reading of this.#readings) reading.response?.destroy();
    for (let refused = false; ; refused = true) {
      const response = await this.#send('DELETE', this.world.url(), {});
      await textOf(response);
      const { statusCode } = response;
      // What was refused, as Redis was away for that node, may have been carried out.
      if (statusCode === 204 || (statusCode === 404 && refused)) return 204;
      if (statusCode !== 503) return statusCode!;
      await pause(RETRY_MS);
    }
  }

  leave(): void {
    this.#left = true;
    for (const open of this.#open) open.destroy();
  }

  async #called(work: Work, message: Message, wait: Wait): Promise<Ended> {
    let response: IncomingMessage;
    try {
      response = await this.#send('POST', this.world.url(), {}, message);
      wait.heard();
      if (!isStream(response)) {
        const text = await textOf(response);
        if (response.statusCode !== 200) return { kind: 'refused', text: `${response.statusCode} ${text}` };
        return endedBy(JSON.parse(text) as Message);
      }
    } catch (error) {
      // It was no stream yet: what has become of it is not known.
      return { kind: 'broken', text: String(error) };
    }
    let ended: Ended | undefined;
    let steps = 0;
    const take = (heard: Message, gap: boolean): void => {
      wait.heard();
      if (ended) this.world.wrong(`${work.key}: ${JSON.stringify(heard)} after its end`);
      if (heard.method === 'notifications/progress') {
        const { progress } = heard.params as { progress: number };
        if (gap && this.world.loses) steps = Math.max(steps, progress - 1);
        if (progress !== ++steps) this.world.wrong(`${work.key}: progress ${progress} is number ${steps}`);
      } else if (heard.method === 'notifications/cancelled') {
        this.world.note(`${work.key}: is no longer asked`);
      } else if (heard.method !== undefined) {
        this.world.note(`${work.key}: is asked`);
        void this.#answer(heard).then(() => this.world.note(`${work.key}: has answered`));
      } else if (heard.id === message.id) {
        ended = endedBy(heard);
        if (gap && this.world.loses) steps = work.steps;
      } else this.world.wrong(`${work.key}: has the answer of ${heard.id}`);
    };
    const reading = new Reading();
    await this.#read(reading, response, take, () => ended !== undefined || this.#left);
    if (!ended) {
      // Its connection broke before it could know where to come back to.
      if (reading.cursor === undefined) return { kind: 'broken', text: 'no cursor' };
      if (!this.world.loses) this.world.wrong(`${work.key}: no answer: ${reading.fate}`);
      return { kind: 'broken', text: reading.fate };
    }
    if (ended.kind === 'answer' && steps !== work.steps) {
      this.world.wrong(`${work.key}: answered after progress ${steps} of ${work.steps}`);
    }
    return ended;
  }

  /** Of a question. Repeated until a node has taken it. */
  async #answer({ id }: Message): Promise<void> {
    const result = { action: 'accept', content: { name: this.name } };
    await this.#deliver({ jsonrpc: '2.0', id: id!, result });
  }

  async #deliver(message: object): Promise<void> {
    while (!this.#left) {
      try {
        const response = await this.#send('POST', this.world.url(), {}, message);
        const text = await textOf(response);
        // Its session may have ended meanwhile.
        if (response.statusCode === 202 || this.#left) return;
        if (response.statusCode !== 503) this.world.wrong(`${JSON.stringify(message)}: ${response.statusCode} ${text}`);
      } catch {
        // Once more.
      }
      await pause(RETRY_MS);
    }
  }

  /** Reads a stream over as many responses as it takes. */
  async #read(reading: Reading, first: IncomingMessage | undefined, take: Take, done: () => boolean): Promise<void> {
    this.#readings.add(reading);
    let response = first;
    while (!done()) {
      if (response) await this.#readOne(reading, response, take);
      // It may have ended with its stream.
      if (done() || (first && reading.cursor === undefined)) break;
      await pause(RETRY_MS);
      if (done()) break;
      response = await this.#comeBack(reading);
      if (reading.over) break;
    }
    this.#readings.delete(reading);
  }

  async #comeBack(reading: Reading): Promise<IncomingMessage | undefined> {
    const cursor: Record<string, string> = reading.cursor === undefined ? {} : { 'last-event-id': reading.cursor };
    try {
      const response = await this.#send('GET', this.world.url(), { accept: 'text/event-stream', ...cursor });
      if (isStream(response)) {
        this.world.note(`${this.name} comes back at ${reading.cursor}`);
        return response;
      }
      const text = await textOf(response);
      if (response.statusCode !== 503) {
        reading.fate = `GET ${reading.cursor}: ${response.statusCode} ${text}`;
        reading.over = true;
        if (this.#left) return undefined;
        // The whole stream is lost, and the client is told so.
        if (!this.world.loses || response.statusCode !== 400) this.world.wrong(`${this.name}: ${reading.fate}`);
      }
    } catch {
      // The node is dead, or has died.
    }
    return undefined;
  }

  #readOne(reading: Reading, response: IncomingMessage, take: Take): Promise<void> {
    return new Promise((resolve) => {
      let silence: NodeJS.Timeout | undefined;
      let over = false;
      const end = (): void => {
        if (over) return;
        over = true;
        clearTimeout(silence);
        reading.response = undefined;
        resolve();
      };
      const alive = (): void => {
        clearTimeout(silence);
        silence = setTimeout(() => {
          this.world.note(`${this.name} gives up a silent response at ${reading.cursor}`);
          response.destroy();
        }, SILENCE_MS);
      };
      const parser = createParser({
        onEvent: ({ id, data }) => {
          if (over) return;
          const skipped = reading.skippedBy(id, data === '');
          const gap = this.world.skips && skipped !== undefined && skipped > 0;
          if (skipped !== 0 && !gap) this.world.wrong(`${this.name}: ${id} after ${reading.cursor}: ${data}`);
          if (data === '' && reading.cursor !== undefined) this.world.note(`${this.name} is moved to ${id}`);
          reading.cursor = id ?? reading.cursor;
          reading.opened();
          if (data !== '') take(JSON.parse(data) as Message, gap);
        },
      });
      // From here on the client takes nothing more, though the connection lives.
      reading.abandon = end;
      reading.response = response;
      response.setEncoding('utf8');
      response.on('data', (text: string) => {
        if (over) return;
        alive();
        parser.feed(text);
      });
      for (const event of ['end', 'error', 'close']) response.on(event, end);
      alive();
    });
  }

  #message(method: string, params: object): Message {
    return { jsonrpc: '2.0', id: ++this.#lastId, method, params };
  }

  #send(method: string, url: string, more: Record<string, string>, body?: object): Promise<IncomingMessage> {
    const headers = {
      accept: 'application/json, text/event-stream',
      ...(body && { 'content-type': 'application/json' }),
      ...(this.sessionId && { 'mcp-session-id': this.sessionId, 'mcp-protocol-version': VERSION }),
      ...more,
    };
    return new Promise((resolve, reject) => {
      const sent = request(url, { method, headers, agent: false }, resolve);
      this.#open.add(sent);
      sent.on('close', () => this.#open.delete(sent));
      sent.on('error', reject);
      sent.end(body && JSON.stringify(body));
    });
  }
}

/** How far a stream was read. */
class Reading {
  cursor: string | undefined;
  response: IncomingMessage | undefined;
  abandon: () => void = () => {};
  /** Why it cannot be read on. */
  fate = 'the client has left';
  over = false;

  constructor(readonly opened: () => void = () => {}) {}

  /**
   * Indices between what was read and an event; one without data repeats where the stream is.
   *
   * @returns `undefined`: it does not belong here
   */
  skippedBy(id: string | undefined, isEmpty: boolean): number | undefined {
    if (id === undefined) return undefined;
    const [stream, index] = id.split('_') as [string, string];
    if (this.cursor === undefined) return isEmpty && index === '0' ? 0 : undefined;
    const [known, at] = this.cursor.split('_') as [string, string];
    return stream === known ? Number(index) - Number(at) - (isEmpty ? 0 : 1) : undefined;
  }
}

/** @param gap indices were skipped before it */
type Take = (message: Message, gap: boolean) => void;

interface Message {
  readonly jsonrpc: '2.0';
  readonly id?: number | string;
  readonly method?: string;
  readonly params?: object;
  readonly result?: { content?: { text: string }[]; isError?: boolean };
  readonly error?: { code: number; message: string };
}

function endedBy({ result, error }: Message): Ended {
  if (error) return { kind: 'error', text: `${error.code} ${error.message}` };
  const text = result?.content?.[0]?.text ?? '';
  return { kind: result?.isError ? 'error' : 'answer', text };
}

function isStream({ headers }: IncomingMessage): boolean {
  return headers['content-type']?.startsWith('text/event-stream') === true;
}

async function textOf(response: IncomingMessage): Promise<string> {
  let text = '';
  response.setEncoding('utf8');
  for await (const chunk of response) text += chunk as string;
  return text;
}

/** Real time: the client repeats a request to nodes that are processes of their own. */
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
