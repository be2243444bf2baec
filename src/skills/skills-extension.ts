import { Inject, Injectable, type OnApplicationBootstrap, type OnModuleDestroy } from '@nestjs/common';
import type { ModuleRef } from '@nestjs/core';
import { McpClock, type ClockTimer } from '../core/common/clock.js';
import { MCP_OPTIONS, McpOptionError } from '../core/common/options.js';
import type { McpContext } from '../core/calls/mcp-context.js';
import { logger } from '../core/calls/operator-log.js';
import type { FailureOptions, ResolvedHandlerOptions } from '../core/handlers/handlers.options.js';
import { EndpointCachePolicy, listHints } from '../core/methods/cache-hints.js';
import { McpExtension } from '../core/methods/extensions.js';
import { HandlerCalls } from '../core/methods/handler-calls.js';
import type { ServedMethods } from '../core/methods/method.js';
import { templateEntry } from '../core/handlers/registry/entries.js';
import { EndpointSources } from '../core/handlers/registry/endpoint-sources.js';
import { HandlerTable, type ResourceTemplateEntry } from '../core/handlers/registry/handler-table.js';
import type { HandlerRunner } from '../core/handlers/results/handler-outcome.js';
import { SchemaCompiler } from '../core/handlers/schema/schema-compiler.js';
import { SKILLS_EXTENSION } from '../core/protocol/extensions.js';
import { sdk } from '../core/protocol/spec.js';
import { asciiUri } from '../core/protocol/uris.js';
import { McpSessionService } from '../core/sessions/mcp-session.service.js';
import { type FolderSkill, FolderSkills } from './folder-skills.js';
import { contentsOf, SkillCatalog } from './skill-catalog.js';
import { SkillFolder } from './skill-folder.js';
import { skillMethods } from './skill-methods.js';
import { type ResolvedSkillsOptions, SKILLS_OPTIONS, watches } from './skills.options.js';

const TEMPLATE = 'skill://{+path}';
const ORIGIN = 'McpSkillsModule';
/** Folders are looked into so often. */
const LOOK_MS = 1_000;
/** Looking takes at most this part of the time. */
const SHARE = 20;

/** The endpoint that serves the skills. */
interface SkillEndpoint {
  readonly clock: McpClock;
  readonly table: HandlerTable;
  readonly sessions: McpSessionService;
  readonly template: ResourceTemplateEntry;
}

/**
 * # Adds the extension for skills to one endpoint
 *
 * The files of all skills are the resources of one template, `skill://{+path}`, which lists the `SKILL.md` of each: reading,
 * lists per caller, subscriptions and cache hints are those of any resource. What is served for a URI is up to the catalog.
 *
 *     folders ──start, watch──▶ FolderSkills ─┐
 *     @Skill() ──▶ HandlerTable ──────────────┴─▶ SkillCatalog ─▶ resources/list, resources/read, the methods of the extension
 */
@Injectable()
export class SkillsExtension extends McpExtension implements OnApplicationBootstrap, OnModuleDestroy {
  override readonly id = SKILLS_EXTENSION;
  override readonly settings = { directoryRead: true };
  // Clients have nothing to declare (SEP-2640).
  override readonly mutual = false;
  override readonly endpoint: string | undefined;
  #served: SkillEndpoint | undefined;
  #catalog = new SkillCatalog([], []);
  #timer: ClockTimer | undefined;
  #closed = false;

  constructor(@Inject(SKILLS_OPTIONS) private readonly options: ResolvedSkillsOptions) {
    super();
    this.endpoint = options.endpoint;
  }

  /** Returns the methods of the extension. @throws McpOptionError if the endpoint has skills already */
  override methods(endpoint: ModuleRef): ServedMethods {
    const part = <T>(token: abstract new (...args: never[]) => T): T => endpoint.get(token, { strict: true });
    const table = part(HandlerTable);
    if (table.get('template', TEMPLATE)?.origin === ORIGIN) {
      const text =
        'An endpoint has two McpSkillsModule. Give one of them all "folders", or give each its own endpoint: forRoot({ endpoint: name }).';
      throw new McpOptionError('endpoint', text);
    }
    const options = endpoint.get<ResolvedHandlerOptions>(MCP_OPTIONS, { strict: true });
    const clock = endpoint.get<McpClock>(McpClock, { strict: true });
    const template = this.#template(table, options);
    table.add(template);
    this.#served = { clock, table, template, sessions: part(McpSessionService) };
    const [policy, sources] = [part(EndpointCachePolicy), part(EndpointSources)];
    return skillMethods({
      calls: part(HandlerCalls),
      catalog: () => this.#catalog,
      pageSize: options.pageSize,
      hints: (call) => listHints(call, sources, 'template', policy),
    });
  }

