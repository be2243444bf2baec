import { type CanActivate, type ExecutionContext, Injectable } from '@nestjs/common';
import { McpExecutionContext } from 'nestjs-mcp-streamable';

export interface InstalledPlugin {
  name: string;
  description: string;
  /** This JSON Schema describes the arguments. */
  schema: Record<string, unknown>;
}

const TRANSLATE: InstalledPlugin = {
  name: 'translate',
  description: 'Translates a text',
  schema: {
    type: 'object',
    properties: { text: { type: 'string' } },
    required: ['text'],
  },
};

/** Stands for what customers have made of the API of a bank. */
export interface BankAction {
  name: string;
  currency: string;
}

/** Stands for a table of actions. */
@Injectable()
export class BankActions {
  readonly #actions = new Map<string, BankAction[]>();

  of(user: string | undefined): Promise<BankAction[]> {
    return Promise.resolve(this.#actions.get(user ?? '') ?? []);
  }

  run(user: string | undefined, name: string, args: object): Promise<string> {
    return Promise.resolve(`${name} for ${user}: ${JSON.stringify(args)}`);
  }
}

/** Stands for a table of plugins. */
@Injectable()
export class PluginStore {
  readonly #installed = new Map<string, InstalledPlugin[]>();

  of(user: string | undefined): Promise<InstalledPlugin[]> {
    return Promise.resolve(this.#installed.get(user ?? '') ?? []);
  }

  async install(user: string, name: string): Promise<void> {
    this.#installed.set(user, [...(await this.of(user)), { ...TRANSLATE, name }]);
  }

  run(user: string | undefined, name: string, args: object): Promise<string> {
    return Promise.resolve(`${name} for ${user}: ${JSON.stringify(args)}`);
  }
}

/** Lets callers with a principal in. */
@Injectable()
export class PlanGuard implements CanActivate {
  canActivate(context: ExecutionContext): boolean {
    return McpExecutionContext.create(context).getContext().principal !== undefined;
  }
}
