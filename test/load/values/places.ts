import { modernMeta } from '../../support/modern-client.js';
import { TOOL_NAMES } from './tools.js';

/** A request that has a value somewhere: the text of a message around the text of the value. */
export interface Place {
  readonly era: 'legacy' | 'modern';
  readonly method: string;
  /** The name in `Mcp-Name`. */
  readonly named?: string;
  /** The text of the parameters, with a value at this place. */
  readonly params: (value: string) => string;
}

const CLIENT_INFO = '"io.modelcontextprotocol/clientInfo"';
const meta = (more = ''): string => `"_meta":${JSON.stringify(modernMeta()).replace(/\}$/, '')}${more}}`;

type OfBoth = readonly [method: string, name: string | undefined, params: (value: string) => string];
const toolOf = (name: string): OfBoth => [
  'tools/call',
  name,
  (value) => `"name":"${name}","arguments":{"items":${value}}`,
];
/** Parameters of each method, in both eras where both have it. */
const OF_BOTH: readonly OfBoth[] = [
  ['tools/call', 'any', (value) => `"name":"any","arguments":${value}`],
  ['tools/call', 'any', (value) => `"name":"any","arguments":{},"task":${value}`],
  ['tools/call', 'any', (value) => `"name":"any","inputResponses":${value}`],
  ['tools/call', 'any', (value) => `"name":"any","requestState":${value}`],
  ['tools/call', undefined, (value) => `"name":${value}`],
  ['tools/list', undefined, (value) => `"cursor":${value}`],
  ['prompts/get', 'write', (value) => `"name":"write","arguments":${value}`],
  ['prompts/get', 'write', (value) => `"name":"write","arguments":{"about":${value}}`],
  ['prompts/list', undefined, (value) => `"cursor":${value}`],
  [
    'completion/complete',
    undefined,
    (value) =>
      `"ref":{"type":"ref/prompt","name":"write"},"argument":{"name":"about","value":"x"},"context":{"arguments":${value}}`,
  ],
  ['completion/complete', undefined, (value) => `"ref":${value},"argument":{"name":"about","value":"x"}`],
  ['completion/complete', undefined, (value) => `"ref":{"type":"ref/prompt","name":"write"},"argument":${value}`],
  ['resources/read', 'test://fixed', (value) => `"uri":"test://fixed","more":${value}`],
  ['resources/read', undefined, (value) => `"uri":${value}`],
  ['resources/templates/list', undefined, (value) => `"cursor":${value}`],
  ['com.example/search', undefined, (value) => `"items":${value}`],
  ['no/such', undefined, (value) => `"items":${value}`],
];

const inBoth = ([method, named, params]: OfBoth): Place[] => [
  { era: 'legacy', method, params: (value) => `{${params(value)}}` },
  { era: 'modern', method, ...(named && { named }), params: (value) => `{${params(value)},${meta()}}` },
];

/** Arguments of each tool: libraries check them. */
export const PLACES_IN_TOOLS: readonly Place[] = TOOL_NAMES.map(toolOf).flatMap(inBoth);

/** All others: the endpoint and the schemas of the specification check them. */
export const OTHER_PLACES: readonly Place[] = [
  ...OF_BOTH.flatMap(inBoth),
  { era: 'legacy', method: 'ping', params: (value) => `{"_meta":${value}}` },
  { era: 'legacy', method: 'tools/call', params: (value) => `{"name":"any","_meta":{"progressToken":${value}}}` },
  { era: 'legacy', method: 'logging/setLevel', params: (value) => `{"level":${value}}` },
  { era: 'legacy', method: 'resources/subscribe', params: (value) => `{"uri":${value}}` },
  {
    era: 'legacy',
    method: 'initialize',
    params: (value) =>
      `{"protocolVersion":"2025-11-25","capabilities":${value},"clientInfo":{"name":"x","version":"1"}}`,
  },
  {
    era: 'legacy',
    method: 'initialize',
    params: (value) =>
      `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1","icons":${value}}}`,
  },
  {
    era: 'modern',
    method: 'server/discover',
    params: (value) => `{${meta(`,${CLIENT_INFO}:{"name":"x","version":"1","icons":${value}}`)}}`,
  },
  {
    era: 'modern',
    method: 'server/discover',
    params: (value) => `{${meta(`,"io.modelcontextprotocol/clientCapabilities":{"x":${value}}`)}}`,
  },
  { era: 'modern', method: 'server/discover', params: (value) => `{${meta(`,"more":${value}`)}}` },
  {
    era: 'modern',
    method: 'subscriptions/listen',
    params: (value) => `{"notifications":{"resourceSubscriptions":${value}},${meta()}}`,
  },
  { era: 'modern', method: 'subscriptions/listen', params: (value) => `{"notifications":${value},${meta()}}` },
];
