import { Injectable } from '@nestjs/common';
import { Observable } from 'rxjs';
import type { McpClock } from '../common/clock.js';
import { LONGEST_TIMER_MS } from '../common/options.js';
import type { McpReply } from '../calls/reply.js';

/*
 * # What the option `auth` decides in this room
 *
 * `auth` attaches the credentials of the caller to its request, and puts a `Challenger` in its place. The room `http`
 * knows neither tokens nor keys: it only reads the caller, the time until which its streams may stay open, and the
 * header of a refusal. Without the option there is no challenger, and no request has credentials.
 */

/** The caller of a request, from its verified token. */
export interface RequestCredentials {
  /** The principal of the token; `undefined`: the token names no subject, and clients do not call for themselves. */
  readonly principal: string | undefined;
  /** The subject or client id alone identifies a user that a guard has set as the same caller. */
  readonly id: string | undefined;
  /** The user that the token has put on the request, unless a guard had. */
  readonly user: unknown;
  /** Open streams of the caller end at this time, in milliseconds since the epoch; `undefined`: never. */
  readonly streamsEndAt: number | undefined;
}

const CREDENTIALS = Symbol('nestjs-mcp-streamable:credentials');

/** Puts credentials on Express' `Request` or Fastify's `FastifyRequest`. */
export function setCredentials(request: object, credentials: RequestCredentials): void {
  (request as { [CREDENTIALS]?: RequestCredentials })[CREDENTIALS] = credentials;
}

export function credentialsOf(request: object): RequestCredentials | undefined {
  return (request as { [CREDENTIALS]?: RequestCredentials })[CREDENTIALS];
}

/** Admits callers by their tokens, and adds `WWW-Authenticate` to refusals, which names where the caller can log in. */
export interface Challenger {
  /** Admits a request, and sets its caller on it. @throws McpError, also as a rejection, that the request is refused with */
  admit(request: object): true | Promise<true>;
  /**
   * Returns the error that a request is refused with.
   *
   * @param thrown by a guard, by the controller, or by a guard of the whole app, which runs before any of ours
   * @returns the same, or an error that has a `WWW-Authenticate`
   */
  refusal(thrown: unknown, request: object): unknown;
  /** Does the same for the reply of a call whose handler has a guard. */
  reply<Reply extends McpReply>(reply: Reply, request: object): Reply;
}

/** Has the {@link Challenger} of an endpoint, from the moment on when plugins are attached, before the endpoint has a route. */
@Injectable()
export class Challenges {
  /** `undefined`: without the option `auth` */
  by: Challenger | undefined;
}

/**
 * Ends a stream when the token of its caller expires: the client reconnects, is refused, and gets a new token. The
 * session or call of the stream continues.
 */
export function whileAuthorized<T>(events$: Observable<T>, request: object, clock: McpClock): Observable<T> {
  const endAt = credentialsOf(request)?.streamsEndAt;
  if (endAt === undefined || endAt - clock.now() > LONGEST_TIMER_MS) return events$;
  return new Observable((subscriber) => {
    const timer = clock.setTimeout(() => subscriber.complete(), Math.max(0, endAt - clock.now()));
    subscriber.add(() => clock.clear(timer));
    subscriber.add(events$.subscribe(subscriber));
  });
}
