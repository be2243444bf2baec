import { describe, expect, it } from 'vitest';
import { isLocalCaller } from './local-caller.js';

const host = 'localhost';

describe('a caller on this machine', () => {
  it.each<[string, unknown, boolean]>([
    ['is not one of a socket without an address', { headers: { host }, socket: {} }, false],
    ['is not one of a request whose socket is gone', { headers: { host }, socket: null }, false],
    ['is one of stdio, whose request has no socket', { user: 'ann', headers: {} }, true],
    ['is the app itself, without a request', undefined, true],
  ])('%s', (_, request, local) => {
    expect(isLocalCaller(request)).toBe(local);
  });

  it.each<[string, object, boolean]>([
    ['127.0.0.1', { host: 'localhost:3000' }, true],
    ['::1', { host: '[::1]:3000' }, true],
    ['::ffff:127.0.0.1', { host: '127.0.0.1' }, true],
    ['10.0.0.7', { host: 'localhost:3000' }, false],
    ['10.0.0.7', { host: 'localhost', 'x-forwarded-for': '127.0.0.1' }, false],
    ['127.0.0.1', { host: 'evil.example' }, false],
    ['127.0.0.1', { host: 'localhost.evil.example' }, false],
    ['127.0.0.1', {}, false],
    ['127.0.0.1', { host: 'localhost', 'x-forwarded-for': '10.0.0.7' }, false],
    ['127.0.0.1', { host: 'localhost', 'x-forwarded-proto': 'https' }, false],
    ['127.0.0.1', { host: 'localhost', forwarded: 'for=10.0.0.7' }, false],
    ...['x-real-ip', 'cf-connecting-ip', 'true-client-ip', 'fastly-client-ip', 'x-azure-clientip', 'x-envoy-peer'].map(
      (name): [string, object, boolean] => ['127.0.0.1', { host: 'localhost', [name]: '10.0.0.7' }, false],
    ),
    ...['x-original-host', 'x-host', 'x-forwarded', 'x-forwarded-host', 'via', 'forwarded-for'].map(
      (name): [string, object, boolean] => ['127.0.0.1', { host: 'localhost', [name]: 'mcp.example.com' }, false],
    ),
    [
      '127.0.0.1',
      { host: 'localhost', viable: '1', shipping: '1', 'user-agent': 'curl', 'sec-fetch-site': 'none' },
      true,
    ],
  ])('from %s with %o: %s', (remoteAddress, headers, local) => {
    expect(isLocalCaller({ headers, socket: { remoteAddress } })).toBe(local);
  });
});
