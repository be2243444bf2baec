// #region register
import { Inject, Injectable } from '@nestjs/common';
import { McpRegistry, McpSessionService } from 'nestjs-mcp-streamable';

export interface Plugin {
  name: string;
  description: string;
  /** This JSON Schema describes the arguments. */
  schema: Record<string, unknown>;
  run: (args: Record<string, unknown>) => Promise<string>;
}

@Injectable()
export class Plugins {
  readonly #unload = new Map<string, () => void>();

  constructor(
    @Inject(McpRegistry) private readonly registry: McpRegistry,
    @Inject(McpSessionService) private readonly sessions: McpSessionService,
  ) {}

  load({ name, description, schema, run }: Plugin): void {
    const tool = this.registry.registerTool({
      name,
      description,
      inputSchema: schema,
      handler: run,
    });
    this.#unload.set(name, () => tool.remove());
  }

  unload(name: string): void {
    this.#unload.get(name)?.();
  }

  /** Notifies the subscribers of the resource. @returns the number of sessions */
  termsChanged(): Promise<number> {
    return this.sessions.resourceUpdated('orders://terms');
  }
}
// #endregion
