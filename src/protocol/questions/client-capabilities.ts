import type { ClientCapabilities } from '@modelcontextprotocol/server';

/**
 * What of the required capabilities a client did not declare. Members count: `elicitation: { url: {} }` is more than
 * `elicitation`. But a bare `elicitation: {}` means forms, as it did before there were modes.
 *
 * @returns `undefined` when nothing is missing
 * @see https://modelcontextprotocol.io/specification/2026-07-28/client/elicitation#capabilities
 */
export function missingCapabilities(
  required: ClientCapabilities,
  declared: Readonly<Record<string, unknown>>,
): ClientCapabilities | undefined {
  const missing = Object.entries(required).flatMap(([name, members]): [string, unknown][] => {
    if (!Object.hasOwn(declared, name)) return [[name, members]];
    const has = declared[name] as Record<string, unknown>;
    const lacking = Object.entries(members as object).filter(([member]) => !hasMember(name, member, has));
    return lacking.length > 0 ? [[name, Object.fromEntries(lacking)]] : [];
  });
  return missing.length > 0 ? Object.fromEntries(missing) : undefined;
}

function hasMember(name: string, member: string, has: Readonly<Record<string, unknown>>): boolean {
  if (Object.hasOwn(has, member)) return true;
  return name === 'elicitation' && member === 'form' && !Object.hasOwn(has, 'url');
}
