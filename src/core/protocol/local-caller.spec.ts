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
  'Heroku, Railway, Render': ['X-Heroku-Queue-Wait-Time', 'X-Railway-Edge', 'X-Render-Origin-Server', 'Rndr-Id'],
  'Tailscale, oauth2-proxy, Kong': ['Tailscale-User-Login', 'X-Auth-Request-User', 'X-Kong-Request-Id'],
  'Amazon (ALB, CloudFront)': ['X-Amzn-Trace-Id', 'X-Amzn-Oidc-Data', 'X-Amz-Cf-Id', 'CloudFront-Viewer-Address'],
  Azure: [
    'X-Azure-ClientIP',
    'X-Azure-SocketIP',
    'X-Azure-Ref',
    'X-Azure-FDID',
    'X-ARR-SSL',
    'X-Original-URL',
    'X-MS-Client-Principal',
  ],
  Google: ['X-AppEngine-User-IP', 'X-AppEngine-Country', 'X-Cloud-Trace-Context', 'X-Goog-IAP-JWT-Assertion'],
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
  Insecure-Requests User-Agent traceparent tracestate baggage b3 X-Request-Id X-Requested-With X-API-Key X-Goog-Api-Key viable
  Mcp-Param-Host Mcp-Param-Client-IP Mcp-Param-Forwarded
`
  .trim()
  .split(/\s+/);

const isLocalWith = (name: string): boolean =>
  isLocalCaller({ headers: { host, [name]: '10.0.0.7' }, socket: { remoteAddress: '127.0.0.1' } });

describe('a caller on this machine', () => {
  it.each<[string, unknown, boolean]>([
    ['a socket without an address is not on this machine', { headers: { host }, socket: {} }, false],
    ['a socket that is gone is not on this machine', { headers: { host }, socket: null }, false],
    ['a client of stdio, which has no socket, is on this machine', { user: 'ann', headers: {} }, true],
    ['the app itself, which has no request, is on this machine', undefined, true],
  ])('%s', (_, request, local) => {
    expect(isLocalCaller(request)).toBe(local);
  });

  it.each<[string, string, object]>([
    ['an address of IPv4', '127.0.0.1', { host: 'localhost:3000' }],
    ['an address of IPv6', '::1', { host: '[::1]:3000' }],
    ['an address of IPv4 within IPv6', '::ffff:127.0.0.1', { host: '127.0.0.1' }],
    [
      'headers that only look like those of proxies',
      '127.0.0.1',
      { host: 'localhost', viable: '1', shipping: '1', 'user-agent': 'curl', 'sec-fetch-site': 'none' },
    ],
  ])('a client on the loopback is on this machine, with %s', (_, remoteAddress, headers) => {
    expect(isLocalCaller({ headers, socket: { remoteAddress } })).toBe(true);
  });

  it.each<[string, string, object]>([
    ['an address of the network', '10.0.0.7', { host: 'localhost:3000' }],
    ['an address of the network that claims another one', '10.0.0.7', { host, 'x-forwarded-for': '127.0.0.1' }],
    ['another host', '127.0.0.1', { host: 'evil.example' }],
    ['a host below another one', '127.0.0.1', { host: 'localhost.evil.example' }],
    ['no host', '127.0.0.1', {}],
  ])('a client with %s is not on this machine', (_, remoteAddress, headers) => {
    expect(isLocalCaller({ headers, socket: { remoteAddress } })).toBe(false);
  });

  it('a request that has any one header of a proxy is not from this machine, in any case of letters', () => {
    const names = Object.values(ADDED_BY).flat();
    const spelled = [...names, ...names.map((name) => name.toLowerCase())];
    expect(spelled.filter(isLocalWith)).toEqual([]);
  });

  it('a request with the headers that clients send, and with arguments of tools, is from this machine', () => {
    const spelled = [...OF_CLIENTS, ...OF_CLIENTS.map((name) => name.toLowerCase())];
    expect(spelled.filter((name) => !isLocalWith(name))).toEqual([]);
  });
});

describe('the address of an anonymous caller', () => {
  it.each([
    ['of IPv4 counts as it is', '10.0.0.7', '10.0.0.7'],
    ['of IPv4 within IPv6 counts as that of IPv4', '::ffff:10.0.0.7', '10.0.0.7'],
    ['of IPv6 counts by its first 64 bits', '2001:db8:1:2:3:4:5:6', '2001:db8:1:2::'],
    ['of IPv6 with zeros left out counts by its first 64 bits', '2001:db8::1', '2001:db8:0:0::'],
    ['of IPv6 with a single zero left out counts by its first 64 bits', '2001::1:2:3:4:5:6', '2001:0:1:2::'],
    ['of IPv6 counts however it is written', '2001:0DB8:0000:0:ffff:1:2:3', '2001:db8:0:0::'],
    ['of IPv6 that begins with zeros counts by its first 64 bits', '::1', '0:0:0:0::'],
    ['of IPv6 that ends with zeros counts by its first 64 bits', '1::', '1:0:0:0::'],
    ['that is no address counts as it is', 'unknown', 'unknown'],
  ])('an address %s', (_, remoteAddress, address) => {
    expect(addressOf({ socket: { remoteAddress } })).toBe(address);
  });

  it('the address of an anonymous caller is the one that the app sees, if it trusts a proxy', () => {
    expect(addressOf({ ip: '10.0.0.7', raw: { socket: { remoteAddress: '10.0.0.1' } } })).toBe('10.0.0.7');
  });

  it('the address of an anonymous caller is that of the socket behind a request of the platform', () => {
    expect(addressOf({ raw: { socket: { remoteAddress: '10.0.0.1' } } })).toBe('10.0.0.1');
  });

  it.each([
    ['there is no request', undefined],
    ['the request has no socket', {}],
    ['its socket is gone', { socket: null }],
    ['its socket has none', { socket: {} }],
  ])('the address of an anonymous caller is empty if %s', (_, request) => {
    expect(addressOf(request)).toBe('');
  });
});
