import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Inject, Injectable, Module, type OnModuleDestroy, type OnModuleInit } from '@nestjs/common';
import { HttpAdapterHost, ModulesContainer } from '@nestjs/core';
import { McpClock, type ClockTimer, systemClock } from '../common/clock.js';
import { logger } from '../calls/operator-log.js';
import { logMissingShutdownHooks } from './start-log.js';

/*
 * # How an app with endpoints stops (E13, S15)
 *
 *     open ──a signal──▶ leaving: calls are taken, for shutdownDelayMs ──▶ draining: 503 ──▶ stopped
 *       └──────────────────────────app.close()─────────────────────────────────▲
 *
 * All endpoints stop at the same time, before other modules are destroyed: Nest destroys module after module, those near
 * the root first and global ones last, so that dependencies of handlers would be closed before their calls had ended. The
 * endpoints share the port and the balancer, hence one delay for all of them, the longest.
 */

/** Orchestrators, process managers and terminals stop a process with these signals. */
const STOP_SIGNALS = ['SIGTERM', 'SIGINT'] as const;

/** Connections whose clients still read are checked in this interval. */
const UNSENT_MS = 100;

/** Node rounds the value to seconds and sends it to clients: with 1 they do not use the connection again. */
const LAST_KEEP_ALIVE_MS = 1_000;

/** An endpoint, or another way to it, that ends with the app. @internal */
export interface StopsWithApp {
  /** Calls are taken for so many milliseconds after a signal. */
  readonly delayMs?: number;
  /** Announces that the node stops, and takes calls. */
  leave?(): void;
  /** Stops the endpoint. Idempotent: the endpoint also calls it when it is destroyed, and reports failures there. */
  stop(): Promise<void>;
}

/** @internal */
@Injectable()
export class EndpointShutdown implements OnModuleInit, OnModuleDestroy {
  readonly #parts: StopsWithApp[] = [];
  #connections: Connections | undefined;
  #signal: NodeJS.Signals | undefined;
  #stopped: Promise<void> | undefined;

  constructor(
    @Inject(ModulesContainer) modules: ModulesContainer,
    @Inject(HttpAdapterHost) private readonly adapterHost: HttpAdapterHost,
    @Inject(McpClock) private readonly clock: McpClock,
  ) {
    const own = [...modules.values()].find(({ metatype }) => metatype === McpShutdownModule);
    // Nest orders its hooks by the distance from the root only; the root itself has 1.
    if (own) own.distance = -1;
  }

  add(part: StopsWithApp): void {
    this.#parts.push(part);
  }

  onModuleInit(): void {
    this.adapterHost.listen$.subscribe(() => {
      logMissingShutdownHooks();
      const server = this.adapterHost.httpAdapter.getHttpServer() as Server;
      this.#connections = new Connections(server, this.clock);
      // This hook receives no signal from Nest. Node ends the process only if nothing listens for the signal, which must stay so.
      for (const signal of STOP_SIGNALS) {
        if (process.listenerCount(signal) > 0) process.prependListener(signal, this.#note);
      }
    });
  }

  /** Runs twice on Nest 11 if a signal comes while the app closes. */
  onModuleDestroy(): Promise<void> {
    return (this.#stopped ??= this.#stop());
  }

  async #stop(): Promise<void> {
    this.#removeListeners();
    for (const part of this.#parts) part.leave?.();
    this.#connections?.leave();
    const delayMs = Math.max(0, ...this.#parts.map((part) => part.delayMs ?? 0));
    if (this.#signal !== undefined && delayMs > 0) {
      logger.log(
        `${this.#signal}: calls are taken for ${delayMs} ms ("shutdownDelayMs"), until balancers have noticed.`,
      );
      await new Promise<void>((resolve) => void this.clock.setTimeout(resolve, delayMs));
    }
    this.#connections?.closeIdle();
    await Promise.allSettled(this.#parts.map((part) => part.stop()));
  }

  readonly #note = (signal: NodeJS.Signals): void => {
    this.#signal = signal;
    this.#removeListeners();
    // The other listeners have stopped listening since: the signal ends the process again.
    if (process.listenerCount(signal) === 0) process.kill(process.pid, signal);
  };

  /**
   * Removes our listeners. Nest ends the process by the same signal in the end, which takes effect only if nothing
   * listens.
   */
  #removeListeners(): void {
    for (const signal of STOP_SIGNALS) process.off(signal, this.#note);
  }
}

@Module({ providers: [EndpointShutdown, { provide: McpClock, useValue: systemClock }], exports: [EndpointShutdown] })
export class McpShutdownModule {}

/*
 * # The connections of the app's server
 *
 * A client that keeps its connection stays with this node, whatever the balancer does. From the beginning of a shutdown on
 * each response of the app ends its connection, so that the next request comes through the balancer. Connections that are idle
 * are closed only when calls are refused: a request may be on its way.
 */
class Connections {
  readonly #sockets = new Set<Socket>();
  #timer: ClockTimer | undefined;

  constructor(
    private readonly server: Server,
    private readonly clock: McpClock,
  ) {
    const add = (socket: Socket): void => {
      this.#sockets.add(socket);
      socket.on('close', () => this.#sockets.delete(socket));
    };
    server.on('connection', add).on('secureConnection', add);
    server.on('close', () => clock.clear(this.#timer));
  }

  leave(): void {
    // The connections of responses that have begun are closed a second later.
    this.server.keepAliveTimeout = LAST_KEEP_ALIVE_MS;
    this.server.prependListener('request', endConnection);
  }

  /**
   * Closes idle connections. Node takes a response for sent that a slow client still reads, and would cut it: this
   * waits until all is sent.
   */
  closeIdle(): void {
    for (const { writableLength } of this.#sockets) {
      if (writableLength === 0) continue;
      this.#timer ??= this.clock.setInterval(() => this.closeIdle(), UNSENT_MS);
      return;
    }
    this.clock.clear(this.#timer);
    // Servers of HTTP/2 have no such method.
    (this.server as Partial<Server>).closeIdleConnections?.();
  }
}

/** Ends the connection of a response by a header, which HTTP/2 does not have. */
function endConnection({ httpVersionMajor }: IncomingMessage, response: ServerResponse): void {
  if (httpVersionMajor === 1) response.setHeader('Connection', 'close');
}
