import { describe, expect, it } from 'vitest';
import { addressOf, isLocalCaller } from './local-caller.js';

const host = 'localhost';

/** Headers by which a request shows that it has come through something, as each of these adds them. */
const ADDED_BY: Readonly<Record<string, readonly string[]>> = {
  'RFC 7239, RFC 9110, RFC 8586': ['Forwarded', 'Via', 'Max-Forwards', 'CDN-Loop'],
  'most proxies': ['X-Forwarded-For', 'X-Forwarded-Proto', 'X-Forwarded-Host', 'X-Real-IP', 'X-Client-IP', 'Client-IP'],
  'old proxies': ['Forwarded-For', 'X-Forwarded', 'Proxy-Client-IP', 'WL-Proxy-Client-IP', 'ClientIP', 'X-RealIP'],
  'browsers that are set to a proxy': ['Proxy-Connection', 'Proxy-Authorization'],
  'ingress-nginx': ['X-Original-Forwarded-For', 'X-Original-URI'],
  Cloudflare: ['CF-Connecting-IP', 'CF-Ray', 'CF-IPCountry', 'CF-Visitor', 'True-Client-IP'],
  Akamai: ['True-Client-Port', 'Akamai-Origin-Hop', 'X-Akamai-Edgescape'],
  Fastly: ['Fastly-Client-IP', 'Fastly-FF', 'Fastly-SSL'],
  'Fly.io': ['Fly-Client-IP', 'Fly-Region', 'Fly-Forwarded-Port'],
  'Amazon (ALB, CloudFront)': ['X-Amzn-Trace-Id', 'X-Amzn-Oidc-Data', 'X-Amz-Cf-Id'],
  Azure: ['X-Azure-ClientIP', 'X-Azure-SocketIP', 'X-Azure-Ref', 'X-Azure-FDID', 'X-ARR-SSL', 'X-Original-URL'],
  Google: ['X-AppEngine-User-IP', 'X-AppEngine-Country', 'X-Cloud-Trace-Context'],
  Vercel: ['X-Vercel-Id', 'X-Vercel-Forwarded-For', 'X-Vercel-IP-Country'],
  Netlify: ['X-NF-Client-Connection-IP', 'X-NF-Request-Id'],
  Envoy: ['X-Envoy-External-Address', 'X-Envoy-Attempt-Count', 'X-Envoy-Original-Path'],
  'Rackspace, HAProxy, Varnish': ['X-Cluster-Client-IP', 'X-ProxyUser-IP', 'X-Varnish'],
  'Microsoft servers': ['Front-End-Https', 'X-Originating-IP', 'X-Original-Host', 'X-Remote-Addr', 'X-Host'],
};

/** Headers of clients that call without a proxy. */
const OF_CLIENTS = `
  Accept Accept-Encoding Accept-Language Authorization Cache-Control Connection Content-Length Content-Type
  Cookie DNT Expect Idempotency-Key If-None-Match Keep-Alive Last-Event-ID Mcp-Method Mcp-Name Mcp-Protocol-
  Version Mcp-Session-Id Origin Pragma Priority Referer Sec-CH-UA Sec-Fetch-Site TE Transfer-Encoding Upgrade-
  Insecure-Requests User-Agent traceparent tracestate baggage b3 X-Request-Id X-Requested-With X-API-Key viable
  Mcp-Param-Host Mcp-Param-Client-IP Mcp-Param-Forwarded
`
  .trim()
  .split(/\s+/);

const isLocalWith = (name: string): boolean =>
  isLocalCaller({ headers: { host, [name]: '10.0.0.7' }, socket: { remoteAddress: '127.0.0.1' } });

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
    [
      '127.0.0.1',
      { host: 'localhost', viable: '1', shipping: '1', 'user-agent': 'curl', 'sec-fetch-site': 'none' },
      true,
    ],
  ])('from %s with %o: %s', (remoteAddress, headers, local) => {
    expect(isLocalCaller({ headers, socket: { remoteAddress } })).toBe(local);
  });

  it('is not one of a request that has any one header of a proxy, in any case of letters', () => {
    const names = Object.values(ADDED_BY).flat();
    const spelled = [...names, ...names.map((name) => name.toLowerCase())];
    expect(spelled.filter(isLocalWith)).toEqual([]);
  });

  it('is one of a request with the headers that clients send, and with arguments of tools', () => {
    const spelled = [...OF_CLIENTS, ...OF_CLIENTS.map((name) => name.toLowerCase())];
    expect(spelled.filter((name) => !isLocalWith(name))).toEqual([]);
  });
});

describe('the address of an anonymous caller', () => {
  it.each([
    ['10.0.0.7', '10.0.0.7'],
    ['::ffff:10.0.0.7', '10.0.0.7'],
    ['2001:db8::1', '2001:db8:0:0::'],
    ['2001:0DB8:0000:0:ffff:1:2:3', '2001:db8:0:0::'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::'],
    ['::1', '0:0:0:0::'],
    ['1::', '1:0:0:0::'],
    ['unknown', 'unknown'],
  ])('is, for %s, %s', (remoteAddress, address) => {
    expect(addressOf({ socket: { remoteAddress } })).toBe(address);
  });

  it('is the one that the app sees, if it trusts a proxy', () => {
    expect(addressOf({ ip: '10.0.0.7', raw: { socket: { remoteAddress: '10.0.0.1' } } })).toBe('10.0.0.7');
  });

  it('is that of the socket behind a request of the platform', () => {
    expect(addressOf({ raw: { socket: { remoteAddress: '10.0.0.1' } } })).toBe('10.0.0.1');
  });

  it.each([[undefined], [{}], [{ socket: null }], [{ socket: {} }]])('is empty for %j', (request) => {
    expect(addressOf(request)).toBe('');
  });
});
