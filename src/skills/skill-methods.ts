import type { McpContext } from '../core/calls/mcp-context.js';
import type { ServedMethod, ServedMethods } from '../core/plugins/served-method.js';
import { invalidParams } from '../core/protocol/spec.js';
import type { McpCall } from '../core/calls/mcp-call.js';
import { shown } from '../core/protocol/errors.js';
import type { JsonRpcRequest } from '../core/protocol/json-rpc.js';
import { sdk } from '../core/protocol/spec.js';
import { asciiUri } from '../core/protocol/uris.js';
import type { ServedSkill } from './served-skill.js';
import { childrenOf, type SkillCatalog } from './skill-catalog.js';

/** What the methods of an endpoint need. */
export interface SkillParts {
  /** Returns the context of guards and methods. */
  readonly context: (call: McpCall) => McpContext;
  /** Returns the skills as they are now. */
  readonly catalog: () => SkillCatalog;
  /** Entries on a page. */
  readonly pageSize: number;
}

interface ListParams {
  readonly cursor: string | undefined;
}
interface UriParams {
  readonly uri: string;
}

/** The prefix is the version of the format. */
const CURSOR = /^1:(.+)$/s;

/**
 * Serves `skills/list`, `skills/get` and `resources/directory/read` of the extension `io.modelcontextprotocol/skills`. A skill that a
 * caller may not see does not exist for it.
 *
 * @see https://modelcontextprotocol.io/extensions/skills/overview
 */
export function skillMethods({ context, catalog, pageSize: size }: SkillParts): ServedMethods {
  const list: ServedMethod<ListParams> = {
    listHints: 'template',
    read: (request) => ({ cursor: cursorOf(request) }),
    async serve({ cursor }, call) {
      const page = await catalog().manifests(context(call), { after: cursor, size });
      return { skills: page.items, ...nextOf(page.next) };
    },
  };
  const get: ServedMethod<UriParams> = {
    listHints: 'template',
    read: uriOf,
    async serve({ uri }, call) {
      const skill = catalog().get(uri);
      if (!skill) throw unknownSkill(uri);
      return { skill: await visible(skill, uri, call, (context) => skill.manifest(context)) };
    },
  };
  const directory: ServedMethod<UriParams & ListParams> = {
    listHints: 'template',
    read: (request) => ({ ...uriOf(request), cursor: cursorOf(request) }),
    async serve({ uri, cursor }, call) {
      const skill = catalog().around(uri);
      const files = skill && (await visible(skill, uri, call, (context) => skill.files(context)));
      const children = files && childrenOf(uri, files);
      if (!children) throw noFolder(uri);
      const rest = cursor === undefined ? children : children.filter((child) => child.uri > cursor);
      const resources = rest.slice(0, size);
      return { resources, ...nextOf(rest.length > size ? resources.at(-1)!.uri : undefined) };
    },
  };
  /** Does something with a skill. To a caller from whom guards hide it, the answer is that for an unknown one. */
  const visible = async <T>(
    skill: ServedSkill,
    uri: string,
    call: McpCall,
    use: (context: McpContext) => Promise<T>,
  ): Promise<T> => {
    try {
      return await use(context(call));
    } catch (error) {
      if (!(error instanceof sdk.ResourceNotFoundError)) throw error;
      throw uri === skill.uri ? unknownSkill(uri) : noFolder(uri);
    }
  };
  return { 'skills/list': list, 'skills/get': get, 'resources/directory/read': directory };
}

function uriOf({ method, params }: JsonRpcRequest): UriParams {
  const uri = params?.['uri'];
  if (typeof uri === 'string') return { uri: asciiUri(uri) };
  throw invalidParams(`"${method}" needs params.uri, a URI as a string; got ${shown(uri)}.`);
}

function cursorOf({ params }: JsonRpcRequest): string | undefined {
  const cursor = params?.['cursor'];
  if (cursor === undefined) return undefined;
  const match = typeof cursor === 'string' ? CURSOR.exec(Buffer.from(cursor, 'base64url').toString()) : null;
  if (match) return match[1];
  throw invalidParams(`The cursor ${shown(cursor)} is not valid. Request the list again without a cursor.`);
}

function nextOf(next: string | undefined): { nextCursor?: string } {
  return next === undefined ? {} : { nextCursor: Buffer.from(`1:${next}`).toString('base64url') };
}

function unknownSkill(uri: string): Error {
  return invalidParams(
    `There is no skill at ${shown(uri)}. "skills/list" returns the skills, each with the URI of its SKILL.md.`,
  );
}

function noFolder(uri: string): Error {
  return invalidParams(`There is no folder of a skill at ${shown(uri)}. Its URI has no "/" at the end.`);
}
