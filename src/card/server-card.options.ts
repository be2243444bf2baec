import { option, type OptionTable, refused, resolveGroup, text } from '../core/common/options.js';
import { isObject } from '../core/protocol/json-rpc.js';

/** Makes an endpoint discoverable. @internal */
export interface McpServerCardOption {
  /**
   * Publishes what the server is and where it is, for clients that do not know it yet. The card is at
   * `<path>/server-card`, and `/.well-known/ai-catalog.json` has an entry for it. Both are public, even if callers of
   * the endpoint must log in: anyone can read name, version, description, icons and URL. `true` takes them from
   * `serverInfo` and `auth.resource`. The card never contains tools, resources or prompts.
   *
   * @default false
   * @see https://modelcontextprotocol.io/seps/2127-mcp-server-cards
   */
  serverCard?: boolean | McpServerCardOptions;
}

/** Says what a card has beside `serverInfo`. @publicApi */
export interface McpServerCardOptions {
  /**
   * Names the server uniquely: a domain of yours, reversed, and a name, such as `com.example/orders`.
   *
   * @default `serverInfo.name`, if it has that form; otherwise the option is required
   */
  name?: string;
  /** Says what the server can do, in at most 100 characters. @default `serverInfo.description` */
  description?: string;
  /**
   * Sets the URL of the endpoint as clients know it, such as `https://api.example.com/mcp`.
   *
   * @default `auth.resource`
   */
  url?: string;
  /**
   * Says where the sources are: `url` is their address, and `source` names the host, such as `github`.
   *
   * @default none
   */
  repository?: McpServerRepository;
}

/** The sources of a server. @internal */
export interface McpServerRepository {
  url: string;
  /** The host, such as `github`. */
  source: string;
  /** The path of the server in the repository. */
  subfolder?: string;
  /** The id of the repository at its host, which stays when it is renamed. */
  id?: string;
}

const CARD_TABLE = {
  name: text(undefined),
  description: text(undefined),
  url: text(undefined),
  repository: option(undefined, repositoryOf),
} satisfies OptionTable<McpServerCardOptions>;

export const CARD_NAMES = Object.keys(CARD_TABLE);

export const SERVER_CARD_TABLE = {
  serverCard: option(false, cardOf),
} satisfies OptionTable<McpServerCardOption>;

/** Checks the options of a card, if there are any. */
function cardOf(given: boolean | McpServerCardOptions, name: string): boolean | McpServerCardOptions {
  if (typeof given === 'boolean') return given;
  if (isObject(given)) return resolveCardOptions(given, name);
  throw refused(name, 'true, false or an object of options', given);
}

/** Checks the options of a card. @throws McpOptionError */
export function resolveCardOptions(given: object, path: string): McpServerCardOptions {
  const resolved = resolveGroup(CARD_TABLE, given, path);
  return Object.fromEntries(Object.entries(resolved).filter(([, value]) => value !== undefined));
}

function repositoryOf(given: McpServerRepository, name: string): McpServerRepository {
  const { url, source, ...rest } = isObject(given) ? given : ({} as McpServerRepository);
  const texts = [source, ...Object.values(rest)].every((each) => typeof each === 'string' && each !== '');
  const known = Object.keys(rest).every((key) => key === 'subfolder' || key === 'id');
  if (texts && known && typeof url === 'string' && /^https?:\/\//.test(url) && URL.canParse(url)) return given;
  throw refused(
    name,
    'an object { url, source }, with a URL of http or https, and optionally "subfolder" and "id"',
    given,
  );
}
