// @ts-expect-error -- the page knows no Node
import { execFileSync } from 'node:child_process';
import { describe, expect, it } from 'vitest';
import { codeOf, curlOf } from './snippets.js';

const hostile = `it's $(touch x) \`y\` "z" \\ $HOME`;
const request = { method: 'tools/call', params: { name: 'find', arguments: { q: hostile } } } as const;
const url = 'http://127.0.0.1:3000/mcp';

/** Returns the words that a shell makes of a command. */
function words(command: string): string[] {
  const script = `curl() { for word in "$@"; do printf '%s\\0' "$word"; done; }\n${command}`;
  return execFileSync('sh', ['-c', script], { env: { TOKEN: 't', SESSION: 's' } })
    .toString()
    .split('\0');
}

describe('what was tried, to copy', () => {
  it('a shell takes hostile arguments as they are', () => {
    const given = words(curlOf({ url, revision: '2026-07-28', withToken: true, request }));
    expect(given).toContain('authorization: Bearer t');
    expect(given).toContain('mcp-name: find');
    expect(JSON.parse(given[given.indexOf('-d') + 1]!).params.arguments).toEqual({ q: hostile });
  });

  it('a shell runs nothing of a name, a header or a URL that ends like a variable', () => {
    const name = 'x$(echo run)$TOKEN';
    const odd = { method: 'tools/call', params: { name }, headers: { 'mcp-param-q': '`echo run` $SESSION' } } as const;
    const at = `${url}?q=$(echo run)$TOKEN`;
    const given = words(curlOf({ url: at, revision: '2026-07-28', withToken: true, request: odd }));
    expect(given).toEqual(expect.arrayContaining([at, `mcp-name: ${name}`, 'mcp-param-q: `echo run` $SESSION']));
    expect(given).toContain('authorization: Bearer t');
  });

  it('of a session, begins one first', () => {
    const text = curlOf({ url, revision: '2025-11-25', withToken: false, request });
    expect(text).toMatch(/initialize.*SESSION/s);
    expect(text).not.toContain('TOKEN');
  });

  it('the code never has a token', () => {
    expect(codeOf({ url, revision: '2025-11-25', withToken: true, request })).toContain('process.env.TOKEN');
  });
});
