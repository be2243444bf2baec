// #region agent
import { Inject, Injectable } from '@nestjs/common';
import { McpToolCaller } from 'nestjs-mcp-streamable';
import { map, type Observable } from 'rxjs';

/** The model of an agent asks for such a call. */
interface Wanted {
  name: string;
  arguments: Record<string, unknown>;
}

@Injectable()
export class OrderAgent {
  constructor(@Inject(McpToolCaller) private readonly tools: McpToolCaller) {}

  /** If the tool fails, the result has `isError`, and the model reads why. */
  async call(
    { name, arguments: args }: Wanted,
    user: { id: string },
    signal: AbortSignal,
  ): Promise<string> {
    const { content } = await this.tools.callTool(name, args, {
      principal: user.id,
      request: { user },
      signal,
    });
    return JSON.stringify(content);
  }

  /** Emits progress, and then the result. Unsubscribing cancels the export. */
  export$(): Observable<string> {
    return this.tools
      .callTool$('export_orders')
      .pipe(
        map((event) =>
          event.type === 'progress'
            ? `${event.progress} rows`
            : JSON.stringify(event.result.content),
        ),
      );
  }
}
// #endregion
