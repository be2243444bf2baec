import { Client, type Progress } from '@modelcontextprotocol/client';
import { StreamableClientTransport } from 'nestjs-mcp-streamable/client';

/** Milliseconds after which a call without an answer was forgotten: on a busy machine it may live through several faults. */
const FORGOTTEN_MS = 120_000;

/** What a call shall do. */
interface Work {
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
  /** What the client went through meanwhile. */
  readonly trace: readonly string[];
}

/** The official client over the transport of this package; remembers everything that is handed over. */
export class Caller {
  readonly outcomes: Outcome[] = [];
  /** Numbers of the announcements that came on the standalone stream. */
  readonly announced: unknown[] = [];
  readonly answers = new Map<number | string, number>();
  readonly client: Client;
  readonly transport: StreamableClientTransport;
  readonly reconnects: { readonly at: number; readonly text: string }[] = [];
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
    this.transport.reconnects$.subscribe(({ kind, requestId, failures, delayMs, cause }) => {
      const text = `${kind} of ${requestId ?? 'a message'}, ${failures} failures, in ${delayMs} ms: ${String(cause)}`;
      this.reconnects.push({ at: performance.now(), text });
    });
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
    const trace = this.reconnects
      .filter(({ at }) => at >= began)
      .map(({ at, text: what }) => `${Math.round(at - began)} ms: ${what}`);
    const outcome = { work, caller: this, seen, kind, text, ms: performance.now() - began, trace };
    this.outcomes.push(outcome);
    return outcome;
  }

  async #outcome(work: Work, seen: number[]): Promise<[kind: string, text: string]> {
    const onprogress = ({ progress, total }: Progress): void => {
      // On 2026-07-28 the client counts its own rounds of questions as progress, without a total.
      if (total !== undefined) seen.push(progress);
    };
    try {
      const { content, isError } = await this.client.callTool(
        { name: 'work', arguments: { ...work } },
        { onprogress, timeout: FORGOTTEN_MS },
      );
      const { text } = (content as { text: string }[])[0]!;
      return [isError ? 'isError' : 'answer', text];
    } catch (error) {
      const { name, code, status, message } = error as Error & { code?: unknown; status?: number };
      return [`${name} ${String(status ?? code)}`, message];
    }
  }
}
