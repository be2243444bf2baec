import type { INestApplication } from '@nestjs/common';
import { endpointAt } from '../kit/endpoints.js';
import { createMcpTestClient, type McpTestClient, type McpTestClientOptions } from '../kit/mcp-test-client.js';
import { refusalOf } from '../kit/refusals.js';
import { canonical, jsonOf } from './canonical.js';

/** The kinds of entries, with the field by which clients know one. */
export const KINDS = {
  tools: { noun: 'tool', key: 'name', kind: 'tool' },
  prompts: { noun: 'prompt', key: 'name', kind: 'prompt' },
  resources: { noun: 'resource', key: 'uri', kind: 'resource' },
  templates: { noun: 'resource template', key: 'uriTemplate', kind: 'template' },
} as const;

export type Kind = keyof typeof KINDS;
export const KIND_NAMES = Object.keys(KINDS) as Kind[];

export type Entry = Readonly<Record<string, unknown>>;

/** What an endpoint promises: its entries, and who sees them. It is the content of the file. */
export interface Contract {
  /** The version of the format. */
  readonly contract: 1;
  /** What each role sees, by kind. */
  readonly roles: Readonly<Record<string, Readonly<Partial<Record<Kind, readonly string[]>>>>>;
  readonly tools?: Readonly<Record<string, Entry>>;
  readonly prompts?: Readonly<Record<string, Entry>>;
  readonly resources?: Readonly<Record<string, Entry>>;
  readonly templates?: Readonly<Record<string, Entry>>;
}

/** A caller whose view is part of a contract: a token, nothing for anonymous callers, or all options of a client. */
export type ContractRole = string | undefined | McpTestClientOptions;

/**
 * Reads the lists of an endpoint as each role sees them.
 *
 * @throws Error (rejects) that names a role that is refused, and an entry that differs between roles
 */
export async function servedContract(
  app: INestApplication,
  roles: Readonly<Record<string, ContractRole>>,
  endpoint: string | undefined,
): Promise<Contract> {
  const entries = { tools: new Map(), prompts: new Map(), resources: new Map(), templates: new Map() } as Record<
    Kind,
    Map<string, { entry: Entry; role: string }>
  >;
  const views: [role: string, view: Partial<Record<Kind, string[]>>][] = [];
  for (const [role, given] of Object.entries(roles)) {
    const view: Partial<Record<Kind, string[]>> = {};
    for (const [kind, listed] of await viewOf(app, role, given, endpoint)) {
      for (const [key, entry] of listed) {
        const known = entries[kind].get(key);
        if (!known) entries[kind].set(key, { entry, role });
        else if (jsonOf(known.entry) !== jsonOf(entry)) {
          const text = `The ${KINDS[kind].noun} ${JSON.stringify(key)} is not the same for the roles "${known.role}" and "${role}", and a contract has one entry for it. Give each role a file of its own.`;
          throw new Error(text);
        }
      }
      if (listed.size > 0) view[kind] = [...listed.keys()].toSorted();
    }
    views.push([role, view]);
  }
  const byKind = KIND_NAMES.map((kind): [Kind, Record<string, Entry>] => [
    kind,
    Object.fromEntries(Array.from(entries[kind], ([key, { entry }]) => [key, entry])),
  ]);
  const present = byKind.filter(([, record]) => Object.keys(record).length > 0);
  return { contract: 1, roles: Object.fromEntries(views), ...Object.fromEntries(present) };
}

type Listed = ReadonlyMap<string, Entry>;

async function viewOf(
  app: INestApplication,
  role: string,
  given: ContractRole,
  endpoint: string | undefined,
): Promise<[Kind, Listed][]> {
  const options = typeof given === 'object' ? given : { token: given };
  const connected = createMcpTestClient(app, { endpoint, ...options });
  try {
    const mcp = await connected;
    try {
      return await listsOf(app, mcp, options.endpoint ?? endpoint);
    } finally {
      await mcp.close();
    }
  } catch (cause) {
    // An endpoint that demands a token shows nothing to anonymous callers.
    if (options.token === undefined && (await isRefused(connected))) return [];
    // It names the paths of the app, if the endpoint is none of them.
    endpointAt(app, options.endpoint ?? endpoint);
    const text = `The lists of the role "${role}" could not be read: ${(cause as Error).message}`;
    throw new Error(text, { cause });
  }
}

async function isRefused(connected: Promise<unknown>): Promise<boolean> {
  return refusalOf(connected).then(
    () => true,
    () => false,
  );
}

async function listsOf(
  app: INestApplication,
  mcp: McpTestClient,
  endpoint: string | undefined,
): Promise<[Kind, Listed][]> {
  const { tools, prompts, resources } = mcp.client.getServerCapabilities() ?? {};
  const { offer, handlers } = endpointAt(app, endpoint);
  const table = offer.serves === 'handlers' ? handlers : undefined;
  const lists: Record<Kind, readonly object[]> = {
    tools: tools ? await mcp.list.tools() : [],
    prompts: prompts ? await mcp.list.prompts() : [],
    resources: resources ? await mcp.list.resources() : [],
    templates: resources ? await mcp.list.resourceTemplates() : [],
  };
  return KIND_NAMES.map((kind): [Kind, Listed] => {
    const listed = lists[kind].flatMap((wire): [string, Entry][] => {
      const { [KINDS[kind].key]: key, ...rest } = wire as Record<string, unknown>;
      const entry = table?.get(KINDS[kind].kind, key as string);
      // What a template lists for a caller is data, not part of the contract.
      if (table && !entry) return [];
      const scopes = entry?.scopes() ?? [];
      // A client of 2025 reads a wrapped schema (D18); the contract is the same for all.
      const wrapped = entry?.legacyWire && { outputSchema: entry.outputSchema };
      return [[key as string, canonical({ ...rest, ...wrapped, ...(scopes.length > 0 && { scopes }) }) as Entry]];
    });
    return [kind, new Map(listed)];
  });
}
