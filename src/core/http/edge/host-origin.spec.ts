import { describe, expect, it, vi } from 'vitest';
import { McpOptionError } from '../../common/options.js';
import { checkHostAndOrigin, compileHostRules, type HostOriginOptions } from './host-origin.js';

const LOOPBACK = '127.0.0.1';
const NETWORK = '192.168.1.10';

/** The code of the refusal, or `passes`. */
function check(
  localAddress: string | undefined,
  host: string | undefined,
  origin?: string,
  options: HostOriginOptions = {},
) {
  const refusal = checkHostAndOrigin({ host, origin, localAddress }, compileHostRules(options), () => undefined);
  return refusal?.code ?? 'passes';
}

describe('on a loopback connection', () => {
  it.each([
    'localhost',
    'LOCALHOST',
    'localhost.',
    'localhost:3000',
    'localhost:',
    '127.0.0.1',
    '127.0.0.1:3000',
    '127.255.255.254',
    '127.0.0.1.',
    '[::1]',
    '[::1]:3000',
    '[0:0:0:0:0:0:0:1]',
    '[::ffff:127.0.0.1]:80',
    '[::FFFF:7f00:1]',
  ])('the loopback name %s passes', (host) => {
    expect(check(LOOPBACK, host)).toBe('passes');
  });

  it.each([
    undefined,
    '',
    'evil.com',
    'localhost.evil.com',
    '127.0.0.1.evil.com',
    'evil.com:3000',
    'evil-localhost',
    'localhost..',
    '.localhost',
    'a.localhost',
    'localhost@evil.com',
    'evil.com@localhost',
    'localhost:3000@evil.com',
    'localhost/evil.com',
    'localhost#',
    'localhost?',
    'localhost\\evil.com',
    'localhost evil.com',
    'localhost, evil.com',
    'localhost:99999',
    'localhost:3000:3000',
    'localhost:+1',
    '%6cocalhost',
    'loc\u0430lhost',
    '0.0.0.0',
    '[::]',
    '127.1',
    '2130706433',
    '0x7f.0.0.1',
    '127.0.0.01',
    '127.0.0.256',
    '127.0.0.1.1',
    '128.0.0.1',
    '[::2]',
    '[::1',
    '::1',
    '[::1%25lo]',
    '[::ffff:128.0.0.1]',
    '[::127.0.0.1]',
    '[fe80::1]',
  ])('the Host %s is refused', (host) => {
    expect(check(LOOPBACK, host)).toBe('FORBIDDEN_HOST');
  });

  it.each(['127.0.0.1', '127.8.0.1', '::1', '::ffff:127.0.0.1'])('%s is a loopback address', (address) => {
    expect(check(address, 'evil.com')).toBe('FORBIDDEN_HOST');
    expect(check(address, 'localhost')).toBe('passes');
  });

  it('a listed public name passes, as a reverse proxy on the same machine sends it', () => {
    const options = { allowedHosts: ['mcp.example.com'] };

    expect(check(LOOPBACK, 'MCP.example.com', 'https://mcp.example.com', options)).toBe('passes');
    expect(check(LOOPBACK, 'localhost:3000', undefined, options)).toBe('passes');
    expect(check(LOOPBACK, 'www.example.com', undefined, options)).toBe('FORBIDDEN_HOST');
    expect(check(LOOPBACK, 'mcp.example.com', 'https://www.example.com', options)).toBe('FORBIDDEN_ORIGIN');
  });

  it.each([
    'http://localhost:6274',
    'https://LOCALHOST',
    'http://127.0.0.1:1',
    'http://[::1]:5173',
    'http://localhost.',
  ])('the Origin %s passes', (origin) => {
    expect(check(LOOPBACK, 'localhost:3000', origin)).toBe('passes');
  });

  it.each([
    'null',
    'NULL',
    '',
    'localhost',
    'http://evil.com',
    'http://localhost.evil.com',
    'http://127.0.0.1.evil.com:3000',
    'http://localhost@evil.com',
    'http://localhost:3000@evil.com',
    'http://evil.com/localhost',
    'http://evil.com#localhost',
    'http://localhost, http://evil.com',
    'http:localhost',
    'http:///localhost',
    'file://',
    '//localhost',
    'chrome-extension://abcdefgh',
    'ftp://localhost',
    'capacitor://localhost',
    'ionic://127.0.0.1',
  ])('the Origin %s is refused', (origin) => {
    expect(check(LOOPBACK, 'localhost:3000', origin)).toBe('FORBIDDEN_ORIGIN');
  });

  it('other Origins pass when they are listed', () => {
    const allowedOrigins = ['https://App.example.com', 'vscode-webview://1A2b', 'null'];

    for (const origin of ['https://app.example.com', 'https://app.example.com:443', 'vscode-webview://1a2b', 'null']) {
      expect(check(LOOPBACK, 'localhost', origin, { allowedOrigins })).toBe('passes');
    }
    expect(check(LOOPBACK, 'localhost', 'http://app.example.com', { allowedOrigins })).toBe('FORBIDDEN_ORIGIN');
    expect(check(LOOPBACK, 'localhost', 'https://app.example.com:8443', { allowedOrigins })).toBe('FORBIDDEN_ORIGIN');
  });
});

