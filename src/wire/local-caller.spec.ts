import { describe, expect, it } from 'vitest';
import { isLocalCaller } from './local-caller.js';

describe('a caller on this machine', () => {
  it.each<[string, unknown, boolean]>([
    ['is one whose socket comes from loopback', { headers: {}, socket: { remoteAddress: '127.0.0.1' } }, true],
    ['is not one of another machine', { headers: {}, socket: { remoteAddress: '10.0.0.7' } }, false],
    ['is not one of a socket without an address', { headers: {}, socket: {} }, false],
    ['is not one of a request whose socket is gone', { headers: {}, socket: null }, false],
    ['is not one behind a proxy', { headers: { 'x-real-ip': '::1' }, socket: { remoteAddress: '::1' } }, false],
    ['is one of stdio, whose request has no socket', { user: 'ann', headers: {} }, true],
    ['is the app itself, without a request', undefined, true],
  ])('%s', (_, request, local) => {
    expect(isLocalCaller(request)).toBe(local);
  });
});
