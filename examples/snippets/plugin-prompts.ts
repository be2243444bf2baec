// #region prompts
import { readFileSync } from 'node:fs';
import { Inject, Injectable } from '@nestjs/common';
import type { McpEndpointHost, McpEndpointPlugin } from 'nestjs-mcp-streamable';
import { type McpHandlerTarget, McpPlugin, partOf } from 'nestjs-mcp-streamable/plugins';

export const PROMPT_FILE = Symbol('PROMPT_FILE');
type Written = { name: string; text: string };

/** Serves the prompts of a file, a list of `{ name, description, text }`. */
@Injectable()
export class PromptFile extends McpPlugin {
  readonly ring = 'app';
  private readonly loads: (() => void)[] = [];

  constructor(@Inject(PROMPT_FILE) private readonly file: string) {
    super();
  }

  /** Call it when the file has changed. */
  reload(): void {
    for (const load of this.loads) load();
  }

  attach(endpoint: McpEndpointHost): McpEndpointPlugin {
    let items: { place: string; entry: McpHandlerTarget }[] = [];
    const entryOf = ({ text, ...prompt }: Written) =>
      endpoint.entryOf('prompt', { ...prompt, handler: () => text }, 'PromptFile');
    const load = () => {
      const written = JSON.parse(readFileSync(this.file, 'utf8')) as Written[];
      items = written
        .map((each) => ({ place: each.name, entry: entryOf(each) }))
        .toSorted((one, other) => (one.place < other.place ? -1 : 1));
      endpoint.changed('prompt');
    };
    endpoint.serve({
      perCaller: (kind) => (kind === 'prompt' ? false : undefined),
      find: (key, _, kind) =>
        kind === 'prompt' ? items.find(({ place }) => place === key)?.entry : undefined,
      page: (kind, _, after, size) =>
        kind === 'prompt'
          ? partOf(items, after, size, ({ place }) => place > after!)
          : undefined,
    });
    this.loads.push(load);
    return { started: load };
  }
}
// #endregion
