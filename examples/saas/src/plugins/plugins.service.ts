import { Injectable, NotFoundException } from '@nestjs/common';
import type { McpCatalogueTool } from 'nestjs-mcp-streamable';

/** An action that a customer has made for itself: data, not code of this app. */
export interface Plugin {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: Record<string, unknown>;
  /** `{city}` is replaced by the argument of that name. */
  readonly template: string;
  /** The user is asked this first, if it is there: `Greet {city}?` */
  readonly confirm?: string;
}

/** The plugins of all tenants. */
@Injectable()
export class Plugins {
  readonly #ofTenants = new Map<string, Map<string, Plugin>>();

  install(tenant: string, plugin: Plugin): void {
    const plugins = this.#ofTenants.get(tenant) ?? new Map<string, Plugin>();
    this.#ofTenants.set(tenant, plugins.set(plugin.name, plugin));
  }

  toolsOf(tenant: string): McpCatalogueTool[] {
    const plugins = [...(this.#ofTenants.get(tenant)?.values() ?? [])];
    return plugins.map(({ name, description, inputSchema, confirm }) => ({
      name,
      description,
      inputSchema,
      confirm,
    }));
  }

  run(tenant: string, name: string, args: object): string {
    const plugin = this.#ofTenants.get(tenant)?.get(name);
    if (!plugin) throw new NotFoundException(`There is no plugin ${name}.`);
    const values = new Map(Object.entries(args));
    return plugin.template.replaceAll(/\{(\w+)\}/g, (_, key: string) =>
      String(values.get(key) ?? ''),
    );
  }
}
