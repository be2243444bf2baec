import type { ClockTimer } from '../core/common/clock.js';
import { MCP_OPTIONS } from '../core/common/options.js';
import type { McpCall } from '../core/calls/mcp-call.js';
import type { McpContext } from '../core/calls/mcp-context.js';
import type { McpHandlerTarget } from '../core/calls/mcp-target.js';
import { logger } from '../core/calls/operator-log.js';
import { HandlerCalls } from '../core/methods/handler-calls.js';
import { type HandlerSource, type ListedKind, partOf, type SourcePage } from '../core/plugins/handler-source.js';
import type { FeatureHandler } from '../core/plugins/feature-kind.js';
import type { McpEndpointHost, McpEndpointPlugin } from '../core/plugins/mcp-plugin.js';
import type { ServedMethods } from '../core/plugins/served-method.js';
import { sdk } from '../core/protocol/spec.js';
import { asciiUri } from '../core/protocol/uris.js';
import { McpSessionService } from '../core/sessions/mcp-session.service.js';
import { type FolderSkill, FolderSkills } from './folder-skills.js';
import { contentsOf, SkillCatalog } from './skill-catalog.js';
import { SkillFolder } from './skill-folder.js';
import { SKILL } from './skill-kind.js';
import { skillMethods } from './skill-methods.js';
import { type ResolvedSkillsOptions, watches } from './skills.options.js';

const TEMPLATE = {
  uriTemplate: 'skill://{+path}',
  name: 'skills',
  description: 'The files of the skills of this server. "skills/list" returns the skills.',
} as const;
/** The place of the template in the list of templates. */
const ONLY = '1';
/** Folders are looked into so often. */
const LOOK_MS = 1_000;
/** Looking takes at most this part of the time. */
const SHARE = 20;

/**
 * # The skills of an endpoint
 *
 * The files of all skills are the resources of one template, and lists have the `SKILL.md` of each: reading, subscriptions and cache
 * hints are those of any resource. What is served for a URI is up to the catalog.
 *
 *     folders ──start, watch──▶ FolderSkills ─┐
 *     @Skill() ──▶ handlers of the endpoint ──┴─▶ SkillCatalog ─▶ resources/list, resources/read, the methods of the extension
 */
export class EndpointSkills implements McpEndpointPlugin, HandlerSource {
  #catalog = new SkillCatalog([], []);
  #template: McpHandlerTarget | undefined;
  #guarded = false;
  #timer: ClockTimer | undefined;
  #closed = false;

  constructor(
    private readonly host: McpEndpointHost,
    private readonly options: ResolvedSkillsOptions,
  ) {}

  /** Returns the methods of the extension. */
  methods(): ServedMethods {
    const { pageSize } = this.host.get<{ readonly pageSize: number }>(MCP_OPTIONS);
    return skillMethods({ context: (call) => this.#contextOf(call), catalog: () => this.#catalog, pageSize });
  }

  /** Reads the folders, before the app listens. @throws McpOptionError, McpDuplicateHandlerError */
  async started(): Promise<void> {
    const { folders: given } = this.options;
    const folders = new FolderSkills(await Promise.all(given.map((folder) => SkillFolder.open(folder))));
    this.#guarded = this.#handlers.some((skill) => skill.guarded);
    this.#catalog = this.#catalogOf((await folders.read()) ?? []);
    const handler = {
      guarded: this.#guarded,
      run: (args: object, context: McpContext) => this.#read(args, context),
      admits: (args: object, context: McpContext) => this.#around(args)?.admits(context) ?? false,
    };
    this.#template = this.host.entryOf('template', { ...TEMPLATE, handler }, 'McpSkillsModule');
    if (watches(this.options)) this.#lookLater(folders, LOOK_MS);
  }

  get standingTimers(): number {
    return this.#timer ? 1 : 0;
  }

  close(): void {
    this.#closed = true;
    this.host.clock.clear(this.#timer);
    this.#timer = undefined;
  }

  // ---- resources -------------------------------------------------------------------------------------------------

  perCaller(kind: ListedKind): boolean | undefined {
    if (kind === 'resource') return true;
    return kind === 'template' ? this.#guarded : undefined;
  }

  find(key: string, _call: McpCall, kind: ListedKind): McpHandlerTarget | undefined {
    const isIts = kind === 'template' ? key === TEMPLATE.uriTemplate : this.#template?.template?.written(key);
    return (kind === 'template' || kind === 'resource') && isIts ? this.#template : undefined;
  }

  page(kind: ListedKind, call: McpCall, after: string | undefined, size: number): Promise<SourcePage> | SourcePage {
    const entry = this.#template!;
    if (kind === 'template') return partOf([{ place: ONLY, entry }], after, size, () => false);
    return this.#resources(entry, this.#contextOf(call), after, size);
  }

  /** Lists the `SKILL.md` of each skill that a caller may read, but for those that are resources of the app. */
  async #resources(
    entry: McpHandlerTarget,
    context: McpContext,
    after: string | undefined,
    size: number,
  ): Promise<SourcePage> {
    const { items, next } = await this.#catalog.resources(context, { after, size });
    const listed = items.filter(({ uri }) => !this.host.handlers.get('resource', uri));
    return { items: listed.map((wire) => ({ place: wire.uri, entry, wire })), next };
  }

  async #read(args: object, context: McpContext): Promise<object | undefined> {
    const uri = uriOf(args);
    try {
      const bytes = await this.#around(args)?.read(uri, context);
      return bytes && contentsOf(uri, bytes);
    } catch (error) {
      // It names another URI: that of the SKILL.md, which this caller may not know to exist.
      if (error instanceof sdk.ResourceNotFoundError) return undefined;
      throw error;
    }
  }

  #around(args: object): ReturnType<SkillCatalog['around']> {
    return this.#catalog.around(uriOf(args));
  }

  #contextOf(call: McpCall): McpContext {
    return this.host.get(HandlerCalls).context(call);
  }

  // ---- folders ---------------------------------------------------------------------------------------------------

  get #handlers(): readonly FeatureHandler[] {
    return this.host.handlers.ofFeature(SKILL);
  }

  #catalogOf(skills: readonly FolderSkill[]): SkillCatalog {
    return new SkillCatalog(skills, this.#handlers);
  }

  #lookLater(folders: FolderSkills, delayMs: number, fault?: string): void {
    const { clock } = this.host;
    this.#timer = clock.setTimeout(() => {
      this.#timer = undefined;
      const begin = clock.now();
      void this.#look(folders, fault).then((next) => {
        if (this.#closed) return;
        this.#lookLater(folders, Math.max(LOOK_MS, SHARE * (clock.now() - begin)), next);
      });
    }, delayMs);
  }

  /**
   * Serves what is in the folders now. If that fails, the endpoint goes on with what it has.
   *
   * @param fault the message of the last failure
   * @returns the message of this one, if it failed: it is logged once
   */
  async #look(folders: FolderSkills, fault: string | undefined): Promise<string | undefined> {
    try {
      const skills = await folders.read();
      if (!skills || this.#closed) return undefined;
      const before = this.#catalog;
      this.#catalog = this.#catalogOf(skills);
      this.host.changed('resource');
      const sessions = this.host.get(McpSessionService);
      for (const uri of before.changedIn(this.#catalog)) await sessions.resourceUpdated(uri);
      return undefined;
    } catch (error) {
      const { message } = error as Error;
      if (message !== fault)
        logger.error(`The skills stay as they are, because the folders cannot be served: ${message}`);
      return message;
    }
  }
}

/** Returns the URI of the arguments of a template. */
function uriOf(args: object): string {
  return asciiUri((args as { uri: string }).uri);
}
