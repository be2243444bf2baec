import { Client } from '@modelcontextprotocol/client';
import { StreamableClientTransport } from 'nestjs-mcp-streamable/client';

/** Milliseconds after which a call without an answer has been forgotten. */
const FORGOTTEN_MS = 60_000;

/** What a call shall do. */
export interface Work {
  readonly key: string;
  readonly steps: number;
  /** The step after which the tool asks. */
  readonly askAt: number;
  readonly everyMs: number;
}

export interface Outcome {
  readonly work: Work;
  readonly caller: Caller;
  /** What progress was received, in its order. */
  readonly seen: readonly number[];
  readonly ms: number;
  /** `answer`, or what kind of error. */
  readonly kind: string;
  readonly text: string;
}

/** The official client over the transport of this package; remembers everything that is handed over. */
export class Caller {
  readonly outcomes: Outcome[] = [];
  /** Numbers of the announcements that came on the standalone stream. */
  readonly announced: unknown[] = [];
  readonly answers = new Map<number | string, number>();
  readonly client: Client;
  readonly transport: StreamableClientTransport;
  reconnects = 0;
  #sessionId: string | undefined;

  constructor(
    url: string,
    readonly name: string,
    readonly modern: boolean,
    random: () => number,
  ) {
    this.client = new Client(
      { name, version: '1.0.0' },
      {
        capabilities: { elicitation: { form: {} } },
        versionNegotiation: { mode: modern ? { pin: '2026-07-28' } : 'legacy' },
      },
    );
    this.client.setRequestHandler('elicitation/create', () => ({ action: 'accept' as const, content: { name } }));
    this.client.setNotificationHandler('notifications/message', ({ params }) => void this.announced.push(params.data));
    this.transport = new StreamableClientTransport(url, {
      reconnect: { firstDelayMs: 50, maxDelayMs: 1_000, maxAttempts: 40 },
      openTimeoutMs: 10_000,
      random,
    });
    this.transport.reconnects$.subscribe(() => this.reconnects++);
    // The official client keeps what was set before it, and calls it first.
    this.transport.onmessage = (message) => {
      if ('method' in message || message.id === undefined) return;
      this.answers.set(message.id, (this.answers.get(message.id) ?? 0) + 1);
    };
  }

  async connect(): Promise<void> {
    await this.client.connect(this.transport);
    this.#sessionId = this.transport.sessionId;
  }

  /** Whether it is the session that it has had from the beginning. */
  get keptSession(): boolean {
    if (this.modern) return this.transport.sessionId === undefined;
    return this.#sessionId !== undefined && this.transport.sessionId === this.#sessionId;
  }

  async call(work: Work): Promise<Outcome> {
    const seen: number[] = [];
    const began = performance.now();
    const [kind, text] = await this.#outcome(work, seen);
    const outcome = { work, caller: this, seen, kind, text, ms: performance.now() - began };
    this.outcomes.push(outcome);
    return outcome;
  }

  async #outcome(work: Work, seen: number[]): Promise<[kind: string, text: string]> {
    try {
      const { content, isError } = await this.client.callTool(
        { name: 'work', arguments: { ...work } },
        { onprogress: ({ progress }) => seen.push(progress), timeout: FORGOTTEN_MS },
      );
      const { text } = (content as { text: string }[])[0]!;
      return [isError ? 'isError' : 'answer', text];
    } catch (error) {
      const { name, code, message } = error as Error & { code?: unknown };
      return [`${name} ${String(code)}`, message];
    }
  }
}