describe.each([NETWORK, 'fd00::7', undefined])('on a connection to %s', (address) => {
  it('every well-formed Host passes while none is listed', () => {
    expect(check(address, 'mcp.example.com')).toBe('passes');
    expect(check(address, '192.168.1.10:3000')).toBe('passes');
    expect(check(address, 'localhost')).toBe('passes');
    expect(check(address, undefined)).toBe('FORBIDDEN_HOST');
    expect(check(address, 'a@b')).toBe('FORBIDDEN_HOST');
  });

  it('only listed ones pass when there is a list, loopback names included', () => {
    const options = {
      allowedHosts: ['mcp.example.com', 'api.example.com:8443', '[fd00::7]', 'fd00::8', 'web.example.com:443'],
    };

    for (const host of ['mcp.example.com', 'mcp.example.com:1234', 'mcp.example.com.', 'API.example.com:8443']) {
      expect(check(address, host, undefined, options)).toBe('passes');
    }
    for (const host of ['[fd00:0::7]:3000', '[fd00::8]', 'web.example.com', 'web.example.com:443']) {
      expect(check(address, host, undefined, options)).toBe('passes');
    }
    for (const host of [
      'api.example.com',
      'api.example.com:8444',
      'web.example.com:8080',
      'localhost',
      'x.mcp.example.com',
    ]) {
      expect(check(address, host, undefined, options)).toBe('FORBIDDEN_HOST');
    }
  });

  it('an Origin passes when it equals the Host, whatever the scheme, or is listed', () => {
    const allowedHosts = ['mcp.example.com'];
    const origin = (host: string, value: string) =>
      check(address, host, value, { allowedHosts, allowedOrigins: ['https://app.example.com'] });

    expect(origin('mcp.example.com', 'https://mcp.example.com')).toBe('passes');
    expect(origin('mcp.example.com', 'http://mcp.example.com')).toBe('passes');
    expect(origin('mcp.example.com:443', 'https://mcp.example.com')).toBe('passes');
    expect(origin('mcp.example.com:8080', 'http://MCP.example.com:8080')).toBe('passes');
    expect(origin('mcp.example.com', 'https://app.example.com')).toBe('passes');
    expect(origin('mcp.example.com', 'https://mcp.example.com:8443')).toBe('FORBIDDEN_ORIGIN');
    expect(origin('mcp.example.com:8080', 'http://mcp.example.com')).toBe('FORBIDDEN_ORIGIN');
    expect(origin('mcp.example.com', 'ftp://mcp.example.com')).toBe('FORBIDDEN_ORIGIN');
    expect(origin('mcp.example.com', 'http://localhost')).toBe('FORBIDDEN_ORIGIN');
    expect(origin('mcp.example.com', 'null')).toBe('FORBIDDEN_ORIGIN');
  });
});

