import { Redaction } from '../core/protocol/redaction.js';
import { SENSITIVE_NAMES } from '../core/protocol/sensitive-names.js';
import type { McpTarget } from '../core/calls/mcp-target.js';
import type { McpEndpointHost } from '../core/plugins/mcp-plugin.js';
import type { McpCallInfo } from '../core/calls/mcp-instrumentation.js';
import { isObject } from '../core/protocol/json-rpc.js';

/** Longer copies are cut, in characters of JSON. */
const LONGEST = 8_192;
const LONGEST_STEP = 1_000;
/** A longer text of a result is not read as JSON, and not shown if it may be some: nothing in it would be redacted. */
const LONGEST_JSON = 64 * 1024;

type Copies = Redaction<Pick<McpCallInfo, 'arguments'>>;

/** The parts of a tool that say what is sensitive in its calls. */
export type ToolSchemas = Pick<McpTarget, 'inputSchema' | 'outputSchema'>;

/**
 * Copies what is in calls, for the option `payloads`: redacted by the rules of the audit log, and bounded. With a function of the
 * app as the rule, the default names count.
 */
export class Payloads {
  #made: { readonly whole: Copies; readonly short: Copies } | undefined;

  constructor(private readonly endpoint: Pick<McpEndpointHost, 'offer' | 'sensitive'>) {}

  /** They are made for the first call: before, not all plugins may be attached. */
  get #copies() {
    const { sensitive: names = SENSITIVE_NAMES } = this.endpoint;
    const of = (maxArgumentLength: number): Copies => new Redaction({ names, maxArgumentLength });
    return (this.#made ??= { whole: of(LONGEST), short: of(LONGEST_STEP) });
  }

  /** Returns whether the schema of a tool says what is sensitive in the arguments of a call. */
  needTool({ method }: McpCallInfo): boolean {
    // The tools of a server of the app are not known.
    return method === 'tools/call' && this.endpoint.offer.serves === 'handlers';
  }

  /** @returns `undefined` while it is not known what is sensitive in the arguments of a tool */
  arguments(call: McpCallInfo, tool: ToolSchemas | undefined): unknown {
    if (!tool && this.needTool(call)) return undefined;
    return this.#copies.whole.of(call, tool?.inputSchema).arguments;
  }

  /** @param tool by whose schema the structured part is redacted */
  result(result: object, tool: ToolSchemas | undefined): unknown {
    const output = tool?.outputSchema;
    // A text may be a copy of the structured part.
    const content = { items: { properties: { text: output } } };
    const schema = output && { properties: { structuredContent: output, content } };
    return copyOf(this.#copies.whole, withTextsRead(result), schema, output);
  }

  step(data: unknown): unknown {
    return copyOf(this.#copies.short, { data })?.data;
  }

  text(text: string): string {
    return this.#copies.short.text(text, LONGEST_STEP);
  }
}

/** The parts of results that have texts. */
const TEXT_PARTS = ['content', 'contents', 'messages'] as const;
/** A message has a block, which has a resource. */
const MOST_NESTED = 2;

/** Parses the texts that are JSON, such as copies of structured content: a name in a text would not be redacted. */
function withTextsRead(result: object): object {
  const read: Record<string, unknown> = { ...result };
  for (const part of TEXT_PARTS) {
    const blocks = read[part];
    if (Array.isArray(blocks)) read[part] = blocks.map((block) => withTextRead(block, 0));
  }
  return read;
}

/** Parses the text of a block, and of the content or resource in it. */
function withTextRead(block: unknown, depth: number): unknown {
  if (!isObject(block) || depth > MOST_NESTED) return block;
  const { text, resource, content } = block;
  return {
    ...block,
    ...(typeof text === 'string' && { text: readText(text) }),
    ...(isObject(resource) && { resource: withTextRead(resource, depth + 1) }),
    ...(isObject(content) && { content: withTextRead(content, depth + 1) }),
  };
}

/** @returns the value of a text that is JSON; of other texts, the text */
function readText(text: string): unknown {
  if (!/^\s*[[{]/.test(text)) return text;
  if (text.length > LONGEST_JSON) return `[a text of ${text.length} characters, which may be JSON]`;
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function copyOf(redaction: Copies, value: object, schema?: object, root?: object): Record<string, unknown> | undefined {
  const copy = redaction.of({ arguments: value as Record<string, unknown> }, schema, root).arguments;
  return copy as Record<string, unknown> | undefined;
}