  /** Reads the folders, before the app listens. @throws McpOptionError, McpDuplicateHandlerError */
  async onApplicationBootstrap(): Promise<void> {
    const served = this.#served;
    if (!served) {
      const text =
        'McpSkillsModule has no endpoint: the app has none, or only endpoints with names. Give it the option "endpoint".';
      throw new McpOptionError('endpoint', text);
    }
    const folders = new FolderSkills(await Promise.all(this.options.folders.map((folder) => SkillFolder.open(folder))));
    this.#catalog = this.#catalogOf((await folders.read()) ?? [], served);
    if (watches(this.options)) this.#lookLater(folders, served, LOOK_MS);
  }

  override get standingTimers(): number {
    return this.#timer ? 1 : 0;
  }

  onModuleDestroy(): void {
    this.#closed = true;
    this.#served?.clock.clear(this.#timer);
    this.#timer = undefined;
  }

  #catalogOf(skills: readonly FolderSkill[], { table }: Pick<SkillEndpoint, 'table'>): SkillCatalog {
    return new SkillCatalog(skills, [...table.all('skill')]);
  }

  #lookLater(folders: FolderSkills, served: SkillEndpoint, delayMs: number, fault?: string): void {
    const { clock } = served;
    this.#timer = clock.setTimeout(() => {
      this.#timer = undefined;
      const begin = clock.now();
      void this.#look(folders, served, fault).then((next) => {
        if (this.#closed) return;
        this.#lookLater(folders, served, Math.max(LOOK_MS, SHARE * (clock.now() - begin)), next);
      });
    }, delayMs);
  }

  /**
   * Serves what is in the folders now. If that fails, the endpoint goes on with what it has.
   *
   * @param fault the message of the last failure
   * @returns the message of this one, if it failed: it is logged once
   */
  async #look(folders: FolderSkills, served: SkillEndpoint, fault: string | undefined): Promise<string | undefined> {
    try {
      const skills = await folders.read();
      if (!skills || this.#closed) return undefined;
      const before = this.#catalog;
      this.#catalog = this.#catalogOf(skills, served);
      // The relay of the endpoint announces it to clients.
      served.table.replace(served.template);
      for (const uri of before.changedIn(this.#catalog)) await served.sessions.resourceUpdated(uri);
      return undefined;
    } catch (error) {
      const { message } = error as Error;
      if (message !== fault)
        logger.error(`The skills stay as they are, because the folders cannot be served: ${message}`);
      return message;
    }
  }

  #template(table: HandlerTable, failures: FailureOptions): ResourceTemplateEntry {
    const guarded = [...table.all('skill')].some((skill) => skill.guarded);
    const runner: HandlerRunner = {
      run: async (raw, context) => {
        const uri = asciiUri((raw as { uri: string }).uri);
        try {
          const bytes = await this.#catalog.around(uri)?.read(uri, context);
          return bytes && contentsOf(uri, bytes);
        } catch (error) {
          // It names another URI: that of the SKILL.md, which this caller may not know to exist.
          if (error instanceof sdk.ResourceNotFoundError) return undefined;
          throw error;
        }
      },
      visible: () => true,
      admits: async (raw, context) =>
        (await this.#catalog.around(asciiUri((raw as { uri: string }).uri))?.admits(context)) ?? false,
      assertAdmits: () => Promise.resolve(),
      permits: () => true,
      assertPermits: () => {},
      guarded,
    };
    const listing = {
      run: async (raw: unknown, context: McpContext) => {
        const { cursor: after, limit: size } = raw as { cursor?: string; limit: number };
        const { items: resources, next: nextCursor } = await this.#catalog.resources(context, { after, size });
        return { resources, nextCursor };
      },
      visible: () => true,
    };
    const description = 'The files of the skills of this server. "skills/list" returns the skills.';
    return templateEntry(
      { uriTemplate: TEMPLATE, name: 'skills', description },
      {
        origin: ORIGIN,
        compiler: new SchemaCompiler(),
        failures,
        runner: () => runner,
        listing: { origin: ORIGIN, runner: listing },
      },
    );
  }
}
