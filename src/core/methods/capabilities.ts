import type { ServerCapabilities } from '@modelcontextprotocol/server';
import { Inject, Injectable } from '@nestjs/common';
import { MCP_OPTIONS, McpOptionError, option, type OptionTable, type Resolved } from '../common/options.js';
import { Offer } from '../plugins/offer.js';
import { frozenJson } from '../handlers/schema/schema-compiler.js';
import type { ResolvedSessionOptions } from '../sessions/session.options.js';
import { withoutSessions } from '../protocol/client-capabilities.js';
import type { McpEra } from '../protocol/era.js';
import { shown } from '../protocol/errors.js';
import { type ExtensionSettings, isExtensionId } from '../protocol/extensions.js';
import { isObject } from '../protocol/json-rpc.js';

/** Lists the extensions of the protocol that an endpoint declares. @internal */
export interface McpExtensionOptions {
  /**
   * Declares extensions of the protocol: a record of their settings by id; `{}` declares an extension without settings.
   * Clients of both eras read them in the capabilities of the server. Extensions of `@McpMethod()` and of modules of
   * this package need no entry. With the option `server` the app does not start: that server declares its own
   * extensions.
   *
   * @default none
   * @see https://modelcontextprotocol.io/seps/2133-extensions
   */
  extensions?: Readonly<Record<string, Readonly<Record<string, unknown>>>>;
}

export const EXTENSION_TABLE = {
  extensions: option({}, extensionsOf),
} satisfies OptionTable<McpExtensionOptions>;

type ExtensionOptions = Resolved<typeof EXTENSION_TABLE> & Pick<ResolvedSessionOptions, 'sessions'>;

/**
 * Every endpoint declares these, also when a list is empty: handlers may be registered later, which clients are
 * notified of.
 */
const CORE: ServerCapabilities = Object.freeze({
  tools: { listChanged: true },
  prompts: { listChanged: true },
  resources: { subscribe: true, listChanged: true },
  completions: {},
  logging: {},
});

type Extensions = NonNullable<ServerCapabilities['extensions']>;

/** Holds the capabilities that an endpoint declares in each era; they are complete before the app listens. */
@Injectable()
export class EndpointCapabilities {
  readonly #declared: Record<McpEra, ServerCapabilities>;

  /** Reads the option `extensions`. @throws McpOptionError */
  constructor(
    @Inject(MCP_OPTIONS) { extensions, sessions }: ExtensionOptions,
    @Inject(Offer) { serves }: Pick<Offer, 'serves'> = { serves: 'handlers' },
  ) {
    this.#declared = { legacy: sessions === 'off' ? withoutSessions(CORE) : CORE, modern: CORE };
    if (serves === 'servers' && Object.keys(extensions).length > 0) {
      const reason = 'has no effect with "server": that server declares extensions in its own capabilities';
      throw new McpOptionError('extensions', `The option "extensions" ${reason}. Remove one of the two.`);
    }
    for (const [id, settings] of Object.entries(extensions)) this.declare(id, settings);
  }

  of(era: McpEra): ServerCapabilities {
    return this.#declared[era];
  }

  /**
   * Declares an extension. Settings that were declared before stay, so that those of the app's option have precedence.
   *
   * @param era the era of the extension; without one, both
   */
  declare(id: string, settings: ExtensionSettings, era?: McpEra): void {
    for (const each of era ? [era] : (['legacy', 'modern'] as const)) {
      const { extensions = {}, ...core } = this.#declared[each];
      const known: Extensions = { [id]: settings as Extensions[string], ...extensions };
      this.#declared[each] = Object.freeze({ ...core, extensions: Object.freeze(known) });
    }
  }
}

type ExtensionsById = NonNullable<McpExtensionOptions['extensions']>;

function extensionsOf(given: ExtensionsById, name: string): ExtensionsById {
  if (!isObject(given)) {
    throw new McpOptionError(name, `The option "${name}" must be an object of settings by extension id.`);
  }
  return Object.fromEntries(Object.entries(given).map(([id, settings]) => [id, settingsOf(id, settings, name)]));
}

function settingsOf(id: string, settings: unknown, name: string): ExtensionSettings {
  const refusal = (reason: string): Error => new McpOptionError(name, `The option "${name}" ${reason}.`);
  if (!isExtensionId(id)) {
    const reason = `has the key ${shown(id)}, which is not the id of an extension: "vendor-prefix/name", such as "com.example/search"`;
    throw refusal(reason);
  }
  if (!isObject(settings)) {
    throw refusal(`must have an object for ${shown(id)}, the settings of the extension; got ${shown(settings)}`);
  }
  try {
    return frozenJson(settings);
  } catch (error) {
    throw refusal(`must have settings for ${shown(id)} that can be written as JSON; ${String(error)}`);
  }
}
