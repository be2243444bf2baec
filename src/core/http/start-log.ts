import { Inject, Injectable } from '@nestjs/common';
import { HttpAdapterHost } from '@nestjs/core';
import { ENDPOINT_NAME, type EndpointName } from '../calls/endpoint-name.js';
import { logger } from '../calls/operator-log.js';
import { EndpointSources } from '../handlers/registry/endpoint-sources.js';
import { type HandlerEntry, type HandlerKind, nounOf } from '../handlers/registry/handler-table.js';
import { Offer } from '../plugins/offer.js';
import { HttpEdge } from './edge/http-edge.js';

/** So many handlers of a kind are named, with so many characters: hundreds of them must not fill the log. */
const NAMED = 20;
const CHARACTERS = 60;

/** The log counts handlers of these kinds, also when there are none. */
const COUNTED: readonly HandlerKind[] = ['tool', 'resource', 'template', 'prompt'];

/**
 * Logs where an endpoint is, and which handlers it serves, so that a missing handler is visible. It does so when the app listens: its
 * hooks at start may register handlers. It subscribes before plugins do, whose lines follow.
 */
@Injectable()
export class StartLog {
  constructor(
    @Inject(ENDPOINT_NAME) private readonly endpoint: EndpointName,
    @Inject(HttpEdge) private readonly edge: HttpEdge,
    @Inject(Offer) private readonly offer: Offer,
    @Inject(EndpointSources) private readonly sources: EndpointSources,
    @Inject(HttpAdapterHost) { listen$ }: HttpAdapterHost,
  ) {
    listen$.subscribe(() => this.#log());
  }

  /** Names the endpoint for the log, such as `MCP endpoint "admin" at /admin`. */
  get subject(): string {
    const { name, path } = this.endpoint;
    const paths = this.edge.paths();
    const where = paths.length > 0 ? paths.join(', ') : path;
    return `MCP endpoint${name === undefined ? '' : ` "${name}"`} at ${where}`;
  }

  #log(): void {
    const { subject } = this;
    if (this.offer.serves === 'servers') {
      return logger.log(`${subject} is served by the server that the option "server" creates.`);
    }
    const { table, added } = this.sources;
    const others = added.flatMap(({ summary = [] }) => summary);
    const entries: HandlerEntry[] = [...COUNTED, 'feature' as const, 'method' as const].flatMap((kind) => [
      ...table.all(kind),
    ]);
    const nouns = new Set([...COUNTED, ...entries.map(nounOf)]);
    const counts = Array.from(nouns, (noun) => counted(noun, entries));
    logger.log(`${subject}: ${[...counts, ...others].join(', ')}.`);
    if (others.length > 0 || entries.length > 0) return;
    logger.warn(
      `${subject} has no handlers: no class of this app that belongs to it has a method with @Tool(), @Resource(), @ResourceTemplate() or @Prompt(), and nothing is registered in McpRegistry. Put the class into the "providers" of a module that the app imports.`,
    );
  }
}

/**
 * Logs a hint when shutdown hooks are missing. Nest does not expose whether they are enabled: without a listener of SIGTERM they
 * are not; with one, they are, or the app handles the signal itself.
 */
export function logMissingShutdownHooks(): void {
  if (process.listenerCount('SIGTERM') > 0) return;
  logger.log(
    'The app does not handle SIGTERM: the signal ends the process without an answer to running calls and open streams. Call app.enableShutdownHooks() before app.listen(), so that they are ended first.',
  );
}

/** Returns a text such as `2 tools (find_order, cancel_order)`. */
function counted(noun: string, entries: readonly HandlerEntry[]): string {
  const keys = entries.filter((entry) => nounOf(entry) === noun).map(({ key }) => key);
  const count = keys.length;
  const counts = `${count} ${noun === 'template' ? 'resource template' : noun}${count === 1 ? '' : 's'}`;
  if (count === 0) return counts;
  const cut = keys.slice(0, NAMED).map((key) => (key.length > CHARACTERS ? `${key.slice(0, CHARACTERS)}…` : key));
  return `${counts} (${cut.join(', ')}${count > NAMED ? ` and ${count - NAMED} more` : ''})`;
}
