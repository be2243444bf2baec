import type { ServerCapabilities } from '@modelcontextprotocol/server';

/** The capabilities that a client declares, or that a question needs: names, each with its members. @internal */
export type Capabilities = Readonly<Record<string, unknown>>;

/**
 * Returns the capabilities that a client must have declared for a request of the server (P7). Members count: a form is
 * not a URL, and a model that may use tools is not any model.
 *
 * @see https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#capabilities
 * @internal
 */
export function requiredCapabilities(method: string, params: Readonly<Record<string, unknown>> = {}): Capabilities {
  switch (method) {
    case 'elicitation/create':
      return { elicitation: params['mode'] === 'url' ? { url: {} } : { form: {} } };
    case 'sampling/createMessage':
      return { sampling: offersTools(params) ? { tools: {} } : {} };
    case 'roots/list':
      return { roots: {} };
    default:
      return {};
  }
}

interface Block {
  readonly type: string;
}

/** Returns whether a model may use tools for its answer. @internal */
export function offersTools(params: Readonly<Record<string, unknown>> = {}): boolean {
  return params['tools'] !== undefined || params['toolChoice'] !== undefined;
}

/**
 * Returns whether an answer of a model uses tools. Its content is a block or, since revision 2025-11-25, a list of blocks
 * (D23).
 *
 * @param answer valid
 * @internal
 */
export function usesTools(answer: object): boolean {
  const { content } = answer as { content: Block | readonly Block[] };
  return [content].flat().some(({ type }) => type === 'tool_use' || type === 'tool_result');
}

/**
 * Returns the required capabilities that a client did not declare. `elicitation: { url: {} }` is more than
 * `elicitation`, but a bare `elicitation: {}` means forms, as it did before there were modes.
 *
 * @returns `undefined` when nothing is missing
 * @internal
 */
export function missingCapabilities(required: Capabilities, declared: Capabilities): Capabilities | undefined {
  const missing = Object.entries(required).flatMap(([name, members]): [string, unknown][] => {
    const has = Object.hasOwn(declared, name) ? declared[name] : undefined;
    if (typeof has !== 'object' || has === null) return [[name, members]];
    const lacking = Object.entries(members as object).filter(([member]) => !hasMember(name, member, has));
    return lacking.length > 0 ? [[name, Object.fromEntries(lacking)]] : [];
  });
  return missing.length > 0 ? Object.fromEntries(missing) : undefined;
}

/**
 * Names missing capabilities in messages: `elicitation.url` when only that member is missing, otherwise `elicitation`.
 *
 * @internal
 */
export function capabilityNames(missing: Capabilities, declared: Capabilities): string {
  const names = Object.entries(missing).flatMap(([name, members]) => {
    const within = Object.hasOwn(declared, name) ? Object.keys(members as object) : [];
    return within.length === 0 ? [name] : within.map((member) => `${name}.${member}`);
  });
  return names.join(', ');
}

function hasMember(name: string, member: string, has: object): boolean {
  if (Object.hasOwn(has, member)) return true;
  return name === 'elicitation' && member === 'form' && !Object.hasOwn(has, 'url');
}

/**
 * Returns the capabilities of a server that clients of the legacy era have without sessions (`sessions: 'off'`, S17):
 * nothing is kept of a client, so it has no log level and no subscriptions, and there is no stream on which a change
 * could be announced.
 *
 * @internal
 */
export function withoutSessions({ logging: _, ...capabilities }: ServerCapabilities): ServerCapabilities {
  const { tools, prompts, resources } = capabilities;
  return {
    ...capabilities,
    ...(tools && { tools: unannounced(tools) }),
    ...(prompts && { prompts: unannounced(prompts) }),
    ...(resources && { resources: unannounced(resources) }),
  };
}

function unannounced(capability: { listChanged?: boolean; subscribe?: boolean }): object {
  const { listChanged: _, subscribe: __, ...kept } = capability;
  return kept;
}
