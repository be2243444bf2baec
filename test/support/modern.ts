export const MODERN = '2026-07-28';
const PROTOCOL_VERSION = 'io.modelcontextprotocol/protocolVersion';

/** The `_meta` with which a message claims to be modern. */
export function modernMeta(version: unknown = MODERN): object {
  return {
    [PROTOCOL_VERSION]: version,
    'io.modelcontextprotocol/clientInfo': { name: 'raw', version: '1.0.0' },
    'io.modelcontextprotocol/clientCapabilities': {},
  };
}
