import { EventEmitter } from 'node:events';
import { describe, expect, it } from 'vitest';
import type { Invocation } from '../handlers/invocation/invocation.js';
import { ResponseFacade } from '../handlers/invocation/response-facade.js';
import { requestView, type SeenRoute } from './request-view.js';
import { RouteUrls } from './route-url.js';

const route: SeenRoute = {
  hasArgumentsInUrl: false,
  splitNames: new Set(),
  verb: 'GET',
  urls: new RouteUrls(['/orders'], 'GET'),
  config: undefined,
};
const NO_ARGUMENTS = { params: {}, query: {}, body: {} };
const call = { response: new ResponseFacade<Invocation>(undefined) };

describe('a view of a request', () => {
  it.each([
    ['Express', (request: EventEmitter) => request],
    ['Fastify', (raw: EventEmitter) => ({ raw })],
  ])('a view of a request of %s leaves listeners to the request itself', (_, requestOf) => {
    const real = new EventEmitter();
    const view = requestView(requestOf(real), NO_ARGUMENTS, route, call) as EventEmitter & { raw?: EventEmitter };
    const heard: string[] = [];
    (view.raw ?? view).once('close', () => heard.push('close'));
    // Node drops all listeners with the last one that it has counted.
    const other = (): void => {};
    real.on('data', other).off('data', other).emit('close');
    expect(heard).toEqual(['close']);
    expect(real.eventNames()).toEqual([]);
  });

  it('a view of a request has the URL of its route where there is no request, as over stdio', () => {
    const view = requestView(undefined, NO_ARGUMENTS, route, call) as Record<string, unknown>;
    expect([view['url'], view['originalUrl'], view['method'], view['headers']]).toEqual([
      '/orders',
      '/orders',
      'GET',
      undefined,
    ]);
  });
});
