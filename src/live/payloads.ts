import { type ResolvedAuditOptions, resolveAuditOptions } from '../audit/audit.options.js';
import { Redaction } from '../audit/redaction.js';
import type { McpCallInfo } from '../core/calls/mcp-instrumentation.js';
import type { HandlerTable } from '../core/handlers/registry/handler-table.js';

/** Longer copies are cut, in characters of JSON. */
const LONGEST = 8_192;
const LONGEST_STEP = 1_000;
/** A longer text of a result is not read as JSON. */
const LONGEST_JSON = 64 * 1024;

/**
 * Copies what is in calls, for the option `payloads`: redacted by the rules of the audit log, and bounded. With a function of the
 * app as the rule, the default names count.
 */
export class Payloads {
  readonly #whole: Redaction;
  readonly #short: Redaction;

  /** @param audit the options of the app's audit log, if it has one */
  constructor(
    private readonly table: HandlerTable,
    audit: ResolvedAuditOptions | undefined,
  ) {
    const given = audit?.redact;
    const redact = typeof given === 'function' ? undefined : given;
    const of = (maxArgumentLength: number) =>
      new Redaction(resolveAuditOptions({ maxArgumentLength, ...(redact && { redact }) }), () => {});
    this.#whole = of(LONGEST);
    this.#short = of(LONGEST_STEP);
  }

  arguments(call: McpCallInfo): unknown {
    const schema = call.method === 'tools/call' ? this.table.get('tool', call.name ?? '')?.wire.inputSchema : undefined;
    return this.#whole.of(call, schema).arguments;
  }

  /** @param tool by whose schema the structured part is redacted */
  result(result: object, tool: string | undefined): unknown {
    const schema = tool === undefined ? undefined : this.table.get('tool', tool)?.wire.outputSchema;
    const properties = { structuredContent: schema ?? {} };
    const { $defs } = (schema ?? {}) as { $defs?: unknown };
    return copyOf(this.#whole, this.#withTextsRead(result), { type: 'object', properties, $defs });
  }

  step(data: unknown): unknown {
    return copyOf(this.#short, { data }, undefined)?.data;
  }

  text(text: string): string {
    return text.length > LONGEST_STEP ? `${text.slice(0, LONGEST_STEP)}…` : text;
  }

  /** Parses the texts that are JSON, such as copies of structured content: a name in a text would not be redacted. */
  #withTextsRead(result: object): object {
    const { content } = result as { content?: unknown };
    if (!Array.isArray(content)) return result;
    const read = content.map((block: unknown) => {
      const { text } = (block ?? {}) as { text?: unknown };
      const json =
        typeof text === 'string' && text.length <= LONGEST_JSON && /^\s*[[{]/.test(text) ? parsed(text) : undefined;
      return json === undefined ? block : { ...(block as object), text: json };
    });
    return { ...result, content: read };
  }
}

function copyOf(redaction: Redaction, value: object, schema: object | undefined): Record<string, unknown> | undefined {
  const copy = redaction.of({ arguments: value } as unknown as McpCallInfo, schema).arguments;
  return copy as Record<string, unknown> | undefined;
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