describe.each([NETWORK, 'fd00::7', undefined])('while no host is listed, a page on a connection to %s', (address) => {
  it.each(['192.168.1.10:3000', '[fd00::7]:3000', 'localhost:3000', '127.0.0.1', '[::1]:3000'])(
    'a page of the Host %s passes: no name leads there',
    (host) => {
      expect(check(address, host, `http://${host}`)).toBe('passes');
    },
  );

  it.each(['evil.example', 'evil.example:3000', 'mcp.example.com', 'box', '192.168.1.10.evil.example', '1.2.3'])(
    'a page of the Host %s is refused: an attacker may have pointed the name here',
    (host) => {
      expect(check(address, host, `http://${host}`)).toBe('FORBIDDEN_HOST');
      expect(check(address, host, `http://${host}`, { allowedHosts: [host] })).toBe('passes');
      expect(check(address, host)).toBe('passes');
    },
  );

  it('a page passes when its Origin is listed: the app has named it', () => {
    const allowedOrigins = ['https://app.example.com', 'https://mcp.example.com'];
    for (const origin of allowedOrigins) {
      expect(check(address, 'mcp.example.com', origin, { allowedOrigins })).toBe('passes');
    }
  });
});

describe('the warning about unlisted hosts', () => {
  function warnings(localAddress: string, options: HostOriginOptions = {}, origin?: string): number {
    const onUnlisted = vi.fn();
    checkHostAndOrigin({ host: 'a.example', origin, localAddress }, compileHostRules(options), onUnlisted);
    return onUnlisted.mock.calls.length;
  }

  it('the warning about unlisted hosts is logged for requests that pass on a network address', () => {
    expect(warnings(NETWORK)).toBe(1);
    expect(warnings(NETWORK, { allowedOrigins: ['https://b.example'] })).toBe(1);
    expect(warnings(NETWORK, { allowedHosts: ['a.example'] })).toBe(0);
    expect(warnings(NETWORK, {}, 'http://b.example')).toBe(0);
    expect(warnings(LOOPBACK)).toBe(0);
  });
});

describe('the options allowedHosts and allowedOrigins', () => {
  it.each(['*', '*.example.com', 'https://example.com', 'example.com/mcp', '', 'a b'])(
    'the options allowedHosts and allowedOrigins refuse the host "%s" at the start',
    (entry) => {
      expect(() => compileHostRules({ allowedHosts: [entry] })).toThrow(McpOptionError);
    },
  );

  it.each(['*', 'example.com', 'https://example.com/app', 'https://', '', 7 as never])(
    'the options allowedHosts and allowedOrigins refuse the origin "%s" at the start',
    (entry) => {
      expect(() => compileHostRules({ allowedOrigins: [entry] })).toThrow(McpOptionError);
    },
  );

  it('the options allowedHosts and allowedOrigins may have origins with a slash at the end', () => {
    expect(check(NETWORK, 'a.example', 'https://b.example', { allowedOrigins: ['https://b.example/'] })).toBe('passes');
  });
});

it('a foreign Host or Origin is refused by an error that says what to do and cuts long values', () => {
  const rules = compileHostRules({});
  const host = checkHostAndOrigin(
    { host: `${'x'.repeat(5_000)}.com`, origin: undefined, localAddress: '::1' },
    rules,
    vi.fn(),
  );
  const origin = checkHostAndOrigin(
    { host: 'localhost', origin: 'http://evil.com', localAddress: '::1' },
    rules,
    vi.fn(),
  );

  expect(host?.status).toBe(403);
  expect(host?.message).toContain('allowedHosts');
  expect(host?.message.length).toBeLessThan(300);
  expect(origin?.message).toContain('"http://evil.com"');
  expect(origin?.toResponse()).toMatchObject({ jsonrpc: '2.0', id: null, error: { code: -32000 } });
});
