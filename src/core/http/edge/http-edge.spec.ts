import type { IncomingMessage } from 'node:http';
import { describe, expect, it, vi } from 'vitest';
import { hostOriginPolicy } from './edge-policy.js';
import { markAdmitted } from './endpoint-route.js';
import { admittedOrRefused, HttpEdge } from './http-edge.js';

describe('an app without a known adapter', () => {
  it('an app without a known adapter lets the guard decide on requests that did not pass the edge', () => {
    const key = Symbol();
    const policy = hostOriginPolicy({}, () => undefined);
    const request = (method: string, host: string) =>
      ({ method, headers: { host }, socket: { localAddress: '127.0.0.1' } }) as unknown as IncomingMessage;
    const admitted = request('POST', 'evil.com');
    markAdmitted(admitted, key);

    expect(admittedOrRefused(admitted, key, policy)).toBeUndefined();
    expect(admittedOrRefused(admitted, Symbol(), policy)).toMatchObject({ code: 'FORBIDDEN_HOST' });
    expect(admittedOrRefused(request('POST', 'localhost'), key, policy)).toBeUndefined();
    expect(admittedOrRefused(request('HEAD', 'localhost'), key, policy)).toMatchObject({ code: 'METHOD_NOT_ALLOWED' });
  });

  it('an app without a known adapter logs the warning about unlisted hosts once per endpoint', () => {
    const onUnlisted = vi.fn();
    const policy = hostOriginPolicy({}, onUnlisted);
    const request = { headers: { ':authority': 'a.example' }, socket: { localAddress: '10.0.0.1' } } as never;

    expect([policy.admit(request), policy.admit(request)]).toEqual([undefined, undefined]);
    expect(onUnlisted).toHaveBeenCalledOnce();
  });

  it('an app without a known adapter installs nothing on other adapters', () => {
    const adapter = { getType: () => 'koa' } as never;

    const policy = hostOriginPolicy({}, () => undefined);
    expect(() => new HttpEdge(Symbol(), policy).install(adapter)).toThrow(/koa/);
  });
});
