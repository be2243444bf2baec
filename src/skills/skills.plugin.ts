import { Inject, Injectable, type OnApplicationBootstrap } from '@nestjs/common';
import { McpOptionError } from '../core/common/options.js';
import { type McpEndpointHost, McpPlugin } from '../core/plugins/mcp-plugin.js';
import { EndpointSkills } from './endpoint-skills.js';
import { SKILLS_EXTENSION } from './skill-kind.js';
import { type ResolvedSkillsOptions, SKILLS_OPTIONS } from './skills.options.js';

/** Adds the extension for skills to one endpoint. */
@Injectable()
export class SkillsPlugin extends McpPlugin implements OnApplicationBootstrap {
  readonly ring = 'app';
  override readonly origin = SKILLS_EXTENSION;
  override readonly endpoint: string | undefined;
  #isAttached = false;

  constructor(@Inject(SKILLS_OPTIONS) private readonly options: ResolvedSkillsOptions) {
    super();
    this.endpoint = options.endpoint;
  }

  /** @throws McpOptionError if the endpoint has skills already */
  attach(host: McpEndpointHost): EndpointSkills | undefined {
    if (this.endpoint === undefined && !host.isDefault) return undefined;
    if (host.find(EndpointSkills)) {
      const text =
        'An endpoint has two McpSkillsModule. Give one of them all "folders", or give each its own endpoint: forRoot({ endpoint: name }).';
      throw new McpOptionError('endpoint', text);
    }
    const skills = new EndpointSkills(host, this.options);
    // Clients have nothing to declare (SEP-2640).
    host.extend({ id: SKILLS_EXTENSION, settings: { directoryRead: true }, mutual: false, methods: skills.methods() });
    host.serve(skills);
    this.#isAttached = true;
    return skills;
  }

  /** Checks the option `endpoint`. @throws McpOptionError if no endpoint has its name */
  onApplicationBootstrap(): void {
    if (this.#isAttached) return;
    const text =
      'McpSkillsModule has no endpoint: the app has none, or only endpoints with names. Give it the option "endpoint".';
    throw new McpOptionError('endpoint', text);
  }
}
