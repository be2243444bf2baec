import { classifyInboundRequest } from '@modelcontextprotocol/server';
import { describe, expect, it } from 'vitest';
import {
  CLIENT_CAPABILITIES_META_KEY,
  CLIENT_INFO_META_KEY,
  isPlainEnvelope,
  LOG_LEVEL_META_KEY,
  PROTOCOL_VERSION_META_KEY,
} from './era.js';

const REVISION = '2026-07-28';
/** Every type of value that JSON has. */
const VALUES: readonly unknown[] = [null, true, 0, 1.5, '', 'info', [], ['x'], {}, { x: 1 }, { x: {} }];

describe('isPlainEnvelope', () => {
  it.each([
    [{}],
    [{ elicitation: {}, sampling: {}, roots: {} }],
    [{ elicitation: { form: {}, url: {} }, sampling: { tools: {}, context: {} }, roots: { listChanged: true } }],
    [
      {
        elicitation: { form: { applyDefaults: true } },
        extensions: { 'example.com/ui': { mimeTypes: ['text/html'] } },
      },
    ],
    [{ experimental: { anything: { deep: [1] } } }],
  ])('isPlainEnvelope takes what clients declare: %j', (capabilities) => {
    expect(isPlainEnvelope(envelope({ capabilities }))).toBe(true);
  });

  it.each([[{ info: undefined }], [{ info: { name: 'x', version: '1', title: 'X' } }], [{ level: 'emergency' }]])(
    'isPlainEnvelope takes what clients say of themselves: %j',
    (parts) => expect(isPlainEnvelope(envelope(parts))).toBe(true),
  );

  it('isPlainEnvelope takes nothing that the schema of the specification does not', () => {
    const taken = [...envelopes()].filter((meta) => isPlainEnvelope(meta));
    expect(taken.length).toBeGreaterThan(10);
    expect(taken.filter((meta) => !isValid(meta))).toEqual([]);
  });

  it('isPlainEnvelope refuses what is missing', () => {
    expect(isPlainEnvelope({ [PROTOCOL_VERSION_META_KEY]: REVISION })).toBe(false);
  });
});

interface Parts {
  capabilities?: unknown;
  info?: unknown;
  level?: unknown;
}

function envelope({ capabilities = {}, info, level }: Parts): Record<string, unknown> {
  return {
    [PROTOCOL_VERSION_META_KEY]: REVISION,
    [CLIENT_CAPABILITIES_META_KEY]: capabilities,
    ...(info !== undefined && { [CLIENT_INFO_META_KEY]: info }),
    ...(level !== undefined && { [LOG_LEVEL_META_KEY]: level }),
  };
}

/** Each value at each place where the schema has something to say. */
function* envelopes(): Iterable<Record<string, unknown>> {
  for (const value of VALUES) {
    yield envelope({ capabilities: value });
    yield envelope({ info: value });
    yield envelope({ level: value });
    for (const name of ['experimental', 'sampling', 'elicitation', 'roots', 'extensions', 'tasks', 'other']) {
      yield envelope({ capabilities: { [name]: value } });
      for (const member of ['context', 'tools', 'form', 'url', 'listChanged', 'other']) {
        yield envelope({ capabilities: { [name]: { [member]: value } } });
        yield envelope({ capabilities: { [name]: { [member]: { applyDefaults: value } } } });
      }
    }
    for (const member of ['name', 'version', 'title', 'websiteUrl', 'icons', 'other']) {
      yield envelope({ info: { name: 'x', version: '1', [member]: value } });
    }
  }
}

function isValid(meta: Record<string, unknown>): boolean {
  const body = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: { _meta: meta } };
  return classifyInboundRequest({ httpMethod: 'POST', body, protocolVersionHeader: REVISION }).kind === 'modern';
}
